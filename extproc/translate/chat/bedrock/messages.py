"""The conversation as Converse takes it: system texts apart, and turns of user and assistant (contract, chat 8.3).

The service refuses two turns of one role in a row, turns without content, and texts of nothing but white space, so
turns of one role become one, and what says nothing is left out, together with its cache point.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from msgspec import UNSET

from extproc.endpoints import chat_request as chat
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.cache import cache_point
from extproc.translate.chat.bedrock.media import DocumentNames, file_block, image_block, video_block

Blocks = list[wire.ContentBlock]


class Conversation:
    """Collects the messages of one request.

    Attributes:
        system: texts of system and developer messages.
        messages: the turns.
        tool_names: the tools that the history speaks of, in order.
        has_tool_blocks: the history holds calls or results.
    """

    def __init__(self) -> None:
        self.system: list[wire.Text | wire.CachePointBlock] = []
        self.messages: list[wire.Message] = []
        self.tool_names: dict[str, None] = {}
        self.has_tool_blocks = False
        # Of the turn of a user that is being collected: results of tools must stand before all else.
        self._results: Blocks = []
        self._blocks: Blocks = []
        self._document_names = DocumentNames()

    def add_all(self, messages: Sequence[chat.Message]) -> None:
        """Add the messages, of which nothing may follow.

        Raises:
            UnprocessableRequest: Converse cannot express one; the text names the member.
        """
        for number, message in enumerate(messages):
            where = f"messages[{number}]"
            match message:
                case chat.SystemMessage():
                    self._add_system(message.content, "system", where)
                case chat.DeveloperMessage():
                    self._add_system(message.content, "developer", where)
                case chat.UserMessage():
                    self._add_user(message, where)
                case chat.ToolMessage():
                    self._add_tool_result(message, where)
                case chat.AssistantMessage():
                    self._add_assistant(message, where)
        self._end_user_turn()

    def _add_system(self, content: object, role: str, where: str) -> None:
        if isinstance(content, str):
            if content.strip():
                self.system.append(wire.Text(content))
            return
        if not isinstance(content, list):
            raise UnprocessableRequest(f"unexpected content type for {role} message ({where}.content)")
        for number, part in enumerate(content):
            if part.text.strip():
                self.system.append(wire.Text(part.text))
                self.system += cache_point(part, f"{where}.content[{number}]")

    def _add_user(self, message: chat.UserMessage, where: str) -> None:
        content = message.content
        if content is UNSET:
            raise UnprocessableRequest(f"unexpected content type for user message ({where}.content)")
        if isinstance(content, str):
            _add_text(self._blocks, content)
            return
        for number, part in enumerate(content or ()):
            at = f"{where}.content[{number}]"
            if block := self._user_block(part, at):
                self._blocks.append(block)
                self._blocks += cache_point(part, at)

    def _user_block(self, part: chat.UserPart, where: str) -> wire.ContentBlock | None:
        match part:
            case chat.UserText():
                return wire.Text(part.text) if part.text.strip() else None
            case chat.UserImage():
                return image_block(part.image_url.url, where=f"{where}.image_url.url")
            case chat.UserVideoURL():
                return video_block(part.video_url.url, where=f"{where}.video_url.url")
            case chat.UserFile():
                return file_block(part.file, self._document_names, where=f"{where}.file")
            case chat.UserAudio() | chat.UserAudioURL():
                raise UnprocessableRequest(f"{where}: audio is not supported by AWSBedrock backends")

    def _add_tool_result(self, message: chat.ToolMessage, where: str) -> None:
        content = message.content
        if not isinstance(content, str | list):
            raise UnprocessableRequest(f"message 'content' must be a string or an array ({where}.content)")
        if not message.tool_call_id:
            raise UnprocessableRequest(f"{where}.tool_call_id is missing")
        parts = [chat.TextPart(text=content)] if isinstance(content, str) else content
        texts = [wire.Text(part.text) for part in parts if part.text.strip()]
        self._results.append(wire.ToolResultBlock(wire.ToolResult(content=texts, tool_use_id=message.tool_call_id)))
        # One point for the result, however often it is marked: within a result there can be none.
        marked = next((part for part in reversed(parts) if part.cached), message)
        self._results += cache_point(message if message.cached else marked, where)
        self.has_tool_blocks = True

    def _end_user_turn(self) -> None:
        if blocks := [*self._results, *self._blocks]:
            self.messages.append(wire.Message(content=_with_text(blocks), role="user"))
            self._results, self._blocks = [], []

    def _add_assistant(self, message: chat.AssistantMessage, where: str) -> None:
        blocks: Blocks = []
        content = message.content
        parts = [content] if isinstance(content, chat.AssistantPart) else content or ()
        # The parts can say where a thought stood between texts, so they count where they have any.
        if isinstance(parts, str) or not any(part.type in {"thinking", "redacted_thinking"} for part in parts):
            _add_thoughts(blocks, message, where)
        if isinstance(parts, str):
            _add_text(blocks, parts)
        else:
            for number, part in enumerate(parts):
                _add_part(blocks, part, f"{where}.content[{number}]")
        if not content:
            _add_text(blocks, message.refusal or "")
        for number, call in enumerate(message.tool_calls or ()):
            self._add_call(blocks, call, number, where)
        self._add_assistant_turn(blocks)

    def _add_assistant_turn(self, blocks: Blocks) -> None:
        if not blocks:
            return
        self._end_user_turn()
        if self.messages and self.messages[-1].role == "assistant":
            self.messages[-1].content.extend(blocks)
        else:
            self.messages.append(wire.Message(content=blocks, role="assistant"))

    def _add_call(self, blocks: Blocks, call: chat.ToolCall, number: int, where: str) -> None:
        at = f"{where}.tool_calls[{number}]"
        if not call.id:
            raise UnprocessableRequest(f"tool_call at index {number} is missing required field 'id' ({at}.id)")
        if not call.function.name:
            raise UnprocessableRequest(f"{at}.function.name is missing")
        arguments = _arguments(call.function.arguments, f"{at}.function.arguments")
        blocks.append(wire.ToolUseBlock(wire.ToolUse(name=call.function.name, input=arguments, tool_use_id=call.id)))
        blocks += cache_point(call, at)
        self.tool_names[call.function.name] = None
        self.has_tool_blocks = True


def _add_text(blocks: Blocks, text: str) -> None:
    if text.strip():
        blocks.append(wire.Text(text))


def _with_text(blocks: Blocks) -> Blocks:
    """The service wants a text beside documents; where the client has none, it is their names."""
    documents = [block.document.name for block in blocks if isinstance(block, wire.DocumentBlock)]
    if documents and not any(isinstance(block, wire.Text) for block in blocks):
        return [*blocks, wire.Text(", ".join(documents))]
    return blocks


def _add_thoughts(blocks: Blocks, message: chat.AssistantMessage, where: str) -> None:
    """The reasoning of an answer of ours, as the client has kept it."""
    thoughts = message.thinking_blocks or ()
    # Some gateways stream the text of a thought as `reasoning_content` and only its signature as a block.
    apart = sum(thought.type == "thinking" for thought in thoughts) == 1 and isinstance(message.reasoning_content, str)
    for number, thought in enumerate(thoughts):
        match thought.type:
            case "redacted_thinking":
                _add_redacted(blocks, thought.data, f"{where}.thinking_blocks[{number}].data")
            case "thinking":
                text = thought.thinking or (str(message.reasoning_content) if apart else "")
                _add_reasoning(blocks, text, thought.signature)
            case _:
                raise UnprocessableRequest(f"{where}.thinking_blocks[{number}].type {thought.type!r} is not known")


def _add_reasoning(blocks: Blocks, text: str | None, signature: str | None) -> None:
    # A signature without text is whole as well: some models keep the text to themselves.
    if text or signature:
        reasoning = wire.ReasoningText(text=text or "", signature=signature or UNSET)
        blocks.append(wire.ReasoningBlock(wire.ReasoningContent(reasoning_text=reasoning)))


def _add_redacted(blocks: Blocks, data: str | None, where: str) -> None:
    if not data:
        return
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise UnprocessableRequest(f"redacted_content must be a binary/bytes value in bedrock ({where})") from error
    blocks.append(wire.ReasoningBlock(wire.ReasoningContent(redacted_content=data)))


def _add_part(blocks: Blocks, part: chat.AssistantPart, where: str) -> None:
    before = len(blocks)
    match part.type:
        case "text":
            _add_text(blocks, part.text or "")
        case "refusal":
            _add_text(blocks, part.refusal or "")
        case "thinking":
            _add_reasoning(blocks, part.text, part.signature)
        case "redacted_thinking":
            _add_redacted(blocks, part.redacted_content, f"{where}.redactedContent")
        case _:
            raise UnprocessableRequest(f"{where}.type {part.type!r} is not supported by AWSBedrock backends")
    if len(blocks) > before:
        blocks += cache_point(part, where)


def _arguments(text: str | None, where: str) -> jsonvalue.JSONObject:
    """A call's arguments; the models of other providers write nothing, or null, when there are none."""
    if text is None or text.strip() in {"", "null"}:
        return {}
    try:
        return jsonvalue.decode_object(text)
    except jsonvalue.JSONValueError as error:
        raise UnprocessableRequest(f"failed to unmarshal tool call arguments: {error} ({where})") from error

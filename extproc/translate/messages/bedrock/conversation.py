"""The conversation of a messages request as Converse takes it (contract, messages 5.5).

The service refuses two turns of one role in a row, turns without content, texts of nothing but white space, and
results of tools behind anything else. So turns of one role become one, with the results first, and what says nothing
is left out, together with its cache point.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET

from extproc.endpoints.messages_request import Block, Message
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.cache import cache_point
from extproc.translate.chat.bedrock.media import DocumentNames
from extproc.translate.messages.bedrock.content import (
    blank,
    document_block,
    image_block,
    search_result_block,
    tool_result_block,
)

Blocks = list[wire.ContentBlock]


class Conversation:
    """Collects the messages of one request.

    Attributes:
        system: texts of the system prompt, and those of messages of role ``system`` after them.
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

    def add_system(self, content: str | list[Block] | None, where: str) -> None:
        """Add to the system prompt.

        Raises:
            UnprocessableRequest: it is not made of texts.
        """
        for number, block in enumerate(_parts(content)):
            at = f"{where}[{number}]"
            if block.type != "text":
                raise UnprocessableRequest(f"system prompt must be either string or array of text blocks ({at}.type)")
            if not blank(block.text):
                self.system.append(wire.Text(block.text or ""))
                self.system += cache_point(block, at)

    def add_all(self, messages: Sequence[Message]) -> None:
        """Add the messages, of which nothing may follow.

        Raises:
            UnprocessableRequest: Converse cannot express one; the text names the member.
        """
        for number, message in enumerate(messages):
            where = f"messages[{number}]"
            match message.role:
                case "user":
                    self._add_user(message, where)
                case "assistant":
                    self._add_assistant(message, where)
                case "system":
                    self.add_system(message.content, f"{where}.content")
                case role:
                    raise UnprocessableRequest(f"unexpected role: {role} ({where}.role)")
        self._end_user_turn()

    # --- what users say ---

    def _add_user(self, message: Message, where: str) -> None:
        for number, block in enumerate(_parts(message.content)):
            at = f"{where}.content[{number}]"
            if block.type == "tool_result":
                self._results.append(tool_result_block(block, self._document_names, at))
                self._results += _point_of_result(block, at)
                self.has_tool_blocks = True
            elif (converted := self._user_block(block, at)) is not None:
                self._blocks.append(converted)
                self._blocks += cache_point(block, at)

    def _user_block(self, block: Block, where: str) -> wire.ContentBlock | None:
        match block.type:
            case "text":
                return None if blank(block.text) else wire.Text(block.text or "")
            case "image":
                return image_block(block, where)
            case "document":
                return document_block(block, self._document_names, where)
            case "search_result":
                return search_result_block(block, where)
            case other:
                raise UnprocessableRequest(f"{where} of type {other} is not supported by AWSBedrock backends")

    def _end_user_turn(self) -> None:
        if blocks := [*self._results, *self._blocks]:
            self.messages.append(wire.Message(content=_with_text(blocks), role="user"))
            self._results, self._blocks = [], []

    # --- what the model has said ---

    def _add_assistant(self, message: Message, where: str) -> None:
        blocks: Blocks = []
        for number, block in enumerate(_parts(message.content)):
            at = f"{where}.content[{number}]"
            if (converted := self._assistant_block(block, at)) is not None:
                blocks.append(converted)
                blocks += cache_point(block, at)
        if not blocks:
            return
        self._end_user_turn()
        if self.messages and self.messages[-1].role == "assistant":
            self.messages[-1].content.extend(blocks)
        else:
            self.messages.append(wire.Message(content=blocks, role="assistant"))

    def _assistant_block(self, block: Block, where: str) -> wire.ContentBlock | None:
        match block.type:
            case "text":
                return None if blank(block.text) else wire.Text(block.text or "")
            case "thinking":
                return _thought(block)
            case "redacted_thinking":
                return _redacted(block, where)
            case "tool_use":
                return self._call(block, where)
            case other:
                raise UnprocessableRequest(f"{where} of type {other} is not supported by AWSBedrock backends")

    def _call(self, block: Block, where: str) -> wire.ToolUseBlock:
        if not block.id:
            raise UnprocessableRequest(f"{where}.id is missing")
        if not block.name:
            raise UnprocessableRequest(f"{where}.name is missing")
        self.tool_names[block.name] = None
        self.has_tool_blocks = True
        spelled = json_object(block.input, f"{where}.input") or msgspec.Raw(b"{}")
        return wire.ToolUseBlock(wire.ToolUse(name=block.name, input=spelled, tool_use_id=block.id))


def _parts(content: str | list[Block] | None) -> Iterator[Block]:
    if isinstance(content, str):
        yield Block(type="text", text=content)
    else:
        yield from content or ()


def _point_of_result(block: Block, where: str) -> list[wire.CachePointBlock]:
    """One point for the result, however often it is marked: within a result there can be none."""
    parts = block.content if isinstance(block.content, list) else []
    marked = next((part for part in reversed(parts) if part.cached), block)
    return cache_point(block if block.cached else marked, where)


def _with_text(blocks: Blocks) -> Blocks:
    """The service wants a text beside documents; where the client has none, it is their names."""
    documents = [block.document.name for block in blocks if isinstance(block, wire.DocumentBlock)]
    if documents and not any(isinstance(block, wire.Text) for block in blocks):
        return [*blocks, wire.Text(", ".join(documents))]
    return blocks


def _thought(block: Block) -> wire.ReasoningBlock | None:
    # A signature without text is whole as well: some models keep the text to themselves.
    if not (block.thinking or block.signature):
        return None
    reasoning = wire.ReasoningText(text=block.thinking or "", signature=block.signature or UNSET)
    return wire.ReasoningBlock(wire.ReasoningContent(reasoning_text=reasoning))


def _redacted(block: Block, where: str) -> wire.ReasoningBlock | None:
    """The encrypted thought, which is base64 there as here."""
    if not block.data:
        return None
    try:
        binascii.a2b_base64(block.data, strict_mode=True)
    except ValueError as error:
        raise UnprocessableRequest(f"{where}.data is not base64, so it comes from another provider") from error
    return wire.ReasoningBlock(wire.ReasoningContent(redacted_content=block.data))


def json_object(raw: msgspec.Raw | msgspec.UnsetType, where: str) -> msgspec.Raw | None:
    """A free-form object of the client's as it was spelled, without white space; ``None`` when absent or null.

    Raises:
        UnprocessableRequest: it is something else.
    """
    if raw is UNSET or bytes(raw) == b"null":
        return None
    try:
        return jsonvalue.compact_object(bytes(raw))
    except jsonvalue.JSONValueError as error:
        raise UnprocessableRequest(f"{where} must be a JSON object: {error}") from error

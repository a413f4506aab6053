"""The conversation of a messages request as chat messages (contract, messages to chat completions 5.6).

What the user says between two answers of the model is one turn there, in however many messages it comes. Here it
becomes a message of role ``tool`` for each result, as those must follow the calls at once, and then what else is said.
A tool message holds text only, so what else a result has goes into the user's message behind it.

The model's earlier thoughts are dropped unless the backend's translator can give them back to the model: OpenAI takes
none, and they do not change what is asked. Gemini takes them, but refuses a conversation with a signature that is not
its own. A client may have begun it with Claude, whose signatures look alike, so clients are given Gemini's with its
name before it, and only those go back. Dropped as well are the searches that Anthropic has run: nobody but Claude can
read what they have found, and the answer that follows tells of it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from extproc.endpoints.messages_request import Block, Message, MessagesRequest, Source
from extproc.errors import UnprocessableRequest
from extproc.formats.datauri import DataURIError, checked_base64
from extproc.translate.messages import chat_wire as wire
from extproc.translate.via_chat import attachments
from extproc.translate.via_chat import wire as common

SIGNED_BY_GEMINI: Final = "gemini."
"""What stands before a signature of Gemini's, where clients have it."""

_PDF: Final = "application/pdf"
_FOREIGN: Final = frozenset(
    {"redacted_thinking", "server_tool_use", "web_search_tool_result", "tool_search_tool_result"}
)
"""What only its maker can read."""


def chat_messages(request: MessagesRequest, *, keep_thinking: bool) -> list[wire.ChatMessage]:
    """All messages, the system prompt first.

    The blocks of the system prompt, and messages of role ``system`` wherever they stand, become one text, a line end
    between two of them.

    Args:
        request: the client's.
        keep_thinking: give back what the model has thought, as ``thinking_blocks``.

    Raises:
        UnprocessableRequest: a message holds what chat completions cannot say; the text names it.
    """
    conversation = _Conversation(keep_thinking=keep_thinking)
    system = "\n".join(block.text or "" for block in _checked_system(request))
    if system:
        conversation.messages.append(wire.SystemMessage(system))
    for number, message in enumerate(request.messages or ()):
        conversation.add(message, where=f"messages[{number}]")
    conversation.end_turn()
    return conversation.messages


def _checked_system(request: MessagesRequest) -> Iterator[Block]:
    """The blocks of the system prompt.

    Raises:
        UnprocessableRequest: one is no text.
    """
    contents = [("system", request.system)]
    contents += [
        (f"messages[{number}].content", message.content)
        for number, message in enumerate(request.messages or ())
        if message.role == "system"
    ]
    for where, content in contents:
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if block.type != "text":
                raise _unsaid(block, f"{where}[{number}]")
    return request.system_blocks()


def _unsaid(block: Block, where: str) -> UnprocessableRequest:
    return UnprocessableRequest(f"{where}: {block.type!r} blocks cannot be sent to this backend")


def _blocks(content: str | Sequence[Block] | None) -> Sequence[Block]:
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    return content or ()


@dataclass(slots=True, kw_only=True)
class _Conversation:
    """Attributes: ``messages``: what is complete; ``_results``, ``_said``: of the user's turn that is not."""

    keep_thinking: bool
    messages: list[wire.ChatMessage] = field(default_factory=list)
    _results: list[wire.ToolMessage] = field(default_factory=list)
    _attached: list[wire.Part] = field(default_factory=list)
    _said: list[wire.UserMessage] = field(default_factory=list)

    def add(self, message: Message, *, where: str) -> None:
        match message.role:
            case "user":
                self._user(message, where)
            case "assistant":
                self.end_turn()
                self.messages += _assistant(_blocks(message.content), where, keep_thinking=self.keep_thinking)
            case "system":
                # It is in the system prompt.
                pass
            case _:
                raise UnprocessableRequest(f"{where}.role: unexpected role: {message.role}")

    def end_turn(self) -> None:
        """The user's turn is over."""
        self.messages += self._results
        if self._attached:
            # Ahead of what the user says about it.
            said = self._said[0].content if self._said else []
            parts = [common.TextPart(said)] if isinstance(said, str) else said
            self._said[:1] = [wire.UserMessage([*self._attached, *parts])]
        self.messages += self._said
        self._results, self._attached, self._said = [], [], []

    def _user(self, message: Message, where: str) -> None:
        parts: list[wire.Part] = []
        for number, block in enumerate(_blocks(message.content)):
            inside = f"{where}.content[{number}]"
            if block.type == "tool_result":
                self._result(block, inside)
            else:
                parts += _user_parts(block, inside)
        if content := _joined(parts):
            self._said.append(wire.UserMessage(content))

    def _result(self, block: Block, where: str) -> None:
        if not block.tool_use_id:
            raise UnprocessableRequest(f"{where}.tool_use_id: a result needs the id of its call")
        if isinstance(block.content, dict):
            raise UnprocessableRequest(f"{where}.content: expected a text, or a list of blocks")
        texts: list[str] = []
        attached: list[wire.Part] = []
        for number, inner in enumerate(_blocks(block.content)):
            for part in _user_parts(inner, f"{where}.content[{number}]"):
                if isinstance(part, common.TextPart):
                    texts.append(part.text)
                else:
                    attached.append(part)
        text = "".join(texts)
        if block.is_error:
            text = f"Error: {text}" if text else "Error"
        if attached:
            text = attachments.noted(text, len(attached))
            self._attached += [common.TextPart(attachments.label(block.tool_use_id)), *attached]
        self._results.append(wire.ToolMessage(content=text, tool_call_id=block.tool_use_id))


def _joined(parts: list[wire.Part]) -> str | list[wire.Part]:
    """Text alone is one string, as the peer has it and every backend takes it."""
    texts = [part.text for part in parts if isinstance(part, common.TextPart)]
    return "".join(texts) if len(texts) == len(parts) else parts


# --- what the model has said ---


def _assistant(blocks: Sequence[Block], where: str, *, keep_thinking: bool) -> Iterator[wire.AssistantMessage]:
    """The message, unless there is nothing in it: OpenAI takes none that is empty."""
    texts: list[str] = []
    calls: list[common.ToolCall] = []
    thoughts: list[wire.ThinkingBlock] = []
    for number, block in enumerate(blocks):
        match block.type:
            case "text":
                texts.append(block.text or "")
            case "tool_use":
                calls.append(_call(block, f"{where}.content[{number}]"))
            case "thinking":
                if keep_thinking:
                    thoughts += _thought(block)
            case kind if kind in _FOREIGN:
                pass
            case _:
                raise _unsaid(block, f"{where}.content[{number}]")
    text = "".join(texts)
    if text or calls or thoughts:
        yield wire.AssistantMessage(content=text or None, tool_calls=calls or UNSET, thinking_blocks=thoughts or UNSET)


def _thought(block: Block) -> Iterator[wire.ThinkingBlock]:
    signature = _signature(block.signature)
    if block.thinking or signature is not UNSET:
        yield wire.ThinkingBlock(thinking=block.thinking or UNSET, signature=signature)


def _signature(signature: str | None) -> str | UnsetType:
    """A signature of Gemini's as it wrote it; any other one would be refused."""
    if not signature or not signature.startswith(SIGNED_BY_GEMINI):
        return UNSET
    try:
        return checked_base64(signature.removeprefix(SIGNED_BY_GEMINI)) or UNSET
    except DataURIError:
        return UNSET


def _call(block: Block, where: str) -> common.ToolCall:
    if not block.id:
        raise UnprocessableRequest(f"{where}.id: a call needs an id")
    if not block.name:
        raise UnprocessableRequest(f"{where}.name: a call needs the name of its tool")
    # Numbers and texts stay as the client spelled them.
    arguments = "{}" if block.input is UNSET else msgspec.json.format(bytes(block.input), indent=-1).decode()
    if arguments == "null":
        arguments = "{}"
    if not arguments.startswith("{"):
        raise UnprocessableRequest(f"{where}.input: expected an object")
    return common.ToolCall(id=block.id, function=common.FunctionCall(arguments=arguments, name=block.name))


# --- what the user says ---


def _user_parts(block: Block, where: str) -> Iterator[wire.Part]:
    """The parts that a block becomes; an empty text is none."""
    match block.type:
        case "text":
            if block.text:
                yield common.TextPart(block.text)
        case "image":
            yield _image(block, where)
        case "document":
            yield from _document(block, where)
        case "search_result":
            yield common.TextPart(_search_result(block, where))
        case "tool_reference":
            # All tools are offered from the beginning.
            yield common.TextPart(f"[the tool {_needed(block.tool_name, f'{where}.tool_name')} can be called]")
        case _:
            raise _unsaid(block, where)


def _source(block: Block, where: str) -> Source:
    if not isinstance(block.source, Source):
        raise UnprocessableRequest(f"{where}.source: expected an object")
    return block.source


def _needed(value: str | None, where: str) -> str:
    if not value:
        raise UnprocessableRequest(f"{where}: there is none")
    return value


def _elsewhere(source: Source, what: str, where: str) -> UnprocessableRequest:
    return UnprocessableRequest(
        f"{where}.source.type: {what} by {source.type or 'no type'} cannot be sent to this backend"
    )


def _image(block: Block, where: str) -> common.ImagePart:
    source = _source(block, where)
    match source.type:
        case "base64":
            media_type = _needed(source.media_type, f"{where}.source.media_type")
            data = _needed(source.data, f"{where}.source.data")
            return common.ImagePart(common.ImageURL(f"data:{media_type};base64,{data}"))
        case "url":
            return common.ImagePart(common.ImageURL(_needed(source.url, f"{where}.source.url")))
    raise _elsewhere(source, "images", where)


def _document(block: Block, where: str) -> Iterator[wire.Part]:
    """A PDF as a file, any other document as its text; title and context are told ahead of it."""
    source = _source(block, where)
    about = [text for text in (block.title, block.context) if text]
    match source.type:
        case "base64" if (source.media_type or _PDF) == _PDF:
            if block.context:
                yield common.TextPart(block.context)
            data = _needed(source.data, f"{where}.source.data")
            yield wire.FilePart(wire.File(f"data:{_PDF};base64,{data}", _filename(block.title)))
        case "base64" if (source.media_type or "").startswith("text/"):
            yield common.TextPart("\n".join([*about, _decoded(source.data or "", f"{where}.source.data")]))
        case "text":
            yield common.TextPart("\n".join([*about, source.data or ""]))
        case "content":
            if about:
                yield common.TextPart("\n".join([*about, ""]))
            for number, inner in enumerate(_blocks(source.content)):
                yield from _user_parts(inner, f"{where}.source.content[{number}]")
        case "base64":
            raise UnprocessableRequest(
                f"{where}.source.media_type: documents of {source.media_type} cannot be sent to this backend"
            )
        case _:
            raise _elsewhere(source, "documents", where)


def _filename(title: str | None) -> str:
    name = title or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def _decoded(data: str, where: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError as error:
        raise UnprocessableRequest(f"{where}: expected text in UTF-8, in base64: {error}") from error


def _search_result(block: Block, where: str) -> str:
    """Title, address and text, a line each."""
    if isinstance(block.content, dict):
        raise UnprocessableRequest(f"{where}.content: expected a list of blocks")
    lines = [block.title, block.source if isinstance(block.source, str) else None]
    for number, inner in enumerate(_blocks(block.content)):
        if inner.type != "text":
            raise _unsaid(inner, f"{where}.content[{number}]")
        lines.append(inner.text)
    return "\n".join(line for line in lines if line)

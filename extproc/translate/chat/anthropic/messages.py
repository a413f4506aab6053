"""The conversation of a chat request as ``system`` and ``messages`` of the Messages API (contract, chat 11.2).

What the provider would refuse for its form alone is put into form here: neighbours of one role become one turn, the
results of tools stand before the user's words and thoughts before the answer, empty texts are left out, and a turn
that holds nothing is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.anthropic.media import CacheControl, Document, Image, file_block, image_block

_TTLS: Final = ("5m", "1h")


class Text(Struct, frozen=True, kw_only=True, gc=False):
    text: str
    cache_control: CacheControl | UnsetType = UNSET
    type: str = "text"


class Thinking(Struct, frozen=True, kw_only=True, gc=False):
    signature: str
    thinking: str
    type: str = "thinking"


class RedactedThinking(Struct, frozen=True, kw_only=True, gc=False):
    data: str
    type: str = "redacted_thinking"


class ToolUse(Struct, frozen=True, kw_only=True, gc=False):
    id: str
    input: Raw
    name: str
    cache_control: CacheControl | UnsetType = UNSET
    type: str = "tool_use"


class ToolResult(Struct, frozen=True, kw_only=True):
    tool_use_id: str
    is_error: bool
    cache_control: CacheControl | UnsetType = UNSET
    content: list[Text] | UnsetType = UNSET
    type: str = "tool_result"


Block = Text | Image | Document | Thinking | RedactedThinking | ToolUse | ToolResult


class Turn(Struct, frozen=True):
    content: list[Block]
    role: str


class Conversation(Struct, frozen=True):
    """Attributes: ``system`` has an element for each system or developer message that says something."""

    system: list[Text]
    messages: list[Turn]


def convert_messages(messages: list[chat.Message]) -> Conversation:
    """Convert the messages of a request.

    Raises:
        UnprocessableRequest: one cannot be said to Claude, or nothing is left to be answered.
    """
    system: list[Text] = []
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        match message:
            case chat.UserMessage():
                _add(turns, "user", _user_blocks(message, where))
            case chat.AssistantMessage():
                _add(turns, "assistant", _assistant_blocks(message, where))
            case chat.ToolMessage():
                _add(turns, "user", [_tool_result(message, where)])
            case chat.SystemMessage() | chat.DeveloperMessage():
                system += _system_block(message, where)
    turns = [Turn(_in_order(turn.content), turn.role) for turn in turns]
    _end_turns(turns)
    if not turns:
        raise UnprocessableRequest("messages: there is nothing to answer, as none has content beside system messages")
    return Conversation(system, turns)


class _Marked(Protocol):
    @property
    def cache_control(self) -> chat.CacheControl | None: ...

    @property
    def cached(self) -> bool: ...


def cache_breakpoint(marked: _Marked, where: str) -> CacheControl | UnsetType:
    """The breakpoint that a client asks for.

    Raises:
        UnprocessableRequest: it should live as long as no cache does.
    """
    control = marked.cache_control
    if control is None or not marked.cached:
        return UNSET
    if control.ttl and control.ttl not in _TTLS:
        raise UnprocessableRequest(f"{where}.cache_control.ttl: expected one of {', '.join(_TTLS)}")
    return CacheControl(ttl=control.ttl or UNSET)


# --- turns ---


def _add(turns: list[Turn], role: str, blocks: list[Block]) -> None:
    """Add the blocks of a message to the turn that they belong to."""
    blocks = _spoken(blocks)
    if not blocks:
        return
    if turns and turns[-1].role == role:
        turns[-1].content.extend(blocks)
    else:
        turns.append(Turn(blocks, role))


def _spoken(blocks: list[Block]) -> list[Block]:
    """Without texts that the provider refuses: empty ones, and white space where no other text stands beside it."""
    said = any(isinstance(each, Text) and each.text.strip() for each in blocks)
    return [each for each in blocks if not isinstance(each, Text) or (each.text if said else each.text.strip())]


def _in_order(blocks: list[Block]) -> list[Block]:
    """A turn must begin with its thoughts if it has any, or with the results of tools; else the order is kept."""
    first = (Thinking, RedactedThinking, ToolResult)
    leading = [each for each in blocks if isinstance(each, first)]
    if not leading or (isinstance(blocks[0], Thinking | RedactedThinking)):
        return blocks
    return leading + [each for each in blocks if not isinstance(each, first)]


def _end_turns(turns: list[Turn]) -> None:
    """An answer that Claude is to go on with may end neither in a thought nor in white space."""
    if not turns or turns[-1].role != "assistant":
        return
    content = turns[-1].content
    while content:
        last = content[-1]
        if isinstance(last, Text) and (text := last.text.rstrip()):
            content[-1] = msgspec.structs.replace(last, text=text)
            return
        if not isinstance(last, Text | Thinking | RedactedThinking):
            return
        content.pop()
    turns.pop()


# --- messages ---


def _system_block(message: chat.SystemMessage | chat.DeveloperMessage, where: str) -> Iterator[Text]:
    """One text for the message, whose breakpoint is that of its last part that has one."""
    control: CacheControl | UnsetType = UNSET
    if isinstance(message.content, str):
        text = message.content
    else:
        parts = [] if message.content is UNSET else message.content
        text = "".join(part.text for part in parts)
        for index, part in enumerate(parts):
            if part.cached:
                control = cache_breakpoint(part, f"{where}.content[{index}]")
    if text.strip():
        yield Text(text=text, cache_control=control)


def _user_blocks(message: chat.UserMessage, where: str) -> list[Block]:
    if isinstance(message.content, str):
        return [Text(text=message.content)]
    parts = [] if message.content is UNSET or message.content is None else message.content
    return [_user_block(part, f"{where}.content[{index}]") for index, part in enumerate(parts)]


def _user_block(part: chat.UserPart, where: str) -> Block:
    control = cache_breakpoint(part, where)
    match part:
        case chat.UserText():
            return Text(text=part.text, cache_control=control)
        case chat.UserImage():
            return image_block(part.image_url.url, control, where=f"{where}.image_url.url")
        case chat.UserFile():
            return file_block(part.file, control, where=f"{where}.file")
        case _:
            # The table of support refuses these before.
            raise UnprocessableRequest(f"{where}: {part.__struct_config__.tag} is not supported by Anthropic")


def _assistant_blocks(message: chat.AssistantMessage, where: str) -> list[Block]:
    if isinstance(message.content, str):
        blocks: list[Block] = [Text(text=message.content)]
    else:
        parts = [message.content] if isinstance(message.content, chat.AssistantPart) else message.content or ()
        blocks = [
            block
            for index, part in enumerate(parts)
            if (block := _assistant_block(part, f"{where}.content[{index}]")) is not None
        ]
    if not blocks and message.refusal:
        blocks.append(Text(text=message.refusal))
    # A client that sends parts of thinking has its thoughts in their places already.
    if not any(isinstance(each, Thinking | RedactedThinking) for each in blocks):
        blocks = [*_thinking_blocks(message, where), *blocks]
    blocks += [_tool_use(call, index, where) for index, call in enumerate(message.tool_calls or ())]
    return blocks


def _assistant_block(part: chat.AssistantPart, where: str) -> Block | None:
    """The block of one part; ``None`` for one without content, and for thoughts that Claude has not signed."""
    match part.type:
        case "text":
            return Text(text=part.text or "", cache_control=cache_breakpoint(part, where))
        case "refusal":
            return Text(text=part.refusal or "", cache_control=cache_breakpoint(part, where))
        case "thinking":
            return Thinking(signature=part.signature, thinking=part.text or "") if part.signature else None
        case "redacted_thinking":
            return RedactedThinking(data=part.redacted_content) if part.redacted_content else None
        case _:
            raise UnprocessableRequest(f"{where}.type: content type not supported: {part.type}")


def _thinking_blocks(message: chat.AssistantMessage, where: str) -> Iterator[Block]:
    """Thoughts as answers of this process carry them; Claude takes only its own, which have a signature."""
    for index, block in enumerate(message.thinking_blocks or ()):
        match block.type:
            case "redacted_thinking":
                if block.data:
                    yield RedactedThinking(data=block.data)
            case "thinking":
                if block.signature:
                    yield Thinking(signature=block.signature, thinking=block.thinking or "")
            case _:
                raise UnprocessableRequest(f"{where}.thinking_blocks[{index}].type: {block.type!r} is not known")


# --- tools ---

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


def check_tool_name(name: str, where: str) -> None:
    """Check the name of a tool: another spelling, unlike that of an id, would be another tool.

    Raises:
        UnprocessableRequest: there is none, or not one that the API takes; the text begins with ``where``.
    """
    if not _NAME.fullmatch(name):
        raise UnprocessableRequest(f"{where}: expected 1 to 128 letters, digits, underscores and hyphens")


def _tool_id(given: str) -> str:
    """The id of a call, in the characters that the API allows: histories may come from another provider's model."""
    if _ID.fullmatch(given):
        return given
    return _FOREIGN.sub(lambda match: f"_{ord(match[0]):x}", given)


def _tool_use(call: chat.ToolCall, index: int, where: str) -> ToolUse:
    member = f"{where}.tool_calls[{index}]"
    if call.type not in {None, "", "function"}:
        raise UnprocessableRequest(f"{member}.type: only calls of functions are supported by Anthropic")
    if not call.id:
        raise UnprocessableRequest(f"{where}: tool_call at index {index} is missing required field 'id'")
    check_tool_name(call.function.name, f"{member}.function.name")
    return ToolUse(
        id=_tool_id(call.id),
        input=_arguments(call.function.arguments, f"{member}.function.arguments"),
        name=call.function.name,
        cache_control=cache_breakpoint(call, member),
    )


_NO_ARGUMENTS: Final = Raw(b"{}")


def _arguments(text: str | None, where: str) -> Raw:
    if text is None or text.strip() in {"", "{}", "null"}:
        return _NO_ARGUMENTS
    try:
        return Raw(jsonvalue.encode(jsonvalue.decode_object(text)))
    except (jsonvalue.JSONValueError, RecursionError) as error:
        raise UnprocessableRequest(f"{where}: expected the text of a JSON object: {error}") from error


def _tool_result(message: chat.ToolMessage, where: str) -> ToolResult:
    if not message.tool_call_id:
        raise UnprocessableRequest(f"{where}.tool_call_id is required")
    if message.content is UNSET:
        raise UnprocessableRequest(f"{where}.content is required")
    control = cache_breakpoint(message, where)
    if isinstance(message.content, str):
        content = [Text(text=message.content)]
    else:
        content = [
            Text(text=part.text, cache_control=cache_breakpoint(part, f"{where}.content[{index}]"))
            for index, part in enumerate(message.content)
        ]
    said = [each for each in _spoken(list(content)) if isinstance(each, Text)]
    if said and (last := said[-1]).cache_control is not UNSET:
        # The end of the last part is the end of the result: one breakpoint there is enough.
        control = last.cache_control if control is UNSET else control
        said[-1] = Text(text=last.text)
    return ToolResult(
        tool_use_id=_tool_id(message.tool_call_id),
        is_error=len(said) == 1 and _reports_error(said[0].text),
        cache_control=control,
        content=said or UNSET,
    )


class _Reported(Struct, frozen=True):
    error: object = None


_decode_reported = msgspec.json.Decoder(_Reported).decode


def _reports_error(result: str) -> bool:
    """Whether a result is a JSON object with an ``error`` that says something.

    The client's API has no flag for a call that has failed, and tools that say so say it like this. ``"error": null``
    is how a success is written.
    """
    if '"error"' not in result or not result.lstrip().startswith("{"):
        return False
    try:
        return bool(_decode_reported(result).error)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False

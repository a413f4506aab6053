"""A whole message of the Messages API as a chat completion (contract, chat 11.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import UnreadableAnswer
from extproc.translate.anthropic import finish_reason, read_message_usage, read_messages_error
from extproc.translate.chat.completion import (
    Choice,
    Completion,
    FunctionDelta,
    Message,
    ThinkingBlock,
    ToolCall,
    encode,
    usage_object,
)
from extproc.translate.chat.translator import Answer
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from extproc.usage import NO_USAGE, TokenUsage

NO_INPUT: Final = "{}"


class ContentBlock(Struct, frozen=True):
    """Any block of content. A member of a wrong type counts as absent; ``input`` keeps the spelling."""

    type: object = ""
    text: object = ""
    thinking: object = ""
    signature: object = ""
    data: object = ""
    id: object = ""
    name: object = ""
    input: Raw | UnsetType = UNSET


class _Message(Struct, frozen=True):
    id: object = ""
    model: object = ""
    content: Raw | UnsetType = UNSET
    stop_reason: object = None
    usage: object = None


_decode = msgspec.json.Decoder(_Message).decode
_decode_blocks = msgspec.json.Decoder(list[ContentBlock]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_block = msgspec.json.Decoder(ContentBlock).decode


def text_of(value: object) -> str:
    """A member that should be text."""
    return value if isinstance(value, str) else ""


def arguments_of(block: ContentBlock) -> str:
    """The arguments of a call, as the provider spelled them."""
    spelled = b"" if block.input is UNSET else bytes(block.input)
    return NO_INPUT if spelled in {b"", b"null"} else spelled.decode(errors="replace")


def thinking_block(text: str, signature: str) -> ThinkingBlock:
    return ThinkingBlock(thinking=text or UNSET, signature=signature or UNSET)


def read_message(data: bytes, *, model: str, created: int, new_id: Callable[[], str]) -> Answer:
    """Read a message.

    Args:
        data: the body of the answer.
        model: that the backend was asked for.
        created: when the answer came, in seconds since 1970.
        new_id: names a tool call that came without an id.

    Raises:
        UnreadableAnswer: it is no message.
    """
    try:
        message = _decode(data)
        blocks = _blocks(message, data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
    usage = _usage(message.usage)
    said = _said(blocks, new_id)
    reason, native = finish_reason(message.stop_reason, has_tool_calls=said.tool_calls is not UNSET)
    model = text_of(message.model) or model
    completion = Completion(
        id=text_of(message.id) or UNSET,
        choices=[
            Choice(
                finish_reason=reason,
                message=said,
                native_finish_reason=native,
            )
        ],
        created=created,
        model=model,
        usage=UNSET if usage is NO_USAGE else usage_object(usage, details=True),
    )
    return Answer(body=encode(completion), usage=usage, model=model, native_stop=native)


def _blocks(message: _Message, data: bytes) -> list[ContentBlock]:
    if message.content is UNSET or not isinstance(message.content, Raw):
        raise UnreadableAnswer(_instead(data) or "a message has content")
    try:
        return _decode_blocks(message.content)
    except msgspec.ValidationError:
        # Not all of them are objects; those that are still count.
        return [_decode_block(item) for item in _decode_items(message.content) if bytes(item)[:1] == b"{"]


def _instead(data: bytes) -> str:
    """What an error says that stands in place of a message; empty when it is none."""
    error = read_messages_error(data)
    return f"{error.type}: {error.message}"[:MAX_MESSAGE_BYTES] if error is not None else ""


def _usage(reported: object) -> TokenUsage:
    """The usage, in which a count that a whole message leaves out is zero."""
    usage = read_message_usage(reported).total()
    if usage is NO_USAGE:
        return usage
    return msgspec.structs.replace(usage, output=usage.output or 0, reasoning=usage.reasoning or 0)


def _said(blocks: list[ContentBlock], new_id: Callable[[], str]) -> Message:
    """The message: texts in one, thoughts in one and each on its own; what the provider did itself is not told."""
    texts: list[str] = []
    thoughts: list[ThinkingBlock] = []
    calls: list[ToolCall] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(text_of(block.text))
            case "thinking":
                if (thought := text_of(block.thinking)) or block.signature:
                    thoughts.append(thinking_block(thought, text_of(block.signature)))
            case "redacted_thinking":
                if data := text_of(block.data):
                    thoughts.append(ThinkingBlock(type="redacted_thinking", data=data))
            case "tool_use":
                function = FunctionDelta(arguments=arguments_of(block), name=text_of(block.name))
                calls.append(ToolCall(id=text_of(block.id) or new_id(), function=function))
    return Message(
        content="".join(texts) or None,
        tool_calls=calls or UNSET,
        reasoning_content="".join(each.thinking or "" for each in thoughts if each.thinking is not UNSET) or UNSET,
        thinking_blocks=thoughts or UNSET,
    )

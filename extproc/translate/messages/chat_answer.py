"""A chat completion as a message of Anthropic's API (contract, messages to chat completions 5.6).

Anthropic's clients read tokens of the cache beside the input, everybody else's within it (BR-62). What its SDKs
declare as always there is always written: ``stop_sequence``, a list as ``content``, the ``signature`` of a thought. A
call without an id is given one, as its result has to name it; a message without one has an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extproc.errors import UnreadableAnswer
from extproc.translate.via_chat import answers
from extproc.usage import TokenUsage

# --- what both documents and streams say ---

_STOP_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def stop_reason(finish_reason: str | None, *, has_calls: bool, refused: bool) -> str:
    """Why the model stopped; many backends say ``stop`` when it waits for the results of calls."""
    if refused:
        return "refusal"
    reason = _STOP_REASONS.get(finish_reason or "", "end_turn")
    return "tool_use" if has_calls and reason == "end_turn" else reason


class Thought(Struct, frozen=True, kw_only=True):
    """Reasoning of a message, or a piece of it: text, signature or opaque data; what there is none of is empty."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


def reasoning(message: answers.Message) -> Thought:
    """The reasoning beside ``thinking_blocks``: a text, under whichever name, or an object as the peer writes it."""
    given = message.reasoning_content
    if not isinstance(given, dict):
        return Thought(text=answers.reasoning_text(message))
    inner = given.get("reasoningContent")
    whole = inner if isinstance(inner, dict) else given
    spoken = whole.get("reasoningText")
    piece = spoken if isinstance(spoken, dict) else whole
    return Thought(
        text=_text(piece.get("text")),
        signature=_text(piece.get("signature")),
        redacted=_text(whole.get("redactedContent")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def made_id(new_id: Callable[[], str]) -> str:
    """The id of a call, as Anthropic's look."""
    return "toolu_" + new_id().replace("-", "")


# --- usage ---


class Usage(Struct, frozen=True, kw_only=True):
    """Attributes: ``input_tokens``: what neither was read from the cache nor written to it."""

    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    input_tokens: int
    output_tokens: int


def read_usage(usage: TokenUsage) -> Usage:
    """Usage as the client reads it. A backend that says more tokens were cached than there are is not followed."""
    total = usage.input or 0
    cached = min(usage.cached_input or 0, total)
    creation = min(usage.cache_creation_input or 0, total - cached)
    return Usage(
        cache_creation_input_tokens=creation,
        cache_read_input_tokens=cached,
        input_tokens=total - cached - creation,
        output_tokens=usage.output or 0,
    )


# --- the document ---


class TextBlock(Struct, frozen=True, kw_only=True):
    type: str = "text"
    text: str


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    type: str = "thinking"
    thinking: str
    signature: str


class RedactedThinkingBlock(Struct, frozen=True, kw_only=True):
    type: str = "redacted_thinking"
    data: str


class ToolUseBlock(Struct, frozen=True, kw_only=True):
    type: str = "tool_use"
    id: str
    name: str
    input: Raw


ContentBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock


class Message(Struct, frozen=True, kw_only=True):
    """The message, members in the contract's order (4.4)."""

    id: str
    type: str = "message"
    role: str = "assistant"
    content: list[ContentBlock]
    model: str
    stop_reason: str | None
    stop_sequence: None = None
    usage: Usage


_encode = msgspec.json.Encoder().encode


def document(
    answer: answers.Answer, usage: TokenUsage, *, model: str, new_id: Callable[[], str], maker: str = ""
) -> bytes:
    """The client's document.

    Args:
        answer: of the backend; only its first choice counts.
        usage: of the answer.
        model: that the backend was asked for.
        new_id: for a call without an id.
        maker: what stands before a signature, to tell whose it is.

    Raises:
        UnreadableAnswer: it is no answer.
    """
    if answer.choices is None:
        raise UnreadableAnswer("it has no choices")
    content: list[ContentBlock] = []
    reason = None
    if (choice := answer.first) is not None:
        said = choice.message or answers.Message()
        content = list(_content(said, new_id, maker))
        reason = stop_reason(choice.finish_reason, has_calls=bool(said.tool_calls), refused=bool(said.refusal))
    return _encode(
        Message(
            id=answer.id or "",
            content=content,
            model=answer.model or model,
            stop_reason=reason,
            usage=read_usage(usage),
        )
    )


def _content(said: answers.Message, new_id: Callable[[], str], maker: str) -> Iterator[ContentBlock]:
    for thought in _thoughts(said):
        if isinstance(thought, ThinkingBlock) and thought.signature:
            yield msgspec.structs.replace(thought, signature=maker + thought.signature)
        else:
            yield thought
    for text in (said.content, said.refusal):
        if text:
            yield TextBlock(text=text)
    for call in said.tool_calls or ():
        yield ToolUseBlock(
            id=call.id or made_id(new_id),
            name=call.function.name or "",
            input=tool_input(call.function.arguments),
        )


def _thoughts(said: answers.Message) -> Iterator[ThinkingBlock | RedactedThinkingBlock]:
    """The thoughts: blocks where there are some, else the reasoning beside them."""
    beside = reasoning(said)
    blocks = said.thinking_blocks or []
    # Some blocks hold a signature alone, and the text stands beside them.
    text = "" if any(block.thinking for block in blocks) else beside.text
    signature = "" if any(block.signature for block in blocks) else beside.signature
    for block in blocks:
        if block.data:
            yield RedactedThinkingBlock(data=block.data)
        elif block.thinking or block.signature:
            yield ThinkingBlock(thinking=block.thinking or text, signature=block.signature or signature)
            text = signature = ""
    if text or signature:
        yield ThinkingBlock(thinking=text, signature=signature)
    if beside.redacted and not any(block.data for block in blocks):
        yield RedactedThinkingBlock(data=beside.redacted)


NO_INPUT: Final = Raw(b"{}")
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def is_object(text: str) -> bool:
    """Whether it is a JSON object, whole and nothing else."""
    try:
        _decode_object(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    return True


def tool_input(arguments: str | None) -> Raw:
    """The arguments of a call, spelled as the model did; what is no object is none (contract 5.6)."""
    return Raw(arguments.encode()) if arguments and is_object(arguments) else NO_INPUT

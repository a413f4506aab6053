"""Reads whole Converse answers, and what they share with streams: usage and stop reasons (contract, chat 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import UnreadableAnswer
from extproc.formats import jsonvalue
from extproc.translate.base import Target
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
from extproc.usage import NO_USAGE, TokenUsage, as_count

FINISH_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "content_filter",
}
"""``stopReason`` → ``finish_reason``."""

UNFINISHED: Final = "length"
"""The ``finish_reason`` for any other: broken output (``malformed_model_output``, ``malformed_tool_use``), turns that
are to be continued, and reasons that are yet to be invented. Of the API's values it alone says that the answer may not
be whole; ``stop`` would call it good.
"""

NATIVE_STOPS: Final = frozenset({"malformed_model_output", "malformed_tool_use", "pause_turn"})
"""Those of them that the service documents."""

NO_INPUT: Final = "{}"
"""Arguments of a call that has none."""


class ConverseUsage(Struct, frozen=True, kw_only=True, gc=False):
    """A report as the service counts: ``fresh`` input was neither read from the cache nor written to it."""

    fresh: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None

    def merge(self, newer: ConverseUsage) -> ConverseUsage:
        """This report with every count that ``newer`` has in place of the old one."""
        return ConverseUsage(
            fresh=self.fresh if newer.fresh is None else newer.fresh,
            output=self.output if newer.output is None else newer.output,
            cache_read=self.cache_read if newer.cache_read is None else newer.cache_read,
            cache_write=self.cache_write if newer.cache_write is None else newer.cache_write,
        )

    def total(self) -> TokenUsage:
        """The counts as they are billed: cached tokens are part of the input (contract, chat 14)."""
        parts = (self.fresh, self.cache_read, self.cache_write)
        input_ = None if parts == (None, None, None) else sum(count or 0 for count in parts)
        if input_ is None and self.output is None:
            return NO_USAGE
        return TokenUsage(
            input=input_,
            output=self.output,
            total=(input_ or 0) + (self.output or 0),
            cached_input=self.cache_read,
            cache_creation_input=self.cache_write,
        )


NO_REPORT: Final = ConverseUsage()


def read_usage(usage: object) -> ConverseUsage:
    """Read a ``usage`` object; what is no count is not reported."""
    return ConverseUsage(
        fresh=as_count(member(usage, "inputTokens")),
        output=as_count(member(usage, "outputTokens")),
        cache_read=as_count(member(usage, "cacheReadInputTokens")),
        cache_write=as_count(member(usage, "cacheWriteInputTokens")),
    )


def finish_reason(stop_reason: object) -> tuple[str, str | UnsetType]:
    """The ``finish_reason``, and the service's own where the client's API has no word for it.

    An answer that gives no reason has just ended (contract, chat 8.5).
    """
    if stop_reason is None:
        return "stop", UNSET
    if not isinstance(stop_reason, str):
        return UNFINISHED, UNSET
    known = FINISH_REASONS.get(stop_reason)
    return (UNFINISHED, stop_reason) if known is None else (known, UNSET)


def member(value: object, name: str) -> object:
    """A member of what should be an object; ``None`` when it is not there."""
    return value.get(name) if isinstance(value, dict) else None


def text_of(value: object) -> str:
    """A member that should be text."""
    return value if isinstance(value, str) else ""


# Members of a wrong type must not cost the client its answer, so that only the way to the blocks is typed.


class _ToolUse(Struct, frozen=True, rename="camel"):
    tool_use_id: object = None
    name: object = None
    input: Raw | UnsetType = UNSET


class _Block(Struct, frozen=True, rename="camel"):
    """A content block; kinds that no client of this API knows have none of these members."""

    text: object = None
    tool_use: _ToolUse | None = None
    reasoning_content: object = None


class _Message(Struct, frozen=True):
    role: object = None
    content: list[_Block] | None = None


class _Output(Struct, frozen=True):
    message: _Message


class _Answer(Struct, frozen=True, rename="camel"):
    output: _Output
    stop_reason: object = None
    usage: object = None
    service_tier: object = None


_decode = msgspec.json.Decoder(_Answer).decode


def read_answer(data: bytes, *, model: str, request_id: str, target: Target) -> Answer:
    """Read the answer of Converse.

    Args:
        data: the body.
        model: that the backend was asked for; answers do not name one.
        request_id: becomes the id of the completion; may be empty.
        target: clock and ids.

    Raises:
        UnreadableAnswer: it is no such answer.
    """
    try:
        answer = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
    usage = read_usage(answer.usage).total()
    reason, native = finish_reason(answer.stop_reason)
    completion = Completion(
        id=request_id or UNSET,
        choices=[
            Choice(
                finish_reason=reason,
                message=_message(answer.output.message, target.new_id),
                native_finish_reason=native,
            )
        ],
        created=int(target.now()),
        model=model,
        service_tier=text_of(member(answer.service_tier, "type")) or UNSET,
        usage=UNSET if usage is NO_USAGE else usage_object(usage, details=False),
    )
    return Answer(body=encode(completion), usage=usage, model=model, native_stop=native)


def _message(message: _Message, new_id: Callable[[], str]) -> Message:
    texts: list[str] = []
    calls: list[ToolCall] = []
    thoughts: list[ThinkingBlock] = []
    for block in message.content or ():
        if block.tool_use is not None:
            calls.append(_call(block.tool_use, new_id))
        elif isinstance(block.text, str):
            texts.append(block.text)
        elif thought := _thought(block.reasoning_content):
            thoughts.append(thought)
    reasoning = [thought.thinking for thought in thoughts if isinstance(thought.thinking, str)]
    return Message(
        content="".join(texts) if texts else None,
        role=text_of(message.role) or "assistant",
        tool_calls=calls or UNSET,
        reasoning_content="".join(reasoning) if reasoning else UNSET,
        thinking_blocks=thoughts or UNSET,
    )


def _call(use: _ToolUse, new_id: Callable[[], str]) -> ToolCall:
    function = FunctionDelta(arguments=_arguments(use.input), name=text_of(use.name))
    return ToolCall(id=text_of(use.tool_use_id) or new_id(), function=function)


def _arguments(spelled: Raw | UnsetType) -> str:
    """The input as compact JSON; its numbers keep their spelling, and its members their order."""
    if spelled is UNSET or bytes(spelled) == b"null":
        return NO_INPUT
    try:
        return encode(jsonvalue.decode(bytes(spelled))).decode()
    except jsonvalue.JSONValueError:
        # Such as a number that no double can hold.
        return bytes(spelled).decode(errors="replace")


def _thought(reasoning: object) -> ThinkingBlock | None:
    if redacted := text_of(member(reasoning, "redactedContent")):
        return ThinkingBlock(type="redacted_thinking", data=redacted)
    told = member(reasoning, "reasoningText")
    return thinking_block(text_of(member(told, "text")), text_of(member(told, "signature")))


def thinking_block(text: str, signature: str) -> ThinkingBlock | None:
    """A thought; a signature without text is one as well, of a model that keeps the text to itself."""
    return ThinkingBlock(thinking=text or UNSET, signature=signature or UNSET) if text or signature else None

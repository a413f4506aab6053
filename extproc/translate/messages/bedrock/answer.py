"""Reads whole Converse answers, and stop reasons for streams as well (contract, messages 5.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import UnreadableAnswer
from extproc.formats import jsonvalue
from extproc.translate.base import Target, TranslatedResponse
from extproc.translate.chat.bedrock.answer import member, read_usage, text_of
from extproc.translate.messages.bedrock import wire
from extproc.translate.messages.bedrock.citations import citation

STOP_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "pause_turn",
    "refusal": "refusal",
    "model_context_window_exceeded": "model_context_window_exceeded",
    "content_filtered": "refusal",
    "guardrail_intervened": "refusal",
    # Broken output: of the API's words, this one alone says that the answer may not be whole.
    "malformed_model_output": "max_tokens",
    "malformed_tool_use": "max_tokens",
}
"""``stopReason`` → ``stop_reason``."""


def unknown_stop(reason: object) -> str:
    """A reason that the table has not; empty for one that it has, and for what is no text."""
    return reason if isinstance(reason, str) and reason not in STOP_REASONS else ""


def stop_reason(reason: object) -> str | None:
    """The API's word for a reason; for one that is not known the turn has ended, without one there is none."""
    if reason is None:
        return None
    return STOP_REASONS.get(reason, "end_turn") if isinstance(reason, str) else "end_turn"


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
    citations_content: object = None


class _Message(Struct, frozen=True):
    content: list[_Block] | None = None


class _Output(Struct, frozen=True):
    message: _Message


class _Answer(Struct, frozen=True, rename="camel"):
    output: _Output | None = None
    stop_reason: object = None
    usage: object = None


_decode = msgspec.json.Decoder(_Answer).decode


def message_id(request_id: str, target: Target) -> str:
    """The service's id of the request is that of the message; one is made where it gives none."""
    return request_id or f"msg_{target.new_id()}"


def read_answer(data: bytes, *, model: str, request_id: str, target: Target) -> TranslatedResponse:
    """The message of Converse's answer.

    Args:
        data: the body.
        model: that the backend was asked for; answers do not name one.
        request_id: of the service; may be empty.
        target: for ids.

    Raises:
        UnreadableAnswer: it is no such answer.
    """
    try:
        answer = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
    if answer.output is None and answer.stop_reason is None and answer.usage is None:
        raise UnreadableAnswer("it has neither output, nor a reason for stopping, nor usage")
    reported = read_usage(answer.usage)
    blocks = (answer.output.message.content if answer.output else None) or ()
    message = wire.Message(
        id=message_id(request_id, target),
        content=[converted for block in blocks for converted in _convert(block, target)],
        model=model,
        stop_reason=stop_reason(answer.stop_reason),
        usage=wire.usage_of(reported) or UNSET,
    )
    return TranslatedResponse(
        body=jsonvalue.encode(message),
        usage=reported.total(),
        model=model,
        complete=True,
        unknown_stop=unknown_stop(answer.stop_reason),
    )


def _convert(block: _Block, target: Target) -> Iterator[wire.Block]:
    if block.tool_use is not None:
        yield _tool_use(block.tool_use, target)
    elif isinstance(block.text, str):
        yield wire.Text(text=block.text)
    elif block.reasoning_content is not None:
        yield from _thoughts(block.reasoning_content)
    elif block.citations_content is not None:
        yield _cited(block.citations_content)


def _tool_use(use: _ToolUse, target: Target) -> wire.ToolUse:
    return wire.ToolUse(
        id=text_of(use.tool_use_id) or f"toolu_{target.new_id()}", name=text_of(use.name), input=_input(use.input)
    )


def _input(spelled: Raw | UnsetType) -> jsonvalue.JSONObject | Raw:
    """The input as the service spells it; what is no object is none, as clients can read no other."""
    try:
        return {} if spelled is UNSET else jsonvalue.compact_object(bytes(spelled))
    except jsonvalue.JSONValueError:
        return {}


def _thoughts(reasoning: object) -> Iterator[wire.Block]:
    if redacted := text_of(member(reasoning, "redactedContent")):
        yield wire.RedactedThinking(data=redacted)
        return
    told = member(reasoning, "reasoningText")
    text, signature = text_of(member(told, "text")), text_of(member(told, "signature"))
    # A signature without text is a thought as well, of a model that keeps the text to itself.
    if text or signature:
        yield wire.Thinking(thinking=text, signature=signature)


def _cited(content: object) -> wire.Text:
    """A text that the model has backed with citations."""
    pieces, found = member(content, "content"), member(content, "citations")
    text = "".join(text_of(member(each, "text")) for each in pieces) if isinstance(pieces, list) else ""
    converted = [citation(each) for each in found] if isinstance(found, list) else []
    return wire.Text(text=text, citations=[each for each in converted if each is not None] or UNSET)

"""Watching answers of Anthropic's Messages API that pass as they are: usage, model, and errors within a stream.

What counts of an event is its JSON: the name beside it is a hint that some servers leave out, and so do they with the
blank line after the last one. Counts are kept apart as the API has them until a total is asked for, because each
report takes the place of what the one before it said, count by count (contract, messages 5.2).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from extproc.formats.sse import SSEEvent
from extproc.translate.anthropic import (
    NO_REPORT,
    MessageUsage,
    read_invocation_metrics,
    read_message_usage,
    read_messages_error,
)
from extproc.translate.observe import UNREMARKABLE, Observation
from extproc.translate.openai_errors import MAX_TYPE_LENGTH

UNNAMED_ERROR: Final = "api_error"
"""The type of an error that does not say its own."""


class _Message(Struct, frozen=True):
    """A whole answer, and what ``message_start`` has of it. Members of a wrong type count as absent."""

    type: object = None
    model: object = None
    usage: object = None

    def model_name(self) -> str:
        return self.model if isinstance(self.model, str) else ""


class _Event(Struct, frozen=True):
    type: object = None
    message: object = None
    usage: object = None
    # Bedrock's own count, beside the last event.
    metrics: object = msgspec.field(default=None, name="amazon-bedrock-invocationMetrics")


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_event = msgspec.json.Decoder(_Event).decode

# What decoding bytes of a stranger may raise: no JSON, no text, nested too deep, a number of absurd length.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

# Most events of a stream, and they report nothing. Servers write the type first.
_DELTAS: Final = (b'{"type":"content_block_delta"', b'{"type": "content_block_delta"')

_STOP: Final = "message_stop"


class MessageObserver:
    """The answers of one attempt at ``/v1/messages``."""

    def __init__(self) -> None:
        self._reported = NO_REPORT

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        try:
            message = _decode_message(data)
        except _UNREADABLE:
            return None
        if message.type == "error":
            # Under a status that says otherwise.
            return Observation(failure=_error_name(data))
        usage = read_message_usage(message.usage).total()
        return Observation(
            usage=usage, reports_usage=message.usage is not None, model=message.model_name(), complete=True
        )

    def event(self, event: SSEEvent) -> Observation:
        data = event.data
        if not data or data.startswith(_DELTAS):
            return UNREMARKABLE
        try:
            seen = _decode_event(data)
        except _UNREADABLE:
            # An error that cannot be read is one all the same.
            return Observation(failure=UNNAMED_ERROR) if event.event == b"error" else UNREMARKABLE
        kind = seen.type if isinstance(seen.type, str) else (event.event or b"").decode(errors="replace")
        model = ""
        match kind:
            case "message_start":
                model, newer = _started(seen.message)
            case "message_delta":
                newer = _without_zeros(read_message_usage(seen.usage))
            case "error":
                return Observation(failure=_error_name(data))
            case _:
                newer = NO_REPORT
        # These leave the cache out of some counts, so what the message has said itself goes first (BR-71).
        metrics = read_invocation_metrics(seen.metrics)
        merged = metrics.merge(self._reported.merge(newer))
        if merged == self._reported:
            return Observation(model=model, complete=True) if kind == _STOP else Observation(model=model)
        self._reported = merged
        return Observation(usage=merged.total(), reports_usage=True, model=model, complete=kind == _STOP)


def _started(message: object) -> tuple[str, MessageUsage]:
    """Model and usage of a ``message_start``."""
    if not isinstance(message, dict):
        return "", NO_REPORT
    model = message.get("model")
    return model if isinstance(model, str) else "", read_message_usage(message.get("usage"))


def _without_zeros(report: MessageUsage) -> MessageUsage:
    """The report of a ``message_delta`` without input that is zero.

    Input does not shrink while a message is written: a server that says so there has just not counted again.
    """
    return MessageUsage(
        input=report.input or None,
        cache_read=report.cache_read or None,
        cache_creation=report.cache_creation or None,
        output=report.output,
        thinking=report.thinking,
    )


def _error_name(data: bytes) -> str:
    error = read_messages_error(data)
    return (error.type if error else "")[:MAX_TYPE_LENGTH] or UNNAMED_ERROR

"""Facts of Anthropic's Messages API, whichever way a translation goes: versions, usage, stop reasons and errors.

Anthropic counts the tokens that were read from its cache, or written to it, beside ``input_tokens``; everybody else
counts them in. The three are kept apart here until a total is asked for, so that a later report may replace any one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from extproc.usage import NO_USAGE, TokenUsage, as_count

VERSION: Final = "2023-06-01"
"""Of the first-party API, in the header ``anthropic-version``."""

VERTEX_VERSION: Final = "vertex-2023-10-16"
"""On Vertex AI, in the body's ``anthropic_version``."""

BEDROCK_VERSION: Final = "bedrock-2023-05-31"
"""On Amazon Bedrock, in the body's ``anthropic_version``."""

BEDROCK_BETAS: Final = frozenset(
    {
        "computer-use-2024-10-22",
        "computer-use-2025-01-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "dev-full-thinking-2025-05-14",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "mcp-client-2025-04-04",
        "mcp-client-2025-11-20",
        "model-context-window-exceeded-2025-08-26",
        "output-128k-2025-02-19",
        "pdfs-2024-09-25",
        "search-results-2025-06-09",
        "token-counting-2024-11-01",
        "token-efficient-tools-2025-02-19",
        "tool-search-tool-2025-10-19",
        "web-search-2025-03-05",
    }
)
"""Flags of ``anthropic-beta`` that Amazon Bedrock knows (contract, messages 5.4)."""


# --- usage ---


class MessageUsage(Struct, frozen=True, kw_only=True, gc=False):
    """A usage report as Anthropic counts: ``input`` is what neither was read from the cache nor written to it.

    Attributes:
        thinking: the part of ``output`` that was spent on reasoning.
    """

    input: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None
    output: int | None = None
    thinking: int | None = None

    def merge(self, newer: MessageUsage) -> MessageUsage:
        """This report with every count that ``newer`` has in place of the old one: reports are running totals."""
        return MessageUsage(
            input=self.input if newer.input is None else newer.input,
            cache_read=self.cache_read if newer.cache_read is None else newer.cache_read,
            cache_creation=self.cache_creation if newer.cache_creation is None else newer.cache_creation,
            output=self.output if newer.output is None else newer.output,
            thinking=self.thinking if newer.thinking is None else newer.thinking,
        )

    def total(self) -> TokenUsage:
        """The counts as they are billed: cached tokens are part of the input (contract, chat 14).

        A report that does not speak of the cache has not used it. Output stays unknown until it is reported.
        """
        if self == NO_REPORT:
            return NO_USAGE
        cached, creation = self.cache_read or 0, self.cache_creation or 0
        input_ = (self.input or 0) + cached + creation
        return TokenUsage(
            input=input_,
            output=self.output,
            total=input_ + (self.output or 0),
            cached_input=cached,
            cache_creation_input=creation,
            reasoning=self.thinking,
        )


NO_REPORT: Final = MessageUsage()


def read_message_usage(usage: object) -> MessageUsage:
    """Read a ``usage`` object of a message, or of an event; what is no count is not reported."""
    if not isinstance(usage, dict):
        return NO_REPORT
    details = usage.get("output_tokens_details")
    return MessageUsage(
        input=as_count(usage.get("input_tokens")),
        cache_read=as_count(usage.get("cache_read_input_tokens")),
        cache_creation=as_count(usage.get("cache_creation_input_tokens")),
        output=as_count(usage.get("output_tokens")),
        thinking=as_count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    )


def read_invocation_metrics(metrics: object) -> MessageUsage:
    """Read the ``amazon-bedrock-invocationMetrics`` of a stream's last event; input is without cached tokens there."""
    if not isinstance(metrics, dict):
        return NO_REPORT
    return MessageUsage(
        input=as_count(metrics.get("inputTokenCount")),
        cache_read=as_count(metrics.get("cacheReadInputTokenCount")),
        cache_creation=as_count(metrics.get("cacheWriteInputTokenCount")),
        output=as_count(metrics.get("outputTokenCount")),
    )


# --- stop reasons ---

FINISH_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    # The provider paused a long turn of its own tools; OpenAI has no name for it, the client may go on from there.
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""``stop_reason`` → ``finish_reason`` of chat completions (contract, chat 11.4)."""


# Stop reasons that the client's API has no word for, though its words cover them.
NATIVE_STOPS: Final = frozenset({"pause_turn"})


def finish_reason(stop_reason: object, *, has_tool_calls: bool) -> tuple[str, str | UnsetType]:
    """The ``finish_reason`` for any ``stop_reason``, and that itself where the client's API has no word for it.

    One that is not known says only that the model has stopped, so the answer itself decides: ``tool_calls`` where
    it has some, else ``stop``.
    """
    reason = stop_reason if isinstance(stop_reason, str) else ""
    known = FINISH_REASONS.get(reason)
    native = reason if reason and (known is None or reason in NATIVE_STOPS) else UNSET
    return known or ("tool_calls" if has_tool_calls else "stop"), native


# --- errors ---

ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""HTTP status → error type."""

_STATUSES: Final = {name: str(status) for status, name in ERROR_TYPES.items()}


def error_type(status: str) -> str:
    """The type that the API gives an error of this HTTP status; ``api_error`` for those without one of their own."""
    return ERROR_TYPES.get(int(status), "api_error") if status.isascii() and status.isdigit() else "api_error"


def error_status(name: str) -> str:
    """The HTTP status, as text, that an error of this type has outside of a stream."""
    return _STATUSES.get(name, "500")


class MessagesError(Struct, frozen=True):
    """An error of the API; an absent member, or one of a wrong type, is empty."""

    type: str
    message: str


class _ErrorObject(Struct, frozen=True):
    type: object = None
    message: object = None


class _ErrorBody(Struct, frozen=True):
    error: _ErrorObject


_decode_error = msgspec.json.Decoder(_ErrorBody | list[_ErrorBody]).decode


def read_messages_error(body: bytes) -> MessagesError | None:
    """Read an error, an answer's body or an event's data; ``None`` when it is none of this API. Never raises.

    Some front ends put errors into an array, of which the first counts.
    """
    try:
        decoded = _decode_error(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if isinstance(decoded, list):
        if not decoded:
            return None
        decoded = decoded[0]
    name, message = decoded.error.type, decoded.error.message
    return MessagesError(name if isinstance(name, str) else "", message if isinstance(message, str) else "")

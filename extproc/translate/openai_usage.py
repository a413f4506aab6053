"""Reading the usage and the model that OpenAI-like backends report.

Readers are lenient: what cannot be read is treated as not reported, because an observation must never break an
answer that the client can use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from extproc.usage import MAX_COUNT, NO_USAGE, TokenUsage, as_count


class Report(msgspec.Struct, frozen=True):
    """The members of an answer, or of a chunk of one, that the processor reads."""

    model: object = None
    usage: object = None

    def model_name(self) -> str:
        return self.model if isinstance(self.model, str) else ""


_decoder = msgspec.json.Decoder(Report)

# What decoding bytes of a stranger may raise: no JSON, no text, nested too deep, a number of absurd length.
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

# What a chunk that only reports usage may hold beside the report; anything else is news for the client.
_USAGE_CHUNK_MEMBERS = frozenset(
    {"id", "object", "created", "model", "service_tier", "system_fingerprint", "obfuscation", "choices", "usage"}
)


def only_reports_usage(data: bytes) -> bool:
    """Whether a chunk that holds a report says nothing else to a client; what cannot be told apart is kept."""
    try:
        chunk = msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return not chunk.get("choices") and _USAGE_CHUNK_MEMBERS.issuperset(chunk)


def read_report(data: bytes) -> Report | None:
    """Decode one JSON document, or ``None`` when it is not an object."""
    try:
        return _decoder.decode(data)
    except UNREADABLE:
        return None


def chat_usage(usage: object) -> TokenUsage:
    """Usage of chat completions and completions (contract 3.17, 9.2).

    ``prompt_tokens`` includes the cached tokens, so the counts are taken as they are.
    """
    if not isinstance(usage, dict):
        return NO_USAGE
    cached = creation = reasoning = None
    if isinstance(details := usage.get("prompt_tokens_details"), dict):
        cached = as_count(details.get("cached_tokens", 0))
        # The second name is OpenAI's own, which came later.
        creation = as_count(details.get("cache_creation_input_tokens", details.get("cache_write_tokens", 0)))
    if isinstance(details := usage.get("completion_tokens_details"), dict):
        reasoning = as_count(details.get("reasoning_tokens", 0))
    return TokenUsage(
        input=as_count(usage.get("prompt_tokens")),
        output=as_count(usage.get("completion_tokens")),
        total=as_count(usage.get("total_tokens")),
        cached_input=cached,
        cache_creation_input=creation,
        reasoning=reasoning,
    )


class UsageReport(Struct, frozen=True):
    """What an answer, or a chunk of one, reports.

    Attributes:
        model: the one that has answered, or empty.
        usage: its counts.
        reports_usage: there is a report, whether or not that says anything.
    """

    model: str
    usage: TokenUsage
    reports_usage: bool


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)] | None


class _InputDetails(Struct, frozen=True):
    cached_tokens: _Count = 0
    cache_creation_input_tokens: _Count | UnsetType = UNSET
    cache_write_tokens: _Count = 0


class _OutputDetails(Struct, frozen=True):
    reasoning_tokens: _Count = 0


class _ChatUsage(Struct, frozen=True):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _ChatAnswer(Struct, frozen=True):
    model: str | None = None
    usage: _ChatUsage | None = None


_decode_chat = msgspec.json.Decoder(_ChatAnswer).decode


def read_chat_report(data: bytes) -> UsageReport | None:
    """Read a document of chat completions or completions; ``None`` when it is no JSON object.

    Nearly all are of the types that they should have, and are read by these in half the time.
    """
    try:
        answer = _decode_chat(data)
    except msgspec.ValidationError:
        return _read_leniently(data, chat_usage)
    except UNREADABLE:
        return None
    if answer.usage is None:
        return UsageReport(answer.model or "", NO_USAGE, reports_usage=False)
    return UsageReport(answer.model or "", _counts(answer.usage), reports_usage=True)


def read_embeddings_report(data: bytes) -> UsageReport | None:
    """The same of embeddings."""
    return _read_leniently(data, embeddings_usage)


def _read_leniently(data: bytes, counts: Callable[[object], TokenUsage]) -> UsageReport | None:
    report = read_report(data)
    if report is None:
        return None
    return UsageReport(report.model_name(), counts(report.usage), reports_usage=report.usage is not None)


def _counts(usage: _ChatUsage) -> TokenUsage:
    """As ``chat_usage``."""
    cached = creation = None
    if (details := usage.prompt_tokens_details) is not None:
        cached, named = details.cached_tokens, details.cache_creation_input_tokens
        creation = details.cache_write_tokens if isinstance(named, UnsetType) else named
    output = usage.completion_tokens_details
    return TokenUsage(
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        total=usage.total_tokens,
        cached_input=cached,
        cache_creation_input=creation,
        reasoning=None if output is None else output.reasoning_tokens,
    )


def embeddings_usage(usage: object) -> TokenUsage:
    """Usage of embeddings: input and total; there is no output (contract, embeddings 10.2).

    All tokens are input, so a backend that only reports their total has reported the input as well.
    """
    if not isinstance(usage, dict):
        return NO_USAGE
    prompt, total = as_count(usage.get("prompt_tokens")), as_count(usage.get("total_tokens"))
    return TokenUsage(input=total if prompt is None else prompt, total=total)

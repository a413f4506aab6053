"""Rerank on backends of Cohere's API, and on those that serve the same request beside OpenAI's API.

Usage is what the backend counts in tokens. Cohere itself bills its rerank models by ``search_units``, one for a query
with up to a hundred documents; that is no count of tokens, so it never becomes one, and such an answer has no usage. A
cost rule can still charge for the request, with a constant (``1u``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from extproc.endpoints.cohere import error_body
from extproc.formats.sse import SSEEvent
from extproc.paths import join_path
from extproc.translate.base import UNTOUCHED, Factory, Target, TranslatedResponse, Translator
from extproc.translate.observe import UNREMARKABLE, Observation
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from extproc.translate.passthrough import PassThrough, openai_path
from extproc.usage import NO_USAGE, TokenUsage, as_count

DEFAULT_VERSION: Final = "v2"

# What decoding bytes of a stranger may raise: no JSON, no text, nested too deep, a number of absurd length.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


# --- usage ---


class _Report(msgspec.Struct, frozen=True):
    """Cohere reports in ``meta``, vLLM and Jina in ``usage``; LiteLLM in either."""

    model: object = None
    meta: object = None
    usage: object = None


_decode_report = msgspec.json.Decoder(_Report).decode


class RerankObserver:
    """Reads what rerank answers report; they are documents, never streams."""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        try:
            report = _decode_report(data)
        except _UNREADABLE:
            return None
        usage = rerank_usage(report.meta, report.usage)
        model = report.model if isinstance(report.model, str) else ""
        return Observation(usage=usage, reports_usage=usage != NO_USAGE, model=model, complete=True)

    def event(self, event: SSEEvent) -> Observation:  # noqa: ARG002 - none is known
        return UNREMARKABLE


def rerank_usage(meta: object, usage: object) -> TokenUsage:
    """The tokens of an answer: ``meta.tokens``, else those that ``meta.billed_units`` or ``usage`` has.

    What no place counts in tokens is not reported; a ``meta.tokens`` that is empty counts none (contract, rerank 14).
    """
    members: Mapping[str, object] = meta if isinstance(meta, dict) else {}
    tokens = members.get("tokens")
    for counts in (tokens, members.get("billed_units"), usage):
        if isinstance(counts, dict) and (found := _read_counts(counts)) != NO_USAGE:
            cached = _count(members.get("cached_tokens"))
            return found.merge(TokenUsage(cached_input=cached))
    return TokenUsage(total=0) if isinstance(tokens, dict) else NO_USAGE


def _read_counts(counts: Mapping[str, object]) -> TokenUsage:
    """The counts of one place. Where there is only a total, all of it is input: the answer is no text."""
    input_ = _first(counts, "input_tokens", "prompt_tokens")
    output = _first(counts, "output_tokens", "completion_tokens")
    total = _count(counts.get("total_tokens"))
    if input_ is None and output is None:
        return NO_USAGE if total is None else TokenUsage(input=total, total=total)
    return TokenUsage(input=input_, output=output, total=(input_ or 0) + (output or 0) if total is None else total)


def _first(counts: Mapping[str, object], *names: str) -> int | None:
    return next((count for name in names if (count := _count(counts.get(name))) is not None), None)


def _count(value: object) -> int | None:
    """A count as Cohere writes it: a number that may have a fraction, which is cut off (contract, rerank 14)."""
    return as_count(math.trunc(value) if isinstance(value, float) and math.isfinite(value) else value)


# --- errors ---


class _ErrorBody(msgspec.Struct, frozen=True):
    """``message`` is Cohere's; ``error`` is OpenAI's, an object or its text, and ``detail`` FastAPI's."""

    message: object = None
    error: object = None
    detail: object = None

    def text(self) -> str:
        """What it says, or nothing where it says it in another way."""
        error = self.error.get("message") if isinstance(self.error, dict) else self.error
        return next((each for each in (self.message, error, self.detail) if isinstance(each, str)), "")


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def pass_or_tell(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:  # noqa: ARG001
    """Cohere's own errors stay as they are; whatever is none becomes the message of one."""
    error = _read_error(body)
    return UNTOUCHED if error is not None and _is_json(headers) else _told(body, error)


def tell(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:  # noqa: ARG001
    """Errors of servers that have another shape for them; those that have Cohere's by chance stay as they are."""
    error = _read_error(body)
    if error is not None and isinstance(error.message, str) and _is_json(headers):
        return UNTOUCHED
    return _told(body, error)


def _told(body: bytes, error: _ErrorBody | None) -> TranslatedResponse:
    message = "" if error is None else error.text()
    message = message or body[:MAX_MESSAGE_BYTES].decode(errors="replace")
    return TranslatedResponse(
        body=error_body(message[:MAX_MESSAGE_BYTES]), headers=(("content-type", "application/json"),)
    )


def _is_json(headers: Mapping[str, str]) -> bool:
    return "json" in headers.get("content-type", "").lower()


def _read_error(body: bytes) -> _ErrorBody | None:
    try:
        return _decode_error(body)
    except _UNREADABLE:
        return None


# --- backends ---


def cohere_rerank(target: Target) -> Translator:
    schema = target.schema
    return PassThrough(
        path=openai_path(join_path(schema.prefix, schema.version or DEFAULT_VERSION), "rerank"),
        observer=RerankObserver(),
        model_override=target.model_override,
        error=pass_or_tell,
    )


def openai_rerank(target: Target) -> Translator:
    """vLLM, Jina and LiteLLM serve the request at ``rerank`` beside OpenAI's endpoints."""
    return PassThrough(
        path=openai_path(target.schema.prefix, "rerank"),
        observer=RerankObserver(),
        model_override=target.model_override,
        error=tell,
    )


RERANK: Final[Mapping[str, Factory]] = {"Cohere": cohere_rerank, "OpenAI": openai_rerank}
"""Backend schema → translator."""

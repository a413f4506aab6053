"""What answers of chat completions have beside their words, as the responses API writes it.

Backends differ, so what cannot be read is left out: none of it changes what the answer says.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, UnsetType

from extproc.translate.responses import wire
from extproc.translate.via_chat.answers import ErrorObject
from extproc.usage import TokenUsage


def logprobs(reported: object) -> list[wire.Logprob]:
    """The probabilities of the tokens of a text."""
    if not isinstance(reported, dict) or not reported.get("content"):
        return []
    try:
        return msgspec.convert(reported["content"], list[wire.Logprob])
    except msgspec.ValidationError:
        return []


class _Citation(Struct, frozen=True, kw_only=True):
    end_index: int
    start_index: int
    title: str = ""
    url: str


class _Annotation(Struct, frozen=True, kw_only=True):
    url_citation: _Citation | None = None


_read_annotations = msgspec.json.Decoder(list[_Annotation]).decode


def citations(annotations: Raw | UnsetType) -> list[wire.URLCitation]:
    """The addresses that a text refers to."""
    if not isinstance(annotations, Raw):
        return []
    try:
        read = _read_annotations(annotations)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    return [
        wire.URLCitation(end_index=cited.end_index, start_index=cited.start_index, title=cited.title, url=cited.url)
        for each in read
        if (cited := each.url_citation) is not None
    ]


def usage_object(usage: TokenUsage) -> wire.Usage | None:
    """The usage as clients read it; ``None`` when the backend has not reported any."""
    if usage.input is None and usage.output is None:
        return None
    spent, made = usage.input or 0, usage.output or 0
    return wire.Usage(
        input_tokens=spent,
        input_tokens_details=wire.InputTokensDetails(
            cache_write_tokens=usage.cache_creation_input or 0, cached_tokens=usage.cached_input or 0
        ),
        output_tokens=made,
        output_tokens_details=wire.OutputTokensDetails(reasoning_tokens=usage.reasoning or 0),
        total_tokens=spent + made,
    )


_RATE_LIMITS = ("rate_limit", "ratelimit", "too_many", "toomany", "throttl", "resource_exhausted", "429")
_CODES = frozenset({"invalid_prompt", "rate_limit_exceeded", "server_error"})


def failure(error: ErrorObject) -> wire.Error:
    """The error of a response that has broken off. The API's set of codes is closed, so the type keeps the original."""
    return wire.Error(code=_code(error), message=error.message, type=error.type or None)


def _code(error: ErrorObject) -> str:
    if error.code in _CODES:
        return error.code
    told = f"{error.code} {error.type}".lower()
    return "rate_limit_exceeded" if any(each in told for each in _RATE_LIMITS) else "server_error"

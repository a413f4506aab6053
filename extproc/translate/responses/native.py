"""The responses API on backends that speak it (contract, responses 7 and input tokens 8).

Bodies and answers pass as they are. Of an answer only model, usage and how it ended are read, whatever items and events
it is made of: those are news in every release of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import msgspec

from extproc.errors import UnsupportedBackend
from extproc.formats.sse import SSEEvent
from extproc.translate.base import Factory, Target, Translator
from extproc.translate.chat.factory import azure_chat, openai_chat
from extproc.translate.observe import UNREMARKABLE, Observation, may_hold
from extproc.translate.openai_errors import MAX_TYPE_LENGTH
from extproc.translate.passthrough import PassThrough, PathRule, openai_path
from extproc.translate.responses.carried import carried
from extproc.usage import NO_USAGE, TokenUsage, as_count

RESPONSES: Final = "responses"
INPUT_TOKENS_SUFFIX: Final = "responses/input_tokens"


# --- paths ---


@lru_cache(maxsize=1024)
def azure_responses_path(version: str, suffix: str) -> PathRule:
    """Azure takes the model from the body here, so the path names no deployment (contract, responses 7.2).

    A client's query goes along, but the API version that is configured wins.
    """

    def path(_model: str, query: str) -> str:
        parameters = [] if not version else [f"api-version={quote(version, safe='')}"]
        parameters += [
            each for each in query.split("&") if each and not (version and each.partition("=")[0] == "api-version")
        ]
        path = f"/openai/{suffix}"
        return f"{path}?{'&'.join(parameters)}" if parameters else path

    return path


# --- what answers report ---


class _Response(msgspec.Struct, frozen=True):
    model: object = None
    usage: object = None
    status: object = None
    error: object = None


class _Event(msgspec.Struct, frozen=True):
    """An event; one of type ``error`` has its code in itself, or as Azure writes it in an ``error`` of its own."""

    type: object = None
    response: _Response | None = None
    error: object = None
    code: object = None


_read_response = msgspec.json.Decoder(_Response).decode
_read_event = msgspec.json.Decoder(_Event).decode

# What decoding bytes of a stranger may raise: no JSON, another type, no text, too deep, a number of absurd length.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesObserver:
    """Reads ``response`` objects, whole or in the events that begin and end a stream."""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        try:
            response = _read_response(data)
        except _UNREADABLE:
            return None
        return _observed(response, complete=True)

    def event(self, event: SSEEvent) -> Observation:
        data = event.data
        # Deltas, of which a stream consists, have neither.
        if not (may_hold(data, b'"response"') or may_hold(data, b'"error"')):
            return UNREMARKABLE
        try:
            read = _read_event(data)
        except _UNREADABLE:
            return UNREMARKABLE
        # The type in the data counts, as the line of its own may be missing.
        kind = read.type if isinstance(read.type, str) else (event.event or b"").decode(errors="replace")
        if kind in _ENDS:
            return _observed(read.response or _Response(), complete=True, failed=kind == "response.failed")
        if kind == "error" or (not kind and isinstance(read.error, dict)):
            return Observation(complete=True, failure=_error_name(read.error, read.code))
        if read.response is not None:
            return Observation(model=_model(read.response))
        return UNREMARKABLE


def _observed(response: _Response, *, complete: bool, failed: bool = False) -> Observation:
    usage = responses_usage(response.usage)
    return Observation(
        usage=usage,
        reports_usage=usage is not NO_USAGE,
        model=_model(response),
        complete=complete,
        failure=_error_name(response.error) if failed or response.status == "failed" else "",
    )


def _model(response: _Response) -> str:
    return response.model if isinstance(response.model, str) else ""


def _error_name(error: object, code: object = None) -> str:
    """What the error is called: by its code, else by its type."""
    told = error if isinstance(error, dict) else {}
    names = (told.get("code"), code, told.get("type"))
    return next((each for each in names if isinstance(each, str) and each), "server_error")[:MAX_TYPE_LENGTH]


def responses_usage(usage: object) -> TokenUsage:
    """Usage of the responses API: a report has all six counts, what it does not detail is zero (contract 7.3).

    ``input_tokens`` includes the cached tokens and those written to the cache, whichever of its two names the count of
    the latter has.
    """
    if not isinstance(usage, dict):
        return NO_USAGE
    input_details, output_details = _details(usage, "input_tokens_details"), _details(usage, "output_tokens_details")
    written = input_details.get("cache_creation_input_tokens", input_details.get("cache_write_tokens", 0))
    return TokenUsage(
        input=as_count(usage.get("input_tokens")),
        output=as_count(usage.get("output_tokens")),
        total=as_count(usage.get("total_tokens")),
        cached_input=as_count(input_details.get("cached_tokens", 0)),
        cache_creation_input=as_count(written),
        reasoning=as_count(output_details.get("reasoning_tokens", 0)),
    )


def _details(usage: Mapping[str, object], name: str) -> Mapping[str, object]:
    return details if isinstance(details := usage.get(name), dict) else {}


class _InputTokens(msgspec.Struct, frozen=True):
    input_tokens: object = None


_read_input_tokens = msgspec.json.Decoder(_InputTokens).decode


class InputTokensObserver:
    """Reads the count of a request's tokens; such an answer has no model and is no stream (contract 8)."""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        try:
            count = as_count(_read_input_tokens(data).input_tokens)
        except _UNREADABLE:
            return None
        usage = NO_USAGE if count is None else TokenUsage(input=count)
        return Observation(usage=usage, reports_usage=usage is not NO_USAGE, complete=True)

    def event(self, event: SSEEvent) -> Observation:  # noqa: ARG002 - nobody streams a number
        return UNREMARKABLE


# --- factories ---


def openai_responses(target: Target) -> Translator:
    if target.schema.chat_only:
        return carried(target, openai_chat)
    return PassThrough(
        path=openai_path(target.schema.prefix, RESPONSES),
        observer=ResponsesObserver(),
        model_override=target.model_override,
    )


def azure_responses(target: Target) -> Translator:
    if target.schema.chat_only:
        return carried(target, azure_chat)
    return PassThrough(
        path=azure_responses_path(target.schema.version, RESPONSES),
        observer=ResponsesObserver(),
        model_override=target.model_override,
    )


def openai_input_tokens(target: Target) -> Translator:
    return _input_tokens(target, openai_path(target.schema.prefix, INPUT_TOKENS_SUFFIX))


def azure_input_tokens(target: Target) -> Translator:
    return _input_tokens(target, azure_responses_path(target.schema.version, INPUT_TOKENS_SUFFIX))


def _input_tokens(target: Target, path: PathRule) -> Translator:
    if target.schema.chat_only:
        raise UnsupportedBackend("the backend serves chat completions only; it cannot count the tokens of a response")
    return PassThrough(path=path, observer=InputTokensObserver(), model_override=target.model_override)


NATIVE: Final[Mapping[str, Factory]] = {"OpenAI": openai_responses, "AzureOpenAI": azure_responses}
"""Backend schema → translator."""

INPUT_TOKENS: Final[Mapping[str, Factory]] = {"OpenAI": openai_input_tokens, "AzureOpenAI": azure_input_tokens}
"""Backend schema → translator of the endpoint that counts a request's tokens."""

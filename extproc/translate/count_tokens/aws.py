"""Counting tokens by Bedrock's CountTokens, whichever schema the backend has: base models, request, answer, errors.

The operation is given what would be sent to a model, as one of InvokeModel or of Converse, and counts it. It knows
models only, not the inference profiles that spread requests over regions (contract, count_tokens 6.2).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from extproc.endpoints.base import ParsedRequest
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.formats import jsonedit, jsonvalue
from extproc.translate.anthropic import BEDROCK_VERSION
from extproc.translate.aws import model_path
from extproc.translate.base import Headers, Target, TranslatedRequest, TranslatedResponse, media_type
from extproc.translate.messages.bedrock.errors import service_error
from extproc.translate.messages.native_body import versioned, with_bedrock_betas, without
from extproc.usage import TokenUsage, as_count

# A profile that is defined by the system has a geography before the model's own name, which begins with its provider's.
_GEOGRAPHY: Final = re.compile(r"\A(?:us-gov|us|eu|apac|uk|au|jp|ca|global)\.(?=[^.:/]+\.)")
# The ARN of such a profile; those of application profiles do not say which model they are for.
_PROFILE_ARN: Final = re.compile(r"\Aarn:[^:/]+:bedrock:[^:/]*:[^:/]*:inference-profile/(?=.)")

_MAX_TOKENS: Final = jsonedit.parse_path("max_tokens")


# --- models ---


def base_model(model: str) -> str:
    """The model behind an inference profile: without a known geography, and out of the ARN of a system's profile.

    Names and other ARNs stay as they are, those of foundation models above all, which the operation takes.
    """
    return _GEOGRAPHY.sub("", _PROFILE_ARN.sub("", model))


def is_claude(model: str) -> bool:
    """Whether a model's id or ARN is that of one of Anthropic's; an application profile's does not say."""
    return "anthropic." in model


def count_tokens_path(model: str) -> str:
    """The ``:path`` for an effective model."""
    return model_path(base_model(model), "count-tokens")


# --- the request ---


class _InvokeModel(Struct, frozen=True):
    body: str


class _InvokeModelInput(Struct, frozen=True, rename="camel"):
    invoke_model: _InvokeModel


class _Request(Struct, frozen=True):
    input: _InvokeModelInput


_encode = msgspec.json.Encoder().encode


def invoke_model_request(request: ParsedRequest, _model: str, target: Target) -> bytes:
    """The operation's body for Claude: the client's own body as InvokeModel takes it, in base64.

    Raises:
        UnprocessableRequest: the body cannot be edited.
    """
    try:
        body = _invoke_model_body(request.body, target)
    except jsonedit.JSONEditError as error:
        raise UnprocessableRequest(str(error)) from error
    return _encode(_Request(_InvokeModelInput(_InvokeModel(b64encode(body).decode()))))


def _invoke_model_body(body: bytes, target: Target) -> bytes:
    """The model is in the path, and nothing is streamed; versions and flags stand in the body."""
    body = without(without(body, "model"), "stream")
    body = versioned(body, target.schema.version, BEDROCK_VERSION)
    body = with_bedrock_betas(body, target)
    if jsonedit.find(body, "max_tokens") in {None, b"null"}:
        body = jsonedit.set_value(body, _MAX_TOKENS, b"%d" % _least_max_tokens(body), every=True)
    return body


def _least_max_tokens(body: bytes) -> int:
    """What InvokeModel demands has no part in what is counted, but must leave room for more than the thoughts."""
    thinking = jsonedit.find(body, "thinking")
    if thinking is None:
        return 1
    try:
        budget = as_count(jsonvalue.decode_object(thinking).get("budget_tokens"))
    except jsonvalue.JSONValueError:
        # What it is instead, the service says.
        return 1
    return (budget or 0) + 1


# --- the translator ---

RequestBody = Callable[[ParsedRequest, str, Target], bytes]
"""The client's request, the effective model and the backend → the operation's body.

Raises ``MalformedRequest`` or ``UnprocessableRequest``.
"""


class _Count(Struct, frozen=True, rename="camel"):
    input_tokens: object = None


class _ClientCount(Struct, frozen=True):
    input_tokens: int


_decode_count = msgspec.json.Decoder(_Count).decode


class AWSCountTokens:
    """One attempt at ``POST /v1/messages/count_tokens`` on a Bedrock backend.

    A count is reported as input, as the other places' counts are; no model has answered, so none is named (contract,
    count_tokens 6.3).

    Args:
        target: the backend.
        body: builds the request.
    """

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, target: Target, body: RequestBody) -> None:
        self._target = target
        self._body = body
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        model = self._target.model_override or request.model
        return TranslatedRequest(
            path=count_tokens_path(model), removes=("anthropic-beta",), body=self._body(request, model, self._target)
        )

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        return [] if media_type(headers) == "application/json" else [("content-type", "application/json")]

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        self._held.append(piece)
        if not end_of_stream:
            return TranslatedResponse(body=b"")
        count = _read_count(b"".join(self._held))
        self._held.clear()
        return TranslatedResponse(body=_encode(_ClientCount(count)), usage=TokenUsage(input=count), complete=True)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        return service_error(status, headers, body)


def _read_count(body: bytes) -> int:
    """The count of an answer.

    Raises:
        UnreadableAnswer: there is none.
    """
    try:
        count = as_count(_decode_count(body).input_tokens)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
    if count is None:
        raise UnreadableAnswer("it has no count in inputTokens")
    return count

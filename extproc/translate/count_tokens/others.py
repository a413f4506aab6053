"""Token counting where other models are (contract, count_tokens 6).

The request is read as the messages API carries it, so that what is counted is what would be sent, in the form that the
backend counts: OpenAI and Azure count a request of the responses API, Vertex AI one of ``generateContent``.

Many servers that call themselves compatible with OpenAI cannot count. Their answer, a 404, 405 or 501, becomes a 200
with an estimate made here, which the header ``x-ai-eg-token-count: estimated`` tells apart; it is not metered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.chat_request import decode_chat_request
from extproc.errors import UnreadableAnswer
from extproc.paths import join_path
from extproc.translate.base import (
    Factory,
    Headers,
    Target,
    TranslatedRequest,
    TranslatedResponse,
    Translator,
    media_type,
)
from extproc.translate.chat.support import refuse_unsupported
from extproc.translate.count_tokens.estimate import estimate
from extproc.translate.count_tokens.input_items import input_tokens
from extproc.translate.messages import chat_wire as chat
from extproc.translate.messages.chat_body import Thought, chat_body, read_messages_request
from extproc.translate.messages.chat_errors import errored, status_type
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from extproc.translate.responses.native import INPUT_TOKENS_SUFFIX, azure_responses_path
from extproc.translate.tokenize.gemini import GeminiCounter
from extproc.translate.via_chat.answers import ErrorObject, read_error_answer
from extproc.usage import TokenUsage, as_count

ESTIMATED: Final = ("x-ai-eg-token-count", "estimated")

_JSON: Final = ("content-type", "application/json")
_CANNOT_COUNT: Final = frozenset({"404", "405", "501"})
# A 404 also tells that there is no such model; then there is nothing to estimate.
_NO_MODEL: Final = frozenset({"model_not_found", "DeploymentNotFound"})


class _Count(Struct, frozen=True):
    input_tokens: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


class Counting(Struct, frozen=True, kw_only=True):
    """How a backend counts.

    Attributes:
        thought: see ``Thought``.
        path: the effective model → the ``:path``.
        body: the request.
        member: of the answer, that has the count.
        error: status, headers and body of an error answer → what it says.
    """

    thought: Thought
    path: Callable[[str], str]
    body: Callable[[chat.ChatBody], bytes]
    member: str
    error: Callable[[str, Mapping[str, str], bytes], ErrorObject]


class TokenCounter:
    """One attempt at a count."""

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, counting: Counting, *, model_override: str) -> None:
        self._counting = counting
        self._model_override = model_override
        self._model = model_override
        self._asked: chat.ChatBody | None = None
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        self._model = self._model_override or request.model
        asked = read_messages_request(request.body)
        self._asked = chat_body(asked, model=self._model, stream=False, thought=self._counting.thought)
        return TranslatedRequest(path=self._counting.path(self._model), body=self._counting.body(self._asked))

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        is_json = media_type(headers) == "application/json"
        return [] if is_json else [_JSON]

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        self._held.append(piece)
        if not end_of_stream:
            return TranslatedResponse(body=b"")
        data = b"".join(self._held)
        self._held.clear()
        try:
            count = as_count(_decode(data).get(self._counting.member))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UnreadableAnswer(str(error)) from error
        if count is None:
            raise UnreadableAnswer(f"it has no count as {self._counting.member}")
        return TranslatedResponse(body=_encode(_Count(count)), usage=TokenUsage(input=count), complete=True)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        error = self._counting.error(status, headers, body)
        if self._asked is not None and status in _CANNOT_COUNT and not self._is_about_the_model(error):
            return TranslatedResponse(
                body=_encode(_Count(estimate(self._asked))),
                headers=((":status", "200"), _JSON, ESTIMATED),
                recovered=True,
            )
        return TranslatedResponse(body=errored(status_type(status), error), headers=(_JSON,))

    def _is_about_the_model(self, error: ErrorObject) -> bool:
        return error.code in _NO_MODEL or bool(self._model and self._model in error.message)


# --- OpenAI and Azure ---


def _openai_error(status: str, headers: Mapping[str, str], body: bytes) -> ErrorObject:  # noqa: ARG001 - the body tells
    return read_error_answer(status, body, raw=body)


def _counted_by_openai(path: str) -> Counting:
    return Counting(
        thought=Thought.EFFORT,
        path=lambda _: path,
        body=lambda body: chat.encode(input_tokens(body)),
        member="input_tokens",
        error=_openai_error,
    )


def openai_count_tokens(target: Target) -> Translator:
    counting = _counted_by_openai(join_path(target.schema.prefix, INPUT_TOKENS_SUFFIX))
    return TokenCounter(counting, model_override=target.model_override)


def azure_count_tokens(target: Target) -> Translator:
    path = azure_responses_path(target.schema.version, INPUT_TOKENS_SUFFIX)("", "")
    return TokenCounter(_counted_by_openai(path), model_override=target.model_override)


# --- Gemini ---


def _gemini_body(body: chat.ChatBody) -> bytes:
    counter = GeminiCounter()
    carried = decode_chat_request(chat.encode(body))
    refuse_unsupported(carried, counter.support)
    return counter.body(carried, model=body.model)


def _gemini_error(status: str, headers: Mapping[str, str], body: bytes) -> ErrorObject:
    error = GeminiCounter().error(status, headers, body)
    return ErrorObject(error.type, error.message[:MAX_MESSAGE_BYTES].strip())


def gcp_vertex_ai_count_tokens(target: Target) -> Translator:
    counting = Counting(
        thought=Thought.BUDGET,
        path=GeminiCounter().path,
        body=_gemini_body,
        member=GeminiCounter.count_member,
        error=_gemini_error,
    )
    return TokenCounter(counting, model_override=target.model_override)


OTHERS: Final[Mapping[str, Factory]] = {
    "OpenAI": openai_count_tokens,
    "AzureOpenAI": azure_count_tokens,
    "GCPVertexAI": gcp_vertex_ai_count_tokens,
}
"""Backend schema → translator."""

"""The life of one attempt at embeddings whose backend speaks another API.

What differs between models is a dialect: how a request is built, how an answer is read. What is the same is here:
reading the client's request, holding the answer until it is whole, and writing it as the client asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import UNSET, Struct

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.embeddings_request import EmbeddingsRequest, Input, decode_embeddings_request, read_input
from extproc.endpoints.text_or_tokens import Kind
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse, media_type
from extproc.translate.chat.translator import JSON, BackendError
from extproc.translate.embeddings.answer import Vectors, write_answer
from extproc.translate.openai_errors import bounded_error
from extproc.usage import TokenUsage

# What a client may ask for → whether that is base64.
_FORMATS: Mapping[str | None, bool] = {None: False, "float": False, "base64": True}


class Asked(Struct, frozen=True, kw_only=True):
    """A request's body in the backend's API, and how many embeddings it asks for."""

    body: bytes
    inputs: int = 1


class Dialect(Protocol):
    """How one kind of model is asked for embeddings."""

    def path(self, model: str) -> str:
        """The ``:path``; relative, where the credentials know what comes before it (contract, chat 1.6)."""
        ...

    def ask(self, request: EmbeddingsRequest, *, model: str) -> Asked:
        """Build the request.

        Raises:
            UnprocessableRequest: the client asks for what this API cannot express; the text names the member.
        """
        ...

    def answer(self, data: bytes, headers: Mapping[str, str]) -> Vectors:
        """Read a whole answer.

        Raises:
            UnreadableAnswer: it is not an answer of this API; the text says why.
        """
        ...

    def error(self, headers: Mapping[str, str], body: bytes) -> BackendError | None:
        """Read an error answer; ``None`` when it is one that the client can read as it stands."""
        ...


class EmbeddingsTranslator:
    """One attempt at embeddings in another API.

    Args:
        dialect_for: the backend's name for the model, and the client's → how it is asked. Raises
            ``UnprocessableRequest`` for a model that nothing is known of.
        model_override: the backend's name for the model, or empty.
    """

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, dialect_for: Callable[[str, str], Dialect], *, model_override: str) -> None:
        self._dialect_for = dialect_for
        self._dialect: Dialect | None = None
        self._model_override = model_override
        self._model = model_override
        self._base64 = False
        self._inputs = 0
        self._headers: Mapping[str, str] = {}
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        asked = decode_embeddings_request(request.body)
        self._model = self._model_override or request.model
        if not self._model:
            raise UnprocessableRequest("model is required")
        if asked.encoding_format not in _FORMATS:
            raise UnprocessableRequest(f"encoding_format must be float or base64, not {asked.encoding_format}")
        self._base64 = _FORMATS[asked.encoding_format]
        self._dialect = self._dialect_for(self._model, request.model)
        translated = self._dialect.ask(asked, model=self._model)
        self._inputs = translated.inputs
        return TranslatedRequest(path=self._dialect.path(self._model), body=translated.body)

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        self._headers = headers
        return _as_json(headers)

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if not end_of_stream:
            self._held.append(piece)
            return TranslatedResponse(body=b"", model=self._model)
        data = b"".join([*self._held, piece])
        self._held.clear()
        if self._dialect is None:
            raise UnreadableAnswer("nothing was asked")
        found = self._dialect.answer(data, self._headers)
        # An answer of none is one; one of some cannot be told apart by position.
        if found.vectors and len(found.vectors) != self._inputs:
            raise UnreadableAnswer(f"it has {len(found.vectors)} embeddings for {self._inputs} inputs")
        return TranslatedResponse(
            body=write_answer(found, model=self._model, base64=self._base64),
            usage=TokenUsage(input=found.tokens, total=found.tokens),
            model=self._model,
            complete=True,
        )

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        error = None if self._dialect is None else self._dialect.error(headers, body)
        if error is None:
            # What came in pieces has been held back, so it is said even where it stays as it is.
            return TranslatedResponse(body=body, headers=tuple(_as_json(headers)))
        return TranslatedResponse(
            body=bounded_error(error.type, status, error.message), headers=(("content-type", JSON),)
        )


def _as_json(headers: Mapping[str, str]) -> Headers:
    """What to set so that an answer is known to be JSON."""
    return [] if media_type(headers) == JSON else [("content-type", JSON)]


def input_of(request: EmbeddingsRequest) -> Input:
    """What is to be embedded.

    Raises:
        UnprocessableRequest: there is no input, or an empty list of them.
    """
    if request.input is UNSET:
        raise UnprocessableRequest("input is required")
    given = read_input(request.input)
    if given.kind is Kind.TEXTS and not given.items:
        raise UnprocessableRequest("input must not be empty")
    return given


def dimensions_of(request: EmbeddingsRequest) -> int | None:
    """The length of vectors that is asked for; some clients write 0 for the model's own.

    Raises:
        UnprocessableRequest: it is negative.
    """
    if request.dimensions is not None and request.dimensions < 0:
        raise UnprocessableRequest(f"dimensions must be positive, not {request.dimensions}")
    return request.dimensions or None

"""The life of one attempt at a chat completion whose backend speaks another API.

What differs between backends is a dialect: how a request is built, how an answer is read. What is the same is here:
reading the client's request, refusing what the backend cannot express, holding a document until it is whole, and
giving each piece of a stream its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec import UnsetType

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.chat_request import ChatRequest, decode_chat_request
from extproc.errors import UnprocessableRequest
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse, media_type
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.support import SupportTable, refuse_unsupported
from extproc.translate.openai_errors import bounded_error
from extproc.usage import NO_USAGE, TokenUsage

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer.

    Attributes:
        body: the ``chat.completion`` document.
        model: the model that the backend says it used, else the one that it was asked for.
        native_stop: the provider's reason for stopping, where the API has no word for it; else empty.
    """

    body: bytes
    usage: TokenUsage
    model: str
    native_stop: str | UnsetType = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendError:
    """What an error answer says: the provider's name of the error, or ours for its kind of backend, and the message."""

    type: str
    message: str


class StreamReader(Protocol):
    """Turns the bytes of a backend's stream into chunks, which it gives to the ``ChunkWriter`` that it was made with.

    Any cut of the same bytes writes the same chunks. A reader ends its writer in every case: with ``finish`` when the
    backend has said that the answer is whole, with ``fail`` when it reports an error, sends what cannot be read, or
    stops before its own end.

    Attributes:
        usage: what has been reported so far; a new object whenever it changes.
        model: the model that the backend says it uses, else the one that it was asked for.
    """

    @property
    def usage(self) -> TokenUsage: ...

    @property
    def model(self) -> str: ...

    def feed(self, data: bytes) -> None: ...

    def end(self) -> None:
        """No more bytes will come."""
        ...


class Dialect(Protocol):
    """How one backend schema says a chat completion. An instance serves one attempt and may keep state of it."""

    @property
    def support(self) -> SupportTable: ...

    @property
    def native_stops(self) -> frozenset[str]:
        """Reasons for stopping that the provider documents and the client's API has no word for."""
        ...

    def path(self, model: str, *, stream: bool) -> str:
        """The ``:path``; relative, where the credentials know what comes before it (contract, chat 1.6)."""
        ...

    def request_headers(self) -> Headers:
        """Headers to set on the request beside path and credentials."""
        ...

    def body(self, request: ChatRequest, *, model: str, stream: bool) -> bytes:
        """The request's body.

        Raises:
            UnprocessableRequest: the client asks for what this API cannot express; the text names the member.
        """
        ...

    def response_headers(self, headers: Mapping[str, str], *, stream: bool) -> Headers:
        """Headers to set on a successful answer, and the place to remember those of the backend."""
        ...

    def answer(self, data: bytes) -> Answer:
        """Read a whole answer.

        Raises:
            UnreadableAnswer: it is not an answer of this API; the text says why.
        """
        ...

    def reader(self, writer: ChunkWriter) -> StreamReader: ...

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        """Read an error answer. Anything can be read: what is not of this API is a message as it stands."""
        ...


class ChatTranslator:
    """One attempt at a chat completion in another API."""

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, dialect: Dialect, *, model_override: str) -> None:
        self._dialect = dialect
        self._model_override = model_override
        self._model = model_override
        self._stream = False
        self._writer: ChunkWriter | None = None
        self._reader: StreamReader | None = None
        self._reported = NO_USAGE
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        chat = decode_chat_request(request.body)
        refuse_unsupported(chat, self._dialect.support)
        self._model = self._model_override or request.model
        if not self._model:
            raise UnprocessableRequest("model is required")
        self._stream = request.stream
        translated = TranslatedRequest(
            path=self._dialect.path(self._model, stream=self._stream),
            headers=tuple(self._dialect.request_headers()),
            body=self._dialect.body(chat, model=self._model, stream=self._stream),
        )
        if self._stream:
            # After the request, which may say how its answer is to be read.
            self._writer = ChunkWriter(model=self._model, include_usage=request.include_usage)
            self._reader = self._dialect.reader(self._writer)
        return translated

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        changes = self._dialect.response_headers(headers, stream=self._stream)
        if not self._stream and media_type(headers) != JSON:
            changes.append(("content-type", JSON))
        return changes

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._reader is not None and self._writer is not None:
            return self._stream_piece(self._reader, self._writer, piece, end_of_stream=end_of_stream)
        if not end_of_stream:
            self._held.append(piece)
            return TranslatedResponse(body=b"", model=self._model)
        answer = self._dialect.answer(b"".join([*self._held, piece]))
        self._held.clear()
        return TranslatedResponse(
            body=answer.body,
            usage=answer.usage,
            model=answer.model,
            complete=True,
            unknown_stop=self._unknown(answer.native_stop),
        )

    def _stream_piece(
        self, reader: StreamReader, writer: ChunkWriter, piece: bytes, *, end_of_stream: bool
    ) -> TranslatedResponse:
        reader.feed(piece)
        if end_of_stream:
            reader.end()
        usage = NO_USAGE if reader.usage is self._reported else reader.usage
        self._reported = reader.usage
        return TranslatedResponse(
            # Never `None`: what the backend sent must not reach the client.
            body=writer.take(),
            usage=usage,
            model=reader.model,
            complete=writer.ended,
            failure=writer.failure,
            unknown_stop=self._unknown(writer.native_stop),
        )

    def _unknown(self, stop: str | UnsetType) -> str:
        return "" if not stop or stop in self._dialect.native_stops else stop

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        error = self._dialect.error(status, headers, body)
        return TranslatedResponse(
            body=bounded_error(error.type, status, error.message), headers=(("content-type", "application/json"),)
        )

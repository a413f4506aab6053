"""One attempt at another API's request that is carried over chat completions.

It stands on a translator of chat completions, which knows the backend: how a chat request is said there, and how its
answer reads as one of chat completions, with its usage. What the client's own API makes of the two is a carrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.formats.sse import SSEEvent, SSEReader
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse, Translator
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES, MAX_TYPE_LENGTH
from extproc.translate.openai_usage import chat_usage
from extproc.translate.via_chat.answers import (
    FINISH_REASONS,
    Answer,
    Choice,
    ErrorObject,
    read_answer,
    read_error,
    read_error_answer,
)
from extproc.usage import NO_USAGE, TokenUsage


class StreamWriter(Protocol):
    """Writes the events of the client's stream; one for each stream."""

    def chunk(self, answer: Answer) -> None:
        """Take in one chunk; its ``error`` is never set."""
        ...

    def finish(self, usage: TokenUsage) -> None:
        """The answer is whole: write what ends it. Called once, unless ``fail`` is."""
        ...

    def fail(self, error: ErrorObject) -> None:
        """The answer has broken off: tell the client, in the shape that its API has for that."""
        ...

    def take(self) -> bytes:
        """What has been written since it was last asked."""
        ...


class Carrier(Protocol):
    """How a client's API is said in chat completions, and back. An instance serves one attempt."""

    def chat_body(self, request: ParsedRequest, *, model: str) -> bytes:
        """The chat completion request; a streamed one asks for usage.

        Raises:
            MalformedRequest: the client's request is none of its API.
            UnprocessableRequest: chat completions cannot say it; the text names the member.
        """
        ...

    def document(self, answer: Answer, usage: TokenUsage) -> bytes:
        """The client's document of a whole answer.

        Raises:
            UnreadableAnswer: it is no answer.
        """
        ...

    def stream(self) -> StreamWriter: ...

    def error(self, status: str, error: ErrorObject) -> bytes:
        """The body of an error answer."""
        ...


class ViaChat:
    """One attempt, from the client's request to the end of its answer.

    Args:
        carrier: of the client's API.
        chat: the translator of chat completions for this attempt's backend.
        model_override: the backend's name for the model, or empty.
    """

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, carrier: Carrier, chat: Translator, *, model_override: str) -> None:
        self._carrier = carrier
        self._chat = chat
        self._model_override = model_override
        self._model = model_override
        self._usage = NO_USAGE
        # Of it, what the chunks up to the end of the stream have told: what follows that is metered, but not shown.
        self._told_usage = NO_USAGE
        self._held: list[bytes] = []
        self._reader: SSEReader | None = None
        self._writer: StreamWriter | None = None
        self._document: bool | None = None
        # Whether there was a choice. Without one there is no answer, however the stream ends.
        self._answered = False
        # A stream may end without a word of its own, once the model has said why it stopped.
        self._stopped = False
        self._ended = False
        self._failure = ""
        self._unknown_stop = ""

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        self._model = self._model_override or request.model
        if not self._model:
            raise UnprocessableRequest("model is required")
        body = self._carrier.chat_body(request, model=self._model)
        if request.stream:
            self._reader, self._writer = SSEReader(), self._carrier.stream()
        carried = ParsedRequest(
            model=self._model, stream=request.stream, body=body, rewritten=True, include_usage=request.stream
        )
        return self._chat.request(carried, query="", force=True)

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        changes = dict(self._chat.response_headers(headers))
        content_type = changes.get("content-type", headers.get("content-type", ""))
        wanted = "application/json" if self._writer is None else "text/event-stream"
        if content_type.partition(";")[0].strip().lower() != wanted:
            changes["content-type"] = wanted
        return list(changes.items())

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        chat = self._chat.response_body(piece, end_of_stream=end_of_stream)
        data = piece if chat.body is None else chat.body
        self._model = chat.model or self._model
        if chat.usage is not NO_USAGE:
            self._usage = self._usage.merge(chat.usage)
        if self._reader is not None and self._writer is not None:
            known = self._usage
            self._read_stream(self._reader, self._writer, data, end_of_stream=end_of_stream)
            return TranslatedResponse(
                body=self._writer.take(),
                usage=chat.usage if self._usage is known else self._usage,
                model=self._model,
                complete=self._ended,
                failure=self._failure or chat.failure,
                unknown_stop=chat.unknown_stop or self._unknown_stop,
            )
        self._held.append(data)
        if not end_of_stream:
            return TranslatedResponse(body=b"", usage=chat.usage, model=self._model)
        answer = _read_document(b"".join(self._held))
        self._held.clear()
        self._look_for_usage(answer)
        body = self._carrier.document(answer, self._usage)
        self._look_for_stop(answer.first)
        return TranslatedResponse(
            body=body,
            usage=self._usage,
            model=self._model,
            complete=True,
            unknown_stop=chat.unknown_stop or self._unknown_stop,
        )

    def _read_stream(self, reader: SSEReader, writer: StreamWriter, data: bytes, *, end_of_stream: bool) -> None:
        if self._is_document(data):
            self._held.append(data)
            if end_of_stream:
                self._tell_whole(writer, b"".join(self._held))
            return
        events = reader.feed(data)
        if end_of_stream:
            events += reader.flush()
        for event in events:
            if self._ended:
                return
            if event.data == b"[DONE]":
                self._finish(writer)
            elif event.data:
                self._read_chunk(writer, event)
        if end_of_stream and not self._ended:
            if self._stopped:
                self._finish(writer)
            else:
                self._fail(writer, ErrorObject("stream_error", "the backend's stream ended before its answer did"))

    def _is_document(self, data: bytes) -> bool:
        """Whether a backend that was asked for a stream answers with one document."""
        if self._document is None and (start := data.lstrip()[:1]):
            self._document = start == b"{"
        return self._document is True

    def _tell_whole(self, writer: StreamWriter, document: bytes) -> None:
        """Give a document as a stream."""
        answer = read_answer(document)
        if answer is not None and (error := read_error(document, answer)) is not None:
            self._fail(writer, error)
            return
        if answer is not None:
            self._look_for_usage(answer)
            choices = [msgspec.structs.replace(each, delta=each.message) for each in answer.choices or ()]
            self._tell(writer, msgspec.structs.replace(answer, choices=choices))
        self._finish(writer)

    def _look_for_usage(self, answer: Answer) -> None:
        """Where a document was called a stream, nobody has looked for a report, or for the model."""
        if self._usage is NO_USAGE:
            self._usage = chat_usage(answer.usage)
            self._model = answer.model or self._model

    def _look_for_stop(self, choice: Choice | None) -> None:
        if choice is not None and choice.finish_reason and choice.finish_reason not in FINISH_REASONS:
            self._unknown_stop = choice.finish_reason

    def _read_chunk(self, writer: StreamWriter, event: SSEEvent) -> None:
        answer = read_answer(event.data)
        error = None if answer is None else read_error(event.data, answer)
        if error is None and event.event == b"error":
            # In whatever shape it is.
            error = ErrorObject("", event.data[:MAX_MESSAGE_BYTES].decode(errors="replace"))
        if error is not None:
            self._fail(writer, error)
        elif answer is None:
            self._fail(writer, ErrorObject("stream_error", "the backend sent an event that is not JSON"))
        else:
            self._tell(writer, answer)

    def _tell(self, writer: StreamWriter, answer: Answer) -> None:
        if (first := answer.first) is not None:
            self._answered = True
            self._stopped = self._stopped or first.finish_reason is not None
            self._look_for_stop(first)
        if answer.usage is not None:
            self._told_usage = self._told_usage.merge(chat_usage(answer.usage))
        writer.chunk(answer)

    def _finish(self, writer: StreamWriter) -> None:
        if not self._answered:
            self._fail(writer, ErrorObject("stream_error", "the backend sent no answer"))
            return
        self._ended = True
        writer.finish(self._told_usage)

    def _fail(self, writer: StreamWriter, error: ErrorObject) -> None:
        self._ended = True
        self._failure = error.type[:MAX_TYPE_LENGTH] or "stream_error"
        writer.fail(error)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        chat = self._chat.response_error(status, headers, body)
        data = body if chat.body is None else chat.body
        error = read_error_answer(status, data, raw=body)
        return TranslatedResponse(
            body=self._carrier.error(status, error), headers=(("content-type", "application/json"),)
        )


def _read_document(data: bytes) -> Answer:
    answer = read_answer(data)
    if answer is None:
        raise UnreadableAnswer("it is not a JSON object")
    if (error := read_error(data, answer)) is not None:
        raise UnreadableAnswer(f"it is an error: {error.message[:MAX_MESSAGE_BYTES]}")
    return answer

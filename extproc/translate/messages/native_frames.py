"""Claude's stream out of an AWS event stream: the events that Anthropic's own API sends (contract, messages 5.4).

The JSON of an event goes on as it came, known or not. What Amazon itself has to say, an exception, a broken frame, an
end before the message's, becomes the API's ``error`` event, so that no client takes a part for the whole (BR-53).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Struct

from extproc.formats.eventstream import EventMessage, EventStreamReader
from extproc.formats.sse import SSEEvent, encode_event
from extproc.translate.aws import messages_error_body, stream_error
from extproc.translate.base import TranslatedResponse
from extproc.translate.messages.native_errors import answer_error_type
from extproc.translate.messages.observer import UNNAMED_ERROR
from extproc.translate.observe import Observer
from extproc.usage import NO_USAGE

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"


class _Chunk(Struct, frozen=True):
    """The payload of a message, with the event in base64; padding beside it hides its length."""

    event: bytes = msgspec.field(default=b"", name="bytes")


class _Event(Struct, frozen=True):
    type: object = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_event = msgspec.json.Decoder(_Event).decode

# What a line can hold as the name of an event.
_NAME: Final = re.compile(r"[\x21-\x7e]+")

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


class FrameReader:
    """One stream, which ends with the message's own end or with an ``error`` event, and with nothing after that.

    Args:
        observer: is shown each event.
        model: that was asked for.
    """

    def __init__(self, observer: Observer, *, model: str) -> None:
        self._observer = observer
        self._model = model
        self._reader = EventStreamReader()
        self._usage = NO_USAGE
        self._reported = NO_USAGE
        self._output: list[bytes] = []
        self._complete = False
        self._failure = ""

    def feed(self, data: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        for message in self._reader.feed(data):
            self._take(message)
        if self._reader.fault:
            self._fail(UNNAMED_ERROR, f"the backend's stream cannot be read: {self._reader.fault}")
        elif end_of_stream:
            self._fail(UNNAMED_ERROR, "the backend's stream ended before its message did")
        body = b"".join(self._output)
        self._output.clear()
        usage = NO_USAGE if self._usage is self._reported else self._usage
        self._reported = self._usage
        # Never `None`: frames must not reach the client.
        return TranslatedResponse(
            body=body, usage=usage, model=self._model, complete=self._complete, failure=self._failure
        )

    def _take(self, message: EventMessage) -> None:
        if (error := stream_error(message)) is not None:
            self._fail(answer_error_type(error.code), error.message or error.type)
        # Other events of the operation are to come, and would be none of the Messages API.
        elif message.event_type in {"", "chunk"}:
            self._chunk(message.payload)

    def _chunk(self, payload: bytes) -> None:
        if self._complete or self._failure:
            # Otherwise it would depend on the cut of the bytes whether what follows is told.
            return
        try:
            data = _decode_chunk(payload).event
            kind = _decode_event(data).type if data else None
        except _UNREADABLE as problem:
            self._fail(UNNAMED_ERROR, f"the backend's stream cannot be read: {problem}")
            return
        if not data:
            return
        name = kind.encode() if isinstance(kind, str) and _NAME.fullmatch(kind) else None
        self._output.append(encode_event(data, name))
        self._observe(SSEEvent(data, data, name))

    def _observe(self, event: SSEEvent) -> None:
        seen = self._observer.event(event)
        if seen.reports_usage:
            self._usage = self._usage.merge(seen.usage)
        self._model = seen.model or self._model
        self._complete = seen.complete
        self._failure = seen.failure

    def _fail(self, kind: str, message: str) -> None:
        """Tell the client, unless it has been told of an end before."""
        if not (self._complete or self._failure):
            self._failure = kind
            self._output.append(encode_event(messages_error_body(kind, message), b"error"))

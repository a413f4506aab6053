"""How the events of a streamed message travel (contract, chat 11.5 and 13).

They come as server-sent events, or one by one in the messages of an AWS event stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from extproc.formats.eventstream import EventMessage, EventStreamReader
from extproc.formats.sse import SSEEvent, SSEReader
from extproc.translate.aws import stream_error
from extproc.translate.chat.anthropic.events import MessageEvents
from extproc.translate.chat.translator import BackendError
from extproc.usage import TokenUsage

# The begin of a JSON document, or nothing so far.
_DOCUMENT: Final = re.compile(rb"\s*(?:[{\[]|\Z)")


class SSEStream:
    """A message in server-sent events, as the first-party API and Vertex AI send it."""

    def __init__(self, events: MessageEvents, *, read_error: Callable[[bytes], BackendError]) -> None:
        self._events = events
        self._read_error = read_error
        self._reader = SSEReader()
        # What has come instead of events, as long as it may be a JSON document.
        self._instead: bytearray | None = bytearray()

    @property
    def usage(self) -> TokenUsage:
        return self._events.usage

    @property
    def model(self) -> str:
        return self._events.model

    def feed(self, data: bytes) -> None:
        self._take(self._reader.feed(data))

    def end(self) -> None:
        self._take(self._reader.flush())
        if self._instead is not None and self._instead.strip():
            # An error, though the status is 200 and a stream was asked for.
            self._events.fail(self._read_error(bytes(self._instead)))
        self._events.end()

    def _take(self, events: list[SSEEvent]) -> None:
        for event in events:
            if event.data:
                self._instead = None
                if event.data != b"[DONE]":
                    self._events.event(event.data, event.event)
            elif self._instead is not None:
                self._instead += event.raw
                if not _DOCUMENT.match(self._instead):
                    self._instead = None
        if self._reader.overflow:
            self._instead = None
            self._events.unreadable("an event is too long")


class _Chunk(Struct, frozen=True):
    """The payload of a message, with the event in base64."""

    event: bytes = msgspec.field(default=b"", name="bytes")


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class AWSStream:
    """A message in an AWS event stream, as Bedrock's InvokeModelWithResponseStream sends it (contract, chat 13)."""

    def __init__(self, events: MessageEvents) -> None:
        self._events = events
        self._reader = EventStreamReader()

    @property
    def usage(self) -> TokenUsage:
        return self._events.usage

    @property
    def model(self) -> str:
        return self._events.model

    def feed(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._take(message)
        if self._reader.fault:
            self._events.unreadable(self._reader.fault)

    def end(self) -> None:
        self._events.end()

    def _take(self, message: EventMessage) -> None:
        if (error := stream_error(message)) is not None:
            self._events.fail(BackendError(type=error.type, message=error.message), code=error.code)
            return
        if message.event_type not in {"", "chunk"}:
            return
        try:
            event = _decode_chunk(message.payload).event
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
            self._events.unreadable(str(problem))
            return
        if event:
            self._events.event(event)

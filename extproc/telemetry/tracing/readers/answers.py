"""Answers as they come: documents, and streams of events that are gathered into one; both of a bounded size.

At most `MAX_CAPTURED` of an answer is held. Of a longer document the view has the beginning, as text; of a longer
stream what had come up to there, with how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Final, Protocol

from extproc.formats.sse import SSEEvent, SSEReader
from extproc.telemetry.tracing.views import AnswerView

MAX_CAPTURED: Final = 4 * 1024 * 1024
"""Octets of a document or an event, and characters of what is gathered from a stream.

So one streamed answer holds up to some three times as much: what is gathered, an event that is not whole yet, and the
last response that an event had.
"""

ENTRY: Final = 64
"""What a member or an element costs beside its text."""

ReadDocument = Callable[[bytes], AnswerView]
"""Reads a whole answer, which may be cut off."""


class Budget:
    """How much of a stream may still be gathered.

    What does not fit ends the gathering, or a text would go on after a gap.
    """

    __slots__ = ("_full", "_left")

    def __init__(self, limit: int = MAX_CAPTURED) -> None:
        self._left = limit
        self._full = False

    def take(self, size: int) -> bool:
        """Whether so much more fits; it is then counted."""
        self._full = self._full or size > self._left
        if not self._full:
            self._left -= size
        return not self._full

    def give(self, size: int) -> None:
        """So much of what was counted is no longer held."""
        self._left += size


class Text:
    """A text that grows; its pieces are not kept as objects of their own."""

    __slots__ = ("_budget", "_buffer", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        self._budget = budget
        self._buffer = StringIO()

    def add(self, piece: str) -> None:
        if self._budget.take(len(piece)):
            self.size += self._buffer.write(piece)

    def __str__(self) -> str:
        return self._buffer.getvalue()


class Gatherer(Protocol):
    """Makes a document of a stream's events."""

    def event(self, event: SSEEvent) -> bool:
        """Take in an event that has data. Returns whether it could be read. Never raises."""
        ...

    def view(self) -> AnswerView:
        """What has come so far; nothing where no event has said anything of an answer."""
        ...


class DocumentAnswer:
    """Reads an answer that is one document."""

    __slots__ = ("_body", "_limit", "_read")

    def __init__(self, read: ReadDocument, limit: int = MAX_CAPTURED) -> None:
        self._read = read
        self._limit = limit
        self._body = bytearray()

    def feed(self, piece: bytes) -> None:
        if room := self._limit - len(self._body):
            self._body += piece[:room]

    def close(self) -> AnswerView:
        return self._read(bytes(self._body))


class StreamAnswer:
    """Reads an answer that is a stream of events.

    Some backends answer with a document where a stream was asked for, so one without any event is read as such.
    """

    __slots__ = ("_document", "_events", "_gatherer", "_understood")

    def __init__(self, gatherer: Gatherer, read: ReadDocument, limit: int = MAX_CAPTURED) -> None:
        self._gatherer = gatherer
        self._events = SSEReader(limit)
        self._document = DocumentAnswer(read, limit)
        self._understood = False

    def feed(self, piece: bytes) -> None:
        if not self._understood:
            self._document.feed(piece)
        self._take(self._events.feed(piece))

    def close(self) -> AnswerView:
        self._take(self._events.flush())
        return self._gatherer.view() if self._understood else self._document.close()

    def _take(self, events: list[SSEEvent]) -> None:
        for event in events:
            if event.data and event.data != b"[DONE]" and self._gatherer.event(event) and not self._understood:
                self._understood = True
                # What it holds is not needed any more.
                self._document = DocumentAnswer(lambda _: AnswerView(), 0)

"""The spans that wait for a collector, bounded in bytes: the SDK counts them, and a span may hold a whole conversation.

The SDK's queue of 2048 spans would be gigabytes when a collector is away and requests are large. What does not fit is
dropped, and the spans that go together in one message are so few that a collector takes it: most refuse one of more
than 4 MiB, with all that is in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

# Below the SDK's own, so that the log tells of it as it tells of everything else that is lost.
_log = logging.getLogger("opentelemetry.backlog")

MAX_BYTES: Final = 64 * 1024 * 1024
"""Room for the spans that wait, those under way to the collector included; of one process."""
MESSAGE_BYTES: Final = 3 * 1024 * 1024
"""What spans in one message add up to; a larger span goes alone."""

# What a span and an attribute take beside their texts, in memory and on the wire.
_SPAN: Final = 1024
_ATTRIBUTE: Final = 128


class Backlog:
    """What waits, by span. Spans come from the event loop and leave by the exporter's thread."""

    def __init__(self, *, spans: int, room: int | None = None) -> None:
        self._spans = spans
        self._room = MAX_BYTES if room is None else room
        self._sizes: dict[ReadableSpan, int] = {}
        self._guard = threading.Lock()

    def take(self, span: ReadableSpan) -> bool:
        """Whether there is room for a span, which it has from then on; one alone always has."""
        size = size_of(span)
        with self._guard:
            if self._sizes and (size > self._room or len(self._sizes) >= self._spans):
                return False
            self._sizes[span] = size
            self._room -= size
            return True

    def leave(self, spans: Sequence[ReadableSpan]) -> None:
        """They wait no more, exported or lost."""
        with self._guard:
            self._room += sum(self._sizes.pop(span, 0) for span in spans)

    def messages(self, spans: Sequence[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
        """The same spans, in their order, by what goes into one message."""
        together: list[ReadableSpan] = []
        total = 0
        for span in spans:
            size = self._sizes.get(span, _SPAN)
            if together and total + size > MESSAGE_BYTES:
                yield together
                together, total = [], 0
            together.append(span)
            total += size
        if together:
            yield together


class _Sparing(SpanExporter):
    """Exports a batch in messages that a collector takes, and then forgets it."""

    def __init__(self, exporter: SpanExporter, backlog: Backlog) -> None:
        self._exporter = exporter
        self._backlog = backlog

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.SUCCESS
        try:
            for message in self._backlog.messages(spans):
                if self._exporter.export(message) is not SpanExportResult.SUCCESS:
                    result = SpanExportResult.FAILURE
        finally:
            self._backlog.leave(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class BoundedBatches(SpanProcessor):
    """The SDK's batches, for as many spans as there is room for.

    Args:
        exporter: sends.
        environ: where ``OTEL_BSP_MAX_QUEUE_SIZE`` is looked up; the SDK reads the others from that of the process.
    """

    def __init__(self, exporter: SpanExporter, environ: Mapping[str, str]) -> None:
        spans = int(environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or 2048)
        self._backlog = Backlog(spans=spans)
        # So its own queue, which would push out the oldest, is never full.
        self._batches: SpanProcessor = BatchSpanProcessor(_Sparing(exporter, self._backlog), max_queue_size=spans)

    def on_end(self, span: ReadableSpan) -> None:
        if not self._backlog.take(span):
            _log.warning("The spans that wait take all the room there is, a span is dropped")
            return
        self._batches.on_end(span)

    def shutdown(self) -> None:
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._batches.force_flush(timeout_millis)


def size_of(span: ReadableSpan) -> int:
    """About how many bytes a span takes; characters are taken for bytes."""
    attributes = _weight(span.attributes)
    return _SPAN + attributes + sum(_ATTRIBUTE + _weight(event.attributes) for event in span.events)


def _weight(attributes: Mapping[str, object] | None) -> int:
    return sum(map(_size, attributes.values())) if attributes else 0


def _size(value: object) -> int:
    if isinstance(value, str):
        return _ATTRIBUTE + len(value)
    if isinstance(value, tuple):
        # All of one kind; numbers have about as many bytes each.
        return _ATTRIBUTE + (sum(map(len, value)) if value and isinstance(value[0], str) else 16 * len(value))
    return _ATTRIBUTE

"""Spans that wait: how many bytes of them there may be, and how few go together."""

from __future__ import annotations

import asyncio
import threading

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from extproc.telemetry.otel import backlog
from extproc.telemetry.otel.backlog import MESSAGE_BYTES, Backlog, BoundedBatches, size_of
from tests.support.collector import Collector
from tests.unit.telemetry.otel.test_traces import build, trace

MIB = 1024 * 1024


def span(text="", **attributes):
    made = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s", attributes={"a": text, **attributes})
    made.add_event("e", {"b": "x" * 100})
    made.end()
    return made


class Slow(SpanExporter):
    """Waits until it is let go; answers as it is told."""

    def __init__(self, *, result=SpanExportResult.SUCCESS, error=None):
        self.messages = []
        self.go = threading.Event()
        self._result = result
        self._error = error

    def export(self, spans):
        self.go.wait(20)
        self.messages.append([span.attributes["a"][:1] for span in spans])
        if self._error is not None:
            raise self._error
        return self._result

    def shutdown(self):
        pass


SIZES = {
    "a text": ({"text": "x" * 1000}, 1000),
    "texts": ({"c": ["x" * 500] * 4}, 2000),
    "numbers": ({"c": [0.5] * 1000}, 8000),
    "a number": ({"c": 3}, 8),
    "an empty list": ({"c": []}, 0),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_span_is_counted_with_all_that_is_in_it(name):
    arguments, at_least = SIZES[name]
    frame = size_of(span())
    assert at_least <= size_of(span(**arguments)) - frame + 128
    assert size_of(span(**arguments)) < frame + 2 * at_least + 300


def test_what_does_not_fit_is_not_taken_until_there_is_room():
    first, second, third = span("x" * 600_000), span("y" * 600_000), span("z" * 300_000)
    waiting = Backlog(spans=10, room=MIB)
    assert [waiting.take(each) for each in (first, second, third)] == [True, False, True]
    waiting.leave([first])
    assert waiting.take(second)


def test_a_span_that_is_larger_than_all_the_room_goes_when_it_is_alone():
    large = span("x" * 2 * MIB)
    waiting = Backlog(spans=10, room=MIB)
    assert waiting.take(large)
    assert not waiting.take(span())
    waiting.leave([large])
    assert waiting.take(span())


def test_spans_are_counted_too():
    spans = [span() for _ in range(3)]
    waiting = Backlog(spans=2)
    assert [waiting.take(each) for each in spans] == [True, True, False]


def test_a_message_is_of_a_size_that_collectors_take():
    sizes = (MIB, MIB, MIB, 5 * MIB, 10, 10)
    spans = [span("x" * size) for size in sizes]
    waiting = Backlog(spans=10)
    for each in spans:
        waiting.take(each)
    messages = list(waiting.messages(spans))
    assert [each for message in messages for each in message] == spans
    assert [len(message) for message in messages] == [2, 1, 1, 2]
    assert all(len(message) == 1 or sum(map(size_of, message)) <= MESSAGE_BYTES for message in messages)


OUTCOMES = {
    "success": {},
    "a failure": {"result": SpanExportResult.FAILURE},
    "an error": {"error": RuntimeError("no")},
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_room_is_free_again_whatever_comes_of_an_export(outcome, environment, adopted, monkeypatch):
    monkeypatch.setattr(backlog, "MAX_BYTES", MIB)
    exporter = Slow(**OUTCOMES[outcome])
    batches = BoundedBatches(exporter, environment())
    with structlog.testing.capture_logs() as logs:
        for text in ("a", "b", "c"):
            batches.on_end(span(text * 400_000))
        exporter.go.set()
        batches.force_flush()
        batches.on_end(span("d"))
        batches.shutdown()
    assert [text for message in exporter.messages for text in message] == ["a", "b", "d"]
    dropped = [entry for entry in logs if "is dropped" in entry.get("message", "")]
    assert [entry["log_level"] for entry in dropped] == ["warning"]


def test_the_limit_of_the_environment_is_that_of_what_waits(environment, adopted):
    exporter = Slow()
    environ = environment(OTEL_BSP_MAX_QUEUE_SIZE="2", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1")
    batches = BoundedBatches(exporter, environ)
    with structlog.testing.capture_logs():
        for text in "abcd":
            batches.on_end(span(text))
        exporter.go.set()
        batches.shutdown()
    assert exporter.messages == [["a"], ["b"]]


def test_large_spans_come_to_a_collector_that_takes_no_large_messages(environment):
    with Collector() as collector:

        async def run():
            tracing = build(environment(**collector.environment))
            for _ in range(4):
                trace(tracing, pieces=[b"x" * 2 * MIB])
            await tracing.close()

        asyncio.run(run())
        assert len(collector.spans()) == 4
        assert max(map(len, collector.received)) < 4 * MIB

"""Pushing at an interval and at the end, to a collector that takes it in, hangs, or is away."""

from __future__ import annotations

import asyncio
import io
import json
import time

import pytest
import structlog

from extproc.telemetry.metrics import Metrics
from extproc.telemetry.otel import exports, push
from tests.support.collector import Collector

PROTOCOLS = ["http/protobuf", "grpc"]


def build(environ, metrics, **arguments):
    wanted = exports.metrics(environ)
    return push.build(wanted, environ, attributes=(), registry=lambda: metrics.registry, **arguments)


@pytest.fixture
def metrics():
    made = Metrics({})
    made.outcome("chat", "success")
    return made


def attempts(collector):
    return [(point.value, point.temporality) for point in collector.points("extproc_attempts")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestOtlp:
    def test_at_an_interval_and_at_the_end(self, protocol, environment, metrics):
        refreshed = []

        async def refresh():
            refreshed.append(len(refreshed))
            metrics.outcome("chat", "success")

        async def run(environ):
            pusher = build(environ, metrics)
            running = asyncio.create_task(pusher.run(refresh))
            await asyncio.to_thread(collector.wait, lambda it: len(it.received) >= 2)
            running.cancel()
            await pusher.close()

        with Collector(protocol) as collector:
            asyncio.run(run(environment(**collector.environment, OTEL_METRIC_EXPORT_INTERVAL="10")))
            pushed = attempts(collector)
        newest = metrics.registry.get_sample_value(
            "extproc_attempts_total", {"operation": "chat", "outcome": "success"}
        )
        assert len(refreshed) >= 2
        assert pushed[0] == (newest, "CUMULATIVE")
        assert pushed == sorted(pushed, reverse=True)
        assert collector.points()[0].resource["service.name"] == "ai-gateway"

    def test_a_collector_that_was_away_misses_nothing(self, protocol, environment, metrics, adopted):
        async def run(environ):
            pusher = build(environ, metrics)
            collector.status = 500
            await pusher.push(5)
            metrics.outcome("chat", "success")
            collector.status = 200
            await pusher.push(5)
            metrics.outcome("chat", "success")
            await pusher.close(5)

        with Collector(protocol) as collector, structlog.testing.capture_logs() as logs:
            environ = environment(
                **collector.environment,
                OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="delta",
                OTEL_EXPORTER_OTLP_TIMEOUT="500",
            )
            asyncio.run(run(environ))
            assert attempts(collector) == [(1, "DELTA"), (2, "DELTA")]
        assert [entry["log_level"] for entry in logs] == ["error"]

    def test_a_collector_that_hangs_holds_up_nothing(self, protocol, environment, metrics):
        async def run(environ):
            pusher = build(environ, metrics)
            await pusher.push(0.05)
            # The one before is still under way.
            await pusher.push(0.05)
            await pusher.close(0.1)

        with Collector(protocol) as collector, structlog.testing.capture_logs() as logs:
            collector.hang()
            before = time.monotonic()
            asyncio.run(run(environment(**collector.environment)))
            assert time.monotonic() - before < 10
        assert [entry["event"] for entry in logs][:1] == ["an export has not ended in time"]


def test_the_console_gets_a_line_of_json_for_each_push(environment, metrics):
    out = io.StringIO()

    async def run():
        pusher = build(environment(OTEL_METRICS_EXPORTER="console"), metrics, out=out)
        await pusher.push(5)
        await pusher.close(5)

    asyncio.run(run())
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == 2
    (own,) = lines[0]["resource_metrics"][0]["scope_metrics"]
    assert "extproc_attempts" in [metric["name"] for metric in own["metrics"]]


def test_the_console_gets_nothing_when_there_is_nothing(environment):
    out = io.StringIO()
    environ = environment(OTEL_METRICS_EXPORTER="console", OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="delta")

    class Empty:
        registry = type("Registry", (), {"collect": staticmethod(list)})

    async def run():
        pusher = build(environ, Empty, out=out)
        await pusher.close(5)

    asyncio.run(run())
    assert out.getvalue() == ""


def test_an_exporter_that_raises_is_told_of_in_one_line(environment, metrics):
    class Closed(io.StringIO):
        def write(self, _):
            raise BrokenPipeError("nobody reads")

    async def run():
        pusher = build(environment(OTEL_METRICS_EXPORTER="console"), metrics, out=Closed())
        await pusher.push(5)

    with structlog.testing.capture_logs() as logs:
        asyncio.run(run())
    assert logs == [{"event": "an export has failed", "error": "BrokenPipeError: nobody reads", "log_level": "error"}]

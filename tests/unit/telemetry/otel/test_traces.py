"""Tracing as the environment wants it, up to a collector that takes it in or does not."""

from __future__ import annotations

import asyncio
import io
import json
import time

import pytest
import structlog

from extproc.telemetry.otel import exports, traces
from extproc.telemetry.otel.exports import Export
from extproc.telemetry.tracing.base import TracedRequest
from extproc.usage import NO_USAGE
from tests.support.collector import Collector
from tests.unit.telemetry.otel.test_recorder import PARENT, TRACE, Convention, Reader, parent

PROTOCOLS = ["http/protobuf", "grpc"]


def build(environ, *, convention=None, **arguments):
    export = exports.traces(environ)
    return traces.build(
        export, environ, convention=convention or Convention(), readers={"chat": Reader()}, attributes=(), **arguments
    )


def trace(tracing, headers=None, pieces=(b"Hello!",)):
    request = TracedRequest(
        operation="chat", model="m", stream=False, body=b"Hello?", content_type="", headers=headers or {}
    )
    _, span = tracing.tracer.start(request)
    if span is not None:
        span.answered(200)
        for piece in pieces:
            span.piece(piece)
        span.end(NO_USAGE, "m", "complete")
    return span


def exported(collector, environ, count=1, **arguments):
    """The spans of some requests, exported and flushed."""

    async def run():
        tracing = build(environ, **arguments)
        for _ in range(count):
            trace(tracing)
        await tracing.close()

    asyncio.run(run())
    return collector.spans()


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestOtlp:
    def test_a_span_comes_to_the_collector_before_the_end(self, protocol, environment):
        with Collector(protocol) as collector:
            environ = environment(**collector.environment, OTEL_RESOURCE_ATTRIBUTES="a=1")

            async def run():
                tracing = build(environ)
                trace(tracing, parent())
                await tracing.close()

            asyncio.run(run())
            (span,) = collector.spans()
        assert (span.name, span.kind, span.status) == ("asks m", "CLIENT", "OK")
        assert (span.trace_id, span.parent) == (TRACE, PARENT)
        assert span.attributes["answered"] == "Hello! whole"
        assert span.scope == "envoyproxy/ai-gateway"
        assert {"service.name": "ai-gateway", "a": "1"}.items() <= span.resource.items()

    def test_headers_of_the_environment_go_along(self, protocol, environment):
        with Collector(protocol) as collector:
            exported(collector, environment(**collector.environment, OTEL_EXPORTER_OTLP_HEADERS="x-tenant=a%20b"))
            assert collector.headers[0]["x-tenant"] == "a b"

    def test_compression(self, protocol, environment):
        with Collector(protocol) as collector:
            environ = environment(**collector.environment, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
            assert len(exported(collector, environ)) == 1

    def test_batches(self, protocol, environment):
        with Collector(protocol) as collector:
            environ = environment(
                **collector.environment, OTEL_BSP_MAX_EXPORT_BATCH_SIZE="2", OTEL_BSP_SCHEDULE_DELAY="60000"
            )
            assert len(exported(collector, environ, 5)) == 5
            assert len(collector.received) == 3

    def test_a_collector_that_hangs_holds_up_the_end_for_a_bounded_time(self, protocol, environment):
        with Collector(protocol) as collector, structlog.testing.capture_logs() as logs:
            collector.hang()
            environ = environment(**collector.environment)

            async def run():
                tracing = build(environ)
                trace(tracing)
                await tracing.close(0.1)

            before = time.monotonic()
            asyncio.run(run())
            assert time.monotonic() - before < 10
        assert [entry["event"] for entry in logs] == ["traces could not be exported in time, some are lost"]

    def test_a_failing_collector_is_told_of_in_one_line_of_our_log(self, protocol, environment, adopted, capfd):
        with Collector(protocol) as collector, structlog.testing.capture_logs() as logs:
            collector.status = 500
            environ = environment(
                **collector.environment, OTEL_EXPORTER_OTLP_TIMEOUT="500", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1"
            )
            exported(collector, environ, 3)
            assert collector.refused >= 3
        assert [entry["log_level"] for entry in logs if entry["event"] == "opentelemetry"] == ["error"]
        assert capfd.readouterr() == ("", "")

    def test_a_collector_that_is_not_there(self, protocol, environment, adopted, capfd):
        with Collector(protocol) as collector:
            endpoint = collector.environment
        with structlog.testing.capture_logs() as logs:
            exported(collector, environment(**endpoint, OTEL_EXPORTER_OTLP_TIMEOUT="200"))
        assert [entry["log_level"] for entry in logs] == ["error"]
        assert "\n" not in logs[0]["message"]
        assert capfd.readouterr() == ("", "")


def test_an_endpoint_for_traces_is_taken_as_it_is(environment):
    with Collector() as collector:
        environ = environment(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.endpoint}/v1/traces")
        assert len(exported(collector, environ)) == 1


def test_the_console_gets_a_line_of_json_for_each_span_at_once(environment):
    out = io.StringIO()
    tracing = build(environment(OTEL_TRACES_EXPORTER="console"), out=out)
    for _ in range(2):
        trace(tracing)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["name"], line["attributes"]["answered"]) for line in lines] == [("asks m", "Hello! whole")] * 2
    tracing.cancel()


class Wide(Convention):
    def __init__(self, *, unlimited):
        self.unlimited = unlimited

    def request(self, request):
        return {f"a{n}": n for n in range(300)}

    def answer(self, request, answer, usage, model):
        return {}


LIMITS = {
    "unlimited": (True, {}, 300),
    "that of the SDK": (False, {}, 128),
    "unlimited but for the environment": (True, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "200"}, 200),
    "unlimited but for the general limit": (True, {"OTEL_ATTRIBUTE_COUNT_LIMIT": "150"}, 150),
    "the environment's alone": (False, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "50"}, 50),
}


@pytest.mark.parametrize("name", LIMITS)
def test_how_many_attributes_a_span_has(name, environment):
    unlimited, variables, count = LIMITS[name]
    out = io.StringIO()
    environ = environment(OTEL_TRACES_EXPORTER="console", **variables)
    trace(build(environ, convention=Wide(unlimited=unlimited), out=out))
    assert len(json.loads(out.getvalue())["attributes"]) == count


def test_values_are_cut_where_the_environment_says_so(environment):
    out = io.StringIO()
    environ = environment(OTEL_TRACES_EXPORTER="console", OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="3")
    trace(build(environ, out=out))
    assert json.loads(out.getvalue())["attributes"]["answered"] == "Hel"


SAMPLERS = {
    "by default all": ({}, {}, True),
    "by default as the parent": ({}, parent("00"), False),
    "none": ({"OTEL_TRACES_SAMPLER": "always_off"}, parent(), False),
    "all": ({"OTEL_TRACES_SAMPLER": "always_on"}, parent("00"), True),
    "a share of none": ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, {}, False),
    "a share of roots": (
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
        parent(),
        True,
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_sampled(name, environment):
    variables, headers, sampled = SAMPLERS[name]
    tracing = build(environment(OTEL_TRACES_EXPORTER="console", **variables), out=io.StringIO())
    assert (trace(tracing, headers) is not None) is sampled


def test_only_exactly_true_turns_the_sdk_off(environment):
    tracing = build(environment(OTEL_TRACES_EXPORTER="console", OTEL_SDK_DISABLED="TRUE"), out=io.StringIO())
    assert trace(tracing) is not None


def test_a_tracer_of_which_nothing_was_recorded_ends_without_a_collector(environment):
    with Collector() as collector:
        build(environment(**collector.environment)).cancel()
        assert collector.received == []


def test_an_export_has_the_time_that_the_environment_gives_it_in_milliseconds(environment):
    environment(OTEL_EXPORTER_OTLP_TIMEOUT="10000")
    over_http = traces._otlp(Export(kind="otlp", timeout=10.0))
    over_grpc = traces._otlp(Export(kind="otlp", protocol="grpc", timeout=10.0))
    assert (over_http._client._timeout, over_grpc._timeout) == (10.0, 10.0)
    over_http.shutdown()
    over_grpc.shutdown()

"""Which exports the environment asks for (contract, environment variables 1.4 and tracing switch-on 7.6)."""

from __future__ import annotations

import pytest

from extproc.telemetry.otel import exports
from extproc.telemetry.otel.exports import Export, ExportError, Push

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
HTTP = Export(kind="otlp", protocol="http/protobuf", timeout=10.0)
GRPC = Export(kind="otlp", protocol="grpc", timeout=10.0)
CONSOLE = Export(kind="console")

TRACES = {
    "nothing": ({}, None),
    "none": ({"OTEL_TRACES_EXPORTER": "none"}, None),
    "none, though there is an endpoint": ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, None),
    "an endpoint": (ENDPOINT, HTTP),
    "an endpoint for traces": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector"}, HTTP),
    "an endpoint for metrics alone": ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector"}, None),
    "an endpoint that is empty": ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
    "the exporter by name": ({"OTEL_TRACES_EXPORTER": "otlp"}, HTTP),
    "an exporter that is empty": ({"OTEL_TRACES_EXPORTER": "", **ENDPOINT}, HTTP),
    "the console": ({"OTEL_TRACES_EXPORTER": "console"}, CONSOLE),
    "the console, though there is an endpoint": ({"OTEL_TRACES_EXPORTER": "console", **ENDPOINT}, CONSOLE),
    "all is off": ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console", **ENDPOINT}, None),
    "only exactly true is off": ({"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT}, HTTP),
    "not off": ({"OTEL_SDK_DISABLED": "false", **ENDPOINT}, HTTP),
    "grpc": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", **ENDPOINT}, GRPC),
    "http": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", **ENDPOINT}, HTTP),
    "the protocol of traces": (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", **ENDPOINT},
        GRPC,
    ),
    "the protocol of metrics": ({"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc", **ENDPOINT}, HTTP),
    "a timeout in milliseconds": (
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", **ENDPOINT},
        Export(kind="otlp", timeout=2.5),
    ),
    "the timeout of traces": (
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "500", **ENDPOINT},
        Export(kind="otlp", timeout=0.5),
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_where_traces_go(name):
    environ, wanted = TRACES[name]
    assert exports.traces(environ) == wanted


METRICS = {
    "nothing": ({}, None),
    "none": ({"OTEL_METRICS_EXPORTER": "none", **ENDPOINT}, None),
    "prometheus alone": ({"OTEL_METRICS_EXPORTER": "prometheus", **ENDPOINT}, None),
    "an endpoint": (ENDPOINT, Push(export=HTTP, interval=60.0, delta=False)),
    "an endpoint for metrics": (
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector"},
        Push(export=HTTP, interval=60.0, delta=False),
    ),
    "an endpoint for traces alone": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector"}, None),
    "an exporter without an endpoint": ({"OTEL_METRICS_EXPORTER": "otlp"}, None),
    "all is off": ({"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "console"}, None),
    "the console": (
        {"OTEL_METRICS_EXPORTER": "console"},
        Push(export=Export(kind="console", timeout=30.0), interval=60.0, delta=False),
    ),
    "the console with deltas": (
        {"OTEL_METRICS_EXPORTER": "console", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta"},
        Push(export=Export(kind="console", timeout=30.0), interval=60.0, delta=True),
    ),
    "deltas": (
        {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta", **ENDPOINT},
        Push(export=HTTP, interval=60.0, delta=True),
    ),
    "little memory": (
        {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "LowMemory", **ENDPOINT},
        Push(export=HTTP, interval=60.0, delta=True),
    ),
    "a preference that OTLP does not know": (
        {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "other", **ENDPOINT},
        Push(export=HTTP, interval=60.0, delta=False),
    ),
    "an interval": (
        {"OTEL_METRIC_EXPORT_INTERVAL": "1500", **ENDPOINT},
        Push(export=HTTP, interval=1.5, delta=False),
    ),
    "a timeout below that of OTLP": (
        {"OTEL_METRIC_EXPORT_TIMEOUT": "500", **ENDPOINT},
        Push(export=Export(kind="otlp", timeout=0.5), interval=60.0, delta=False),
    ),
    "grpc": (
        {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc", **ENDPOINT},
        Push(export=GRPC, interval=60.0, delta=False),
    ),
}


@pytest.mark.parametrize("name", METRICS)
def test_how_metrics_are_pushed(name):
    environ, wanted = METRICS[name]
    assert exports.metrics(environ) == wanted
    assert exports.pushes_metrics(environ) is (wanted is not None)


REFUSED = {
    "an exporter of traces": (
        exports.traces,
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        'unknown OTEL_TRACES_EXPORTER: "zipkin", must be one of otlp, console, none',
    ),
    "a list of exporters": (
        exports.traces,
        {"OTEL_TRACES_EXPORTER": "otlp,console"},
        'unknown OTEL_TRACES_EXPORTER: "otlp,console", must be one of otlp, console, none',
    ),
    "an exporter of metrics": (
        exports.metrics,
        {"OTEL_METRICS_EXPORTER": "statsd", **ENDPOINT},
        'unknown OTEL_METRICS_EXPORTER: "statsd", must be one of otlp, console, prometheus, none',
    ),
    "a protocol": (
        exports.traces,
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", **ENDPOINT},
        'invalid OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", must be grpc or http/protobuf',
    ),
    "a protocol of traces": (
        exports.traces,
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "x", **ENDPOINT},
        'invalid OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "x", must be grpc or http/protobuf',
    ),
    "a preference of the console": (
        exports.metrics,
        {"OTEL_METRICS_EXPORTER": "console", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "lowmemory"},
        'invalid OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "lowmemory", must be cumulative or delta',
    ),
    "an interval of nothing": (
        exports.metrics,
        {"OTEL_METRIC_EXPORT_INTERVAL": "0", **ENDPOINT},
        'invalid OTEL_METRIC_EXPORT_INTERVAL: "0", must be a number of milliseconds above 0',
    ),
    "an interval without end": (
        exports.metrics,
        {"OTEL_METRIC_EXPORT_INTERVAL": "9" * 5000, **ENDPOINT},
        f'invalid OTEL_METRIC_EXPORT_INTERVAL: "{"9" * 5000}", must be a number of milliseconds above 0',
    ),
    "a timeout with a unit": (
        exports.traces,
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "10s", **ENDPOINT},
        'invalid OTEL_EXPORTER_OTLP_TIMEOUT: "10s", must be a number of milliseconds above 0',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_there_is_not_is_refused(name):
    ask, environ, reason = REFUSED[name]
    with pytest.raises(ExportError) as refused:
        ask(environ)
    assert str(refused.value) == reason


def test_what_is_off_is_not_looked_at():
    assert exports.traces({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "zipkin"}) is None
    assert exports.metrics({"OTEL_METRICS_EXPORTER": "none", "OTEL_METRIC_EXPORT_INTERVAL": "x"}) is None


WITHOUT_EFFECT = {
    "nothing": ({}, ()),
    "an exporter of metrics without an endpoint": ({"OTEL_METRICS_EXPORTER": "otlp"}, ("OTEL_METRICS_EXPORTER",)),
    "one with an endpoint": ({"OTEL_METRICS_EXPORTER": "otlp", **ENDPOINT}, ()),
    "the console": ({"OTEL_METRICS_EXPORTER": "console"}, ()),
    "prometheus": ({"OTEL_METRICS_EXPORTER": "prometheus"}, ()),
    "switches that are booleans": ({"OPENINFERENCE_HIDE_INPUTS": "T", "OPENINFERENCE_HIDE_OUTPUTS": ""}, ()),
    "a switch that is none": ({"OPENINFERENCE_HIDE_INPUTS": "yes"}, ("OPENINFERENCE_HIDE_INPUTS",)),
    "all is off on purpose": ({"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp"}, ()),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_is_asked_for_in_vain(name):
    environ, wanted = WITHOUT_EFFECT[name]
    assert exports.without_effect(environ) == wanted

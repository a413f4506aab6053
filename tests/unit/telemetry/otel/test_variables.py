"""What the SDK would take for something else, or find wrong too late."""

from __future__ import annotations

import pytest

from extproc.telemetry.otel import exports, start
from extproc.telemetry.otel.exports import ExportError
from tests.support.certificates import Authority

HTTP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
GRPC = {**HTTP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
CONSOLE = {"OTEL_TRACES_EXPORTER": "console"}
URL = "not a URL such as http://collector:4318"

BOTH = {
    "an endpoint without a scheme": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
        f"invalid OTEL_EXPORTER_OTLP_ENDPOINT: {URL}",
    ),
    "another scheme": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://x"}, f"invalid OTEL_EXPORTER_OTLP_ENDPOINT: {URL}"),
    "no host": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://"}, f"invalid OTEL_EXPORTER_OTLP_ENDPOINT: {URL}"),
    "a port that is none": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:99999"},
        f"invalid OTEL_EXPORTER_OTLP_ENDPOINT: {URL}",
    ),
    "half an address": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"}, f"invalid OTEL_EXPORTER_OTLP_ENDPOINT: {URL}"),
    "no host over gRPC": (
        {**GRPC, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://"},
        "invalid OTEL_EXPORTER_OTLP_ENDPOINT: not a URL such as http://collector:4317",
    ),
    "headers": (
        {**HTTP, "OTEL_EXPORTER_OTLP_HEADERS": "a=b,authorization Bearer canary"},
        "invalid OTEL_EXPORTER_OTLP_HEADERS: header 2 is not name=value",
    ),
    "a compression": (
        {**HTTP, "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"},
        'invalid OTEL_EXPORTER_OTLP_COMPRESSION: "zstd", must be one of gzip, deflate, none',
    ),
    "a boolean": (
        {**GRPC, "OTEL_EXPORTER_OTLP_INSECURE": "maybe"},
        'invalid OTEL_EXPORTER_OTLP_INSECURE: "maybe", must be true or false',
    ),
    "a certificate that is not there": (
        {**HTTP, "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nope"},
        'invalid OTEL_EXPORTER_OTLP_CERTIFICATE: "/nope" cannot be used: No such file or directory',
    ),
    "a certificate that is none": (
        {**HTTP, "OTEL_EXPORTER_OTLP_CERTIFICATE": __file__},
        f'invalid OTEL_EXPORTER_OTLP_CERTIFICATE: "{__file__}" cannot be used: ',
    ),
    "a client's certificate": (
        {**HTTP, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nope"},
        'invalid OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: "/nope" cannot be used: No such file or directory',
    ),
    "a key alone": (
        {**HTTP, "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/nope"},
        "OTEL_EXPORTER_OTLP_CLIENT_KEY is of no use without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ),
}
TRACES = {
    "an endpoint of traces": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector"},
        f"invalid OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {URL}",
    ),
    "a sampler": ({**CONSOLE, "OTEL_TRACES_SAMPLER": "all"}, 'unknown OTEL_TRACES_SAMPLER: "all", must be one of '),
    **{
        f"a share of {share}": (
            {**CONSOLE, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": share},
            f'invalid OTEL_TRACES_SAMPLER_ARG: "{share}", must be a number from 0 to 1',
        )
        for share in ("1.1", "-1", "half", "nan")
    },
    **{
        f"{name} of {text}": ({**HTTP, name: text}, f'invalid {name}: "{text}", must be a whole number above 0')
        for name in ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY")
        for text in ("many", "0", "-5", "9" * 30)
    },
}
METRICS = {
    "a preference": (
        {**HTTP, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "sum"},
        'invalid OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "sum", must be cumulative, delta or lowmemory',
    ),
}


@pytest.mark.parametrize("name", {**BOTH, **TRACES})
def test_what_is_wrong_for_traces_is_refused_in_one_line(name, environment, adopted):
    variables, reason = {**BOTH, **TRACES}[name]
    with pytest.raises(ExportError) as refused:
        start.check_tracing(environment(**variables), ())
    assert str(refused.value).startswith(reason)
    assert "\n" not in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", {**BOTH, **METRICS})
def test_what_is_wrong_for_metrics_is_refused_in_one_line(name, environment, adopted):
    variables, reason = {**BOTH, **METRICS}[name]
    with pytest.raises(ExportError) as refused:
        start.pusher(environment(**variables), (), registry=None)
    assert str(refused.value).startswith(reason)


RIGHT = {
    "a path, a user and a port": {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://u:p@collector.example:443/otlp"},
    "an address": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:4318"},
    "gRPC without a scheme": {**GRPC, "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
    "gRPC by a socket": {**GRPC, "OTEL_EXPORTER_OTLP_ENDPOINT": "unix:///run/otel.sock"},
    "headers": {**HTTP, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%3Db, x-tenant = t,"},
    "deflate": {**HTTP, "OTEL_EXPORTER_OTLP_COMPRESSION": "deflate"},
    "insecure": {**GRPC, "OTEL_EXPORTER_OTLP_INSECURE": "TRUE"},
    "a sampler in upper case": {**CONSOLE, "OTEL_TRACES_SAMPLER": "TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG": ".5"},
    "a sampler without a share": {**CONSOLE, "OTEL_TRACES_SAMPLER": "always_off", "OTEL_TRACES_SAMPLER_ARG": "x"},
    "batches": {**HTTP, "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"},
    "empty variables": {
        **HTTP,
        **dict.fromkeys(["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_TRACES_SAMPLER"], ""),
    },
    "lowmemory": {**HTTP, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "LowMemory"},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_taken(name, environment, adopted):
    environ = environment(**RIGHT[name])
    start.check_tracing(environ, ())
    wanted = exports.metrics(environ) is not None
    assert (start.pusher(environ, (), registry=None) is not None) is wanted


def test_certificates_are_loaded(environment, adopted, tmp_path):
    authority = Authority(tmp_path)
    chain, key = authority.issue("processor")
    files = {
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority.ca),
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": str(chain),
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(key),
    }
    start.check_tracing(environment(**HTTP, **files), ())

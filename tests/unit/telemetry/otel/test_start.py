"""Exports as a process starts them: only if they are asked for, and what is wrong is said in one line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.telemetry.otel import start, traces
from extproc.telemetry.otel.exports import ExportError
from extproc.telemetry.tracing.base import TracedRequest
from extproc.usage import TokenUsage

ROOT = Path(__file__).parents[4]

# What a process imports that exports nothing, with one process and as a worker.
PROBE = """
import sys
from extproc.app import App
from extproc.settings import Settings
from extproc.workers import worker
App(Settings.parse(["-configPath", "/x"], {}), {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "none"})
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "extproc.telemetry.tracing."))))
"""


def test_without_an_export_nothing_of_opentelemetry_is_imported():
    ran = subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = ran.stdout
    assert "opentelemetry" not in imported
    assert "recorder" not in imported
    assert "openinference" not in imported


WANTED = {
    "traces": (start.tracing, {"OTEL_TRACES_EXPORTER": "otlp"}, "traces"),
    "metrics": (
        lambda environ, attributes: start.pusher(environ, attributes, registry=None),
        {"OTEL_METRICS_EXPORTER": "console"},
        "pushed metrics",
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_a_package_that_is_missing_is_named_and_how_to_install_it(name, environment, monkeypatch):
    ask, variables, what = WANTED[name]
    for module in [module for module in sys.modules if module.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("libraries", "traces", "push", "points", "resource", "propagators"):
        monkeypatch.delitem(sys.modules, f"extproc.telemetry.otel.{module}", raising=False)
        monkeypatch.delattr(f"extproc.telemetry.otel.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ExportError) as refused:
        ask(environment(**variables), ())
    assert str(refused.value).startswith(f"{what} need a package that is not installed (opentelemetry")
    assert str(refused.value).endswith('install the extra "otel": pip install "envoy-llm-extproc[otel]"')


REFUSED = {
    "a convention": (
        {"AI_GATEWAY_TRACING_SEMCONV": "other"},
        'invalid AI_GATEWAY_TRACING_SEMCONV "other": must be one of openinference, gen_ai',
    ),
    "a propagator": ({"OTEL_PROPAGATORS": "b3"}, "opentelemetry-propagator-b3"),
    "a resource": ({"OTEL_RESOURCE_ATTRIBUTES": "a"}, 'malformed OTEL_RESOURCE_ATTRIBUTES: "a" is not key=value'),
    "a limit": ({"OTEL_SPAN_EVENT_COUNT_LIMIT": "many"}, "OTEL_SPAN_EVENT_COUNT_LIMIT must be a non-negative integer"),
    "a batch larger than the queue": (
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "1"},
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE (512) must not be larger than OTEL_BSP_MAX_QUEUE_SIZE (1)",
    ),
    "a compression": (
        {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "zip",
        },
        'invalid OTEL_EXPORTER_OTLP_COMPRESSION: "zip"',
    ),
    "an exporter": ({"OTEL_TRACES_EXPORTER": "zipkin"}, "unknown OTEL_TRACES_EXPORTER"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line_before_workers_start(name, environment, adopted):
    variables, reason = REFUSED[name]
    with pytest.raises(ExportError) as refused:
        start.check_tracing(environment(**{"OTEL_TRACES_EXPORTER": "console", **variables}), ())
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_convention_is_not_looked_at_while_tracing_is_off():
    assert start.tracing({"AI_GATEWAY_TRACING_SEMCONV": "other"}, ()) is None


def test_metrics_are_not_pushed_unless_they_are_wanted():
    assert start.pusher({}, (), registry=None) is None


def test_all_is_well(environment, adopted):
    start.check_tracing(environment(OTEL_TRACES_EXPORTER="otlp"), ())
    assert start.pusher(environment(OTEL_METRICS_EXPORTER="console"), (), registry=None) is not None


CONVENTIONS = {
    "by default": ({}, "ChatCompletion", "INTERNAL", "llm.model_name"),
    "openinference": ({"AI_GATEWAY_TRACING_SEMCONV": "openinference"}, "ChatCompletion", "INTERNAL", "llm.model_name"),
    "gen_ai": ({"AI_GATEWAY_TRACING_SEMCONV": "gen_ai"}, "chat m", "CLIENT", "gen_ai.request.model"),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_spans_follow_the_convention_that_is_wanted(name, environment, adopted, monkeypatch):
    variables, span_name, kind, model = CONVENTIONS[name]
    out = io.StringIO()
    monkeypatch.setattr(traces.sys, "stdout", out)
    tracing = start.tracing(environment(OTEL_TRACES_EXPORTER="console", **variables), (("agent-session-id", "s"),))
    body = b'{"model":"m","messages":[{"role":"user","content":"Hello?"}]}'
    request = TracedRequest(
        operation="chat",
        model="m",
        stream=False,
        body=body,
        content_type="application/json",
        headers={"agent-session-id": "7"},
    )
    _, span = tracing.tracer.start(request)
    span.answered(200)
    span.piece(b'{"id":"1","model":"m-1","choices":[{"index":0,"finish_reason":"stop",')
    span.piece(b'"message":{"role":"assistant","content":"Hello!"}}]}')
    span.end(TokenUsage(input=1, output=2, total=3), "m-1", "complete")
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["name"], line["kind"]) == (span_name, f"SpanKind.{kind}")
    assert line["status"] == {"status_code": "OK"}
    assert {"s": "7"}.items() <= line["attributes"].items()
    assert model in line["attributes"]


STARTS = {
    "one process": ("1", {"AI_GATEWAY_TRACING_SEMCONV": "x"}, 'invalid AI_GATEWAY_TRACING_SEMCONV "x"'),
    "two workers": ("2", {"OTEL_PROPAGATORS": "b3"}, 'OTEL_PROPAGATORS: "b3" needs the package'),
    "pushed metrics": ("2", {"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, 'invalid OTEL_METRIC_EXPORT_INTERVAL: "soon"'),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_process_that_cannot_export_as_it_should_does_not_start(name):
    workers, variables, reason = STARTS[name]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "EXTPROC_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "extproc", "-configPath", "/x", "-workers", workers, "-extProcAddr", "127.0.0.1:0"],
        cwd=ROOT,
        env={**clean, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert f"error: failed to set up telemetry: {reason}" in line

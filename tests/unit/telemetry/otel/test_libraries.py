"""The SDK's lines in our log: few, of one line, and without what clients send."""

from __future__ import annotations

import logging
import threading

import pytest
import structlog

from extproc.telemetry.otel.libraries import QUIET_SECONDS, Digest
from tests.unit.telemetry.otel.test_recorder import Traced

SDK = logging.getLogger("opentelemetry.exporter.test")


@pytest.fixture
def lines():
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.fixture
def digest():
    now = [0.0]
    made = Digest(clock=lambda: now[0])
    made.now = now
    before = SDK.handlers, SDK.propagate
    SDK.handlers, SDK.propagate = [made], False
    yield made
    SDK.handlers, SDK.propagate = before


def test_the_same_failure_is_told_once_a_minute_with_how_often_it_was_not(digest, lines):
    for code in (500, 501, 502):
        SDK.error("Failed to export, code: %s", code)
    digest.now[0] = QUIET_SECONDS
    SDK.error("Failed to export, code: %s", 503)
    assert lines == [
        {"event": "opentelemetry", "message": "Failed to export, code: 500", "log_level": "error"},
        {"event": "opentelemetry", "message": "Failed to export, code: 503", "since": 2, "log_level": "error"},
    ]


def test_another_failure_is_told_too(digest, lines):
    SDK.error("one")
    SDK.warning("another")
    assert [(line["message"], line["log_level"]) for line in lines] == [("one", "error"), ("another", "warning")]


def test_a_traceback_is_one_word_and_a_line_is_one_line(digest, lines):
    try:
        int("bad value")
    except ValueError:
        SDK.exception("It failed\nbadly")
    assert lines == [
        {
            "event": "opentelemetry",
            "message": "It failed badly",
            "error": "ValueError: invalid literal for int() with base 10: 'bad value'",
            "log_level": "error",
        }
    ]


def test_what_the_sdk_says_of_itself_is_not_told(digest, lines):
    SDK.setLevel(logging.INFO)
    SDK.info("all is well")
    SDK.setLevel(logging.NOTSET)
    assert lines == []


def test_a_thread_of_the_sdk_tells_which_worker_it_belongs_to(capsys):
    def tell():
        SDK.error("from a thread")

    before = SDK.handlers, SDK.propagate
    with structlog.contextvars.bound_contextvars(worker="w1"):
        SDK.handlers, SDK.propagate = [Digest()], False
    processors = structlog.get_config()["processors"]
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, structlog.processors.KeyValueRenderer()])
    try:
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
    finally:
        structlog.configure(processors=processors)
        SDK.handlers, SDK.propagate = before
    assert "worker='w1'" in capsys.readouterr().out


def test_what_clients_send_is_not_quoted(adopted, lines):
    Traced().start(
        {
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "tracestate": "canary",
            "baggage": f"canary,x=\xe9,{'k' * 5000}=1",
        }
    )
    assert lines == []

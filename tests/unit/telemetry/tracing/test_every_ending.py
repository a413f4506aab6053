"""Whichever way a request of any API ends, it has one span, which has ended, and which holds no credential.

Requests and answers are those of the golden spans. They go through the exchange, over the real SDK.
"""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest
import structlog
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from extproc.errors import StreamFailure
from extproc.telemetry.otel.propagators import propagator
from extproc.telemetry.tracing.readers.table import READERS
from extproc.telemetry.tracing.recorder import SpanTracer
from extproc.telemetry.tracing.switches import conventions
from tests.support import canaries
from tests.support.golden_spans import FORM, SHOWN, cases, name_of
from tests.support.playbook import (
    BACKEND,
    SECOND_BACKEND,
    Exchange,
    Gateway,
    Reply,
    cost,
    openai_backend,
    request_headers,
)

PATHS = {endpoint.operation: path for path, endpoint in reversed(EndpointTable.build().endpoints.items())}
OURS = "canary-of-ours"
CREDENTIALS = {
    "authorization": "Bearer canary-of-the-client",
    "x-api-key": "canary-x-api-key",
    "x-goog-api-key": "canary-goog",
    "cookie": "session=canary",
}


def other(name: str, schema: str, **auth: Any) -> dict[str, Any]:
    return {
        "name": f"default/{name}/route/chat/rule/0/ref/9",
        "schema": {"name": schema},
        "modelNameOverride": "",
        **auth,
    }


BACKENDS = {
    "of the same API": openai_backend(BACKEND, auth={"apiKey": {"key": OURS}}),
    "Claude": {**other("claude", "Anthropic", auth={"anthropicAPIKey": {"key": OURS}}), "name": SECOND_BACKEND},
    "Cohere": other("cohere", "Cohere", auth={"apiKey": {"key": OURS}}),
    "Gemini": other("gemini", "GCPVertexAI"),
    "one that brings no credential": {
        **other("brings", "OpenAI"),
        "auth": {"apiKey": {"key": ""}, "credentialOverride": {"requestHeader": {"name": "x-own"}}},
    },
}
SERVING = {Operation.MESSAGES: "Claude", Operation.COUNT_TOKENS: "Claude", Operation.RERANK: "Cohere"}
CONFIG = {"version": "dev", "backends": list(BACKENDS.values()), "llmRequestCosts": [cost("total")]}
CODINGS = {
    "": bytes,
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "deflate": zlib.compress,
}


class Counted(SpanProcessor):
    """Every span that was started, and every one that has ended."""

    def __init__(self) -> None:
        self.started = 0
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def take(self) -> list[ReadableSpan]:
        """The spans since the last time, all of which have ended."""
        assert self.started == len(self.ended)
        spans, self.started, self.ended = self.ended, 0, []
        return spans


def traced(environ: dict[str, str], **options: Any) -> tuple[Gateway, Counted]:
    counted, convention = Counted(), conventions(environ)
    limits = SpanLimits(max_span_attributes=SpanLimits.UNSET) if convention.unlimited else SpanLimits()
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(counted)
    tracer = SpanTracer(
        provider.get_tracer("test"),
        propagator=propagator({}),
        convention=convention,
        readers={str(operation): reader for operation, reader in READERS.items()},
    )
    return Gateway(CONFIG, tracer=tracer, **options), counted


class Story:
    """A request of a golden case and its answer, message by message."""

    def __init__(self, case: Path, *, coding: str = "", size: int = 0, status: str = "", answer: bytes | None = None):
        (request,) = case.glob("request.*")
        (answered,) = (path for kind in ("answer", "cut-off", "error-") for path in case.glob(f"{kind}*"))
        self.operation = Operation(case.parent.name)
        self.request = request.read_bytes()
        self.content_type = FORM if request.suffix == ".form" else "application/json"
        golden = answered.stem.removeprefix("error-")[:3] if answered.stem.startswith("error-") else "200"
        self.status = status or golden
        self.answer = CODINGS[coding](answered.read_bytes() if answer is None else answer)
        self.headers = {"content-type": "text/event-stream" if answered.suffix == ".events" else "application/json"}
        if coding:
            self.headers["content-encoding"] = coding
        self.size = size

    def messages(self, exchange: Exchange, *backends: str) -> Iterator[Reply]:
        path = f"{PATHS[self.operation]}?key=canary-in-the-query"
        yield exchange.headers({":path": path, "content-type": self.content_type, **CREDENTIALS})
        yield exchange.body(self.request)
        reply = None
        for backend in backends:
            reply = exchange.attempt(BACKENDS[backend]["name"])
            yield reply
        if reply is not None and reply.kind == "immediate_response":
            # Envoy shows our answer to the router-level filter, as it would a backend's.
            yield exchange.response(status=str(reply.status))
            yield exchange.piece(reply.body or b"", eos=True)
            return
        reply = exchange.response(self.headers, status=self.status)
        yield reply
        streamed = reply.kind == "response_headers" and reply.message.HasField("mode_override")
        yield from self._pieces(exchange, self.size if streamed and self.size else len(self.answer) or 1)

    def _pieces(self, exchange: Exchange, size: int) -> Iterator[Reply]:
        for at in range(0, len(self.answer) or 1, size):
            reply = exchange.piece(self.answer[at : at + size], eos=at + size >= len(self.answer))
            yield reply
            if reply.kind == "immediate_response":
                return

    def play(self, exchange: Exchange, *backends: str, until: int | None = None) -> int:
        """So many messages, or all; then both streams end, and end again. Gives how many there were."""
        count = 0
        try:
            for _ in itertools.islice(self.messages(exchange, *backends), until):
                count += 1
        except StreamFailure:
            count += 1
        exchange.close()
        exchange.close()
        return count


@pytest.fixture(params=SHOWN, scope="module")
def world(request):
    return traced(dict(SHOWN[request.param]))


@pytest.fixture(scope="module")
def one_world():
    """Of the convention that says most."""
    return traced({})


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as logs:
        yield logs
    assert [entry for entry in logs if entry["event"] in ("fault", "a span is incomplete")] == []


def check(spans: list[ReadableSpan], *, count: int = 1) -> None:
    assert len(spans) == count
    for span in spans:
        assert canaries.shown(span.to_json()) is None


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_one_span_whoever_leaves_whenever(case, world, logged):
    gateway, counted = world
    serving = SERVING.get(Operation(case.parent.name), "of the same API")
    whole = Story(case, size=40).play(gateway.exchange(), serving)
    check(counted.take())
    # All of the request, the beginning of a stream, and its last pieces.
    for until in {*range(min(whole, 6)), whole - 1}:
        Story(case, size=40).play(gateway.exchange(), serving, until=until)
        check(counted.take(), count=1 if until >= 2 else 0)


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_one_span_whatever_a_backend_makes_of_it(case, one_world, logged):
    gateway, counted = one_world
    serving = SERVING.get(Operation(case.parent.name), "of the same API")
    for coding in CODINGS:
        Story(case, coding=coding).play(gateway.exchange(), serving)
        Story(case, coding=coding, size=1).play(gateway.exchange(), serving)
        check(counted.take(), count=2)
    for answer in (b"", b"\xff" * 40, b"{", b"data: {\n\n", b"event: error\ndata: {}\n\n"):
        for status in ("200", "302", "500", ""):
            Story(case, answer=answer, status=status).play(gateway.exchange(), serving)
            check(counted.take())


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_one_span_however_many_attempts(case, one_world, logged):
    gateway, counted = one_world
    for backends in itertools.pairwise([*BACKENDS, *BACKENDS]):
        Story(case).play(gateway.exchange(), *backends)
        Story(case).play(gateway.exchange(), *backends, until=4)
        check(counted.take(), count=2)


QUOTING = {"error": {"message": f"keys {OURS}, {CREDENTIALS['x-api-key']}, canary-of-the-client are not known"}}


@pytest.mark.parametrize("case", cases(), ids=name_of)
@pytest.mark.parametrize("status", ["401", "500"])
def test_an_error_that_quotes_credentials_is_told_without_them(case, status, world, logged):
    gateway, counted = world
    serving = SERVING.get(Operation(case.parent.name), "of the same API")
    Story(case, answer=json.dumps(QUOTING).encode(), status=status).play(gateway.exchange(), serving)
    check(counted.take())


TOKENS = {
    "messages": {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x", "authorization_token": "canary"}]},
    "responses": {
        "tools": [
            {"type": "mcp", "server_label": "x", "server_url": "https://x", "authorization": "canary"},
            {"type": "mcp", "server_label": "y", "server_url": "https://y", "headers": {"Authorization": "canary"}},
        ]
    },
}


@pytest.mark.parametrize("operation", TOKENS)
def test_tokens_that_clients_give_their_tools_are_not_told(operation, world, logged):
    gateway, counted = world
    (case,) = [case for case in cases() if name_of(case) == f"{operation}/plain"]
    story = Story(case)
    story.request = json.dumps({**json.loads(story.request), **TOKENS[operation]}).encode()
    story.play(gateway.exchange(), SERVING.get(Operation(operation), "of the same API"))
    check(counted.take())


def test_a_body_that_is_too_large_has_no_span(logged):
    gateway, counted = traced({}, max_body_bytes=10)
    (case, *_) = cases()
    Story(case).play(gateway.exchange(), until=2)
    check(counted.take(), count=0)


TRACE_HEADERS = ("traceparent", "tracestate", "baggage")


@given(st.lists(st.tuples(st.sampled_from(TRACE_HEADERS), st.binary(max_size=60)), max_size=4))
def test_whatever_is_in_the_headers_of_a_trace_a_request_goes_on(pairs):
    gateway, counted = traced({})
    exchange = gateway.exchange()
    exchange.send(exchange.router, request_headers([(":path", PATHS[Operation.CHAT]), *pairs]))
    reply = exchange.body(b'{"model":"m","messages":[]}')
    assert reply.kind == "request_body"
    assert reply.set["x-ai-eg-model"] == "m"
    assert len(reply.set["traceparent"]) == 55
    exchange.close()
    check(counted.take())

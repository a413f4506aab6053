"""Traces and pushed metrics of real traffic, as a collector gets them (contract, metrics and tracing 7)."""

from __future__ import annotations

import itertools
import os
import secrets

import httpx
import pytest

from deploy.envoy.model import Retry
from tests.dataplane.harness.client import CHAT, EMBEDDINGS, OpenAnswer, connect, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.providers import BY_SCHEMA, serving
from tests.dataplane.harness.replies import Abort, Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.support import canaries
from tests.support.collector import Collector

ANSWER = json_reply(chat_completion("real-1", prompt=11, completion=7))
CHUNKS = chat_chunks("real-1", "Hel", "lo!", prompt=11, completion=7)
BUSY = json_reply({"error": {"message": "slow down", "type": "rate_limit"}}, status=429)
OVERLOADED = json_reply({"error": {"message": "busy"}}, status=503)
VECTORS = json_reply(
    {
        "object": "list",
        "model": "real-1",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.5]}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
)
OWN_KEY = {"apiKey": {"key": "sk-unused"}, "credentialOverride": {"headerName": "x-own-key"}}
AZURE = {
    "schema": {"name": "AzureOpenAI", "version": "2025-01-01-preview"},
    "auth": {"azureAPIKey": {"key": "sk-second"}},
}
CREDENTIALS = {"authorization": "Bearer sk-canary", "x-api-key": "sk-canary", "cookie": "canary"}
OFTEN = {"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_METRIC_EXPORT_INTERVAL": "100"}


@pytest.fixture(scope="module")
def first(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module")
def claude(start_upstream):
    return start_upstream("claude")


@pytest.fixture(scope="module")
def where(first, second, claude):
    return route(
        rule(first, models=["small"]),
        rule(first, second, models=["both"], retry=Retry()),
        rule(claude, models=["claude"]),
        rule(first, models=["own-key"]),
    )


@pytest.fixture(scope="module")
def config(where):
    speaker = BY_SCHEMA["Anthropic"]
    return filter_config(
        backend(where.backend_name(0, 0), model="real", key="sk-first"),
        backend(where.backend_name(1, 0), key="sk-first"),
        backend(where.backend_name(1, 1), **AZURE),
        {
            "name": where.backend_name(2, 0),
            "modelNameOverride": speaker.model,
            "schema": dict(speaker.schema),
            "auth": speaker.auth,
        },
        backend(where.backend_name(3, 0), auth=OWN_KEY),
    )


@pytest.fixture(scope="module")
def start_traced(start_stack, where, config):
    """``start_traced(collector, **environment) -> Stack`` that exports to it."""

    def start(collector, *, arguments=(), **environment):
        unset = {name: "" for name in os.environ if name.startswith(("OTEL_", "AI_GATEWAY_TRACING"))}
        return start_stack(
            routes=[where],
            config=config,
            processor_arguments=("-spanRequestHeaderAttributes", "x-tenant:tenant.id", *arguments),
            environment={**unset, **collector.environment, **OFTEN, **environment},
        )

    return start


@pytest.fixture(scope="module")
def start_collector():
    """``start_collector(protocol) -> Collector``; at the end, what it has got holds no credential."""
    started = []

    def start(protocol="http/protobuf"):
        started.append(Collector(protocol).__enter__())
        return started[-1]

    yield start
    for collector in started:
        collector.__exit__()
        assert collector.received
        assert canaries.shown(collector.text()) is None


@pytest.fixture(scope="module")
def collector(start_collector):
    return start_collector()


@pytest.fixture(scope="module")
def stack(start_traced, collector):
    return start_traced(collector)


@pytest.fixture
def client(stack):
    with connect(stack) as client:
        yield client


class Parent:
    """A client's span."""

    def __init__(self, *, sampled=True):
        self.trace_id = secrets.token_hex(16)
        self.span_id = secrets.token_hex(8)
        flags = "01" if sampled else "00"
        self.headers = {
            "traceparent": f"00-{self.trace_id}-{self.span_id}-{flags}",
            "tracestate": "vendor=1",
            "baggage": "tier=gold;private",
            "x-tenant": "acme",
            **CREDENTIALS,
        }

    def only_span(self, collector):
        """The one span of this trace, which comes as a child of this one, and goes on to no other."""
        collector.wait(self._of_this)
        (span,) = self._of_this(collector)
        assert span.parent == self.span_id
        assert span.scope == "envoyproxy/ai-gateway"
        assert span.resource["service.name"] == "ai-gateway"
        assert span.attributes["tenant.id"] == "acme"
        assert span.trace_state == "vendor=1"
        assert span.started <= span.ended
        return span

    def _of_this(self, collector):
        return [span for span in collector.spans() if span.trace_id == self.trace_id]

    def handed_on(self, received):
        """The id that the backend was given as its parent, with all that belongs to it."""
        version, trace_id, span_id, flags = received.header("traceparent").split("-")
        assert (version, trace_id) == ("00", self.trace_id)
        assert received.header("tracestate") == "vendor=1"
        assert received.header("baggage") == "tier=gold;private"
        return span_id, flags


@pytest.fixture
def parent():
    return Parent()


def test_a_chat(client, collector, first, parent):
    first.reply(ANSWER)
    assert client.post(CHAT, json=question(), headers=parent.headers).status_code == 200
    span = parent.only_span(collector)
    assert (span.name, span.kind, span.status, span.events) == ("ChatCompletion", "INTERNAL", "OK", [])
    wanted = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.input_messages.0.message.content": "Hello?",
        "llm.output_messages.0.message.content": "Hello!",
        "llm.token_count.prompt": 11,
        "llm.token_count.completion": 7,
        "llm.token_count.total": 18,
    }
    assert wanted.items() <= span.attributes.items()
    assert parent.handed_on(first.last) == (span.span_id, "01")


def test_a_stream(stack, collector, first, parent):
    gate = Gate()
    first.reply(stream_reply(*CHUNKS[:2], gate, *CHUNKS[2:]))
    with OpenAnswer(stack, question(stream=True), **parent.headers) as answer:
        answer.until(b"lo!")
        gate.open()
        answer.rest()
    span = parent.only_span(collector)
    assert (span.status, span.attributes["llm.output_messages.0.message.content"]) == ("OK", "Hello!")
    (event,) = span.events
    assert event.name == "First Token Stream Event"
    assert span.started <= event.at < span.ended
    assert span.attributes["llm.token_count.total"] == 18


def test_a_chat_that_is_translated(client, collector, claude, parent):
    claude.always(serving(BY_SCHEMA["Anthropic"].provider))
    response = client.post(CHAT, json=question("claude", max_tokens=50), headers=parent.headers)
    span = parent.only_span(collector)
    said = response.json()["choices"][0]["message"]["content"]
    assert span.attributes["llm.output_messages.0.message.content"] == said
    assert span.attributes["llm.token_count.total"] == response.json()["usage"]["total_tokens"]
    assert (span.name, span.status) == ("ChatCompletion", "OK")
    assert parent.handed_on(claude.last)[0] == span.span_id


def test_a_stream_that_is_translated(stack, collector, claude, parent):
    claude.always(serving(BY_SCHEMA["Anthropic"].provider))
    with OpenAnswer(stack, question("claude", max_tokens=50, stream=True), **parent.headers) as answer:
        answer.rest()
    span = parent.only_span(collector)
    assert span.attributes["llm.output_messages.0.message.content"]
    assert [event.name for event in span.events] == ["First Token Stream Event"]
    assert span.status == "OK"


def test_embeddings(client, collector, first, parent):
    first.reply(VECTORS)
    client.post(EMBEDDINGS, json={"model": "small", "input": "Hello?"}, headers=parent.headers)
    span = parent.only_span(collector)
    assert (span.name, span.attributes["openinference.span.kind"]) == ("CreateEmbeddings", "EMBEDDING")
    assert span.attributes["embedding.embeddings.0.embedding.vector"] == [0.5, 1.5]


def test_an_error_of_the_backend(client, collector, first, parent):
    first.reply(BUSY)
    assert client.post(CHAT, json=question(), headers=parent.headers).status_code == 429
    span = parent.only_span(collector)
    assert span.status == "ERROR"
    assert span.description.startswith("Error code: 429 - ")
    assert "slow down" in span.description
    (event,) = span.events
    assert (event.name, event.attributes["exception.type"]) == ("exception", "RateLimitError")


def test_a_request_that_we_refuse(client, collector, first, parent):
    assert client.post(CHAT, json=question("own-key"), headers=parent.headers).status_code == 401
    span = parent.only_span(collector)
    assert (span.status, span.events[0].attributes["exception.type"]) == ("ERROR", "AuthenticationError")
    assert first.requests == []


def test_a_client_that_leaves(stack, collector, first, parent):
    first.reply(stream_reply(CHUNKS[0], Gate()))
    with OpenAnswer(stack, question(stream=True), **parent.headers) as answer:
        answer.until(b"Hel")
    span = parent.only_span(collector)
    assert (span.status, span.attributes["error.type"]) == ("UNSET", "client_cancelled")
    assert span.attributes["llm.output_messages.0.message.content"] == "Hel"


def test_a_client_that_leaves_before_the_answer(stack, collector, first, parent):
    gate = Gate()
    first.reply(stream_reply(gate))
    with connect(stack) as client:
        request = client.build_request("POST", CHAT, json=question(stream=True), headers=parent.headers, timeout=0.5)
        with pytest.raises(httpx.ReadTimeout):
            client.send(request)
    gate.open()
    span = parent.only_span(collector)
    assert (span.status, span.attributes["error.type"]) == ("UNSET", "client_cancelled")
    assert span.events == []


def test_an_answer_that_breaks_off_is_told_by_envoy_as_a_client_that_leaves(stack, collector, first, parent):
    gate = Gate()
    first.reply(stream_reply(CHUNKS[0], gate, Abort()))
    with OpenAnswer(stack, question(stream=True), **parent.headers) as answer:
        answer.until(b"Hel")
        gate.open()
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()
    span = parent.only_span(collector)
    assert (span.status, span.attributes.get("error.type")) == ("UNSET", "client_cancelled")
    assert span.attributes["llm.output_messages.0.message.content"] == "Hel"


def test_another_attempt_is_in_the_same_span(client, collector, first, second, parent):
    first.reply(OVERLOADED)
    second.reply(ANSWER)
    assert client.post(CHAT, json=question("both"), headers=parent.headers).status_code == 200
    span = parent.only_span(collector)
    assert (span.status, span.events) == ("OK", [])
    assert [parent.handed_on(upstream.last)[0] for upstream in (first, second)] == [span.span_id] * 2


def test_a_request_that_its_client_does_not_sample_goes_on_with_its_trace(client, collector, first):
    unsampled, sampled = Parent(sampled=False), Parent()
    for each in (unsampled, sampled):
        first.reply(ANSWER)
        client.post(CHAT, json=question(), headers=each.headers)
    sampled.only_span(collector)
    received = first.requests[0]
    span_id, flags = unsampled.handed_on(received)
    assert flags == "00"
    assert span_id != unsampled.span_id
    assert unsampled.trace_id not in {span.trace_id for span in collector.spans()}


def test_a_client_without_a_trace_begins_one(client, collector, first):
    first.reply(ANSWER)
    client.post(CHAT, json=question(), headers={"x-tenant": "rootless"})
    span = collector.wait(
        lambda it: next((span for span in it.spans() if span.attributes.get("tenant.id") == "rootless"), None)
    )
    assert span.parent == ""
    assert first.last.header("traceparent") == f"00-{span.trace_id}-{span.span_id}-{flags_of(first.last)}"


def flags_of(received):
    return received.header("traceparent")[-2:]


def assert_pushed_as_shown(stack, collector):
    """The newest push has what ``/metrics`` shows, series by series."""

    def shown():
        samples = stack.metrics().samples("gen_ai_client_token_usage_sum")
        return {
            frozenset(item for item in sample.labels.items() if not item[0].startswith("otel_scope_")): sample.value
            for sample in samples
        }

    def newest(it):
        points = it.points("gen_ai.client.token.usage")
        return {
            frozenset((name.replace(".", "_"), value) for name, value in point.attributes.items()): point.value
            for point in itertools.takewhile(lambda point: point.at == points[0].at, points)
        }

    assert shown()
    collector.wait(lambda it: newest(it) == shown())


def test_pushed_metrics_are_those_that_are_shown(stack, client, collector, first):
    first.reply(ANSWER)
    client.post(CHAT, json=question())
    assert_pushed_as_shown(stack, collector)
    (point, *_) = collector.points("gen_ai.server.request.duration")
    assert (point.unit, point.kind, point.temporality, point.scope) == (
        "s",
        "histogram",
        "CUMULATIVE",
        "envoyproxy/ai-gateway",
    )
    assert point.resource["service.name"] == "ai-gateway"
    target = next(stack.metrics().samples("target_info"))
    assert target.labels["service_name"] == "ai-gateway"


def test_what_is_not_yet_exported_is_when_the_process_ends(start_collector, start_traced, first):
    collector = start_collector()
    rarely = {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000"}
    stack = start_traced(collector, **rarely)
    parent = Parent()
    first.reply(ANSWER)
    with connect(stack) as client:
        client.post(CHAT, json=question(), headers=parent.headers)
    assert collector.received == []
    assert stack.processor.stop(grace=30.0) == 0
    assert parent.only_span(collector).status == "OK"
    assert sum(point.value for point in collector.points("gen_ai.client.token.usage")) == 18


def test_a_collector_that_hangs_does_not_hold_up_the_end(start_collector, start_traced, first):
    collector = start_collector()
    stack = start_traced(collector)
    first.always(ANSWER)
    with connect(stack) as client:
        client.post(CHAT, json=question(), headers=Parent().headers)
        collector.wait(lambda it: it.spans())
        collector.hang()
        client.post(CHAT, json=question(), headers=Parent().headers)
    assert stack.processor.stop(grace=30.0) == 0
    log = stack.processor.log.read_text(encoding="utf-8")
    assert "traces could not be exported in time, some are lost" in log
    assert "Traceback" not in log


class TestTwoWorkersOverGrpc:
    """In the convention of OpenTelemetry, without content."""

    @pytest.fixture(scope="class")
    @classmethod
    def collector(cls, start_collector):
        return start_collector("grpc")

    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, start_traced, collector):
        arguments = ("-transport", "http2", "-workers", "2")
        return start_traced(collector, arguments=arguments, AI_GATEWAY_TRACING_SEMCONV="gen_ai")

    def test_every_request_has_one_span(self, client, collector, first):
        first.always(ANSWER)
        parents = [Parent() for _ in range(10)]
        for each in parents:
            client.post(CHAT, json=question(), headers=each.headers)
        for each in parents:
            span = each.only_span(collector)
            assert (span.name, span.kind, span.status) == ("chat small", "CLIENT", "OK")
            wanted = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "small",
                "gen_ai.response.model": "real-1",
                "gen_ai.usage.input_tokens": 11,
                "gen_ai.usage.output_tokens": 7,
            }
            assert wanted.items() <= span.attributes.items()
            assert "Hello" not in str(span.attributes)

    def test_an_error_does_not_quote_the_backend(self, client, collector, first, parent):
        first.reply(BUSY)
        client.post(CHAT, json=question(), headers=parent.headers)
        span = parent.only_span(collector)
        assert (span.status, span.description) == ("ERROR", "Error code: 429")
        assert span.attributes["error.type"] == "429"

    def test_the_provider_is_that_of_the_last_attempt(self, client, collector, first, second, parent):
        first.reply(OVERLOADED)
        second.reply(ANSWER)
        assert client.post(CHAT, json=question("both"), headers=parent.headers).status_code == 200
        span = parent.only_span(collector)
        assert (span.status, span.attributes["gen_ai.provider.name"]) == ("OK", "azure.openai")

    def test_the_supervisor_pushes_what_all_have_counted(self, stack, client, collector, first):
        first.always(ANSWER)
        for _ in range(10):
            client.post(CHAT, json=question())
        assert_pushed_as_shown(stack, collector)
        (point, *_) = collector.points("extproc_workers")
        assert point.value == 2

    def test_the_last_spans_come_before_the_end(self, stack, client, collector, first):
        first.always(ANSWER)
        last = [Parent() for _ in range(5)]
        for each in last:
            client.post(CHAT, json=question(), headers=each.headers)
        assert stack.processor.stop(grace=30.0) == 0
        for each in last:
            each.only_span(collector)

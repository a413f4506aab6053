"""What a span is told of a request, whichever way it ends (contract, metrics and tracing 7.7)."""

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest

from extproc.telemetry.tracing.base import Started, TracedRequest
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.playbook import SECOND_BACKEND, Exchange, Gateway, cost, openai_backend

ANTHROPIC = {
    "name": SECOND_BACKEND,
    "schema": {"name": "Anthropic"},
    "modelNameOverride": "",
    "auth": {"anthropicAPIKey": {"key": "k"}},
}
OVERRIDDEN = {
    **openai_backend("default/brings/route/chat/rule/0/ref/2"),
    "auth": {"apiKey": {"key": ""}, "credentialOverride": {"requestHeader": {"name": "x-key"}}},
}
CONFIG: dict[str, Any] = {
    "version": "dev",
    "backends": [openai_backend(), ANTHROPIC],
    "llmRequestCosts": [cost("total")],
}
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
ANSWER = b'{"id":"x","model":"m-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'
USAGE = TokenUsage(input=1, output=2, total=3)
TRACE = (("traceparent", "00-1-2-01"), ("tracestate", "a=b"))


class Recording:
    """A tracer whose spans write down what they are told."""

    def __init__(self, *, sampled: bool = True) -> None:
        self.requests: list[TracedRequest] = []
        self.calls: list[tuple[Any, ...]] = []
        self.concealed: list[str] = []
        self._sampled = sampled

    def start(self, request: TracedRequest) -> Started:
        self.requests.append(request)
        return Started(TRACE, self if self._sampled else None)

    def bound(self, provider: str) -> None:
        self.calls.append(("bound", provider))

    def conceal(self, credentials: Iterable[str]) -> None:
        self.concealed += credentials

    def answered(self, status: int) -> None:
        self.calls.append(("answered", status))

    def piece(self, data: bytes) -> None:
        self.calls.append(("piece", data))

    def refused(self, status: int, body: bytes) -> None:
        self.calls.append(("refused", status, body))

    def end(self, usage: TokenUsage, model: str, ending: str) -> None:
        self.calls.append(("end", usage, model, ending))


def traced(config: dict[str, Any] = CONFIG, *, sampled: bool = True) -> tuple[Recording, Exchange]:
    tracer = Recording(sampled=sampled)
    return tracer, Gateway(config, tracer=tracer).exchange()


def test_the_trace_context_goes_on_with_the_routing():
    tracer, exchange = traced()
    exchange.headers({"traceparent": "00-of-the-client"})
    reply = exchange.body(BODY)
    assert reply.set_list[-2:] == list(TRACE)
    (request,) = tracer.requests
    assert (request.operation, request.model, request.stream, request.body) == ("chat", "m", False, BODY)
    assert request.content_type == "application/json"
    assert request.headers["x-ai-eg-model"] == "m"


def test_the_client_s_bytes_are_shown_and_not_what_we_made_of_them():
    tracer, exchange = traced()
    body = b'{"model": "m", "stream": true, "messages": []}'
    exchange.headers()
    exchange.body(body[:9], eos=False)
    exchange.body(body[9:])
    assert tracer.requests[0].body == body
    assert tracer.requests[0].stream


def test_an_answer_is_shown_once_and_ends_with_its_usage():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt()
    exchange.response()
    exchange.piece(ANSWER, eos=True)
    exchange.close()
    exchange.close()
    assert tracer.calls == [
        ("bound", "openai"),
        ("answered", 200),
        ("piece", ANSWER),
        ("end", USAGE, "m-1", "complete"),
    ]


def test_without_sampling_the_context_still_goes_on():
    tracer, exchange = traced(sampled=False)
    assert exchange.request(BODY).set_list[-2:] == list(TRACE)
    exchange.attempt()
    exchange.response()
    exchange.piece(ANSWER, eos=True)
    exchange.close()
    assert tracer.calls == []


def test_a_coded_answer_is_shown_decoded():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt()
    exchange.response({"content-type": "application/json", "content-encoding": "gzip"})
    exchange.piece(gzip.compress(ANSWER), eos=True)
    exchange.close()
    assert ("piece", ANSWER) in tracer.calls


def test_a_translated_answer_is_shown_as_the_client_reads_it():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt(SECOND_BACKEND)
    exchange.response()
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "hallo"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    reply = exchange.piece(json.dumps(answer).encode(), eos=True)
    exchange.close()
    assert ("bound", "anthropic") in tracer.calls
    assert ("piece", reply.body) in tracer.calls
    assert json.loads(reply.body or b"")["object"] == "chat.completion"


def test_an_error_of_the_backend_is_shown_as_the_client_reads_it():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt(SECOND_BACKEND)
    exchange.response(status="429")
    reply = exchange.piece(b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}', eos=True)
    exchange.close()
    assert tracer.calls[1:] == [
        ("answered", 429),
        ("piece", reply.body),
        ("end", NO_USAGE, "unknown", "failed"),
    ]


def test_each_attempt_tells_its_provider():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt()
    exchange.attempt(SECOND_BACKEND)
    exchange.close()
    assert [call for call in tracer.calls if call[0] == "bound"] == [("bound", "openai"), ("bound", "anthropic")]
    assert [call[-1] for call in tracer.calls if call[0] == "end"] == ["cancelled"]


def test_a_span_is_told_which_credentials_it_must_not_quote():
    """Errors of backends do."""
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt()
    assert tracer.concealed == []
    exchange.attempt(SECOND_BACKEND)
    exchange.close()
    assert tracer.concealed == ["k"]


def test_a_client_that_leaves_ends_the_span_with_the_usage_so_far():
    tracer, exchange = traced()
    exchange.request(b'{"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": []}')
    exchange.attempt()
    exchange.response({"content-type": "text/event-stream"})
    exchange.piece(b"data: " + ANSWER + b"\n\n")
    exchange.close()
    assert tracer.calls[-1] == ("end", USAGE, "m-1", "cancelled")


def test_a_client_that_leaves_before_an_attempt_ends_the_span():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.close()
    assert tracer.calls == [("end", NO_USAGE, "", "cancelled")]


def test_envoy_s_own_answer_is_shown():
    """As for a model without a route."""
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.response({"content-type": "text/plain"}, status="404")
    exchange.piece(b"No matching route found.", eos=True)
    exchange.close()
    assert tracer.calls == [
        ("answered", 404),
        ("piece", b"No matching route found."),
        ("end", NO_USAGE, "", "complete"),
    ]


def test_an_attempt_that_we_refuse_is_shown_by_the_answer_that_comes_back():
    tracer, exchange = traced({**CONFIG, "backends": [OVERRIDDEN]})
    exchange.request(BODY)
    refusal = exchange.attempt(OVERRIDDEN["name"])
    assert refusal.status == 401
    exchange.response(status="401")
    exchange.piece(refusal.body or b"", eos=True)
    exchange.close()
    assert tracer.calls[1:] == [("answered", 401), ("piece", refusal.body), ("end", NO_USAGE, "", "complete")]


def test_an_answer_that_we_replace_is_shown_as_replaced():
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt(SECOND_BACKEND)
    exchange.response()
    refusal = exchange.piece(b"no message at all", eos=True)
    assert refusal.status == 502
    exchange.close()
    assert tracer.calls[2:] == [("refused", 502, refusal.body), ("end", NO_USAGE, "unknown", "failed")]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": 1}'])
def test_a_request_that_is_not_understood_has_no_span(body: bytes):
    tracer, exchange = traced()
    assert exchange.request(body).status == 400
    exchange.close()
    assert tracer.requests == []


def test_a_fault_of_ours_ends_the_span(monkeypatch):
    tracer, exchange = traced()
    exchange.request(BODY)
    exchange.attempt()
    exchange.response()
    attempt = exchange.router._router._attempt
    monkeypatch.setattr(attempt.translator, "response_body", lambda *_args, **_named: 1 // 0, raising=False)
    assert exchange.piece(ANSWER, eos=True).status == 500
    exchange.close()
    assert [call[:2] for call in tracer.calls[2:]] == [("refused", 500), ("end", NO_USAGE)]
    assert tracer.calls[-1][-1] == "failed"

"""What the core tells the ledger of an attempt, whichever way it ends."""

from __future__ import annotations

import json

import pytest

from extproc.telemetry.exposition import render
from extproc.telemetry.ledger import SLOT_SECONDS, Ledger
from tests.support.playbook import BACKEND, NOW, ROUTE, SECOND_BACKEND, Gateway, cost, openai_backend

CONFIG = {
    "version": "dev",
    "backends": [openai_backend(modelNameOverride="real"), openai_backend(SECOND_BACKEND)],
    "llmRequestCosts": [cost("total"), cost("fixed", "CEL", cel="3u")],
}
ASKED = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 4,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
ANSWER = json.dumps({"id": "x", "model": "m-2024", "choices": [], "usage": USAGE}).encode()
CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
WITH_USAGE = b"data: " + ANSWER + b"\n\n"
SLOT = int(NOW) // SLOT_SECONDS
DONE = b"data: [DONE]\n\n"


class Told:
    """A request on a processor whose ledger is looked into."""

    def __init__(self, body, config=CONFIG):
        gateway = Gateway(config)
        self.ledger = gateway.processor._context.accounts.ledger = Ledger()
        self.ledger.backlog = gateway.processor._context.metrics.backlog
        self.clock = gateway.clock
        self.exchange = gateway.exchange()
        self.exchange.request(body)

    @property
    def entries(self):
        return [entry for slot in self.ledger.slots(SLOT, SLOT) for entry in slot.slowest]

    @property
    def entry(self):
        (entry,) = self.entries
        return entry


@pytest.fixture
def stream():
    told = Told(ASKED)
    told.exchange.attempt()
    return told


def test_an_answer_in_one_piece():
    told = Told({"model": "m"})
    told.exchange.attempt()
    told.clock.advance(0.5)
    told.exchange.response()
    told.clock.advance(0.25)
    told.exchange.piece(ANSWER, eos=True)
    entry = told.entry
    assert (entry.model, entry.asked, entry.operation) == ("real", "m", "chat")
    assert (entry.backend, entry.route) == ("/".join(BACKEND.split("/")[:2]), ROUTE)
    assert (entry.outcome, entry.status, entry.request_id, entry.streamed) == ("success", 200, "req-1", False)
    assert (entry.prepared, entry.headers, entry.first_byte, entry.seconds) == (0.0, 0.5, 0.75, 0.75)
    assert (entry.input, entry.cached, entry.output, entry.reasoning) == (11, 3, 4, 1)
    assert entry.costs == {"total": 15, "fixed": 3}
    assert entry.at == NOW


def test_a_stream(stream):
    stream.clock.advance(1)
    stream.exchange.response({"content-type": "text/event-stream"})
    stream.clock.advance(1)
    stream.exchange.piece(CONTENT)
    stream.clock.advance(2)
    stream.exchange.piece(WITH_USAGE)
    metadata = stream.exchange.piece(DONE, eos=True).metadata
    entry = stream.entry
    assert (entry.outcome, entry.streamed) == ("success", True)
    assert (entry.headers, entry.first_byte, entry.seconds) == (1.0, 2.0, 4.0)
    # The ledger has what Envoy was told.
    assert entry.costs == {"total": metadata["total"], "fixed": metadata["fixed"]} == {"total": 15, "fixed": 3}


def test_a_stream_that_the_client_leaves_after_its_usage(stream):
    stream.exchange.response({"content-type": "text/event-stream"})
    stream.exchange.piece(CONTENT)
    stream.exchange.piece(WITH_USAGE)
    stream.exchange.close()
    assert (stream.entry.outcome, stream.entry.output) == ("client_cancelled", 4)
    assert stream.entry.costs == {"total": 15, "fixed": 3}


def test_a_client_that_leaves_before_there_is_an_answer(stream):
    stream.clock.advance(7)
    stream.exchange.close()
    entry = stream.entry
    assert (entry.outcome, entry.status, entry.headers, entry.first_byte) == ("client_cancelled", 0, None, None)
    assert (entry.seconds, entry.costs) == (7.0, {})


@pytest.mark.parametrize("status", ["400", "429", "500"])
def test_an_error_of_the_backend(status):
    told = Told({"model": "m"})
    told.exchange.attempt()
    told.exchange.response(status=status)
    told.exchange.piece(b'{"error":{"message":"no"}}', eos=True)
    assert (told.entry.outcome, told.entry.status) == ("failed", int(status))
    assert (told.entry.first_byte, told.entry.costs) == (None, {})


def test_a_failover_is_two_attempts(stream):
    stream.exchange.attempt(SECOND_BACKEND)
    stream.exchange.response({"content-type": "text/event-stream"})
    stream.exchange.pieces([CONTENT, WITH_USAGE, DONE])
    assert sorted((entry.outcome, entry.model) for entry in stream.entries) == [("retried", "real"), ("success", "m")]


def test_an_attempt_that_is_refused():
    override = {"apiKey": {"key": "sk-unused"}, "credentialOverride": {"headerName": "x-own-key"}}
    told = Told({"model": "m"}, CONFIG | {"backends": [openai_backend(auth=override)]})
    assert told.exchange.attempt().status == 401
    assert (told.entry.outcome, told.entry.prepared, told.entry.headers) == ("refused", None, None)


def test_without_a_ledger_nothing_is_told(stream):
    stream.exchange.gateway.processor._context.accounts.ledger = None
    stream.exchange.response(eos=True)
    assert stream.entries == []


# --- requests that were answered before a backend was asked ---


def malformed(exchange):
    exchange.request(b"[]")


def too_large(exchange):
    exchange.headers({"content-length": "1000000"})


def of_no_route(exchange):
    exchange.request(ASKED)
    exchange.response(status="404")
    exchange.piece(b"no", eos=True)


def out_of_budget(exchange):
    exchange.request(ASKED)
    exchange.response(status="429", eos=True)


def attempted_too_early(exchange):
    exchange.headers()
    assert exchange.attempt().status == 503
    exchange.response(status="503")
    exchange.piece(b"{}", eos=True)


def of_no_endpoint(exchange):
    exchange.headers({":path": "/v1/nothing"})


UNATTEMPTED = {
    "a malformed body": (malformed, "chat", "", 400, "processor"),
    "a body that is too large": (too_large, "chat", "", 413, "processor"),
    "a model that no route takes": (of_no_route, "chat", "m", 404, "envoy"),
    "a spent budget": (out_of_budget, "chat", "m", 429, "envoy"),
    "an attempt before the body": (attempted_too_early, "chat", "", 503, "processor"),
    "a path that is not served": (of_no_endpoint, "unknown", "", 404, "processor"),
}


@pytest.mark.parametrize(("play", "operation", "model", "status", "by"), UNATTEMPTED.values(), ids=UNATTEMPTED)
def test_an_answer_without_an_attempt_is_told_once(play, operation, model, status, by):
    gateway = Gateway(CONFIG, max_body_bytes=1000)
    ledger = gateway.processor._context.accounts.ledger = Ledger()
    exchange = gateway.exchange()
    play(exchange)
    exchange.close()
    (slot,) = ledger.slots(SLOT, SLOT)
    (entry,) = slot.slowest
    assert (entry.outcome, entry.status, entry.model, entry.operation) == ("refused", status, model, operation)
    assert (entry.backend, entry.route, entry.seconds, entry.costs) == ("", "", 0.0, {})
    assert {key: tally.others for key, tally in slot.tallies.items()} == {(model, "", ""): {"refused": 1}}
    page = render(gateway.metrics.registry)
    labels = f'by="{by}",operation="{operation}",status="{status}"'
    assert f"extproc_unattempted_requests_total{{{labels}}} 1\n" in page
    assert "extproc_attempts_total" not in page


def test_without_a_config_every_request_is_told():
    gateway = Gateway()
    ledger = gateway.processor._context.accounts.ledger = Ledger()
    assert gateway.exchange().headers().status == 503
    (slot,) = ledger.slots(SLOT, SLOT)
    assert [(entry.status, entry.outcome) for entry in slot.slowest] == [(503, "refused")]


def test_a_refused_attempt_has_the_status_that_the_client_got():
    told = Told({"model": "m"}, {"version": "dev", "backends": [{**openai_backend(), "schema": {"name": "Cohere"}}]})
    assert told.exchange.attempt().status == 501
    told.exchange.response(status="501")
    told.exchange.close()
    assert (told.entry.outcome, told.entry.status, told.entry.backend) == ("refused", 501, "default/openai")

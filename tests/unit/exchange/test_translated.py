"""Answers that are built anew for the client: their headers, faults and accounting (contract, chat 1.4)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from protos.ext_proc_pb2 import STREAMED
from tests.support.playbook import BACKEND, SECOND_BACKEND, Exchange, Gateway, cost, openai_backend

SSE = {"content-type": "text/event-stream", "content-length": "9"}
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
STREAM = {**REQUEST, "stream": True, "stream_options": {"include_usage": True}}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-1",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 4},
}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


START = event("message_start", message={**MESSAGE, "content": [], "stop_reason": None})
TEXT = event("content_block_start", index=0, content_block={"type": "text", "text": ""}) + event(
    "content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"}
)
END = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
    + event("message_stop")
)
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


def anthropic_backend(name: str = BACKEND) -> dict[str, Any]:
    return {"name": name, "schema": {"name": "Anthropic"}, "auth": {"anthropicAPIKey": {"key": "sk"}}}


@pytest.fixture
def gateway() -> Gateway:
    backends = [anthropic_backend(), anthropic_backend(SECOND_BACKEND)]
    return Gateway(
        {"version": "dev", "backends": backends, "llmRequestCosts": [cost("total"), cost("in", "InputToken")]}
    )


@pytest.fixture
def exchange(gateway: Gateway) -> Exchange:
    return gateway.exchange()


def asked(exchange: Exchange, request: dict[str, Any]) -> Exchange:
    exchange.request(request)
    assert exchange.attempt().kind == "request_headers"
    return exchange


def outcomes(gateway: Gateway) -> dict[str, float]:
    families = gateway.metrics.registry.collect()
    samples = [sample for family in families for sample in family.samples if sample.name == "extproc_attempts_total"]
    return {sample.labels["outcome"]: sample.value for sample in samples}


def test_a_document_is_rebuilt_and_metered(exchange, gateway):
    asked(exchange, REQUEST).response()
    reply = exchange.piece(json.dumps(MESSAGE).encode(), eos=True)
    answer = json.loads(reply.body)
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert reply.set["content-length"] == str(len(reply.body))
    assert reply.metadata["total"] == 12
    assert reply.metadata["in"] == 7
    assert reply.metadata["response_model"] == "claude-x-1"
    assert outcomes(gateway) == {"success": 1}


def test_a_document_in_pieces_is_held_until_it_is_whole(exchange):
    asked(exchange, REQUEST)
    # What an Envoy that streams bodies says on the first message.
    exchange.router._router._response_mode = STREAMED
    exchange.response()
    raw = json.dumps(MESSAGE).encode()
    first, second = exchange.piece(raw[:20]), exchange.piece(raw[20:], eos=True)
    assert first.body == b""
    assert json.loads(second.body)["choices"][0]["message"]["content"] == "hello"


UNREADABLE = {
    "empty": b"",
    "no JSON": b"<html>",
    "cut": b'{"id":"msg',
    "another API": b"[]",
    "an error in a 200": OVERLOADED,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_document_that_cannot_be_read_is_a_502_in_the_clients_shape(exchange, gateway, name):
    asked(exchange, REQUEST).response()
    reply = exchange.piece(UNREADABLE[name], eos=True)
    assert reply.status == 502
    assert reply.json["type"] == "error"
    assert reply.json["error"]["type"] == "BadGateway"
    assert reply.json["error"]["message"].startswith("the backend's answer cannot be read: ")
    assert outcomes(gateway) == {"failed": 1}


@pytest.mark.parametrize("request_body", [REQUEST, STREAM], ids=["document", "stream"])
def test_an_answer_that_ends_with_its_headers_is_a_502(exchange, gateway, request_body):
    reply = asked(exchange, request_body).response({"content-length": "0"}, eos=True)
    assert reply.status == 502
    assert reply.json["error"]["message"] == "the backend's answer cannot be read: it is empty"
    assert outcomes(gateway) == {"failed": 1}


def test_a_document_in_an_unknown_coding_never_reaches_the_client(exchange, gateway):
    asked(exchange, REQUEST).response({"content-type": "application/json", "content-encoding": "snappy"})
    assert exchange.piece(b"\x00\x01", eos=True).status == 502
    assert outcomes(gateway) == {"failed": 1}


def test_a_stream_of_the_clients_api_goes_on_after_a_broken_coding_and_ends_as_a_success():
    gateway = Gateway({"version": "dev", "backends": [openai_backend()], "llmRequestCosts": [cost("total")]})
    exchange = gateway.exchange()
    asked(exchange, {**STREAM, "stream_options": {"include_usage": True}})
    exchange.response({"content-type": "text/event-stream", "content-encoding": "gzip"})
    pieces = [b"no gzip", b" at all", b""]
    output, _ = exchange.pieces(pieces)
    assert output == b"".join(pieces)
    assert outcomes(gateway) == {"success": 1}


ERROR = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_an_error_that_envoy_hands_over_in_pieces_is_translated_too(exchange, gateway, coding):
    asked(exchange, REQUEST)
    exchange.router._router._response_mode = STREAMED
    headers = {"content-type": "text/plain", "content-length": "9", **({"content-encoding": coding} if coding else {})}
    reply = exchange.response(headers, status="429")
    assert reply.set == {"content-type": "application/json"}
    assert set(reply.remove) == {"content-length", *([] if not coding else ["content-encoding"])}
    raw = gzip.compress(ERROR) if coding else ERROR
    output, _ = exchange.pieces([raw[:9], raw[9:20], raw[20:], b""])
    error = json.loads(output)["error"]
    assert error == {"type": "rate_limit_error", "code": "429", "message": "slow down"}
    assert outcomes(gateway) == {"failed": 1}


def test_a_rebuilt_document_says_what_it_is(exchange):
    reply = asked(exchange, REQUEST).response({"content-type": "application/x-amz-json-1.1"})
    assert reply.set == {"content-type": "application/json"}


def test_a_broken_coding_is_a_502(exchange):
    asked(exchange, REQUEST).response({"content-type": "application/json", "content-encoding": "gzip"})
    assert exchange.piece(b"not gzip", eos=True).status == 502


def test_a_compressed_document_is_sent_plain(exchange):
    asked(exchange, REQUEST).response({"content-type": "application/json", "content-encoding": "gzip"})
    reply = exchange.piece(gzip.compress(json.dumps(MESSAGE).encode()), eos=True)
    assert "content-encoding" in reply.remove
    assert json.loads(reply.body)["id"] == "msg_1"


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_headers_that_a_rebuilt_stream_makes_untrue_go_before_its_first_piece(exchange, coding):
    headers = {**SSE, **({"content-encoding": coding} if coding else {})}
    reply = asked(exchange, STREAM).response(headers)
    assert set(reply.remove) == {"content-length", *(["content-encoding"] if coding else [])}
    whole = START + TEXT + END
    output, metadata = exchange.pieces([gzip.compress(whole) if coding else whole, b""])
    assert output.endswith(b"data: [DONE]\n\n")
    assert metadata["total"] == 12


@pytest.mark.parametrize("thinking", [{}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}])
def test_a_request_without_a_limit_gets_the_one_that_is_set(thinking):
    gateway = Gateway({"version": "dev", "backends": [anthropic_backend()]}, default_max_tokens=77)
    exchange = gateway.exchange()
    exchange.request({"model": "m", "messages": REQUEST["messages"], **thinking})
    assert json.loads(exchange.attempt().body)["max_tokens"] == 77 + (2000 if thinking else 0)


def test_a_stream_is_metered_before_its_end(exchange, gateway):
    asked(exchange, STREAM).response(SSE)
    exchange.piece(START + TEXT)
    assert exchange.piece(END).metadata["total"] == 12
    exchange.close()
    assert outcomes(gateway) == {"success": 1}


BROKEN = {
    "an error event": (OVERLOADED, "overloaded_error"),
    "garbage in an event": (b"event: message_delta\ndata: {\n\n", None),
    "an early end": (b"", None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_stream_that_breaks_tells_the_client_and_the_access_log(exchange, gateway, name):
    rest, expected = BROKEN[name]
    asked(exchange, STREAM).response(SSE)
    output, metadata = exchange.pieces([START + TEXT, rest])
    events = [line.removeprefix("data: ") for line in output.decode().splitlines() if line]
    assert "[DONE]" not in events
    error = json.loads(events[-1])["error"]
    assert error["message"]
    assert metadata["response_error"] == error["type"]
    assert expected in (None, error["type"])
    # What had been reported is charged, and nothing is made up.
    assert metadata["in"] == 7
    exchange.close()
    assert outcomes(gateway) == {"failed": 1}


def test_a_client_that_leaves_a_stream_is_charged_what_was_reported(exchange, gateway):
    asked(exchange, STREAM).response(SSE)
    assert exchange.piece(START).metadata["in"] == 7
    exchange.close()
    assert outcomes(gateway) == {"client_cancelled": 1}


def test_a_client_that_did_not_ask_gets_no_usage(exchange):
    asked(exchange, {**REQUEST, "stream": True}).response(SSE)
    output, metadata = exchange.pieces([START + TEXT + END, b""])
    assert b'"usage"' not in output
    assert metadata["total"] == 12


def test_a_request_that_the_backend_cannot_express_is_a_422_that_names_the_member(exchange, gateway):
    exchange.request({**REQUEST, "n": 2})
    reply = exchange.attempt()
    assert reply.status == 422
    assert reply.json["error"]["type"] == "UnprocessableEntity"
    assert reply.json["error"]["message"] == "invalid request body: n is not supported by Anthropic backends"
    assert outcomes(gateway) == {"refused": 1}


def test_a_request_with_a_member_of_another_type_is_a_400(exchange):
    exchange.request({**REQUEST, "messages": [{"role": "user", "content": 5}]})
    reply = exchange.attempt()
    assert reply.status == 400
    assert "$.messages[0].content" in reply.json["error"]["message"]


def test_an_error_in_a_stream_is_told_to_envoy_as_soon_as_to_the_client(exchange):
    """A client that reads it leaves, and what the end would have said comes too late for the access log."""
    asked(exchange, STREAM).response(SSE)
    exchange.piece(START + TEXT)
    assert exchange.piece(OVERLOADED).metadata["response_error"] == "overloaded_error"

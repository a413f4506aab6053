"""Field reports about errors and failover, told of backends that speak another API; and what must never leak."""

from __future__ import annotations

import gzip
import itertools
import json
from typing import Any

import pytest
import structlog

from tests.support.field_reports import ASKED, CODINGS
from tests.support.playbook import BACKEND, SECOND_BACKEND
from tests.support.translated import (
    ALL,
    COUNTS,
    SECRET,
    TRANSLATED,
    Read,
    backend,
    config,
    document,
    events,
    overload,
    streams_as,
)

INNER = "what nobody but the log may know"
USER = [{"role": "user", "content": "q"}]
PLAIN = {"model": "m", "messages": USER}
STREAM = {**json.loads(ASKED), "messages": USER}
JSON = {"content-type": "application/json"}
QUOTED = 'a "b"\n\\ \u2028 ü </script>'


def provider_error(schema: str, message: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and document of an error whose name is ``slow``."""
    match schema:
        case "AWSBedrock" | "AWSAnthropic":
            return {**JSON, "x-amzn-errortype": "slow:http://x/"}, {"message": message}
        case "GCPVertexAI":
            return JSON, {"error": {"code": 429, "status": "slow", "message": message}}
    return JSON, {"type": "error", "error": {"type": "slow", "message": message}}


@pytest.fixture
def refused(open_gateway):
    """``refused(schema, status, headers, body)``: the reply to the body of an error answer."""
    gateways: dict[str, Any] = {}

    def refused_(schema: str, status: str, headers: dict[str, str], body: bytes) -> Any:
        if schema not in gateways:
            gateways[schema] = open_gateway(config(backend(schema)))
        exchange = gateways[schema].start(STREAM)
        assert exchange.response(headers, status=status).is_neutral
        reply = exchange.piece(body, eos=True)
        reply.gateway = gateways[schema]
        return reply

    return refused_


def error_of(reply: Any) -> dict[str, Any]:
    """The error that the client reads, which is complete and in its API's shape."""
    assert reply.set["content-type"] == "application/json"
    assert reply.set["content-length"] == str(len(reply.body))
    document = json.loads(reply.body)
    assert document["type"] == "error"
    assert set(document["error"]) <= {"type", "code", "message"}
    return dict(document["error"])


@pytest.mark.parametrize("schema", TRANSLATED)
def test_an_error_keeps_its_status_and_headers(refused, schema):
    """BR-20: also where a stream was asked for: no event, no ``[DONE]``; the headers of the answer stay."""
    headers, document = provider_error(schema, QUOTED)
    for number, status in enumerate(["400", "401", "403", "404", "429", "500", "503", "529", "302"]):
        reply = refused(schema, status, {**headers, "retry-after": "3"}, json.dumps(document).encode())
        assert error_of(reply) == {"type": "slow", "code": status, "message": QUOTED}
        assert "retry-after" not in reply.remove
        assert reply.metadata == {"response_error": "slow"}
        assert reply.gateway.count("extproc_attempts_total", 'outcome="failed"') == number + 1


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("coding", CODINGS)
def test_an_encoded_error_is_sent_plain(refused, schema, coding):
    """BR-17: what is rebuilt is no longer encoded, and says so."""
    headers, document = provider_error(schema, "bad")
    body = CODINGS[coding](json.dumps(document).encode())
    reply = refused(schema, "400", {**headers, "content-encoding": coding}, body)
    assert error_of(reply)["message"] == "bad"
    assert "content-encoding" in reply.remove


ODD = {
    "empty": b"",
    "null": b"null",
    "a number": b"7",
    "an empty object": b"{}",
    "a list": b"[]",
    "a list of errors": b'[{"error":{"message":"m"}}]',
    "text": b"slow down",
    "quotes": b'<html>"\n\\</html>',
    "no text": b"\xff\xfe\x00",
    "an error that is text": b'{"error":"text"}',
    "an error that is null": b'{"error":null}',
    "a detail": b'{"detail":"x"}',
    "codes that are numbers": b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}',
    "another object": b'{"object":"error","message":"x","code":404}',
    "half a pair": b'{"message":"\\ud83d","error":{"message":"\\ud83d"}}',
    "deep": b"[" * 100_000,
    "a megabyte": b'"\\' * 500_000,
    "a message of a megabyte": json.dumps(
        {"message": "m" * 10**6, "error": {"type": "t", "message": "m" * 10**6}}
    ).encode(),
    "a name of a megabyte": json.dumps(
        {"__type": "n" * 10**6, "message": "m", "error": {"type": "n" * 10**6, "status": "n" * 10**6, "message": "m"}}
    ).encode(),
}


@pytest.mark.parametrize("case", ODD)
def test_any_body_of_an_error_can_be_told(refused, case):
    """BR-65: never an exception, never broken JSON, and no more than one can read."""
    for schema, content_type in itertools.product(ALL, ("application/json", "text/html", "")):
        reply = refused(schema, "429", {"content-type": content_type} if content_type else {}, ODD[case])
        if schema == "AzureOpenAI" and content_type == "application/json":
            assert reply.body is None
            continue
        error = error_of(reply)
        assert error["code"] == "429"
        assert error["type"]
        assert len(reply.body) < 256 * 1024
        if case not in {"empty", "a name of a megabyte"}:
            assert error["message"]


@pytest.mark.parametrize("schema", TRANSLATED)
def test_an_error_with_headers_alone_passes(open_gateway, schema):
    exchange = open_gateway(config(backend(schema))).start(PLAIN)
    assert exchange.response({"content-length": "0"}, status="503", eos=True).is_neutral


NO_ANSWERS = [b"", b"null", b"[]", b"{}", b"7", b'"x"', b"<html>", b"\xff", b"[" * 10_000, b'{"message":"no"}']


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_success_that_is_no_answer_is_a_502(open_gateway, schema):
    """BR-13, BR-31: and the backend's own bytes do not reach the client."""
    gateway = open_gateway(config(backend(schema)))
    for body in NO_ANSWERS:
        exchange = gateway.start(PLAIN)
        exchange.response(JSON)
        reply = exchange.piece(body, eos=True)
        assert reply.status == 502, body
        assert reply.json["error"]["type"] == "BadGateway"
    assert gateway.count("extproc_attempts_total", 'outcome="failed"') == len(NO_ANSWERS)


@pytest.mark.parametrize("schema", [each for each in TRANSLATED if not each.startswith("AWS")])
def test_an_error_in_a_success_is_told_in_words(open_gateway, schema):
    """The provider's message, bounded; not the shape that it had in this process."""
    for message in ("Overloaded", "x" * 10**6):
        exchange = open_gateway(config(backend(schema))).start(PLAIN)
        exchange.response(JSON)
        _, error = provider_error(schema, message)
        reply = exchange.piece(json.dumps(error).encode(), eos=True)
        assert reply.status == 502
        assert message[:100] in reply.json["error"]["message"]
        assert "{'" not in reply.json["error"]["message"]
        assert len(reply.body) < 128 * 1024


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_break_with_much_to_say_is_bounded(open_gateway, schema):
    exchange = open_gateway(config(backend(schema))).start(STREAM)
    exchange.response(streams_as(schema))
    read = Read.of(
        exchange.play([overload(schema, "x" * 10**6 if not schema.startswith("AWS") else "x" * 10**5), b""]).output
    )
    assert len(read.error["message"]) <= 64 * 1024


# --- attempts ---


def answered(exchange: Any, schema: str, *, streamed: bool) -> Any:
    exchange.response(streams_as(schema) if streamed else JSON)
    return exchange.play([*events(schema), b""] if streamed else [document(schema)])


PAIRS = [pair for pair in itertools.product(ALL, repeat=2) if pair[0] != pair[1]]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_another_attempt_is_as_if_it_were_the_first(open_gateway, first, second, streamed):
    """BR-40: byte for byte; nothing of the first one's path, versions, credentials or lengths is left over."""
    request = STREAM if streamed else PLAIN
    given = {"x-api-key": "client", "accept-encoding": "gzip, snappy", "x-mine": "1"}
    gateway = open_gateway(config(backend(first, override="one"), backend(second, SECOND_BACKEND, override="two")))
    exchange = gateway.exchange()
    exchange.request(request, given)
    exchange.attempt(BACKEND)
    retried = exchange.attempt(SECOND_BACKEND)
    direct = open_gateway(config(backend(second, override="two"))).exchange()
    direct.request(request, given)
    sent = direct.attempt()
    body = sent.body if sent.replaces else json.dumps(request).encode()
    assert retried.body == body
    unlike = {"x-ai-eg-internal-req-id", "content-length"}
    assert {name: value for name, value in exchange.carried.items() if name not in unlike} == {
        name: value for name, value in direct.carried.items() if name not in unlike
    }
    assert exchange.carried["content-length"] == str(len(body))
    played = answered(exchange, second, streamed=streamed)
    costs = COUNTS.costs(second)
    assert {key: played.metadata[key] for key in costs} == costs
    assert b"one" not in played.output
    exchange.close()
    assert gateway.count("extproc_attempts_total", 'outcome="retried"') == 1
    assert gateway.count("extproc_attempts_total", 'outcome="success"') == 1


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_refusal_of_one_backend_does_not_spoil_the_next(open_gateway, schema):
    """What one cannot express, another may: the client's request is still there as it came."""
    gateway = open_gateway(config(backend(schema), backend("AzureOpenAI", SECOND_BACKEND)))
    exchange = gateway.exchange()
    exchange.request({**PLAIN, "logit_bias": {"5": 1}})
    assert exchange.attempt(BACKEND).status == 422
    assert json.loads(exchange.attempt(SECOND_BACKEND).body)["logit_bias"] == {"5": 1}
    exchange.response(JSON)
    assert exchange.piece(document("AzureOpenAI"), eos=True).metadata["in"] == 10


# --- secrets ---


@pytest.mark.parametrize("schema", ALL)
def test_no_credential_leaks(open_gateway, schema):
    """What goes upstream is the only thing that ever holds one."""
    gateway = open_gateway(config(backend(schema)))
    shown: list[str] = []
    with structlog.testing.capture_logs() as logs:
        for request, headers, status, body in (
            (PLAIN, JSON, "200", document(schema)),
            (PLAIN, JSON, "200", b"<html>"),
            (PLAIN, JSON, "200", b""),
            (STREAM, streams_as(schema), "200", b"".join([*events(schema)[:2], overload(schema)])),
            (STREAM, streams_as(schema), "200", b"\x00" * 40),
            (STREAM, JSON, "401", json.dumps(provider_error(schema, "bad key")[1]).encode()),
            (STREAM, {**JSON, "content-encoding": "gzip"}, "500", gzip.compress(b"no")),
        ):
            exchange = gateway.exchange()
            exchange.request(request)
            attempt = exchange.attempt()
            assert SECRET in str(attempt.message)
            shown += [json.dumps(attempt.metadata), str(attempt.body)]
            shown.append(str(exchange.response(headers, status=status).message))
            shown.append(str(exchange.piece(body, eos=True).message))
            exchange.close()
        refused = gateway.exchange()
        refused.request({**PLAIN, "messages": 5})
        shown.append(str(refused.attempt().message) if schema != "AzureOpenAI" else "")
    shown += [json.dumps(logs, default=repr), gateway.scrape(), repr(gateway.processor.runtime)]
    assert all(SECRET not in each for each in shown)


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_fault_of_ours_tells_nothing(open_gateway, schema, monkeypatch):
    """BR-31: an id, and the cause in the log alone."""
    gateway = open_gateway(config(backend(schema)))
    exchange = gateway.start(PLAIN)
    exchange.response(JSON)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"/a/path {INNER}")

    monkeypatch.setattr(exchange.router._router._attempt.translator, "response_body", fail)
    reply = exchange.piece(document(schema), eos=True)
    assert reply.status == 500
    assert reply.json["error"]["message"].startswith("internal error, id ")
    assert INNER.encode() not in reply.body

"""What all endpoints share, on every backend that can serve them: each test is one over the whole table.

Routing, models, mutations, credentials, failover to a backend of another schema, refusals, codings, empty and broken
answers. A translation that is new is covered by its row in ``tests/support/crossings.py``.
"""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from typing import Any

import pytest

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from extproc.paths import EndpointPrefixes
from extproc.translate.anthropic import ERROR_TYPES
from extproc.translate.table import TRANSLATORS
from tests.support.crossings import ASKED, ORDERED_PAIRS, PATHS, ROWS, STREAMS, VIRTUAL, Row, config
from tests.support.field_reports import CODINGS, WatchedExchange, WatchedGateway, cut, watched
from tests.support.forms import read_form
from tests.support.playbook import openai_backend, response_headers, response_trailers

EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
EVERY_STREAM = pytest.mark.parametrize("row", STREAMS.values(), ids=STREAMS)
EVERY_OPERATION = pytest.mark.parametrize("operation", list(Operation))

CLIENT = {
    "authorization": "Bearer of-the-client",
    "x-api-key": "of-the-client",
    "api-key": "of-the-client",
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "context-1m-2025-08-07",
    "accept-encoding": "gzip, br, snappy",
    "x-of-the-client": "kept",
}
"""What clients of all kinds send; here all of it at once."""
CARRIERS = ("authorization", "x-api-key", "api-key")
"""Headers that carry credentials."""

MUTATED = {
    "httpHeaderMutation": {
        "set": [{"name": "X-Set", "value": "1"}, {"name": "anthropic-beta", "value": "of-the-config"}],
        "remove": ["X-Of-The-Client"],
    },
    "httpBodyMutation": {"set": [{"path": "set_by_config", "value": '"here"'}], "remove": ["gone"]},
}
DISABLED = {"auth": {"azureAPIKey": {"key": ""}}}


def kinds(row: Row) -> Iterator[dict[str, Any]]:
    """The backends that tests want of a row."""
    plain = row.backend()
    yield plain
    yield row.backend("mutated", **MUTATED)
    yield row.backend("disabled", **DISABLED)
    yield row.backend("own", auth={**plain["auth"], "credentialOverride": {"headerName": own_header(plain)}})


def own_header(backend: dict[str, Any]) -> str:
    return "x-own-" if "aws" in backend["auth"] else "x-own"


@pytest.fixture(scope="module")
def gateway_of() -> Iterator[Any]:
    """The gateway of an operation, with all kinds of backends of all its rows; watched to its end."""
    with ExitStack() as stack:

        @cache
        def open_(operation: Operation) -> WatchedGateway:
            rows = (row for row in ROWS.values() if row.operation is operation)
            return stack.enter_context(watched(config(*(backend for row in rows for backend in kinds(row)))))

        yield open_


@dataclass(frozen=True)
class Sent:
    """What a backend gets."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def asked(gateway: WatchedGateway, row: Row, *, stream=False, path="", **headers: str) -> WatchedExchange:
    """An exchange whose request has come, and waits for an attempt."""
    # From a fixed number on, so that answers with ids of ours can be compared.
    gateway._ids = 0
    exchange = gateway.exchange()
    body = row.asked.body(stream=stream)
    more = {"content-type": row.asked.content_type, "content-length": str(len(body)), **headers}
    reply = exchange.request(body, {":path": path or row.client_path, **more})
    assert reply.kind == "request_body", reply.message
    exchange.told = body
    return exchange


def sent(exchange: WatchedExchange, backend: str) -> Sent:
    """What an attempt at ``backend`` sends; Envoy keeps the client's body where nothing takes its place."""
    reply = exchange.attempt(backend)
    assert reply.kind == "request_headers", reply.json
    headers = dict(exchange.carried)
    body = exchange.told if reply.body is None else reply.body
    assert (reply.body is not None) == reply.replaces
    assert headers["content-length"] == str(len(body))
    return Sent(headers.pop(":path"), headers, body)


def only(gateway: WatchedGateway, row: Row, kind: str = "plain", **request: Any) -> Sent:
    """What the one attempt of a request sends."""
    exchange = asked(gateway, row, **request)
    request = sent(exchange, row.named(kind))
    exchange.close()
    return request


def answering(gateway: WatchedGateway, row: Row, *, stream=False, **headers: str) -> WatchedExchange:
    """An exchange of which an answer has begun."""
    exchange = asked(gateway, row, stream=stream)
    sent(exchange, row.named())
    exchange.response({**row.headers(stream=stream), **headers})
    return exchange


def ways(row: Row, *others: Row) -> list[bool]:
    """Whether to stream: both, where all can."""
    return [False, True] if all(each.pieces for each in (row, *others)) else [False]


def told(body: bytes, operation: Operation) -> str:
    """The message of the error that a client of the endpoint reads."""
    error = json.loads(body)
    if operation is Operation.RERANK:
        assert error.keys() == {"message"}
        return str(error["message"])
    assert error["type"] == "error"
    if operation in {Operation.MESSAGES, Operation.COUNT_TOKENS}:
        assert error["error"].keys() == {"type", "message"}
        assert error["error"]["type"] in ERROR_TYPES.values()
        return str(error["error"]["message"])
    # An empty message is left out (contract, chat 3.18).
    assert error["error"].keys() | {"message"} == {"type", "code", "message"}
    return str(error["error"].get("message", ""))


def tokens(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: metadata[name] for name in ("in", "out", "total") if name in metadata}


def test_every_translation_has_its_row():
    assert {(row.operation, row.schema) for row in ROWS.values()} == TRANSLATORS.keys()
    assert set(ASKED) == set(PATHS) == set(Operation)


# --- where a request goes, and as what ---


@EVERY_ROW
def test_a_request_goes_to_its_backend_under_the_backends_name_for_the_model(gateway_of, row):
    """BR-42, BR-103: never under the client's, wherever a schema has the name."""
    for stream in ways(row):
        request = only(gateway_of(row.operation), row, stream=stream, **CLIENT)

        assert request.path == row.path_of(stream=stream)
        if (row.operation, row.schema) != (Operation.CHAT, "AzureOpenAI"):
            # There the path says it, and the body stays as it came (contract, chat 7).
            assert VIRTUAL not in request.path + request.body.decode(errors="replace")
        assert request.headers["x-of-the-client"] == "kept"
        assert request.headers["accept-encoding"] == "gzip, br"
        assert not any("of-the-client" in request.headers.get(each, "") for each in CARRIERS)


@EVERY_ROW
def test_the_query_of_the_client_goes_to_its_own_api_alone(gateway_of, row):
    """Q34: the API that knows a parameter gets it, no other does."""
    request = only(gateway_of(row.operation), row, path=f"{row.client_path}?beta=true")

    clouds = {"GCPAnthropic", "GCPVertexAI", "AWSAnthropic", "AWSBedrock"}
    assert ("beta=true" in request.path) == (row.native and row.schema not in clouds)
    assert request.path.count("?") <= 1


@EVERY_ROW
def test_what_the_config_changes_is_changed_in_what_the_backend_gets(gateway_of, row):
    """The translated body is what is mutated (contract 1.6)."""
    gateway = gateway_of(row.operation)
    plain, mutated = only(gateway, row, **CLIENT), only(gateway, row, "mutated", **CLIENT)

    assert mutated.headers["x-set"] == "1"
    assert mutated.headers["anthropic-beta"] == "of-the-config"
    assert "x-of-the-client" not in mutated.headers
    if not row.asked.is_form:
        assert mutated.json == plain.json | {"set_by_config": "here"}


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.asked.is_form], ids=lambda row: row.name)
def test_a_form_has_no_members_and_stays_a_form(gateway_of, row):
    gateway = gateway_of(row.operation)
    mutated = only(gateway, row, "mutated")

    assert read_form(mutated.body, row.asked.content_type) == read_form(only(gateway, row).body, row.asked.content_type)


@EVERY_ROW
def test_a_credential_of_the_request_takes_the_place_of_the_backends(gateway_of, row):
    gateway = gateway_of(row.operation)
    name = own_header(row.backend())
    parts = {"": "own-secret"} if name == "x-own" else {"access-key-id": "AKIAOWN", "secret-access-key": "own-secret"}
    brought = {name + part: value for part, value in parts.items()}
    request = only(gateway, row, "own", **CLIENT, **brought)

    (carrier,) = [request.headers[each] for each in CARRIERS if each in request.headers]
    assert ("own-secret" if name == "x-own" else "AKIAOWN") in carrier
    assert brought.keys().isdisjoint(request.headers)

    exchange = asked(gateway, row)
    refused = exchange.attempt(row.named("own"))
    assert refused.status == 401
    assert told(refused.body, row.operation) == "missing upstream credential"
    exchange.close()


# --- failover ---


@pytest.mark.parametrize(("first", "second"), ORDERED_PAIRS.values(), ids=ORDERED_PAIRS)
def test_a_second_attempt_is_what_a_direct_request_would_be(gateway_of, first, second):
    """BR-40: nothing of the first shows in it, and the answer costs what the second backend says."""
    gateway = gateway_of(first.operation)
    for stream, headers in [(False, {}), *((stream, CLIENT) for stream in ways(first, second))]:
        request = {"stream": stream, "path": f"{first.client_path}?a=1", **headers}
        direct = only(gateway, second, **request)
        exchange = asked(gateway, first, **request)
        failed = sent(exchange, first.named("mutated"))
        retried = sent(exchange, second.named())

        assert failed.headers["x-set"] == "1"
        assert retried == direct
        exchange.response(second.headers(stream=stream))
        played = exchange.play([*second.pieces, b""] if stream else [second.answer])
        exchange.close()
        assert played.tokens == (second.streamed_costs if stream else second.costs)
        assert played.metadata["model_name_override"] == second.model
        assert played.metadata["ai_service_backend_name"] == second.short_name()


# --- what we refuse, in the words of the client's API ---


@EVERY_ROW
def test_a_backend_that_is_unknown_or_disabled(gateway_of, row):
    """BR-44: it says which one, and does not tell why to strangers."""
    gateway = gateway_of(row.operation)
    for backend, message in {
        "default/none/route/chat/rule/0/ref/0": "unknown backend: default/none",
        row.named("disabled"): f"backend {row.short_name('disabled')} is disabled by a fault in its configuration",
    }.items():
        exchange = asked(gateway, row)
        reply = exchange.attempt(backend)
        exchange.close()
        assert reply.status == 503
        assert told(reply.body, row.operation) == message


ALL_SCHEMAS = sorted({row.schema for row in ROWS.values()} | {"Nonsense"})


@EVERY_OPERATION
def test_a_backend_that_cannot_serve_the_endpoint(open_gateway, operation):
    """BR-44: the error names endpoint, schema and backend, so that the route can be mended."""
    row = next(row for row in ROWS.values() if row.operation is operation)
    unserved = [schema for schema in ALL_SCHEMAS if (operation, schema) not in TRANSLATORS]
    gateway = open_gateway(config(*(openai_backend(f"default/{each}/x", schema={"name": each}) for each in unserved)))
    for schema in unserved:
        reply = asked(gateway, row).attempt(f"default/{schema}/x")
        assert reply.status == 501
        message = told(reply.body, operation)
        assert f"default/{schema}" in message
        assert f" {schema};" in message
        assert operation in message


@EVERY_OPERATION
def test_a_body_beyond_the_limit(open_gateway, operation):
    gateway = open_gateway(max_body_bytes=20)
    for length in ({"content-length": "21"}, {}):
        exchange = gateway.exchange()
        reply = exchange.headers({":path": PATHS[operation], **length})
        if not length:
            reply = exchange.body(b"{" * 21)
        assert reply.status == 413
        assert "20 bytes" in told(reply.body, operation)


MALFORMED = {
    "empty": b"",
    "cut": b'{"model":"m"',
    "a list": b"[]",
    "null": b"null",
    "no UTF-8": b'{"model":"\xff"}',
    "UTF-16": '{"model":"m"}'.encode("utf-16"),
    "a mark of bytes before it": b'\xef\xbb\xbf{"model"',
    "something behind it": b'{"model":"m"}x',
    "not a number": b'{"model":"m","x":NaN}',
    "a model that is none": b'{"model":7}',
    "a line break in the model": b'{"model":"a\\r\\nx-api-key: b"}',
    "too deep": b'{"model":"m","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "half a character": b'{"model":"\\ud800"}',
}
TYPES = ("application/json", "text/plain", "multipart/form-data", "Multipart/Form-Data; boundary=x")


@EVERY_OPERATION
@pytest.mark.parametrize("content_type", TYPES)
def test_a_body_that_is_no_request(gateway_of, operation, content_type):
    """BR-67: a 400 in the client's words, with which no SDK tries again."""
    for kind, body in MALFORMED.items():
        exchange = gateway_of(operation).exchange()
        reply = exchange.request(body, {":path": PATHS[operation], "content-type": content_type})
        exchange.close()
        assert reply.status == 400, kind
        assert told(reply.body, operation)


@EVERY_OPERATION
def test_a_request_without_a_body(gateway_of, operation):
    exchange = gateway_of(operation).exchange()
    reply = exchange.headers({":path": PATHS[operation]}, eos=True)
    exchange.close()

    assert reply.status == 400
    assert "no body" in told(reply.body, operation)


# --- answers ---


@EVERY_ROW
def test_a_whole_answer_costs_the_same_in_every_coding(gateway_of, row):
    """BR-16, BR-18; and BR-17: what is new has its own length, and no coding of old."""
    bodies = set()
    for coding, encode in {"": bytes, **CODINGS}.items():
        exchange = answering(gateway_of(row.operation), row, **coded(coding))
        reply = exchange.piece(encode(row.answer), eos=True)
        exchange.close()
        assert tokens(reply.metadata) == row.costs, coding
        bodies.add(reply.body)
        if reply.body is not None:
            assert reply.remove == (["content-encoding"] if coding else [])
            assert reply.set["content-length"] == str(len(reply.body))
    (body,) = bodies
    assert (body is None) == row.native


@EVERY_STREAM
def test_a_stream_costs_the_same_in_every_coding_and_cut(gateway_of, row):
    """BR-01, BR-14."""
    plain = b"".join(row.pieces)
    passes = not row.rebuilds and row.operation not in FORCED
    outputs = set()
    for coding, encode in {"": bytes, **CODINGS}.items():
        data = encode(plain)
        for pieces in some_cuts(data, single=not coding):
            exchange = answering(gateway_of(row.operation), row, stream=True, **coded(coding))
            played = exchange.play([*pieces, b""])
            exchange.close()
            assert played.tokens == row.streamed_costs
            assert "response_error" not in played.metadata
            assert not passes or played.output == data
            outputs.add(plain if passes else played.output)
    assert len(outputs) == 1


def some_cuts(data: bytes, *, single: bool) -> list[list[bytes]]:
    """Whole, at random, and if so in single bytes."""
    dice = random.Random(7)
    pieces = [[data], cut(data, [dice.randrange(len(data)) for _ in range(9)])]
    return [*pieces, cut(data, range(1, len(data)))] if single else pieces


def coded(coding: str) -> dict[str, str]:
    return {"content-encoding": coding} if coding else {}


FORCED = {Operation.CHAT, Operation.COMPLETION}
"""Where a report is asked for that the client has not asked for, and is not shown."""


@EVERY_STREAM
def test_who_leaves_after_the_usage_pays_all_of_it(open_gateway, row):
    """BR-07, BR-112: the piece that reports it carries the costs, and leaving changes nothing."""
    gateway = open_gateway(config(row.backend()))
    exchange = answering(gateway, row, stream=True)
    metadata: dict[str, Any] = {}
    for piece in row.pieces[: row.reports]:
        metadata |= exchange.piece(piece).metadata
    exchange.close()

    assert tokens(metadata) == row.streamed_costs
    assert gateway.count("extproc_attempts_total") == 1


@EVERY_STREAM
def test_who_leaves_before_the_usage_is_counted_once(open_gateway, row):
    gateway = open_gateway(config(row.backend()))
    exchange = answering(gateway, row, stream=True)
    exchange.piece(row.pieces[0][:5])
    exchange.close()

    assert gateway.count("extproc_attempts_total", "client_cancelled") == 1


# Status, whether the headers are all; a body that is none comes with a 200 alone.
EMPTY = {"a 200 without a body": ("200", True), "a 204": ("204", True), "an empty body": ("200", False)}


@EVERY_ROW
@pytest.mark.parametrize(("status", "is_all"), EMPTY.values(), ids=EMPTY)
def test_an_empty_success(gateway_of, row, status, is_all):
    """BR-15: it passes where it is the client's API; elsewhere it is no answer, and never a fault of ours."""
    for stream in ways(row):
        for coding in ({}, {"content-encoding": "gzip"}):
            exchange = asked(gateway_of(row.operation), row, stream=stream)
            sent(exchange, row.named())
            reply = exchange.response({**row.headers(stream=stream), **coding}, status=status, eos=is_all)
            if not is_all:
                reply = exchange.piece(b"", eos=True)
            exchange.close()
            rebuilds = row.rebuilds if stream else not row.native
            if reply.kind == "immediate_response":
                assert rebuilds
                assert reply.status == 502
                assert told(reply.body, row.operation)
            elif rebuilds:
                # The client has its status; that this is no answer, its stream tells.
                assert (stream, is_all) == (True, False)
                assert b"error" in reply.body
                assert reply.metadata["response_error"]
            else:
                assert not reply.body
                assert not reply.set


ERRORS: dict[str, tuple[str, bytes]] = {
    "JSON of OpenAI": ("application/json", b'{"error":{"message":"no","type":"t","code":400}}'),
    "JSON of Anthropic": ("application/json", b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}'),
    "JSON of Amazon": ("application/json", b'{"message":"no"}'),
    "JSON of Google": ("application/json; charset=UTF-8", b'{"error":{"code":400,"message":"no","status":"X"}}'),
    "text as an error": ("application/json", b'{"error":"no"}'),
    "JSON of nobody": ("application/json", b'{"detail":"no"}'),
    "a list": ("application/json", b"[]"),
    "null": ("application/json", b"null"),
    "not JSON at all": ("application/json", b'no "such" thing\n'),
    "no UTF-8": ("text/plain", b"no \xff\xfe"),
    "HTML": ("text/html", b"<html>no</html>"),
    "JSON without a type": ("", b'{"error":{"message":"no"}}'),
    "nothing": ("application/json", b""),
    "nothing, of no type": ("", b""),
}
WORDLESS = {b"", b"[]", b"null"}


@EVERY_ROW
def test_an_error_of_the_backend_is_one_of_the_clients_api(gateway_of, row):
    """BR-20, BR-65, BR-70, BR-114: the status stays, the words arrive, and what a client can read stays as it is."""
    statuses = cycle(["400", "429", "500", "503", "529"])
    for (content_type, body), status in zip(ERRORS.values(), statuses, strict=False):
        reply = error_of(gateway_of(row.operation), row, status, content_type, body)
        assert reply.kind == "response_body"
        assert not {":status", "retry-after"} & {*reply.set, *reply.remove}
        assert reply.metadata.keys() <= {"response_error"}
        if reply.body is None or reply.body == body:
            assert "json" in content_type
            assert row.native or json.loads(body)["error"]["type"], "only what a client of the API can read"
        else:
            assert "no" in told(reply.body, row.operation) or body in WORDLESS
            assert reply.set.get("content-type", content_type).startswith("application/json")


def error_of(gateway, row: Row, status: str, content_type: str, body: bytes, **headers: str):
    exchange = asked(gateway, row)
    sent(exchange, row.named())
    more = {"retry-after": "3", "x-amzn-errortype": "ThrottlingException", **headers}
    exchange.response({**({"content-type": content_type} if content_type else {}), **more}, status=status)
    reply = exchange.piece(body, eos=True)
    exchange.close()
    return reply


def error_before_trailers(gateway, row: Row, mode: str, coding: str):
    """What becomes of the only piece of an error, which does not know that trailers end it."""
    body = b'{"message":"no"}'
    exchange = gateway.exchange()
    path = {":path": row.client_path, "content-type": row.asked.content_type}
    exchange.headers_with_modes(response=mode, headers=path)
    exchange.body(row.asked.body())
    exchange.attempt(row.named())
    exchange.response({"content-type": "application/json", **coded(coding)}, status="429")
    reply = exchange.piece(CODINGS.get(coding, bytes)(body))
    assert exchange.send(exchange.router, response_trailers()).kind == "response_trailers"
    exchange.close()
    return reply


@EVERY_ROW
@pytest.mark.parametrize("coding", ["", "gzip"])
def test_an_error_that_ends_in_trailers(gateway_of, row, coding):
    """ext_proc: then no piece says that it is the last; the client has to read the error all the same."""
    reply = error_before_trailers(gateway_of(row.operation), row, "BUFFERED", coding)

    assert reply.body is not None or row.native
    assert reply.body is None or "no" in told(reply.body, row.operation)


def test_an_error_in_pieces_that_ends_in_trailers(gateway_of):
    row = ROWS["messages on AWSBedrock"]

    assert "no" in told(error_before_trailers(gateway_of(row.operation), row, "STREAMED", "").body, row.operation)


@EVERY_STREAM
def test_a_stream_that_ends_in_trailers(open_gateway, row):
    gateway = open_gateway(config(row.backend()))
    exchange = answering(gateway, row, stream=True)
    for piece in row.pieces:
        exchange.piece(piece)
    reply = exchange.send(exchange.router, response_trailers())
    exchange.close()

    assert tokens(reply.metadata) == row.streamed_costs
    assert gateway.count("extproc_attempts_total", "success") == 1


def test_an_answer_to_a_request_that_never_came(open_gateway):
    """BR-19: of a local reply, for instance, there is nothing to say."""
    exchange = open_gateway().exchange()
    assert exchange.send(exchange.router, response_headers({":status": "200"})).is_neutral
    assert exchange.piece(b"{}", eos=True).is_neutral


@EVERY_OPERATION
def test_an_answer_to_a_request_that_was_sent_nowhere(gateway_of, operation):
    exchange = gateway_of(operation).exchange()
    exchange.request(
        ASKED[operation].body(), {":path": PATHS[operation], "content-type": ASKED[operation].content_type}
    )
    assert exchange.response(status="404").is_neutral
    assert exchange.piece(b"no route", eos=True).is_neutral
    exchange.close()


# --- other paths of the same endpoints ---

TABLES = {
    "defaults": EndpointTable.build(),
    "below a root": EndpointTable.build(root="/ai"),
    "prefixes": EndpointTable.build(EndpointPrefixes(openai="/o", anthropic="/a", cohere="/c")),
    "one prefix for all": EndpointTable.build(EndpointPrefixes(openai="/", anthropic="/", cohere="/")),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_path_of_an_endpoint_leads_to_the_same_request(open_gateway, table):
    """Whichever path a client takes, the backend gets the same, and the client reads errors of the same shape."""
    gateway = open_gateway(config(*(row.backend(row.operation) for row in ROWS.values())), endpoints=table)
    served = set()
    for path, endpoint in table.endpoints.items():
        for row in (row for row in ROWS.values() if row.operation is endpoint.operation):
            request = only(gateway, row, row.operation, path=path)
            assert request.path == row.path
            served.add(row.name)
        assert told(asked(gateway, row, path=path).attempt("default/none").body, row.operation)
    assert served == set(ROWS)

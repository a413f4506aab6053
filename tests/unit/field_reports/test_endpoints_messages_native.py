"""Field reports, for messages and counts of their tokens on the places that speak Anthropic's API."""

import base64
import json
from typing import Any

import pytest

from extproc.endpoints.base import Operation
from tests.support import eventstream
from tests.support.crossings import ROWS, Row
from tests.support.field_reports import CODINGS, SSE, Played, WatchedExchange, cuts
from tests.support.playbook import BACKEND, SECOND_BACKEND
from tests.support.translated import COSTS

PLACES = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
AS_SSE = ("Anthropic", "GCPAnthropic")
CLOUDS = ("GCPAnthropic", "AWSAnthropic")
EVERYWHERE = pytest.mark.parametrize("schema", PLACES)
IN_EVENTS = pytest.mark.parametrize("schema", AS_SSE)
FRAMES = {"content-type": "application/vnd.amazon.eventstream"}


def row_of(schema: str, operation: Operation = Operation.MESSAGES) -> Row:
    return ROWS[f"{operation} on {schema}"]


def config(row: Row, **more: Any) -> dict[str, Any]:
    return {"version": "dev", "backends": [{**row.backend(), "name": BACKEND, **more}], "llmRequestCosts": COSTS}


def sent(open_gateway, schema, body: Any, *, operation=Operation.MESSAGES, headers=(), **backend: Any):
    """A request that has been sent to its backend: the exchange, and the body."""
    row = row_of(schema, operation)
    exchange = open_gateway(config(row, **backend)).exchange()
    raw = body if isinstance(body, bytes) else json.dumps({"model": "virtual", **body}).encode()
    exchange.request(raw, {":path": row.client_path, **dict(headers)})
    reply = exchange.attempt()
    assert reply.kind == "request_headers", reply.json
    return exchange, raw if reply.body is None else reply.body


ASK = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


def streaming(open_gateway, schema, **headers: str) -> WatchedExchange:
    exchange, _ = sent(open_gateway, schema, {**ASK, "stream": True})
    exchange.response({**(FRAMES if schema == "AWSAnthropic" else SSE), **headers})
    return exchange


def framed(schema: str, *events: dict[str, Any]) -> bytes:
    texts = [json.dumps(each).encode() for each in events]
    if schema != "AWSAnthropic":
        return b"".join(
            b"event: %b\ndata: %b\n\n" % (e["type"].encode(), t) for e, t in zip(events, texts, strict=True)
        )
    return b"".join(eventstream.event("chunk", {"bytes": base64.b64encode(text).decode()}) for text in texts)


def start(**usage: int) -> dict[str, Any]:
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "said", "usage": usage}
    return {"type": "message_start", "message": message}


def delta(**usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hällo"}}
BARE_DELTA = {"type": "message_delta", "delta": {}}
STOP = {"type": "message_stop"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
WHOLE = (start(input_tokens=7, cache_read_input_tokens=3, output_tokens=1), TEXT, delta(output_tokens=5), STOP)
TOKENS = "gen_ai_client_token_usage"
SPENT = {"in": 10, "out": 5, "total": 15, "cached": 3, "creation": 0}


def costs(metadata: dict[str, Any], names: Any = SPENT) -> dict[str, Any]:
    return {name: metadata.get(name) for name in names}


# --- streams ---


@EVERYWHERE
def test_any_cut_of_a_stream_costs_the_same(open_gateway, schema):
    """BR-01: an event may come in any pieces."""
    data = framed(schema, *WHOLE)
    outputs = set()
    for pieces in list(cuts(data, rounds=20))[:2] + list(cuts(data, rounds=20))[-20:]:
        played = streaming(open_gateway, schema).play([*pieces, b""])
        assert costs(played.metadata) == SPENT
        outputs.add(played.output)
    assert outputs == {framed("Anthropic", *WHOLE)}


SPELLINGS = {
    "no blank behind the colon": lambda data: data.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "no names of events": lambda data: b"\n".join(line for line in data.split(b"\n") if line[:6] != b"event:"),
    "lines of two characters": lambda data: data.replace(b"\n", b"\r\n"),
    "lines of carriage returns": lambda data: data.replace(b"\n", b"\r"),
    "no blank line at the end": lambda data: data.rstrip(b"\n"),
    "comments": lambda data: b": ping\n\n" + data.replace(b"\n\n", b"\n: alive\n\n"),
    "a mark of bytes before it": lambda data: b"\xef\xbb\xbf" + data,
    "names that say something else": lambda data: data.replace(b"event: message_start", b"event: x"),
}


@IN_EVENTS
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_a_stream_is_read_however_it_is_spelled(open_gateway, schema, spelled):
    """BR-02, BR-05; and it passes as it came."""
    data = spelled(framed(schema, *WHOLE))
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        played = streaming(open_gateway, schema).play([*pieces, b""])
        assert played.output == data
        assert costs(played.metadata) == SPENT


@EVERYWHERE
def test_costs_are_told_with_the_report_and_only_grow(open_gateway, schema):
    """BR-07, BR-08, BR-112: who leaves after the start pays for the input, who leaves at the end for all."""
    exchange = streaming(open_gateway, schema)
    first, text, last = (exchange.piece(framed(schema, each)).metadata for each in WHOLE[:3])
    exchange.close()

    assert costs(first, ("in", "out", "total")) == {"in": 10, "out": 1, "total": 11}
    assert text == {}
    assert costs(last) == SPENT
    assert exchange.gateway.count("extproc_attempts_total", "client_cancelled") == 1
    assert exchange.gateway.count(f"{TOKENS}_sum", 'gen_ai_token_type="input"') == 10


CUMULATIVE = {
    "the delta repeats the input": (
        [
            start(input_tokens=9, cache_read_input_tokens=1, output_tokens=0),
            delta(input_tokens=9, cache_read_input_tokens=1, output_tokens=5),
            delta(output_tokens=16),
        ],
        (10, 16, 1, 0),
    ),
    "each delta is a running total": (
        [start(input_tokens=9), *(delta(output_tokens=count) for count in (5, 7, 16))],
        (9, 16, 0, 0),
    ),
    "a delta without usage": ([start(input_tokens=9, output_tokens=2), BARE_DELTA], (9, 2, 0, 0)),
    "zeros that were not counted again": (
        [
            start(input_tokens=9, cache_creation_input_tokens=4),
            delta(input_tokens=0, cache_creation_input_tokens=0, output_tokens=3),
        ],
        (13, 3, 0, 4),
    ),
    "all of it in the delta": (
        [
            start(input_tokens=0, output_tokens=0),
            delta(input_tokens=4522, output_tokens=5, cache_read_input_tokens=4511),
        ],
        (9033, 5, 4511, 0),
    ),
    "an error in between": ([start(input_tokens=9, output_tokens=2), OVERLOADED], (9, 2, 0, 0)),
}


@EVERYWHERE
@pytest.mark.parametrize(("events", "spent"), CUMULATIVE.values(), ids=CUMULATIVE)
def test_a_report_takes_the_place_of_the_one_before(open_gateway, schema, events, spent):
    """BR-12, BR-54, BR-59: count by count, never added."""
    input_, output, cached, creation = spent
    played = streaming(open_gateway, schema).play([*(framed(schema, each) for each in events), b""])

    expected = {"in": input_, "out": output, "total": input_ + output, "cached": cached, "creation": creation}
    assert costs(played.metadata) == expected


def test_what_amazon_counts_beside_the_last_event_fills_gaps_alone(open_gateway):
    """BR-71: it leaves the cache out of the input."""
    metrics = {"inputTokenCount": 3, "outputTokenCount": 5, "cacheReadInputTokenCount": 32651}
    stop = {**STOP, "amazon-bedrock-invocationMetrics": metrics}
    for begin in ([start(input_tokens=3, cache_read_input_tokens=32651), delta(output_tokens=5)], []):
        played = streaming(open_gateway, "AWSAnthropic").play([framed("AWSAnthropic", *begin, stop), b""])
        assert costs(played.metadata) == {"in": 32654, "out": 5, "total": 32659, "cached": 32651, "creation": 0}


@EVERYWHERE
def test_an_error_within_a_stream_is_told_and_what_was_spent_is_paid(open_gateway, schema):
    """BR-13: the client reads the event, metrics and access logs know of it."""
    exchange = streaming(open_gateway, schema)
    played = exchange.play([framed(schema, *WHOLE[:2]), framed(schema, OVERLOADED), b""])

    assert played.output.endswith(framed("Anthropic", OVERLOADED))
    assert b"message_stop" not in played.output
    assert played.metadata["response_error"] == "overloaded_error"
    assert (played.metadata["in"], played.metadata["out"]) == (10, 1)
    assert exchange.gateway.count("extproc_attempts_total", 'outcome="failed"') == 1


@EVERYWHERE
@pytest.mark.parametrize("coding", CODINGS)
def test_a_coded_stream_is_read_piece_by_piece(open_gateway, schema, coding):
    """BR-14, BR-16, BR-18; and BR-17: only a body that is written anew loses its coding, and with the headers."""
    data = framed(schema, *WHOLE)
    wire = CODINGS[coding](data[:50]) + CODINGS[coding](data[50:]) if coding == "gzip" else CODINGS[coding](data)
    exchange, _ = sent(open_gateway, schema, {**ASK, "stream": True})
    headers = exchange.response({**(FRAMES if schema == "AWSAnthropic" else SSE), "content-encoding": coding})
    played: Played = exchange.play([*(wire[at : at + 7] for at in range(0, len(wire), 7)), b""])

    assert costs(played.metadata) == SPENT
    anew = schema == "AWSAnthropic"
    assert ("content-encoding" in headers.remove) == anew
    assert played.output == (framed("Anthropic", *WHOLE) if anew else wire)


@EVERYWHERE
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "", "text/plain"])
def test_a_document_is_read_whatever_it_is_called(open_gateway, schema, content_type):
    """BR-65: some servers do not stream though they were asked, and some of them say that they do."""
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 5}
    body = json.dumps({"type": "message", "model": "said", "content": [], "usage": usage}).encode()
    exchange, _ = sent(open_gateway, schema, {**ASK, "stream": True})
    exchange.response({"content-type": content_type} if content_type else {})
    played = exchange.play([b" \n", body[:20], body[20:], b""])

    assert costs(played.metadata) == SPENT
    assert played.output == b" \n" + body


@EVERYWHERE
def test_an_error_under_a_status_of_success_is_a_failure(open_gateway, schema):
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}'
    exchange, _ = sent(open_gateway, schema, ASK)
    exchange.response()
    reply = exchange.piece(body, eos=True)

    assert reply.body is None
    assert reply.metadata["response_error"] == "overloaded_error"
    assert exchange.gateway.count("extproc_attempts_total", 'outcome="failed"') == 1


# --- requests ---


@EVERYWHERE
@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
def test_an_override_with_all_that_names_can_hold(open_gateway, schema, operation):
    """BR-42: in body or path, escaped as the place has it, and never the client's."""
    override = "/models/x y/claude@2024?a=1"
    exchange, body = sent(open_gateway, schema, ASK, operation=operation, modelNameOverride=override)
    path = exchange.carried[":path"]
    text = body.decode()
    if operation is Operation.COUNT_TOKENS and schema == "AWSAnthropic":
        text = base64.b64decode(json.loads(body)["input"]["invokeModel"]["body"]).decode()

    assert "virtual" not in path + text
    if schema == "Anthropic" or (schema, operation) == ("GCPAnthropic", Operation.COUNT_TOKENS):
        assert json.loads(body)["model"] == override
    else:
        assert "model" not in json.loads(text)
        assert "%2Fmodels%2Fx%20y%2Fclaude@2024%3Fa" in path


@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
@pytest.mark.parametrize("stream", [False, True])
def test_flags_go_to_google_in_the_header(open_gateway, operation, stream):
    """BR-69: those of the body as well; version in the body, model where the method has it."""
    body = {**ASK, "stream": stream, "anthropic_beta": ["context-management-2025-06-27", "b"]}
    headers = {"anthropic-beta": "a,b"}
    exchange, told = sent(open_gateway, "GCPAnthropic", body, operation=operation, headers=headers)

    assert exchange.carried["anthropic-beta"] == "a,b,context-management-2025-06-27"
    assert json.loads(told)["anthropic_version"] == "vertex-2023-10-16"
    assert "anthropic_beta" not in json.loads(told)
    assert ("model" in json.loads(told)) == (operation is Operation.COUNT_TOKENS)


KNOWN, UNKNOWN = "interleaved-thinking-2025-05-14", "files-api-2025-04-14"
FLAGS = {
    "one that Bedrock does not know": (f"{KNOWN}, {UNKNOWN}", None, [KNOWN]),
    "none that it knows": (UNKNOWN, None, None),
    "in the body": (None, [UNKNOWN, KNOWN], [KNOWN]),
}


@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
@pytest.mark.parametrize(("header", "listed", "expected"), FLAGS.values(), ids=FLAGS)
def test_amazon_gets_the_flags_that_it_knows(open_gateway, operation, header, listed, expected):
    """BR-68: one more, and all of the request would be refused."""
    body = {**ASK, **({"anthropic_beta": listed} if listed else {})}
    headers = {"anthropic-beta": header} if header else {}
    _, told = sent(open_gateway, "AWSAnthropic", body, operation=operation, headers=headers)
    read = json.loads(told)
    if operation is Operation.COUNT_TOKENS:
        read = json.loads(base64.b64decode(read["input"]["invokeModel"]["body"]))

    assert read.get("anthropic_beta") == expected


@EVERYWHERE
@pytest.mark.parametrize(
    "body",
    [
        {"messages": "str"},
        {"messages": [{"role": "system", "content": 7}], "tools": [{"type": "x"}], "tool_choice": 7},
        {**ASK, "future": {"deep": [1, {"x": None}]}},
    ],
)
def test_what_only_the_model_can_judge_is_not_judged_here(open_gateway, schema, body):
    """BR-67, Q38: a place of the API knows more of it than we do, and says what is wrong in its own words."""
    _, told = sent(open_gateway, schema, body)

    assert {name: json.loads(told)[name] for name in body} == body


@pytest.mark.parametrize("first", PLACES)
@pytest.mark.parametrize("second", PLACES)
@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
def test_flags_and_versions_that_one_place_has_moved_are_where_the_next_wants_them(
    open_gateway, first, second, operation
):
    """BR-40: whichever place was asked before, the second gets what it would get alone."""
    rows = [row_of(each, operation) for each in (first, second)]
    names = [BACKEND, SECOND_BACKEND]
    backends = [{**row.backend(), "name": name} for row, name in zip(rows, names, strict=True)]
    body = json.dumps({"model": "virtual", **ASK, "anthropic_beta": [KNOWN, UNKNOWN], "anthropic_version": "x"})
    told = []
    for attempts in ([SECOND_BACKEND], names):
        exchange = open_gateway({"version": "dev", "backends": backends}).exchange()
        exchange.request(body.encode(), {":path": rows[0].client_path})
        replies = [exchange.attempt(each) for each in attempts]
        told.append((exchange.carried, replies[-1].body or body.encode()))

    (alone, alone_body), (after, after_body) = told
    assert after_body == alone_body
    assert after | {"content-length": ""} == alone | {"content-length": ""}


# --- errors ---

BODIES = {
    "a number as code": b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}',
    "text": b'{"error":"m"}',
    "a detail": b'{"detail":"m"}',
    "vLLM's of old": b'{"object":"error","message":"m","code":404}',
    "a list": b"[]",
    "null": b"null",
    "HTML": b"<h1>m</h1>",
    "nothing": b"",
    "of Amazon": b'{"message":"m"}',
    "of Google": b'[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]',
    "no UTF-8": b"\xff m",
    "deep": b"[" * 5000,
}


@EVERYWHERE
@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_error_has_a_type_that_sdks_know(open_gateway, schema, operation, body):
    """BR-20, BR-65, BR-70, BR-114: also that of a stream; status and headers stay, and nothing is charged."""
    exchange, _ = sent(open_gateway, schema, {**ASK, "stream": True}, operation=operation)
    headers = {"content-type": "application/json", "retry-after": "3", "x-amzn-errortype": "ValidationException:x"}
    begun = exchange.response(headers, status="429")
    reply = exchange.piece(body, eos=True)
    told = json.loads(body if reply.body is None else reply.body)

    assert begun.is_neutral
    assert not {":status", "retry-after", "content-encoding"} & {*reply.set, *reply.remove}
    assert reply.metadata == {"response_error": told["error"]["type"]}
    assert told["error"]["type"] in {"rate_limit_error", "BadRequestError"}
    assert told["error"]["message"]
    assert b"[DONE]" not in (reply.body or b"")


# --- counts ---


@EVERYWHERE
def test_a_count_is_told_and_costs_nothing(open_gateway, schema):
    """BR-70: it is free at the provider, so no bucket moves; metrics know what was counted."""
    exchange, _ = sent(open_gateway, schema, ASK, operation=Operation.COUNT_TOKENS)
    exchange.response()
    row = row_of(schema, Operation.COUNT_TOKENS)
    reply = exchange.piece(row.answer, eos=True)

    assert json.loads(row.answer if reply.body is None else reply.body) == {"input_tokens": 11}
    assert costs(reply.metadata) == dict.fromkeys(SPENT)
    assert "response_model" not in reply.metadata
    exchange.close()
    assert exchange.gateway.count("extproc_attempts_total", "success") == 1

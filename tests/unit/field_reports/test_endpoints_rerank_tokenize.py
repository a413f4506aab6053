"""Field reports on rerank and tokenize, told of every backend that serves them, by the exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.field_reports import CODINGS, JSON, cut
from tests.support.playbook import BACKEND, SECOND_BACKEND, openai_backend
from tests.support.translated import backend, config
from tests.unit.translate.tokenize.attempts import COUNT_MEMBERS
from tests.unit.translate.tokenize.oracle import ACCEPTS

RERANK, TOKENIZE = "/cohere/v2/rerank", "/tokenize"
RERANKED = {"model": "m", "query": "q", "documents": ["a", "b"]}
PROMPT = {"model": "m", "prompt": "hi"}
REQUESTS = {RERANK: RERANKED, TOKENIZE: PROMPT}
KEYS = ("in", "out", "total")


def of(schema: str, name: str = BACKEND, *, override: str = "") -> dict[str, Any]:
    if schema == "Cohere":
        return {"name": name, "schema": {"name": schema}, "modelNameOverride": override}
    entry = openai_backend(name) if schema == "OpenAI" else backend(schema, name, signs=False)
    return {**entry, "modelNameOverride": override}


PAIRS = [(RERANK, "Cohere"), (RERANK, "OpenAI"), (TOKENIZE, "OpenAI"), *((TOKENIZE, each) for each in COUNT_MEMBERS)]
EVERYWHERE = pytest.mark.parametrize(("path", "schema"), PAIRS, ids=[f"{path} {schema}" for path, schema in PAIRS])
TRANSLATED = pytest.mark.parametrize("schema", COUNT_MEMBERS)


def ask(gateway, path, request=None):
    exchange = gateway.exchange()
    exchange.request(REQUESTS[path] if request is None else request, {":path": path})
    return exchange, exchange.attempt()


# --- rerank ---

REPORTS = {
    # what is reported: input, output, total
    "tokens": ({"meta": {"tokens": {"input_tokens": 25}}}, (25, 0, 25)),
    "tokens of both kinds": ({"meta": {"tokens": {"input_tokens": 10, "output_tokens": 2}}}, (10, 2, 12)),
    "tokens as floats": ({"meta": {"tokens": {"input_tokens": 10.0, "output_tokens": 2.9}}}, (10, 2, 12)),
    "billed tokens": ({"meta": {"billed_units": {"input_tokens": 7, "search_units": 1}}}, (7, 0, 7)),
    "a total alone": ({"usage": {"total_tokens": 9}}, (9, 0, 9)),
    "as others report": ({"usage": {"prompt_tokens": 9, "total_tokens": 9}}, (9, 0, 9)),
    "searches, which are no tokens": ({"meta": {"billed_units": {"search_units": 1}}}, (0, 0, 0)),
    "nothing": ({}, (0, 0, 0)),
    "null": ({"meta": None, "usage": None}, (0, 0, 0)),
    "nonsense": ({"meta": {"tokens": {"input_tokens": -1, "output_tokens": "x"}}, "usage": 7}, (0, 0, 0)),
    "beyond counting": ({"meta": {"tokens": {"input_tokens": 10**30}}, "usage": {"total_tokens": 1e300}}, (0, 0, 0)),
}


@pytest.mark.parametrize(("report", "spent"), REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("schema", ["Cohere", "OpenAI"])
def test_reranking_costs_what_is_reported(open_gateway, report, spent, schema):
    """BR-01, BR-12, BR-16: in any pieces, in any coding; the bytes stay."""
    gateway = open_gateway(config(of(schema)))
    body = json.dumps({"id": "i", "results": [{"index": 0, "relevance_score": 0.5}], **report}).encode()
    for coding in (None, *CODINGS):
        wire = CODINGS[coding](body) if coding else body
        exchange, _ = ask(gateway, RERANK)
        exchange.response({**JSON, **({"content-encoding": coding} if coding else {})})
        reply = exchange.piece(wire, eos=True)
        assert reply.body is None
        assert tuple(reply.metadata[key] for key in KEYS) == spent


# --- requests ---


@EVERYWHERE
@pytest.mark.parametrize("override", ["pub/real-1@2024", "dep 1/x", "anthropic.claude-x:0"])
def test_the_backend_knows_its_own_name_of_the_model(open_gateway, path, schema, override):
    """BR-42, BR-103: once, escaped where it is in the path; duplicates do not slip past."""
    exchange = open_gateway(config(of(schema, override=override))).exchange()
    request = json.dumps({**REQUESTS[path], "model": "virt"}).encode()
    exchange.request(b'{"\\u006dodel":"virt",' + request[1:], {":path": path})
    reply = exchange.attempt()
    assert b"virt" not in reply.body
    assert "virt" not in exchange.carried[":path"]
    assert " " not in exchange.carried[":path"]


TOLERATED = {
    RERANK: [
        b'{"model":"m","query":{"text":"q","image":"x"},"documents":[{"text":"a","n":1.0e0}],"brand_new":[1]}',
        b'{"model":"m","query":"q","documents":["\\u00e9"], "top_n" : 1, "return_documents":true}',
    ],
    TOKENIZE: [
        b'{"model":"m","prompt":"hi","add_special_tokens":true,"brand_new":1.0e0}',
        b'{"model":"m","messages":[{"role":"brand_new","content":7}],"tools":[{"type":"x"}],"chat_template":"t"}',
    ],
}


@pytest.mark.parametrize("path", TOLERATED)
def test_what_need_not_be_read_passes_as_it_is(open_gateway, path):
    """BR-82."""
    for body in TOLERATED[path]:
        assert ask(open_gateway(config(of("OpenAI"))), path, body)[1].body is None


BAD = {
    "a body that is no object": b"[]",
    "no JSON": b"{",
    "nothing": b"",
    "a model that is a number": b'{"model":7,"query":"q","documents":["a"],"prompt":"x"}',
    "a model that is no header": b'{"model":"a\\nb","query":"q","documents":["a"],"prompt":"x"}',
    "depth without end": b'{"model":"m","query":' + b'{"a":' * 50000 + b"1" + b"}" * 50001,
    "what is no text": b'{"model":"m","query":7,"documents":["a"],"prompt":7}',
    "half a pair of surrogates": b'{"model":"\\ud83d","query":"q","documents":["a"]}',
}


@EVERYWHERE
@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_input_is_the_client_s_fault(open_gateway, path, schema, body):
    """BR-67: in the shape of the client's API."""
    exchange = open_gateway(config(of(schema))).exchange()
    reply = exchange.request(body, {":path": path})
    if reply.kind != "immediate_response":
        if path == TOKENIZE and b"query" in body and b"prompt" not in body:
            pytest.skip("what is too deep is in a member of the other API")
        reply = exchange.attempt()
    assert reply.status in {400, 422}, reply.json
    assert isinstance(reply.json["message"] if path == RERANK else reply.json["error"]["message"], str)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHATS: dict[str, dict[str, Any]] = {
    "a prompt": {"prompt": "hi"},
    "a turn with a call": {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": "d"},
            {"role": "user", "content": [{"type": "text", "text": "q"}, IMAGE]},
            {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "d"}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
            {"role": "tool", "tool_call_id": "d", "content": "s"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d"}}],
    },
    "a call whose tool is gone": {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ]
    },
    "a schema with references": {
        "messages": [{"role": "user", "content": "q"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "parameters": {
                        "$schema": "http://json-schema.org/draft-07/schema#",
                        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                        "type": "object",
                        "properties": {"p": {"$ref": "#/$defs/P"}, "additionalProperties": {"type": "string"}},
                        "additionalProperties": False,
                    },
                },
            }
        ],
    },
}


@TRANSLATED
@pytest.mark.parametrize("case", CHATS)
def test_a_conversation_is_counted_as_the_provider_would_get_it(open_gateway, schema, case):
    """BR-46, BR-48, BR-74, BR-75."""
    gateway = open_gateway(config(of(schema)))
    exchange, reply = ask(gateway, TOKENIZE, {"model": "anthropic.claude-x", **CHATS[case]})
    assert reply.kind == "request_headers", reply.json
    path = exchange.carried[":path"]
    ACCEPTS[schema](path[path.find("publishers/") :] if "publishers/" in path else path, reply.body)
    exchange.response(JSON)
    pieces = json.dumps({COUNT_MEMBERS[schema]: 7}).encode()
    reply = exchange.piece(pieces, eos=True)
    assert json.loads(reply.body) == {"count": 7, "max_model_len": 0, "tokens": None}
    # No model has run.
    assert not any(reply.metadata.get(key) for key in KEYS)


def test_another_attempt_is_made_of_the_client_s_request(open_gateway):
    """BR-40: the attempt before has changed nothing of it."""
    gateway = open_gateway(config(of("AWSBedrock"), of("OpenAI", SECOND_BACKEND)))
    exchange, first = ask(gateway, TOKENIZE)
    assert b"converse" in first.body
    assert json.loads(exchange.attempt(SECOND_BACKEND).body) == PROMPT


# --- errors ---

ERRORS: dict[str, Any] = {
    "OpenAI's": {"error": {"message": "slow", "type": "t", "code": 400}},
    "a text": {"error": "slow"},
    "a detail": {"detail": "slow"},
    "Cohere's": {"message": "slow"},
    "Anthropic's": {"type": "error", "error": {"type": "t", "message": "slow"}},
    "Google's": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}},
    "a list": ["slow"],
}


@EVERYWHERE
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("kind", ["application/json", "text/html", ""])
def test_errors_are_those_of_the_client_s_api(open_gateway, path, schema, error, kind):
    """BR-17, BR-20, BR-65: or stay as they came, where the backend is of that API and says JSON."""
    gateway = open_gateway(config(of(schema)))
    exchange, _ = ask(gateway, path)
    headers = {"content-type": kind} if kind else {}
    exchange.response({**headers, "content-encoding": "gzip"}, status="429")
    reply = exchange.piece(CODINGS["gzip"](json.dumps(error).encode()), eos=True)
    if reply.body is None:
        assert schema in {"OpenAI", "Cohere"}
        assert kind == "application/json"
        return
    read = json.loads(reply.body)
    assert "content-encoding" in reply.remove
    assert reply.set["content-length"] == str(len(reply.body))
    assert "slow" in (read["message"] if path == RERANK else read["error"]["message"])


NO_COUNT = [b"", b"null", b"[]", b"{}", b"7", b"\xff", b"[" * 10_000, b'{"%s":-1}', b'{"%s":"7"}', b'{"%s":1e400}']


@TRANSLATED
@pytest.mark.parametrize("body", NO_COUNT)
def test_an_answer_without_a_count_is_a_502(open_gateway, schema, body):
    """BR-31, BR-53: at once, and never a count that was made up."""
    exchange, _ = ask(open_gateway(config(of(schema))), TOKENIZE)
    exchange.response(JSON)
    reply = exchange.piece(body.replace(b"%s", COUNT_MEMBERS[schema].encode()), eos=True)
    assert reply.status == 502
    assert reply.json["error"]["message"]


@TRANSLATED
def test_a_count_may_come_in_pieces(open_gateway, schema):
    """BR-35: to an Envoy that streams bodies."""
    gateway = open_gateway(config(of(schema)))
    wire = json.dumps({COUNT_MEMBERS[schema]: 7}).encode()
    for place in range(len(wire)):
        exchange = gateway.exchange()
        exchange.headers_with_modes(response="STREAMED", headers={":path": TOKENIZE})
        exchange.body(PROMPT)
        exchange.attempt()
        exchange.response(JSON)
        assert json.loads(exchange.play(cut(wire, [place])).output)["count"] == 7

"""Field reports on the responses API, as it is and over chat completions, told of every backend by the exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import converse
from tests.support.field_reports import CODINGS, JSON, SSE, WatchedGateway, cut, cuts, event
from tests.support.playbook import BACKEND, SECOND_BACKEND, openai_backend
from tests.support.translated import COUNTS, TRANSLATED, Counts, backend, config, document, events, overload, streams_as
from tests.unit.translate.chat.anthropic import oracle as claude
from tests.unit.translate.chat.gemini import oracle as gemini
from tests.unit.translate.responses.oracle import accepts_chat, follow_stream, read_events, read_response

PATH, COUNT = "/v1/responses", "/v1/responses/input_tokens"
NATIVE = ("OpenAI", "AzureOpenAI")
CHAT_ONLY = ("OpenAI, chat only", "AzureOpenAI, chat only")
CARRIED = (*CHAT_ONLY, *TRANSLATED)
MODEL = "anthropic.claude-sonnet-4-5"
KEYS = ("in", "out", "total", "cached", "creation", "reasoning")


def of(name: str, backend_name: str = BACKEND, *, override: str = "") -> dict[str, Any]:
    schema = name.partition(",")[0]
    entry = openai_backend(backend_name) if schema == "OpenAI" else backend(schema, backend_name, signs=False)
    if name in CHAT_ONLY:
        entry["schema"]["chatOnly"] = True
    if schema == "GCPAnthropic":
        entry["schema"]["version"] = "vertex-2023-10-16"
    return {**entry, "modelNameOverride": override}


def accepts(path: str, body: bytes) -> None:
    """Raises when the backend would not take it."""
    if "publishers/" in path:
        path = path[path.index("publishers/") :]
    if path.startswith("publishers/google/"):
        gemini.accept(path, body)
    elif path.endswith(("/converse", "/converse-stream")):
        converse.accept(path, body)
    elif "/chat/completions" in path:
        accepts_chat(path, body)
    else:
        claude.accepts(path, body)


def ask(gateway, path=PATH, **request):
    exchange = gateway.exchange()
    exchange.request({"model": MODEL, "input": "q", **request}, {":path": path})
    return exchange, exchange.attempt()


@pytest.fixture
def native(open_gateway) -> WatchedGateway:
    return open_gateway(config(of("OpenAI")))


# --- as it is ---

USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}
BILL = {"in": 11, "out": 4, "total": 15, "cached": 3, "creation": 0, "reasoning": 2}


def told(kind: str, **response: Any) -> dict[str, Any]:
    return {"type": kind, "response": {"id": "r", "model": "said", "usage": USAGE, **response}}


DELTA = {"type": "response.output_text.delta", "delta": "x"}
STREAMS = {
    "with names": event({}, prefix=b"event: response.created\ndata: ")
    + b"event: response.completed\n"
    + event(told("response.completed")),
    "without names": event(told("response.created", usage=None)) + event(DELTA) + event(told("response.completed")),
    "incomplete": event(told("response.incomplete", incomplete_details={"reason": "max_output_tokens"})),
    "no space": event(told("response.completed"), prefix=b"data:"),
    "carriage returns": event(told("response.completed"), ending=b"\r\n"),
    "without its end": event(told("response.completed"))[:-2],
    "items that nobody knows": event(told("response.completed", output=[{"type": "brand_new", "content": 7}])),
    "reported twice": event(told("response.incomplete")) + event(told("response.completed")),
    "then nothing": event(told("response.completed")) + event(told("response.completed", usage=None)),
}


@pytest.mark.parametrize("wire", STREAMS.values(), ids=STREAMS)
def test_a_stream_passes_and_is_metered_for_any_cut(native, wire):
    """BR-01, BR-02, BR-05, BR-59, BR-82, BR-83."""
    for pieces in list(cuts(wire))[:: max(len(wire) // 30, 1)]:
        exchange, _ = ask(native, stream=True)
        exchange.response(SSE)
        played = exchange.play(pieces)
        assert played.output == wire
        assert {key: played.metadata[key] for key in KEYS} == BILL


def test_costs_come_with_the_event_that_reports_them(native):
    """BR-07: the client may be gone before the end."""
    exchange, _ = ask(native, stream=True)
    exchange.response(SSE)
    reply = exchange.piece(event(told("response.completed")))
    assert {key: reply.metadata[key] for key in KEYS} == BILL


FAILED = {
    "a failure": event(told("response.failed", error={"code": "rate_limit_exceeded", "message": "m"})),
    "an error of its own": event({"type": "error", "code": "rate_limit_exceeded", "message": "m"}),
    "an error without a type": event({"error": {"code": "rate_limit_exceeded", "message": "m"}}),
}


@pytest.mark.parametrize("wire", FAILED.values(), ids=FAILED)
def test_a_stream_that_fails_is_known_as_one(native, wire):
    """BR-13, BR-83."""
    exchange, _ = ask(native, stream=True)
    exchange.response(SSE)
    first = event(told("response.in_progress", usage=None))
    played = exchange.play([first + wire])
    assert played.output == first + wire
    assert played.metadata["response_error"] == "rate_limit_exceeded"
    exchange.close()
    assert native.count("extproc_attempts_total", 'outcome="failed"') == 1


TOLERATED = {
    "an item of tomorrow": b'{"model":"m","input":[{"type":"brand_new","x":1}]}',
    "a message without an id": (
        b'{"model":"m","input":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"t"}]}]}'
    ),
    "numbers as they are spelled": b'{"temperature":1.0e0, "model":"m","input":"\\u00e9"}',
    "tools of tomorrow": b'{"model":"m","tools":[{"type":"x"}],"tool_choice":{"type":"y"},"text":{"format":null}}',
    "what the agents send": b'{"model":"m","input":[{"type":"agent_message"},{"type":"additional_tools","tools":[]}]}',
}


@pytest.mark.parametrize("body", TOLERATED.values(), ids=TOLERATED)
@pytest.mark.parametrize("path", [PATH, COUNT])
def test_what_need_not_be_read_passes_as_it_is(open_gateway, body, path):
    """BR-82; BR-42, BR-103: but for the model, wherever the body has it."""
    for schema in NATIVE:
        exchange = open_gateway(config(of(schema))).exchange()
        exchange.request(body, {":path": path})
        assert exchange.attempt().body is None
        exchange = open_gateway(config(of(schema, override="dep 1/x"))).exchange()
        exchange.request(body, {":path": f"{path}?api-version=old"})
        assert exchange.attempt().body == body.replace(b'"model":"m"', b'"model":"dep 1/x"')
        assert "dep" not in exchange.carried[":path"]
        assert exchange.carried[":path"].count("api-version") == 1


@pytest.mark.parametrize("path", [PATH, COUNT])
@pytest.mark.parametrize("coding", CODINGS)
def test_an_encoded_answer_is_metered_and_passes_as_it_came(native, path, coding):
    """BR-14, BR-16."""
    answer = {"object": "response", "model": "said", "usage": USAGE, "input_tokens": 11}
    body = CODINGS[coding](json.dumps(answer).encode())
    exchange, _ = ask(native, path)
    exchange.response({**JSON, "content-encoding": coding})
    assert exchange.piece(body, eos=True).body is None
    assert native.count("gen_ai_client_token_usage_sum", 'token_type="input"') == 11


# --- over chat completions ---

AGENT: dict[str, Any] = {
    "instructions": "You are a coding agent.",
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "tools": [
        {
            "type": "function",
            "name": "shell",
            "strict": False,
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {"type": "local_shell"},
        {"type": "web_search", "external_web_access": False},
        {"type": "namespace", "name": "mcp__x__", "description": "d", "tools": [{"type": "function", "name": "g"}]},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "low"},
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be careful."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "gAAAAAB"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "function_call", "call_id": "c2", "name": "shell", "arguments": '{"command":"ls"}'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}],
        },
    ],
}


@pytest.mark.parametrize("name", CARRIED)
def test_a_coding_agent_is_understood(open_gateway, name):
    """BR-11, BR-46, BR-48, BR-82, BR-85: what Codex sends, with a patch, an image and a search that it may not need."""
    exchange, reply = ask(open_gateway(config(of(name))), **AGENT)
    assert reply.kind == "request_headers", reply.json
    accepts(exchange.carried[":path"], reply.body)
    assert (b"stream_options" in reply.body) is (name in CHAT_ONLY)
    for said in (b"apply_patch", b"local_shell", b"mcp__x__g", b"iVBORw0KGgo=", b"Be careful."):
        assert said in reply.body, said
    assert b"gAAAAAB" not in reply.body


@pytest.mark.parametrize("name", TRANSLATED)
@pytest.mark.parametrize("counts", [Counts(), Counts(fresh=0, read=90, output=1), Counts(reasoning=3)], ids=str)
def test_what_the_client_reads_and_what_is_metered_agree(open_gateway, name, counts):
    """BR-54, BR-62, BR-71, BR-76: cached tokens are part of the input, thoughts of the output."""
    gateway = open_gateway(config(of(name)))
    expected = {key: counts.costs(name)[key] for key in KEYS}
    exchange, _ = ask(gateway, stream=True)
    exchange.response(streams_as(name))
    played = exchange.play(events(name, usage=counts))
    whole, _ = ask(gateway)
    whole.response(JSON)
    reply = whole.piece(document(name, usage=counts), eos=True)
    assert {key: played.metadata[key] for key in KEYS} == expected == {key: reply.metadata[key] for key in KEYS}
    for response in (follow_stream(played.output)[1], read_response(reply.body)):
        usage = response.usage
        assert (usage.input_tokens, usage.output_tokens) == (expected["in"], expected["out"])
        assert usage.total_tokens == expected["in"] + expected["out"]
        assert usage.input_tokens_details.cached_tokens == expected["cached"]


@pytest.mark.parametrize("name", TRANSLATED)
def test_any_cut_of_a_stream_is_the_same_response(open_gateway, name):
    """BR-01, BR-45, BR-51, BR-77: with calls."""
    gateway = open_gateway(config(of(name)))
    calls = [("shell", {"command": "ls"}), ("apply_patch", {"input": "*** Begin"})]
    wire = b"".join(events(name, "Héllo", calls))
    seen = set()
    for pieces in [[wire], *(cut(wire, [place]) for place in range(0, len(wire), max(len(wire) // 25, 1)))]:
        exchange, _ = ask(gateway, stream=True, tools=AGENT["tools"])
        exchange.response(streams_as(name))
        played = exchange.play(pieces)
        assert {key: played.metadata[key] for key in KEYS} == {key: COUNTS.costs(name)[key] for key in KEYS}
        read_events(played.output)
        _, response = follow_stream(played.output)
        seen.add(json.dumps([json.loads(item.to_json()) | {"id": "", "call_id": ""} for item in response.output]))
    assert len(seen) == 1
    text, call, patch = json.loads(seen.pop())
    assert text["content"][0]["text"] == "Héllo"
    assert json.loads(call["arguments"]) == {"command": "ls"}
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")


@pytest.mark.parametrize("name", TRANSLATED)
@pytest.mark.parametrize("ending", ["an error", "nothing"])
def test_what_breaks_off_fails(open_gateway, name, ending):
    """BR-13, BR-53, BR-80: no ``response.completed``, and what was said is there as far as it came."""
    gateway = open_gateway(config(of(name)))
    wire = b"".join(events(name)[:-3]) + (overload(name) if ending == "an error" else b"")
    for pieces in ([wire], cut(wire, [9, len(wire) // 2])):
        exchange, _ = ask(gateway, stream=True)
        exchange.response(streams_as(name))
        played = exchange.play(pieces)
        *_, last = read_events(played.output)
        assert last.type == "response.failed"
        assert last.response.status == "failed"
        assert last.response.error.code in {"rate_limit_exceeded", "server_error"}
        assert played.metadata["response_error"]
        exchange.close()
    assert gateway.count("extproc_attempts_total", 'outcome="failed"') == 2


STOPS = {"AWSBedrock": "max_tokens", "GCPVertexAI": "MAX_TOKENS"}


@pytest.mark.parametrize("name", TRANSLATED)
def test_an_answer_that_is_cut_off_is_incomplete(open_gateway, name):
    """BR-55, BR-83."""
    gateway = open_gateway(config(of(name)))
    exchange, _ = ask(gateway, stream=True)
    exchange.response(streams_as(name))
    played = exchange.play(events(name, stop=STOPS.get(name, "max_tokens")))
    *_, last = read_events(played.output)
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == "max_output_tokens"
    assert played.metadata["out"] == COUNTS.output


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize("override", ["pub/real-1@2024", "dep 1/x"])
def test_the_backend_knows_its_own_name_of_the_model(open_gateway, name, override):
    """BR-42, BR-103."""
    exchange, reply = ask(open_gateway(config(of(name, override=override))), model="virt")
    assert b"virt" not in reply.body
    assert "virt" not in exchange.carried[":path"]
    assert " " not in exchange.carried[":path"]


def test_another_attempt_is_made_of_the_client_s_request(open_gateway):
    """BR-40: one that passes as it is, after one that was carried."""
    gateway = open_gateway(config(of("Anthropic"), of("OpenAI", SECOND_BACKEND)))
    exchange, _ = ask(gateway, stream=True)
    second = exchange.attempt(SECOND_BACKEND)
    assert json.loads(second.body) == {"model": MODEL, "input": "q", "stream": True}
    assert exchange.carried[":path"] == PATH
    exchange.response(SSE)
    wire = event(told("response.completed"))
    played = exchange.play([wire])
    assert played.output == wire
    assert {key: played.metadata[key] for key in KEYS} == BILL


ERRORS = [
    {"error": {"message": "m", "type": "t", "code": 400}},
    {"error": "m"},
    {"detail": "m"},
    {"message": "m"},
    ["m"],
    {"type": "error", "error": {"type": "t", "message": "m"}},
    {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m"}},
]


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_errors_are_openai_s(open_gateway, name, error):
    """BR-17, BR-20, BR-65."""
    gateway = open_gateway(config(of(name)))
    for status in ("400", "429", "503"):
        for headers in (JSON, {"content-type": "text/html"}):
            exchange, _ = ask(gateway, stream=True)
            exchange.response({**headers, "content-encoding": "gzip", "retry-after": "3"}, status=status)
            reply = exchange.piece(CODINGS["gzip"](json.dumps(error).encode()), eos=True)
            assert reply.set["content-type"] == "application/json"
            read = json.loads(reply.body)["error"]
            assert read["type"]
            assert "m" in read["message"]


BAD = {
    "a body that is no object": b"[]",
    "text that is no UTF-8": b'{"model":"m","input":"\xff"}',
    "a schema that is no UTF-8": (
        b'{"model":"m","input":"q","tools":[{"type":"function","name":"f","parameters":"\xff"}]}'
    ),
    "a form that is no UTF-8": (
        b'{"model":"m","input":"q","text":{"format":{"type":"json_schema","name":"n","schema":{"a":"\xff"}}}}'
    ),
    "a choice that is a number": b'{"model":"m","input":"q","tool_choice":7}',
    "an unknown tool": b'{"model":"m","input":"q","tools":[{"type":"x"}]}',
    "an unknown item": b'{"model":"m","input":[{"type":"x"}]}',
    "depth without end": b'{"model":"m","input":"q","metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    "a schema of such depth": (
        b'{"model":"m","input":"q","tools":[{"type":"function","name":"f","parameters":'
        + b'{"a":' * 50000
        + b"1"
        + b"}" * 50001
        + b"]}"
    ),
    "half a pair of surrogates": b'{"model":"m","input":"\\ud83d"}',
    "state that is elsewhere": b'{"model":"m","input":"q","previous_response_id":"r"}',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", CARRIED)
def test_bad_input_is_the_client_s_fault(open_gateway, body, name):
    """BR-67."""
    exchange = open_gateway(config(of(name))).exchange()
    reply = exchange.request(body, {":path": PATH})
    if reply.kind != "immediate_response":
        reply = exchange.attempt()
    assert reply.status in {400, 422}, reply.json
    assert reply.json["error"]["message"]


ODD = {
    "input that is no UTF-8": {"x": "__BAD__"},
    "input that is text": "__BAD__",
    "input of numbers": [1e308, 10**40],
}


@pytest.mark.parametrize("given", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", TRANSLATED)
def test_calls_that_are_no_text_are_no_fault_of_ours(open_gateway, name, given):
    """What a provider spells badly reaches the client as far as it can be read, or as a 502."""
    body = document(name, calls=[("f", given)]).replace(b"__BAD__", b"\xff\xfe")
    exchange, _ = ask(open_gateway(config(of(name))))
    exchange.response(JSON)
    reply = exchange.piece(body, eos=True)
    if reply.kind == "immediate_response":
        assert reply.status == 502
    else:
        read_response(reply.body)

"""Field reports on the Messages API over chat completions, told of every backend it is carried to, by the exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.field_reports import CODINGS, JSON, SSE, WatchedGateway, cut, cuts
from tests.support.playbook import BACKEND, SECOND_BACKEND, openai_backend
from tests.support.translated import Counts, backend, config, document, events
from tests.unit.translate.messages.carried.attempts import (
    Told,
    assistant,
    blocks_of,
    call,
    chunk,
    completion,
    gathered,
    sse,
    user,
)
from tests.unit.translate.messages.carried.oracle import accepts

MESSAGES, COUNT = "/anthropic/v1/messages", "/anthropic/v1/messages/count_tokens"
SCHEMAS = ("OpenAI", "AzureOpenAI", "GCPVertexAI")
USER = {"role": "user", "content": "q"}
COSTS = ("in", "out", "total", "cached", "creation", "reasoning")
DONE = "[DONE]"
STOP = chunk({}, "stop")


def of(schema: str, name: str = BACKEND, **more: Any) -> dict[str, Any]:
    return openai_backend(name) if schema == "OpenAI" else backend(schema, name, **more)


def report(**usage: Any) -> dict[str, Any]:
    return {"choices": [], "usage": usage}


@pytest.fixture
def gateway(open_gateway) -> WatchedGateway:
    return open_gateway(config(of("OpenAI")))


def ask(gateway, path=MESSAGES, **request):
    exchange = gateway.exchange()
    exchange.request({"model": "m", "max_tokens": 9, "messages": [USER], **request}, {":path": path})
    return exchange, exchange.attempt()


def upstream(gateway, **request):
    """What the backend gets, and accepts."""
    exchange, reply = ask(gateway, **request)
    assert reply.kind == "request_headers", reply.json
    path = exchange.carried[":path"]
    accepts(path[path.find("publishers/") :] if "publishers/" in path else path, reply.body)
    return json.loads(reply.body)


def hear(gateway, pieces, headers=SSE, **request):
    """A stream as the client reads it, and what is known of it for costs."""
    exchange, _ = ask(gateway, stream=True, **request)
    assert exchange.response(headers).set.get("content-type", "text/event-stream") == "text/event-stream"
    played = exchange.play(pieces)
    exchange.close()
    told = Told.__new__(Told)
    told.events = [json.loads(block.split(b"\ndata: ")[1]) for block in played.output.split(b"\n\n")[:-1]]
    told.check_order()
    told.text = played.output
    return told, {key: played.metadata[key] for key in COSTS}, played.metadata


# --- streams ---

USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16, "prompt_tokens_details": {"cached_tokens": 5}}
BILL = {"in": 12, "out": 4, "total": 16, "cached": 5, "creation": 0, "reasoning": 0}
STORY = [chunk({"role": "assistant"}), chunk({"content": "Hé"}), chunk({"content": "llo"}), STOP, report(**USAGE)]
WIRE = {
    "line feeds": sse(*STORY, DONE),
    "carriage returns": sse(*STORY, DONE).replace(b"\n", b"\r\n"),
    "no space": sse(*STORY, DONE).replace(b"data: ", b"data:"),
    "comments": b": x\n\n" + sse(*STORY, DONE),
    "no end of the last event": sse(*STORY, DONE)[:-2],
    "no mark of the end": sse(*STORY),
}


@pytest.mark.parametrize("wire", WIRE.values(), ids=WIRE)
def test_any_framing_and_any_cut_is_the_same_stream_and_the_same_bill(gateway, wire):
    """BR-01, BR-02, BR-61: and the counts come in the event that ends the message."""
    whole, bill, _ = hear(gateway, [wire])
    assert bill == BILL
    assert [whole.types[0], *whole.types[-2:]] == ["message_start", "message_delta", "message_stop"]
    assert whole.events[-2]["usage"] == {"cache_read_input_tokens": 5, "input_tokens": 7, "output_tokens": 4}
    assert blocks_of(gathered(whole.text)) == ["Héllo"]
    for pieces in list(cuts(wire))[:: max(len(wire) // 40, 1)]:
        told, bill, _ = hear(gateway, pieces)
        assert (told.text, bill) == (whole.text, BILL)


@pytest.mark.parametrize("schema", ["AzureOpenAI", "GCPVertexAI"])
@pytest.mark.parametrize("counts", [Counts(), Counts(fresh=0, read=90, output=1), Counts(reasoning=3)], ids=str)
def test_what_the_client_reads_and_what_is_metered_agree(open_gateway, schema, counts):
    """BR-62, BR-76: cached tokens beside the input for the client, within it for costs; thoughts are output."""
    gateway = open_gateway(config(of(schema)))
    expected = {key: counts.costs(schema)[key] for key in COSTS}
    told, bill, _ = hear(gateway, events(schema, usage=counts))
    usage = told.events[-2]["usage"]
    exchange, _ = ask(gateway)
    exchange.response(JSON)
    reply = exchange.piece(document(schema, usage=counts), eos=True)
    whole = json.loads(reply.body)["usage"]
    assert bill == {key: reply.metadata[key] for key in COSTS} == expected
    for read in (usage, whole):
        assert read.get("cache_read_input_tokens", 0) == counts.read
        assert (read["input_tokens"], read["output_tokens"]) == (counts.fresh, counts.output)


REPORTS = {
    "running totals": ([{"completion_tokens": n, "prompt_tokens": 10, "total_tokens": 10 + n} for n in (1, 2, 3)], 3),
    "a null at the end": ([{"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}, None], 3),
    "the same twice": ([{"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}] * 2, 3),
    "without a total": ([{"prompt_tokens": 10, "completion_tokens": 3}], 3),
    "as floats": ([{"prompt_tokens": 10.0, "completion_tokens": 3.0, "total_tokens": 13.0}], 3),
    "nonsense after it": ([{"prompt_tokens": 10, "completion_tokens": 3}, {"prompt_tokens": "x"}, 7], 3),
}


@pytest.mark.parametrize(("reports", "output"), REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("beside", [True, False], ids=["with a choice", "alone"])
def test_reports_replace_each_other(gateway, reports, output, beside):
    """BR-12: wherever they stand."""
    chunks = [chunk({"content": "a"}, usage=each) if beside else {"choices": [], "usage": each} for each in reports]
    told, bill, _ = hear(gateway, [sse(chunk({"content": "b"}), *chunks, STOP, DONE)])
    assert (bill["in"], bill["out"], bill["total"]) == (10, output, 10 + output)
    assert told.events[-2]["usage"] == {"input_tokens": 10, "output_tokens": output}


def test_more_cached_than_there_was_is_never_negative(gateway):
    """BR-62 (c)."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    told, _, _ = hear(gateway, [sse(chunk({"content": "a"}), STOP, report(**usage), DONE)])
    assert told.events[-2]["usage"] == {"cache_read_input_tokens": 3, "input_tokens": 0, "output_tokens": 1}


OVERLOADED = {"error": {"message": "busy", "type": "overloaded_error", "code": 529}}
BROKEN = {
    # what follows the text: type of the error, part of its text
    "an error": (sse(OVERLOADED), "overloaded_error", "busy"),
    "an error by its event": (b'event: error\ndata: {"message":"busy"}\n\n', "api_error", "busy"),
    "an error that is text": (sse({"error": "busy"}), "api_error", "busy"),
    "an error of a limit": (
        sse({"error": {"message": "slow", "code": "rate_limit_exceeded"}}),
        "rate_limit_error",
        "slow",
    ),
    "a frame that is cut": (b'data: {"choices":[{"del\n\n' + sse(STOP, DONE), "api_error", "not JSON"),
    "no end": (b"", "api_error", "ended before"),
    "half an event": (b"data: {", "api_error", "not JSON"),
    "an end without an answer to end": (sse(report(**USAGE)), "api_error", "ended before"),
}


@pytest.mark.parametrize(("after", "kind", "text"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_off_does_not_look_whole(gateway, after, kind, text):
    """BR-13, BR-53, BR-80: an error event and no end, and what was known of the usage is kept."""
    first = chunk({"content": "Hel"}, usage={"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13})
    wire = sse(first) + after
    whole, bill, metadata = hear(gateway, [wire])
    assert whole.types[-1] == "error"
    assert "message_delta" not in whole.types
    assert whole.events[-1]["error"]["type"] == kind
    assert text in whole.events[-1]["error"]["message"]
    assert bill["in"] == 12
    assert metadata["response_error"]
    for pieces in (cut(wire, [place]) for place in range(0, len(wire), 7)):
        assert hear(gateway, pieces)[0].text == whole.text
    assert gateway.count("extproc_attempts_total", 'outcome="failed"') == len(gateway.exchanges)


def test_chunks_after_the_end_tell_nothing_more(gateway):
    """BR-119: but a report among them counts."""
    wire = sse(chunk({"content": "a"}), STOP, DONE, chunk({"content": "b"}), report(**USAGE), DONE)
    told, bill, _ = hear(gateway, [wire])
    assert blocks_of(gathered(told.text)) == ["a"]
    assert bill == BILL


CALLS = {
    "one after the other": [
        chunk(call(0, '{"x":', id="a", name="f")),
        chunk(call(0, "1}")),
        chunk(call(1, "{}", id="b", name="g")),
    ],
    "mixed": [
        chunk(call(0, '{"x":', id="a", name="f")),
        chunk(call(1, "{}", id="b", name="g")),
        chunk(call(0, "1}")),
    ],
    "all of one number": [chunk(call(0, '{"x":1}', id="a", name="f")), chunk(call(0, "{}", id="b", name="g"))],
    "without a number": [chunk(call(None, '{"x":1}', id="a", name="f")), chunk(call(None, "{}", id="b", name="g"))],
    "with a hole": [chunk(call(3, '{"x":1}', id="a", name="f")), chunk(call(7, "{}", id="b", name="g"))],
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop", "brand_new"])
def test_calls_are_told_one_after_the_other(gateway, calls, finish):
    """BR-45, BR-55, BR-77: also where the backend numbers them badly, or says that it simply stopped."""
    told, _, _ = hear(gateway, [sse(chunk({"content": "t"}), *calls, chunk({}, finish), report(**USAGE), DONE)])
    message = gathered(told.text)
    assert blocks_of(message) == ["t", ["f", {"x": 1}], ["g", {}]]
    assert message.stop_reason == "tool_use"


# --- documents ---


@pytest.mark.parametrize("headers", [JSON, SSE, {}, {"content-type": "text/plain"}], ids=str)
@pytest.mark.parametrize("coding", [None, *CODINGS])
def test_a_document_counts_whatever_it_is_called(gateway, headers, coding):
    """BR-15, BR-16."""
    body = json.dumps(completion({"content": "a"}, usage=USAGE)).encode()
    exchange, _ = ask(gateway)
    exchange.response({**headers, **({"content-encoding": coding} if coding else {})})
    reply = exchange.piece(CODINGS[coding](body) if coding else body, eos=True)
    assert json.loads(reply.body)["content"] == [{"type": "text", "text": "a"}]
    assert {key: reply.metadata[key] for key in COSTS} == BILL
    assert reply.metadata["response_model"] == "gpt-x"


def test_a_document_in_the_place_of_a_stream_is_told_as_one(gateway):
    body = json.dumps(completion({"content": "a", "tool_calls": [{"function": {"name": "f"}}]}, usage=USAGE)).encode()
    for pieces in ([body], cut(body, [1, 20]), [b"\n", body]):
        for headers in (JSON, SSE):
            told, bill, _ = hear(gateway, pieces, headers)
            assert blocks_of(gathered(told.text)) == ["a", ["f", {}]]
            assert bill == BILL


# --- requests ---

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TOOL = {
    "name": "Bash",
    "description": "d",
    "input_schema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "additionalProperties": False,
    },
}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
REMINDER = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "Q2xhdWRl"}

AGENT: dict[str, dict[str, Any]] = {
    "a turn of Claude Code": {
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "You are", **CACHED}, {"type": "text", "text": "env", **CACHED}],
        "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
        "tool_choice": {"type": "auto"},
        "metadata": {"user_id": json.dumps({"device_id": "d" * 64, "session_id": "s"})},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "messages": [
            user(REMINDER, {"type": "text", "text": "fix it", **CACHED}),
            assistant(THOUGHT, {"type": "text", "text": ""}, USE, {**USE, "id": "toolu_2"}),
            user(
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [PNG], "is_error": False},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": True, **CACHED},
                REMINDER,
            ),
        ],
    },
    "a look at the quota": {"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]},
    "a title, begun for the model": {
        "max_tokens": 512,
        "temperature": 0,
        "stop_sequences": ["}"],
        "messages": [USER, assistant({"type": "text", "text": "{"})],
    },
    "a title in a form": {
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}},
                    "required": ["title"],
                    "additionalProperties": False,
                },
            }
        }
    },
    "thinking that is not shown": {
        "max_tokens": 32000,
        "thinking": {"type": "enabled", "budget_tokens": 31999, "display": "omitted"},
    },
    "tools that are searched for": {
        "tools": [{"type": "tool_search_tool_bm25_20251119", "name": "s"}, {**TOOL, "defer_loading": True}],
        "messages": [
            USER,
            assistant(USE),
            user(
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "tool_reference", "tool_name": "Bash"}],
                }
            ),
        ],
    },
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("case", AGENT)
def test_a_coding_agent_is_understood(open_gateway, schema, case):
    """BR-64, BR-67, BR-75, and what users ask for most."""
    gateway = open_gateway(config(of(schema)))
    upstream(gateway, **AGENT[case])
    exchange, reply = ask(gateway, COUNT, **{k: v for k, v in AGENT[case].items() if k not in {"stream", "max_tokens"}})
    assert reply.kind == "request_headers", reply.json
    exchange.response(JSON)
    counted = exchange.piece(b'{"totalTokens":7}' if schema == "GCPVertexAI" else b'{"input_tokens":7}', eos=True)
    assert counted.body == b'{"input_tokens":7}'
    # BR-70: it is free.
    assert not any(counted.metadata.get(key) for key in COSTS)


def test_results_come_first_and_nothing_of_them_is_lost(gateway):
    """BR-46, BR-64."""
    _, _, *found = upstream(gateway, **AGENT["a turn of Claude Code"])["messages"]
    assert [message["role"] for message in found] == ["assistant", "tool", "tool", "user"]
    assert found[2]["content"] == "Error: no"
    assert [part["type"] for part in found[3]["content"]] == ["text", "image_url", "text"]
    assert b"hm" not in json.dumps(found).encode()


def test_streams_ask_for_their_usage_only_where_it_is_known(open_gateway):
    """BR-09, BR-11."""
    for schema in SCHEMAS:
        request = upstream(open_gateway(config(of(schema))), stream=True)
        assert ("stream_options" in request) is (schema != "GCPVertexAI")


@pytest.mark.parametrize("override", ["pub/real-1@2024", "dep 1/x", "../x"])
def test_the_backend_knows_its_own_name_of_the_model(open_gateway, override):
    """BR-42, BR-103: escaped in paths; the client's name is nowhere."""
    for schema in SCHEMAS:
        entry = {**of(schema), "modelNameOverride": override}
        exchange = open_gateway(config(entry)).exchange()
        exchange.request({"model": "virt", "max_tokens": 9, "messages": [USER]}, {":path": f"{MESSAGES}?beta=true"})
        reply = exchange.attempt()
        path = exchange.carried[":path"]
        assert "virt" not in path
        assert b"virt" not in reply.body
        assert "beta" not in path
        assert "/../" not in path
        if schema != "GCPVertexAI":
            assert json.loads(reply.body)["model"] == override


def test_another_attempt_is_made_of_the_client_s_request(open_gateway):
    """BR-40: and nothing of the first one is left in its answer or its bill."""
    gateway = open_gateway(config(of("OpenAI"), of("GCPVertexAI", SECOND_BACKEND)))
    direct = open_gateway(config(of("GCPVertexAI")))
    exchange, _ = ask(gateway, stream=True)
    second = exchange.attempt(SECOND_BACKEND)
    assert second.body == ask(direct, stream=True)[1].body
    exchange.response(SSE)
    played = exchange.play(events("GCPVertexAI"))
    assert blocks_of(gathered(played.output)) == ["Hello"]
    assert played.metadata["in"] == Counts().costs("GCPVertexAI")["in"]


# --- errors ---

ERRORS = {
    # body: part of the message
    "a number as code": ({"error": {"message": "m", "type": "BadRequestError", "param": None, "code": 400}}, "m"),
    "a text": ({"error": "text"}, "text"),
    "a detail": ({"detail": "x"}, "x"),
    "flat": ({"object": "error", "message": "x", "code": 404}, "x"),
    "a list": ([], "[]"),
    "nothing": (None, "null"),
}
TYPES = {
    "400": "invalid_request_error",
    "401": "authentication_error",
    "403": "permission_error",
    "404": "not_found_error",
    "413": "request_too_large",
    "422": "invalid_request_error",
    "429": "rate_limit_error",
    "500": "api_error",
    "503": "api_error",
    "529": "overloaded_error",
}


@pytest.mark.parametrize(("error", "text"), ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_errors_are_anthropic_s(gateway, error, text, stream):
    """BR-17, BR-20, BR-65: the status stays, whatever the shape and the content type."""
    for status, kind in TYPES.items():
        for headers in (JSON, {"content-type": "text/html"}, {}):
            exchange, _ = ask(gateway, stream=stream)
            exchange.response({**headers, "content-encoding": "gzip", "retry-after": "3"}, status=status)
            reply = exchange.piece(CODINGS["gzip"](json.dumps(error).encode()), eos=True)
            assert reply.set["content-type"] == "application/json"
            assert reply.remove == ["content-encoding"]
            read = json.loads(reply.body)
            assert (read["type"], read["error"]["type"]) == ("error", kind)
            assert text in read["error"]["message"]
            assert reply.metadata == {"response_error": kind}


BAD = {
    "a body that is no object": b"[]",
    "no JSON": b"{",
    "text that is no UTF-8": b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
    "messages that are text": b'{"model":"m","messages":"str"}',
    "a number that is none": b'{"model":"m","messages":[],"temperature":NaN}',
    "depth without end": b'{"model":"m","messages":[],"metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    "a choice that is a number": b'{"model":"m","messages":[],"tool_choice":7}',
    "an unknown tool": b'{"model":"m","messages":[],"tools":[{"type":"x","name":"f"}]}',
    "an image that is none": (
        b'{"model":"gemini-2.5","messages":[{"role":"user","content":[{"type":"image","source":'
        b'{"type":"base64","media_type":"image/png","data":"@@@"}}]}]}'
    ),
    "half a pair of surrogates": b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
@pytest.mark.parametrize("path", [MESSAGES, COUNT])
def test_bad_input_is_the_client_s_fault(open_gateway, body, path):
    """BR-67."""
    exchange = open_gateway(config(of("GCPVertexAI"))).exchange()
    reply = exchange.request(body, {":path": path})
    if reply.kind != "immediate_response":
        reply = exchange.attempt()
    assert reply.status in {400, 422}, reply.json
    assert reply.json["type"] == "error"
    assert reply.json["error"]["type"] == "invalid_request_error"

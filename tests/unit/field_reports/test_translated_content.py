"""Field reports about content: stop reasons, tool calls, thoughts that go there and back, caches and schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.field_reports import ASKED
from tests.support.translated import (
    CLAUDE,
    TRANSLATED,
    Read,
    backend,
    config,
    document,
    events,
    framed,
    streams_as,
)
from tests.unit.field_reports.test_translated_requests import HISTORY, TOOL, Sent

USER = {"role": "user", "content": "q"}
PLAIN = {"model": "m", "messages": [USER]}
STREAM = {**json.loads(ASKED), "messages": [USER]}
JSON = {"content-type": "application/json"}


@pytest.fixture
def read(open_gateway):
    """``read(schema, pieces)``: what the client gathers of a stream."""
    gateways: dict[str, Any] = {}

    def read_(schema: str, pieces: list[bytes]) -> Read:
        if schema not in gateways:
            gateways[schema] = open_gateway(config(backend(schema, signs=False)))
        exchange = gateways[schema].start(STREAM)
        exchange.response(streams_as(schema))
        return Read.of(exchange.play([*pieces, b""]).output)

    return read_


@pytest.fixture
def whole(open_gateway):
    """``whole(schema, body)``: the choice of a document."""
    gateways: dict[str, Any] = {}

    def whole_(schema: str, body: bytes) -> dict[str, Any]:
        if schema not in gateways:
            gateways[schema] = open_gateway(config(backend(schema, signs=False)))
        exchange = gateways[schema].start(PLAIN)
        exchange.response(JSON)
        choices = json.loads(exchange.piece(body, eos=True).body)["choices"]
        assert len(choices) == 1
        return dict(choices[0])

    return whole_


@pytest.fixture
def send(open_gateway):
    gateways: dict[str, Any] = {}

    def send_(schema: str, **request: Any) -> Sent:
        if schema not in gateways:
            gateways[schema] = open_gateway(config(backend(schema, signs=False)))
        return Sent(gateways[schema], schema, request)

    return send_


# --- BR-55: why an answer ends ---

CLAUDES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "stop",
    "brand_new": "stop",
}
REASONS = {
    "AWSBedrock": {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
        "guardrail_intervened": "content_filter",
        "content_filtered": "content_filter",
        "model_context_window_exceeded": "length",
        "refusal": "content_filter",
        "pause_turn": "length",
        "malformed_tool_use": "length",
        "brand_new": "length",
    },
    "GCPVertexAI": {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        "SAFETY": "content_filter",
        "RECITATION": "content_filter",
        "MALFORMED_FUNCTION_CALL": "content_filter",
        "OTHER": "content_filter",
        "BRAND_NEW": "content_filter",
    },
    **dict.fromkeys(CLAUDE, CLAUDES),
}
NATIVE = {"pause_turn", "malformed_tool_use", "brand_new", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "OTHER"}


@pytest.mark.parametrize("schema", TRANSLATED)
def test_every_stop_reason_has_a_word_of_the_client(read, whole, schema):
    """BR-55: streamed and not the same; one that the API has no word for is told beside it."""
    for reason, expected in REASONS[schema].items():
        choice = whole(schema, document(schema, stop=reason))
        streamed = read(schema, events(schema, stop=reason))
        assert choice["finish_reason"] == expected, reason
        assert streamed.finish_reasons == [expected]
        native = reason if reason in NATIVE or reason == "BRAND_NEW" else None
        last = next(each for each in streamed.choices if "finish_reason" in each)
        assert choice.get("native_finish_reason") == last.get("native_finish_reason") == native


# --- BR-45, BR-77: tool calls ---


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_calls_are_numbered_densely(read, whole, schema, count):
    """BR-45, BR-77: from 0, however the provider numbers its blocks; ids differ; arguments are whole."""
    calls = [(f"f{number}", {"n": number, "text": 'ä"\n'}) for number in range(count)]
    streamed = read(schema, events(schema, "Hello", calls)).calls
    told = [
        (each["id"], each["function"]["name"], each["function"]["arguments"])
        for each in whole(schema, document(schema, "Hello", calls))["message"]["tool_calls"]
    ]
    for found in (streamed, told):
        assert [(name, json.loads(arguments)) for _, name, arguments in found] == calls
        assert len({identity for identity, _, _ in found}) == count


def gemini(*parts: dict[str, Any], finish: str = "") -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return framed("GCPVertexAI", {"candidates": [candidate | ({"finishReason": finish} if finish else {})]})


F, G = ({"functionCall": {"name": name, "args": {}}} for name in "fg")


@pytest.mark.parametrize(
    ("pieces", "reasons"),
    [
        ([gemini(F), gemini(G, F, finish="STOP")], ["tool_calls"]),
        ([gemini(F), gemini(G), gemini({"text": ""}, finish="STOP")], ["tool_calls"]),
        # Some models end every event, or say the reason before the last call.
        ([gemini({"text": "a"}, finish="STOP"), gemini(F, finish="STOP")], ["stop", "tool_calls"]),
        ([gemini({"text": "a"}, finish="STOP"), gemini(F), gemini(finish="STOP")], ["stop", "tool_calls"]),
        ([gemini(F), gemini({"text": "a"}, finish="SAFETY"), gemini({"text": "b"}, finish="STOP")], ["content_filter"]),
        ([gemini(F, finish="STOP"), gemini({"text": ""}, finish="STOP")], ["tool_calls"]),
    ],
)
def test_geminis_stop_after_calls_is_a_call(read, pieces, reasons):
    """BR-77: Gemini says STOP whatever it stops for; what clients read last is right."""
    stream = read("GCPVertexAI", pieces)
    assert stream.done
    assert stream.finish_reasons == reasons
    assert stream.calls != []


# --- BR-58: thoughts ---

SIGNED, OPAQUE = "c2lnbmVk", "b3BhcXVl"


def thoughtful(schema: str) -> tuple[list[bytes], bytes]:
    """A signed thought, an encrypted one where there are such, and a call; streamed and whole."""
    call = {"name": "f", "args": {}}
    match schema:
        case "AWSBedrock":
            reasoning = [{"text": "hm"}, {"text": " so"}, {"signature": SIGNED}]
            told: list[Any] = [("messageStart", {"role": "assistant"})]
            told += [
                ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": each}})
                for each in reasoning
            ]
            told += [("contentBlockStop", {"contentBlockIndex": 0})]
            told += [
                (
                    "contentBlockDelta",
                    {"contentBlockIndex": 1, "delta": {"reasoningContent": {"redactedContent": OPAQUE}}},
                )
            ]
            told += [
                ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}})
            ]
            told += [("messageStop", {"stopReason": "tool_use"}), ("metadata", {"usage": {}})]
            content = [
                {"reasoningContent": {"reasoningText": {"text": "hm so", "signature": SIGNED}}},
                {"reasoningContent": {"redactedContent": OPAQUE}},
                {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}},
            ]
            answer: Any = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"}
        case "GCPVertexAI":
            parts = [{"text": "hm", "thought": True}, {"text": " so", "thought": True}]
            signed = {"functionCall": call, "thoughtSignature": SIGNED}
            last = {"content": {"parts": [signed]}, "finishReason": "STOP"}
            told = [*({"candidates": [{"content": {"parts": [part]}}]} for part in parts), {"candidates": [last]}]
            answer = {"candidates": [{"content": {"parts": [*parts, signed]}, "finishReason": "STOP"}]}
        case _:
            told = [
                {"type": "message_start", "message": {"id": "m"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
                *(
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": each}}
                    for each in ("hm", " so")
                ),
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "signature_delta", "signature": SIGNED},
                },
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "content_block_start",
                    "index": 1,
                    "content_block": {"type": "redacted_thinking", "data": OPAQUE},
                },
                {"type": "content_block_stop", "index": 1},
                {
                    "type": "content_block_start",
                    "index": 2,
                    "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                },
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
                {"type": "message_stop"},
            ]
            content = [
                {"type": "thinking", "thinking": "hm so", "signature": SIGNED},
                {"type": "redacted_thinking", "data": OPAQUE},
                {"type": "tool_use", "id": "t", "name": "f", "input": {}},
            ]
            answer = {"id": "m", "type": "message", "content": content, "stop_reason": "tool_use"}
    return [framed(schema, each) for each in told], json.dumps(answer).encode()


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("streamed", [False, True])
def test_thoughts_go_there_and_back(read, whole, send, schema, streamed):
    """BR-58: what the client sends back of an answer is what the provider said, in its order."""
    stream, answer = thoughtful(schema)
    if streamed:
        told = read(schema, stream)
        message = {
            "content": told.joined() or None,
            "reasoning_content": told.joined("reasoning_content"),
            "thinking_blocks": told.thinking_blocks,
            "tool_calls": [
                {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
                for identity, name, arguments in told.calls
            ],
        }
    else:
        message = whole(schema, answer)["message"]
    assert message["reasoning_content"] == "hm so"
    identity = message["tool_calls"][0]["id"]
    back = [USER, {"role": "assistant", **message}, {"role": "tool", "tool_call_id": identity, "content": "r"}]
    turn = send(schema, messages=back).turns[1]
    match schema:
        case "AWSBedrock":
            assert turn["content"] == json.loads(answer)["output"]["message"]["content"]
        case "GCPVertexAI":
            thought, call = turn["parts"]
            assert thought == {"text": "hm so", "thought": True}
            assert call == {"functionCall": {"name": "f"}, "thoughtSignature": SIGNED}
        case _:
            assert turn["content"] == json.loads(answer)["content"]


# --- BR-56: caches ---

MARK = {"cache_control": {"type": "ephemeral"}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
MARKED = {
    "system": [{"role": "system", "content": [{"type": "text", "text": "s", **MARK}]}, USER],
    "developer": [{"role": "developer", "content": [{"type": "text", "text": "s", **MARK}]}, USER],
    "user": [{"role": "user", "content": [{"type": "text", "text": "u", **MARK}, {"type": "text", "text": "v"}]}],
    "image": [{"role": "user", "content": [{**PNG, **MARK}, {"type": "text", "text": "v"}]}],
    "assistant": [USER, {"role": "assistant", "content": [{"type": "text", "text": "a", **MARK}]}, USER],
    "result": [*HISTORY[:2], {**HISTORY[2], **MARK}],
    "part of a result": [*HISTORY[:2], {**HISTORY[2], "content": [{"type": "text", "text": "r", **MARK}]}],
    "call": [
        USER,
        {"role": "assistant", "tool_calls": [{**HISTORY[1]["tool_calls"][0], **MARK}]},
        HISTORY[2],
    ],
}


@pytest.mark.parametrize("schema", ["AWSBedrock", *CLAUDE])
@pytest.mark.parametrize("case", MARKED)
def test_a_mark_becomes_one_breakpoint(send, schema, case):
    """BR-56: after the marked element, once; and none where nothing is marked."""
    sent = send(schema, messages=MARKED[case])
    text = sent.raw.decode()
    assert text.count('"cachePoint"' if schema == "AWSBedrock" else '"cache_control"') == 1
    assert '"cachePoint":{"type":"default"}' in text or '"cache_control":{"type":"ephemeral"}' in text
    plain = json.loads(json.dumps(MARKED[case]).replace('"ephemeral"', '"other"'))
    assert b"cache" not in send(schema, messages=plain).raw


@pytest.mark.parametrize("schema", ["AWSBedrock", *CLAUDE])
def test_a_mark_on_a_tool(send, schema):
    tools = [{"type": "function", "function": {**TOOL["function"], **MARK}}]
    raw = send(schema, tools=tools).raw.decode()
    assert raw.count("cachePoint") + raw.count("cache_control") == 1


def test_more_marks_than_bedrock_takes(send):
    """BR-56: the provider refuses a fifth, so those that cache least are left out."""
    parts = [{"type": "text", "text": str(number), **MARK} for number in range(9)]
    sent = send("AWSBedrock", messages=[{"role": "user", "content": parts}])
    kinds = [next(iter(block)) for block in sent.turns[0]["content"]]
    assert kinds.count("cachePoint") == 4
    assert kinds[-1] == "cachePoint"


# --- BR-74, BR-75: schemas ---

P = {"type": "object", "properties": {"x": {"type": "integer"}}}
SCHEMAS = {
    "a reference": {"type": "object", "$defs": {"P": P}, "properties": {"p": {"$ref": "#/$defs/P"}}},
    "the older place": {"type": "object", "definitions": {"P": P}, "properties": {"p": {"$ref": "#/definitions/P"}}},
    "all of one": {"type": "object", "properties": {"p": {"allOf": [P]}}},
    "or null": {"type": "object", "properties": {"p": {"anyOf": [P, {"type": "null"}]}}},
    "a list of types": {"type": "object", "properties": {"p": {"type": ["string", "null"]}}},
    "an enum of numbers": {"type": "object", "properties": {"p": {"enum": [1, 2]}}},
    "a constant": {"type": "object", "properties": {"p": {"const": "a"}}},
    "keywords": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "c",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "p": {"type": "integer", "exclusiveMinimum": 0, "$comment": "c"},
            "q": {"type": "array", "items": {"type": "object", "additionalProperties": False}, "uniqueItems": True},
        },
    },
    "properties with the names of keywords": {
        "type": "object",
        "properties": {
            "additionalProperties": {"type": "string"},
            "title": {"type": "string"},
            "$ref": {"type": "string"},
            "type": {"type": "string"},
        },
        "required": ["title"],
    },
}


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("case", SCHEMAS)
def test_schemas_that_clients_write(send, schema, case):
    """BR-74, BR-75: every provider's own types take what is made of them, and no property is lost."""
    for model in ("gemini-1.5-pro-003", "gemini-2.5-flash") if schema == "GCPVertexAI" else ("claude-x",):
        check_schema(send, schema, case, model)


def check_schema(send: Any, schema: str, case: str, model: str) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMAS[case]}}]
    sent = send(schema, model=model, tools=tools)
    assert not sent.refused, sent.error
    for name in SCHEMAS[case]["properties"]:
        assert f'"{name}"'.encode() in sent.raw
    if model == "gemini-1.5-pro-003":
        declared = sent.body["tools"][0]["functionDeclarations"][0]["parameters"]
        assert set(declared["properties"]) == set(SCHEMAS[case]["properties"])
        text = json.dumps(declared).replace(json.dumps("additionalProperties") + ": {", "")
        names = [] if "names" in case else ["$ref", "additionalProperties"]
        assert all(f'"{word}"' not in text for word in ["$defs", "$schema", "$comment", "exclusiveMinimum", *names])


def test_a_schema_without_an_end_is_refused(send):
    """BR-74: where references must be resolved; neither a hang nor a fault of ours."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
    parameters = {"$defs": {"N": node}, "type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    assert "circular" in send("GCPVertexAI", model="gemini-1.5-pro", tools=tools).error["message"]
    for schema in TRANSLATED:
        assert not send(schema, tools=tools).refused


# --- BR-85: every member ---


@pytest.mark.parametrize("schema", TRANSLATED)
def test_developer_and_system_are_both_instructions(send, schema):
    sent = send(
        schema,
        messages=[{"role": "developer", "content": "one"}, USER, {"role": "system", "content": "two"}],
        stop="X",
        parallel_tool_calls=False,
        tools=[TOOL],
        user="me",
        seed=5,
        metadata={"k": "v"},
        store=True,
    )
    assert sent.roles == ["user"]
    key = "systemInstruction" if schema == "GCPVertexAI" else "system"
    told = json.dumps(sent.body[key])
    assert told.index("one") < told.index("two")
    assert b'["X"]' in sent.raw
    if schema in CLAUDE:
        assert sent.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}

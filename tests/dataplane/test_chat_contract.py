"""The peer's own data-plane cases for chat completions (contract, chat 18), where another API is spoken upstream.

Bodies are compared as JSON. Where the contract marks what the peer does as a fault, the row has the better thing.
"""

from __future__ import annotations

import json
import uuid

import httpx
import openai
import pytest

from deploy.demo.providers.eventstream import CONTENT_TYPE, event_frame
from deploy.envoy.model import HeaderMatch, Rule
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import BY_SCHEMA, configured, place
from tests.dataplane.harness.replies import Reply, json_reply

SYSTEM = {"role": "system", "content": "You are a chatbot."}
HELLO = {"role": "user", "content": "Hello"}
CONVERSATION = [
    {"role": "user", "content": "What's the weather?"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
VERTEX = "/v1/projects/demo-project/locations/us-central1/publishers/google/models/gemini-1.5-pro"
CLAUDE = "/v1/projects/demo-project/locations/us-east5/publishers/anthropic/models/claude-3-sonnet"
CONVERSE_ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "One."}, {"text": " Two."}, {"text": " Three."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 10, "outputTokens": 20, "totalTokens": 30},
}


def converse(document):
    return Reply(
        headers=(("content-type", "application/json"), ("x-amzn-requestid", "request-1")),
        pieces=(json.dumps(document).encode(),),
    )


def claude(**usage):
    return json_reply(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-3-sonnet",
            "content": [{"type": "text", "text": "Hi."}],
            "stop_reason": "end_turn",
            "usage": usage,
        }
    )


def gemini(*parts, **fields):
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": "STOP"}
    return json_reply({"candidates": [candidate], **fields})


def usage(prompt, completion, *, cached=None, reasoning=None):
    """What a client has to find, whatever else there is."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    if reasoning is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return counts


ROWS = {
    "Converse, a system prompt alone": (
        "AWSBedrock",
        {"model": "something", "messages": [SYSTEM]},
        "/model/something/converse",
        {"inferenceConfig": {}, "messages": [], "system": [{"text": "You are a chatbot."}]},
        converse(CONVERSE_ANSWER),
        {
            "id": "request-1",
            "model": "something",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "One. Two. Three."}}],
            "usage": usage(10, 20),
        },
    ),
    "Converse, a conversation with a tool": (
        "AWSBedrock",
        {"model": "gpt-4-0613", "messages": CONVERSATION, "max_completion_tokens": 1024},
        "/model/gpt-4-0613/converse",
        {
            "inferenceConfig": {"maxTokens": 1024},
            "messages": [
                {"role": "user", "content": [{"text": "What's the weather?"}]},
                {
                    "role": "assistant",
                    "content": [{"toolUse": {"name": "weather", "input": {"city": "Paris"}, "toolUseId": "call_1"}}],
                },
                {"role": "user", "content": [{"toolResult": {"content": [{"text": "sunny"}], "toolUseId": "call_1"}}]},
            ],
        },
        converse(CONVERSE_ANSWER),
        {"model": "gpt-4-0613", "usage": usage(10, 20)},
    ),
    "Claude at Google, a conversation with a tool": (
        "GCPAnthropic",
        {"model": "claude-3-sonnet", "messages": CONVERSATION, "max_completion_tokens": 1024},
        f"{CLAUDE}:rawPredict",
        {
            "max_tokens": 1024,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What's the weather?"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "is_error": False,
                            "content": [{"type": "text", "text": "sunny"}],
                        }
                    ],
                },
            ],
            "anthropic_version": "vertex-2023-10-16",
        },
        claude(input_tokens=10, output_tokens=25, cache_read_input_tokens=10),
        {"choices": [{"message": {"content": "Hi."}}], "usage": usage(20, 25, cached=10)},
    ),
    "Claude at Google, system and user": (
        "GCPAnthropic",
        {"model": "claude-3-sonnet", "messages": [SYSTEM, HELLO], "max_completion_tokens": 100},
        f"{CLAUDE}:rawPredict",
        {
            "max_tokens": 100,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "system": [{"type": "text", "text": "You are a chatbot."}],
            "anthropic_version": "vertex-2023-10-16",
        },
        claude(input_tokens=10, output_tokens=25),
        {"id": "msg_1", "usage": usage(10, 25)},
    ),
    "Claude at Google, a cached part": (
        "GCPAnthropic",
        {
            "model": "claude-3-sonnet",
            "max_tokens": 100,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hello!", "cache_control": {"type": "ephemeral"}}],
                }
            ],
        },
        f"{CLAUDE}:rawPredict",
        {
            "max_tokens": 100,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hello!", "cache_control": {"type": "ephemeral"}}],
                }
            ],
            "anthropic_version": "vertex-2023-10-16",
        },
        claude(input_tokens=10, output_tokens=5, cache_read_input_tokens=8),
        {"usage": usage(18, 5, cached=8)},
    ),
    "Gemini, thoughts and a cached prompt": (
        "GCPVertexAI",
        {"model": "gemini-1.5-pro", "messages": [SYSTEM]},
        f"{VERTEX}:generateContent",
        {"systemInstruction": {"parts": [{"text": "You are a chatbot."}]}},
        gemini(
            {"text": "Hi."},
            usageMetadata={
                "promptTokenCount": 15,
                "candidatesTokenCount": 10,
                "totalTokenCount": 35,
                "cachedContentTokenCount": 10,
                "thoughtsTokenCount": 10,
            },
        ),
        {
            "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}],
            "usage": usage(15, 20, cached=10, reasoning=10),
        },
    ),
    "Gemini, plain usage": (
        "GCPVertexAI",
        {"model": "gemini-1.5-pro", "messages": [SYSTEM]},
        f"{VERTEX}:generateContent",
        {"systemInstruction": {"parts": [{"text": "You are a chatbot."}]}},
        gemini(
            {"text": "Hi."},
            usageMetadata={"promptTokenCount": 15, "candidatesTokenCount": 10, "totalTokenCount": 25},
        ),
        {"usage": usage(15, 10)},
    ),
    "Gemini, a function": (
        "GCPVertexAI",
        {
            "model": "gemini-1.5-pro",
            "messages": [HELLO],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "weather",
                        "description": "Of a city.",
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}},
                            "required": ["city"],
                        },
                    },
                }
            ],
        },
        f"{VERTEX}:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "description": "Of a city.",
                            "name": "weather",
                            "parameters": {
                                "properties": {"city": {"type": "string"}},
                                "required": ["city"],
                                "type": "object",
                            },
                        }
                    ]
                }
            ],
        },
        gemini(
            {"functionCall": {"name": "weather", "args": {"city": "Paris"}}},
            modelVersion="gemini-1.5-pro-002",
            createTime="2023-11-14T22:13:20.5Z",
            responseId="response-1",
            usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10},
        ),
        {
            "id": "response-1",
            "model": "gemini-1.5-pro-002",
            "created": 1_700_000_000,
            "choices": [
                {
                    "finish_reason": "tool_calls",
                    "message": {
                        "tool_calls": [
                            {"type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
                        ]
                    },
                }
            ],
        },
    ),
    "Claude at Google, an error": (
        "GCPAnthropic",
        {"model": "claude-3-sonnet", "messages": [HELLO]},
        f"{CLAUDE}:rawPredict",
        {"anthropic_version": "vertex-2023-10-16"},
        json_reply(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: no"}}, status=400
        ),
        {"error": {"type": "invalid_request_error", "message": "max_tokens: no", "code": "400"}},
    ),
    "Claude at Amazon, an error": (
        "AWSAnthropic",
        {"model": "anthropic.claude-3-sonnet-20240229-v1:0", "messages": [HELLO]},
        "/model/anthropic.claude-3-sonnet-20240229-v1:0/invoke",
        {"anthropic_version": "bedrock-2023-05-31"},
        Reply(
            status=400,
            headers=(("content-type", "application/json"), ("x-amzn-errortype", "ValidationException")),
            pieces=(b'{"message":"max_tokens: no"}',),
        ),
        {"error": {"type": "ValidationException", "message": "max_tokens: no", "code": "400"}},
    ),
    "Converse, a stream that is refused": (
        "AWSBedrock",
        {"model": "something", "messages": [SYSTEM], "stream": True},
        "/model/something/converse-stream",
        {"system": [{"text": "You are a chatbot."}]},
        Reply(
            status=429,
            headers=(("content-type", "application/json"), ("x-amzn-errortype", "ThrottledException")),
            pieces=(b'{"message":"aws bedrock rate limit exceeded"}',),
        ),
        {"error": {"type": "ThrottledException", "message": "aws bedrock rate limit exceeded", "code": "429"}},
    ),
    "Gemini, an error": (
        "GCPVertexAI",
        {"model": "gemini-1.5-pro", "messages": [HELLO]},
        f"{VERTEX}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        json_reply({"error": {"code": 400, "message": "wrong", "status": "INVALID_ARGUMENT"}}, status=400),
        {"error": {"type": "INVALID_ARGUMENT", "message": "wrong", "code": "400"}},
    ),
}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return {name: start_upstream(name.lower()) for name in BY_SCHEMA}


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    """A header names the backend, and the client's name of the model is the backend's."""
    rules = (
        Rule(headers=(HeaderMatch(name="x-test-backend", value=name),), backends=(place(upstreams[name], speaker),))
        for name, speaker in BY_SCHEMA.items()
    )
    where = route(*rules)
    return start_stack(
        routes=[where],
        config=filter_config(
            *(configured(where.backend_name(at, 0), one, model="") for at, one in enumerate(BY_SCHEMA.values())),
            globalLLMRequestCosts=[cost("total")],
        ),
        cost_keys=["total"],
    )


def within(wanted, found, where="answer"):
    """Every member that is wanted is there; lists have the wanted length."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            assert name in found, f"{where} has no {name}"
            within(value, found[name], f"{where}.{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            within(one, other, f"{where}[{index}]")
    else:
        assert found == wanted, where


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_case_of_the_peer(stack, upstreams, row):
    schema, asked, path, sent, reply, wanted = row
    upstreams[schema].reply(reply)

    answer = httpx.post(f"{stack.base_url}/v1/chat/completions", json=asked, headers={"x-test-backend": schema})

    received = upstreams[schema].last
    assert received.target == path
    within(sent, received.json(), "request")
    assert received.header("content-length") == str(len(received.body))
    assert answer.status_code == reply.status
    within(wanted, answer.json())


def test_a_call_of_gemini_gets_an_id(stack, upstreams):
    upstreams["GCPVertexAI"].reply(ROWS["Gemini, a function"][4])

    answer = httpx.post(
        f"{stack.base_url}/v1/chat/completions",
        json=ROWS["Gemini, a function"][1],
        headers={"x-test-backend": "GCPVertexAI"},
    )

    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    assert uuid.UUID(call["id"]).version == 4


def test_a_temperature_that_claude_does_not_have(stack, upstreams):
    answer = httpx.post(
        f"{stack.base_url}/v1/chat/completions",
        json={"model": "claude", "messages": [HELLO], "temperature": 2.0},
        headers={"x-test-backend": "AWSAnthropic"},
    )

    assert answer.status_code == 422
    assert "temperature 2.00 is not supported by Anthropic" in answer.json()["error"]["message"]
    assert upstreams["AWSAnthropic"].requests == []


# --- streams ---


def frames(*events):
    return Reply(
        headers=(("content-type", CONTENT_TYPE), ("x-amzn-requestid", "request-1")),
        pieces=tuple(event_frame(name, payload) for name, payload in events),
        framing="chunked",
    )


def sse(*events, end=b"\n\n"):
    """Events with their names, as text; ``end`` is what the last one ends with."""
    text = "\n\n".join(f"event: {event['type']}\ndata: {json.dumps(event)}" for event in events)
    return Reply(headers=(("content-type", "text/event-stream"),), pieces=(text.encode() + end,), framing="chunked")


def data(*events):
    pieces = tuple(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    return Reply(headers=(("content-type", "text/event-stream"),), pieces=pieces, framing="chunked")


def delta(index, **fields):
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": fields}


def call(index, call_id):
    start = {"toolUse": {"toolUseId": call_id, "name": "weather"}}
    return "contentBlockStart", {"contentBlockIndex": index, "start": start}


def stop(index):
    return "contentBlockStop", {"contentBlockIndex": index}


TWO_CALLS = frames(
    ("messageStart", {"role": "assistant"}),
    *(delta(0, text=word) for word in ("One", " two", " three")),
    stop(0),
    call(1, "tooluse_1"),
    delta(1, toolUse={"input": '{"city":"Paris"}'}),
    stop(1),
    call(2, "tooluse_2"),
    delta(2, toolUse={"input": '{"city":"Rome"}'}),
    stop(2),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": {"inputTokens": 41, "outputTokens": 36, "totalTokens": 77}}),
)
THINKING = frames(
    ("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "Hm."}),
    stop(0),
    delta(1, text="Hi."),
    stop(1),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
)
GEMINI_EVENTS = data(
    *(
        {
            "candidates": [{"content": {"parts": [{"text": word}], "role": "model"}}],
            "responseId": "response-1",
            "createTime": "2023-11-14T22:13:20Z",
        }
        for word in ("One", " two", " three", " four", " five", " six")
    ),
    {
        "candidates": [{"content": {"parts": [{"text": " seven"}], "role": "model"}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 7, "totalTokenCount": 15},
        "responseId": "response-1",
        "createTime": "2023-11-14T22:13:20Z",
    },
)


def started(**usage):
    return {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": usage}}


def ended(reason, output):
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}}
    yield {"type": "message_stop"}


CLAUDE_EVENTS = sse(
    started(input_tokens=15, cache_read_input_tokens=10, output_tokens=1),
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " there"}},
    {"type": "content_block_stop", "index": 0},
    *ended("end_turn", 12),
)
CLAUDE_CALLS = sse(
    started(input_tokens=50, output_tokens=1),
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"city":'}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '"Paris"}'}},
    {"type": "content_block_stop", "index": 0},
    *ended("tool_use", 20),
    end=b"\n",
)
STREAMS = {
    "Converse, text and two calls": (
        "AWSBedrock",
        {"model": "something", "messages": [SYSTEM]},
        TWO_CALLS,
        ("One two three", [(0, "tooluse_1", '{"city":"Paris"}'), (1, "tooluse_2", '{"city":"Rome"}')], "tool_calls"),
        (41, 36, 77),
    ),
    "Converse, thinking": (
        "AWSBedrock",
        {
            "model": "something",
            "messages": [SYSTEM],
            "extra_body": {"thinking": {"type": "enabled", "budget_tokens": 4096}},
        },
        THINKING,
        ("Hi.", [], "stop"),
        (1, 2, 3),
    ),
    "Gemini, seven events": (
        "GCPVertexAI",
        {"model": "gemini-1.5-pro", "messages": [SYSTEM]},
        GEMINI_EVENTS,
        ("One two three four five six seven", [], "stop"),
        (8, 7, 15),
    ),
    "Claude at Google, text": (
        "GCPAnthropic",
        {"model": "claude-3-sonnet", "messages": [HELLO], "max_tokens": 100},
        CLAUDE_EVENTS,
        ("Hi there", [], "stop"),
        (25, 12, 37),
    ),
    "Claude at Google, a call, and no blank line at the end": (
        "GCPAnthropic",
        {"model": "claude-3-sonnet", "messages": [HELLO], "max_tokens": 100},
        CLAUDE_CALLS,
        ("", [(0, "toolu_1", '{"city":"Paris"}')], "tool_calls"),
        (50, 20, 70),
    ),
}


@pytest.mark.parametrize("row", STREAMS.values(), ids=STREAMS)
def test_a_stream_of_the_peer(stack, upstreams, row):
    schema, asked, reply, (text, calls, finish), tokens = row
    upstreams[schema].reply(reply)

    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk", max_retries=0) as client:
        chunks = list(
            client.chat.completions.create(
                **asked, stream=True, stream_options={"include_usage": True}, extra_headers={"x-test-backend": schema}
            )
        )

    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == text
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == [finish]
    found = {}
    for piece in (piece for delta in deltas for piece in delta.tool_calls or ()):
        known = found.setdefault(piece.index, (piece.id, ""))
        found[piece.index] = (known[0], known[1] + (piece.function.arguments or ""))
    assert [(index, *rest) for index, rest in found.items()] == calls
    (counted,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert (counted.prompt_tokens, counted.completion_tokens, counted.total_tokens) == tokens
    assert {chunk.id for chunk in chunks} == {
        {"AWSBedrock": "request-1", "GCPVertexAI": "response-1"}.get(schema, "msg_1")
    }
    assert all(chunk.object == "chat.completion.chunk" and chunk.created for chunk in chunks)
    assert [delta.role for delta in deltas if delta.role][:1] == ["assistant"]


def test_thinking_is_asked_for_and_shown(stack, upstreams):
    upstreams["AWSBedrock"].reply(THINKING)

    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk", max_retries=0) as client:
        chunks = list(
            client.chat.completions.create(
                **STREAMS["Converse, thinking"][1], stream=True, extra_headers={"x-test-backend": "AWSBedrock"}
            )
        )

    thoughts = [
        (choice.delta.model_extra or {}).get("reasoning_content") for chunk in chunks for choice in chunk.choices
    ]
    assert "".join(thought or "" for thought in thoughts) == "Hm."
    assert upstreams["AWSBedrock"].last.json()["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 4096}
    }

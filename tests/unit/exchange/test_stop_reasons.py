"""A reason for stopping that no table has is counted and logged, in whichever translation it comes (BR-55)."""

from __future__ import annotations

import json

import pytest
import structlog

from extproc.telemetry import metrics as metrics_module
from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import OTHER, Metrics
from tests.support.eventstream import event
from tests.support.playbook import Gateway, openai_backend

CHAT = "/v1/chat/completions"
MESSAGES = "/anthropic/v1/messages"
RESPONSES = "/v1/responses"
ASKED = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    RESPONSES: {"model": "m", "input": "hi"},
}


def claude(reason):
    return {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": reason}


def converse(reason):
    return {"output": {"message": {"role": "assistant", "content": [{"text": "a"}]}}, "stopReason": reason}


def gemini(reason):
    return {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": reason}]}


def completion(reason):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": reason}]}


def sse(*documents):
    return b"".join(b"data: %s\n\n" % json.dumps(document).encode() for document in documents)


def claude_events(reason):
    start = {"type": "message_start", "message": {"id": "x", "content": [], "usage": {"input_tokens": 1}}}
    return sse(start, {"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"})


def converse_events(reason):
    return event("messageStart", {"role": "assistant"}) + event("messageStop", {"stopReason": reason})


def gemini_events(reason):
    return sse(gemini(reason))


def chunks(reason):
    return sse({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": reason}]}) + b"data: [DONE]\n\n"


WAYS = {
    "chat on Anthropic": (CHAT, "Anthropic", "anthropic", claude, claude_events),
    "chat on Bedrock": (CHAT, "AWSBedrock", "aws.bedrock", converse, converse_events),
    "chat on Vertex AI": (CHAT, "GCPVertexAI", "gcp.vertex_ai", gemini, gemini_events),
    "messages on Bedrock": (MESSAGES, "AWSBedrock", "aws.bedrock", converse, converse_events),
    "messages on OpenAI": (MESSAGES, "OpenAI", "openai", completion, chunks),
    "messages on Vertex AI": (MESSAGES, "GCPVertexAI", "gcp.vertex_ai", gemini, gemini_events),
    "responses on Anthropic": (RESPONSES, "Anthropic", "anthropic", claude, claude_events),
}
KNOWN = {
    "Anthropic": ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", None],
    "AWSBedrock": [
        "end_turn",
        "tool_use",
        "guardrail_intervened",
        "malformed_tool_use",
        "malformed_model_output",
        None,
    ],
    "GCPVertexAI": ["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", None],
    "OpenAI": ["stop", "length", "tool_calls", "content_filter", None],
}


def counted(gateway):
    page = render(gateway.metrics.registry)
    return [line for line in page.splitlines() if line.startswith("extproc_unknown_stop_reasons_total")]


def played(way, reason, *, stream, gateway=None):
    path, schema, _, document, events = WAYS[way]
    gateway = gateway or Gateway(
        {"version": "dev", "backends": [{**openai_backend(), "schema": {"name": schema, "prefix": "v1"}}]}
    )
    exchange = gateway.exchange()
    exchange.request({**ASKED[path], "stream": stream}, {":path": path})
    assert exchange.attempt().kind == "request_headers"
    exchange.response({"content-type": "application/json"})
    body = events(reason) if stream else json.dumps(document(reason)).encode()
    if stream:
        exchange.pieces([body, b""])
    else:
        exchange.piece(body, eos=True)
    exchange.close()
    return gateway


@pytest.mark.parametrize("stream", [False, True], ids=["document", "stream"])
@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_reason_is_counted_for_each_answer_and_logged_once(way, stream):
    provider = WAYS[way][2]
    with structlog.testing.capture_logs() as lines:
        gateway = played(way, "brand_new", stream=stream)
        played(way, "brand_new", stream=stream, gateway=gateway)
    assert counted(gateway) == [f'extproc_unknown_stop_reasons_total{{provider="{provider}",reason="brand_new"}} 2']
    (line,) = [line for line in lines if line["event"] == "unknown stop reason"]
    assert (line["log_level"], line["reason"], line["request_id"]) == ("warning", "brand_new", "req-1")


@pytest.mark.parametrize("stream", [False, True], ids=["document", "stream"])
@pytest.mark.parametrize("way", WAYS)
def test_known_reasons_are_not(way, stream):
    for reason in KNOWN[WAYS[way][1]]:
        assert counted(played(way, reason, stream=stream)) == [], reason


def test_reasons_that_a_provider_makes_up_are_capped():
    metrics = Metrics()
    for number in range(metrics_module.MAX_NAMES + 10):
        metrics.unknown_stop_reason("p", f"r{number}")
    assert metrics.unknown_stop_reason("p", "x" * 5000) is False
    lines = [line for line in render(metrics.registry).splitlines() if line.startswith("extproc_unknown_stop")]
    assert len(lines) == metrics_module.MAX_NAMES + 1
    assert f'extproc_unknown_stop_reasons_total{{provider="p",reason="{OTHER}"}} 11' in lines

"""Bodies in debug logs: what helps to find a fault is shown, what somebody has said is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.telemetry.redaction import body_placeholder, redacted_body

C = "canary said this"
TOOL = {
    "type": "function",
    "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"city": {}}}},
}
# Each with words that must be shown.
BODIES = {
    "chat request": (
        {
            "model": "gpt-x",
            "messages": [
                {"role": "system", "content": C},
                {"role": "user", "name": C, "content": [{"type": "text", "text": C}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": C, "detail": "low"}}]},
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": C, "format": "mp3"}}]},
                {"role": "user", "content": [{"type": "file", "file": {"file_data": C, "filename": C}}]},
                {
                    "role": "assistant",
                    "refusal": C,
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": C}}
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": C},
            ],
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "lookup"}},
            "prediction": {"type": "content", "content": C},
            "metadata": {"role": C, "type": C},
            "user": C,
            "stop": [C],
            "temperature": 0.5,
            "stream": True,
        },
        ["gpt-x", "system", "user", "assistant", "image_url", "low", "mp3", "call_1", "lookup", "city", "0.5", "true"],
    ),
    "messages request": (
        {
            "model": "claude",
            "max_tokens": 100,
            "system": [{"type": "text", "text": C, "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": C},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": C, "signature": C},
                        {
                            "type": "tool_use",
                            "id": "t1",
                            "name": "lookup",
                            "input": {"type": C, "role": [C], "n": {"id": C}},
                        },
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": C}]},
                {
                    "role": "user",
                    "content": [{"type": "document", "title": C, "source": {"type": "base64", "data": C}}],
                },
            ],
            "tools": [{"name": "lookup", "description": "finds things", "input_schema": {"type": "object"}}],
            "mcp_servers": [{"type": "url", "url": C, "name": "files", "authorization_token": C}],
        },
        ["claude", "ephemeral", "tool_use", "t1", "lookup", "finds things", "tool_result", "100"],
    ),
    "responses request": (
        {
            "model": "gpt-x",
            "instructions": C,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": C}]},
                {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": C},
                {"type": "function_call_output", "call_id": "c1", "output": C},
            ],
            "tools": [
                {"type": "mcp", "server_label": "files", "server_url": C, "headers": {"x": C}, "authorization": C}
            ],
            "previous_response_id": "resp_1",
            "safety_identifier": C,
        },
        ["gpt-x", "user", "input_text", "function_call", "c1", "lookup", "files", "resp_1"],
    ),
    "responses request of text": ({"model": "gpt-x", "input": C}, ["gpt-x"]),
    "embeddings": ({"model": "e", "input": [C, C], "encoding_format": "float", "dimensions": 8}, ["float", "8"]),
    "embeddings of tokens": ({"model": "e", "input": [[1, 2], [3]]}, ["[[1,2],[3]]"]),
    "completions": ({"model": "c", "prompt": [C], "suffix": C, "best_of": 2}, ["best_of"]),
    "rerank": ({"model": "r", "query": C, "documents": [C, {"text": C}], "top_n": 3}, ["top_n"]),
    "images": ({"model": "i", "prompt": C, "size": "1024x1024", "quality": "low"}, ["1024x1024", "low"]),
    "speech": ({"model": "s", "input": C, "instructions": C, "voice": "alloy"}, ["alloy"]),
    "Converse": (
        {
            "system": [{"text": C}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"text": C}, {"document": {"format": "pdf", "name": C, "source": {"bytes": C}}}],
                },
                {
                    "role": "assistant",
                    "content": [{"toolUse": {"toolUseId": "t1", "name": "lookup", "input": {"q": C}}}],
                },
                {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"json": {"type": C}}]}}]},
            ],
            "toolConfig": {"tools": [{"toolSpec": {"name": "lookup", "inputSchema": {"json": {"type": "object"}}}}]},
        },
        ["user", "pdf", "t1", "lookup", "object"],
    ),
    "Gemini": (
        {
            "systemInstruction": {"parts": [{"text": C}]},
            "contents": [
                {"role": "user", "parts": [{"text": C}, {"inlineData": {"mimeType": "image/png", "data": C}}]},
                {"role": "model", "parts": [{"functionCall": {"name": "lookup", "args": {"type": C}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": {"role": C}}}]},
            ],
            "generationConfig": {"maxOutputTokens": 9},
        },
        ["user", "image/png", "lookup", "maxOutputTokens"],
    ),
    "chat answer": (
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "gpt-x",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": C}}],
            "usage": {"prompt_tokens": 11},
        },
        ["chatcmpl-1", "chat.completion", "stop", "assistant", '"prompt_tokens":11'],
    ),
    "an event of the responses API": (
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [{"text": C}]}},
        ["response.completed", "resp_1", '"status":"completed"'],
    ),
    "an error": ({"error": {"type": "invalid_request_error", "code": "x", "message": C}}, ["invalid_request_error"]),
    "text": (C, []),
}


@pytest.mark.parametrize(("body", "words"), BODIES.values(), ids=BODIES)
def test_what_helps_is_shown_and_what_was_said_is_not(body, words):
    shown = redacted_body(json.dumps(body).encode())
    assert "canary" not in shown
    assert body_placeholder(C) in shown or C not in json.dumps(body)
    assert [word for word in words if word not in shown] == []
    # Still a document: whoever looks for a fault can read it with the tools for it.
    json.loads(shown)


OTHERS = {
    "empty": b"",
    "no JSON": b"canary",
    "cut JSON": b'{"a":"canary',
    "not UTF-8": b'{"a":"\xffcanary"}',
    "deep": b"[" * 100_000 + b'"canary"' + b"]" * 100_000,
    "large": b'{"a":"canary' + b"x" * 2_000_000 + b'"}',
    "a form": b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ncanary\r\n--x--\r\n',
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_document_is_a_placeholder(body):
    assert redacted_body(body) == body_placeholder(body)


def test_events_are_shown_line_by_line():
    chunk = b'{"id":"x","choices":[{"delta":{"role":"assistant","content":"canary"}}]}'
    stream = (
        b'event: message_delta\r\ndata: %s\r\n\r\n: canary\r\ndata: [DONE]\n\nevent: Canary?\ndata: {"a":"can' % chunk
    )
    lines = redacted_body(stream).splitlines()
    assert lines[0] == "event: message_delta"
    shown = {"id": "x", "choices": [{"delta": {"role": "assistant", "content": body_placeholder("canary")}}]}
    assert json.loads(lines[1].removeprefix("data: ")) == shown
    assert "data: [DONE]" in lines
    assert "canary" not in "\n".join(lines).lower()


WORDS = st.text("abcxyz", min_size=3, max_size=8).map(lambda word: "canary" + word)
KEYS = st.sampled_from(
    ["content", "text", "input", "arguments", "name", "role2", "x", "metadata", "tool_calls", "parts"]
)
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner) | st.dictionaries(KEYS.filter(lambda key: key != "name"), inner)
)


@given(TREES)
def test_no_text_of_any_tree_is_shown(tree):
    assert "canary" not in redacted_body(json.dumps({"messages": tree}).encode())

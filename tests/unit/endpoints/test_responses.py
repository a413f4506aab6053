"""Requests of the responses API as they come from clients (contract, responses 7.1; field reports BR-82, BR-85)."""

from __future__ import annotations

import json

import pytest

from extproc.endpoints.base import Operation
from extproc.endpoints.responses import Responses, ResponsesInputTokens
from extproc.errors import MalformedRequest, UnsupportedBackend

ENDPOINTS = {"responses": Responses(), "input_tokens": ResponsesInputTokens()}
PATHS = {"responses": "/v1/responses", "input_tokens": "/v1/responses/input_tokens"}
EVERY_ENDPOINT = pytest.mark.parametrize("name", ENDPOINTS)


def parse(name, body, content_type="application/json"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ENDPOINTS[name].parse(data, content_type=content_type, metering=True)


# Items, contents, tools and choices that the peer refuses, or once did.
PASSING = {
    "a new item": {"input": [{"type": "brand_new", "x": 1}]},
    "an item of an agent": {"input": [{"type": "agent_message", "x": 1}, {"type": "agent_reasoning"}]},
    "an answer without an id": {
        "input": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]}]
    },
    "an item that is none": {"input": [{"x": 1}, 7, None]},
    "an input that is none": {"input": {"x": 1}},
    "audio": {"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
    "an output that is an object": {"input": [{"type": "function_call_output", "call_id": "c", "output": {"a": 1}}]},
    "no input": {},
    "a format without a type": {"text": {"format": None}},
    "a new choice": {"tool_choice": {"type": "web_search"}},
    "a choice without a type": {"tool_choice": {}},
    "a new tool": {"tools": [{"type": "brand_new"}]},
    "metadata of any kind": {"metadata": {"a": 1}},
    "instructions that are items": {"instructions": [{"role": "developer", "content": "x"}]},
    "members of other types": {"store": "x", "temperature": "warm", "include": 7},
}


@EVERY_ENDPOINT
@pytest.mark.parametrize("case", PASSING)
def test_only_model_and_stream_are_read(name, case):
    body = json.dumps({"model": "m", **PASSING[case]}).encode()
    parsed = parse(name, body)
    assert (parsed.model, parsed.body, parsed.rewritten, parsed.hide_usage) == ("m", body, False, False)


@pytest.mark.parametrize(("stream", "expected"), [(True, True), (False, False), (None, False)])
def test_a_client_asks_for_a_stream(stream, expected):
    assert parse("responses", {"model": "m", "stream": stream}).stream is expected


def test_a_count_is_never_streamed():
    assert not parse("input_tokens", {"model": "m", "stream": True}).stream


@EVERY_ENDPOINT
@pytest.mark.parametrize("body", [{}, {"model": None}, {"model": ""}], ids=str)
def test_the_model_may_be_missing(name, body):
    assert parse(name, body).model == ""


MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "an array": b"[]",
    "null": b"null",
    "more after it": b'{"model":"m"} x',
    "a model that is none": b'{"model":7}',
    "a stream that is none": b'{"model":"m","stream":"yes"}',
    "no text": b'{"model":"\xff"}',
    "too deep": b'{"model":' + b"[" * 100_000,
}


@EVERY_ENDPOINT
@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_request_is_refused(name, case):
    with pytest.raises(MalformedRequest, match=f"^malformed request: failed to parse JSON for {PATHS[name]}: "):
        parse(name, MALFORMED[case])


@EVERY_ENDPOINT
def test_a_model_has_to_fit_into_a_header(name):
    with pytest.raises(MalformedRequest, match="control character"):
        parse(name, {"model": "a\nb"})


@EVERY_ENDPOINT
def test_a_form_is_refused(name):
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        parse(name, b"--x", content_type="multipart/form-data; boundary=x")


def test_operations():
    assert [each.operation for each in ENDPOINTS.values()] == [Operation.RESPONSES, Operation.RESPONSES_INPUT_TOKENS]


@EVERY_ENDPOINT
def test_errors_are_those_of_the_api(name):
    body = json.loads(ENDPOINTS[name].error_body(UnsupportedBackend('a "quoted" word')))
    assert body == {"type": "error", "error": {"type": "NotImplemented", "code": "501", "message": 'a "quoted" word'}}

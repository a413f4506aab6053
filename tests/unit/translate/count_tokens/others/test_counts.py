"""Counts of the backend, estimates where it has none, and errors (contract, count_tokens 6)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.count_tokens import CountTokens
from extproc.errors import MalformedRequest, UnprocessableRequest, UnreadableAnswer
from extproc.translate.base import TranslatedResponse
from extproc.translate.count_tokens.estimate import IMAGE_TOKENS
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import make_translator
from tests.unit.translate.count_tokens.others.oracle import accepts
from tests.unit.translate.messages.carried.test_properties import REQUESTS

HELLO = [{"role": "user", "content": "Hello"}]
JSON = {"content-type": "application/json"}
EVERYWHERE = pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI", "GCPVertexAI"])
MEMBERS = {"OpenAI": "input_tokens", "AzureOpenAI": "input_tokens", "GCPVertexAI": "totalTokens"}


def ask_bytes(body, schema="OpenAI", **backend):
    parsed = CountTokens().parse(body, content_type="application/json", metering=True)
    translator = make_translator(schema, {"prefix": "v1", **backend}, operation=Operation.COUNT_TOKENS)
    translated = translator.request(parsed, query="beta=true", force=False)
    accepts(translated.path, translated.body)
    return translator, translated


def ask(request=None, schema="OpenAI", **backend):
    return ask_bytes(json.dumps({"model": "m", "messages": HELLO, **(request or {})}).encode(), schema, **backend)


PATHS = {
    "OpenAI": ("OpenAI", {}, "/v1/responses/input_tokens"),
    "OpenAI without a prefix": ("OpenAI", {"prefix": ""}, "/responses/input_tokens"),
    "OpenAI elsewhere": ("OpenAI", {"prefix": "/a/v1/"}, "/a/v1/responses/input_tokens"),
    "Azure": (
        "AzureOpenAI",
        {"version": "2025-04-01-preview"},
        "/openai/responses/input_tokens?api-version=2025-04-01-preview",
    ),
    "Vertex AI": (
        "GCPVertexAI",
        {"model_override": "gemini x/y"},
        "publishers/google/models/gemini%20x%2Fy:countTokens",
    ),
}


@pytest.mark.parametrize(("schema", "backend", "path"), PATHS.values(), ids=PATHS)
def test_paths(schema, backend, path):
    assert ask(schema=schema, **backend)[1].path == path


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
def test_the_model_that_is_counted_for_is_the_backend_s(schema):
    assert json.loads(ask(schema=schema, model_override="gpt-5")[1].body)["model"] == "gpt-5"


@EVERYWHERE
@pytest.mark.parametrize("count", [0, 17, 17.0])
def test_a_count_is_told_and_metered_as_input(schema, count):
    translator, _ = ask(schema=schema)
    assert translator.response_headers(JSON) == []
    body = json.dumps({MEMBERS[schema]: count, "more": 1}).encode()
    assert translator.response_body(body[:3], end_of_stream=False).body == b""
    result = translator.response_body(body[3:], end_of_stream=True)
    assert result.body == b'{"input_tokens":%d}' % count
    assert result.usage == TokenUsage(input=int(count))
    assert result.model == ""
    assert result.complete


NONE = [b"", b"[]", b"<p>", b"{}", b'{"input_tokens":-1}', b'{"input_tokens":"1"}', b'{"input_tokens":1.5}', b'"\xff"']


@EVERYWHERE
@pytest.mark.parametrize("body", NONE)
def test_an_answer_without_a_count_is_unreadable(schema, body):
    translator, _ = ask(schema=schema)
    assert translator.response_headers({}) == [("content-type", "application/json")]
    with pytest.raises(UnreadableAnswer):
        translator.response_body(body.replace(b"input_tokens", MEMBERS[schema].encode()), end_of_stream=True)


# --- estimates ---


def failed(status, body, request=None, schema="OpenAI", headers=JSON, **backend):
    translator, _ = ask(request, schema, **backend)
    return translator.response_error(status, headers, body)


ABSENT = {
    "FastAPI": ("404", b'{"detail":"Not Found"}'),
    "a path that is not there": (
        "404",
        b'{"error":{"message":"Invalid URL (POST /v1/responses/input_tokens)","code":null}}',
    ),
    "a page": ("404", b"<h1>Not Found</h1>"),
    "nothing": ("404", b""),
    "a method that is not allowed": ("405", b'{"detail":"Method Not Allowed"}'),
    "what is not implemented": ("501", b"\xff"),
}


@EVERYWHERE
@pytest.mark.parametrize(("status", "body"), ABSENT.values(), ids=ABSENT)
def test_where_nobody_counts_there_is_an_estimate(schema, status, body):
    result = failed(status, body, schema=schema, model_override="a-model")
    assert result == TranslatedResponse(
        body=b'{"input_tokens":6}',
        headers=((":status", "200"), ("content-type", "application/json"), ("x-ai-eg-token-count", "estimated")),
        recovered=True,
    )
    assert result.usage is NO_USAGE


ERRORS = {
    "no such model": ("404", {"message": "The model `m-x` does not exist", "code": 404}, "not_found_error"),
    "no such model, as OpenAI says it": ("404", {"message": "no", "code": "model_not_found"}, "not_found_error"),
    "no such deployment": ("404", {"message": "no", "code": "DeploymentNotFound"}, "not_found_error"),
    "a bad request": ("400", {"message": "no"}, "invalid_request_error"),
    "too many": ("429", {"message": "no"}, "rate_limit_error"),
    "a fault": ("500", {"message": "no"}, "api_error"),
}


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
@pytest.mark.parametrize(("status", "fault", "kind"), ERRORS.values(), ids=ERRORS)
def test_any_other_error_is_told(schema, status, fault, kind):
    result = failed(status, json.dumps({"error": fault}).encode(), schema=schema, model_override="m-x")
    assert json.loads(result.body) == {"type": "error", "error": {"type": kind, "message": fault["message"]}}
    assert result.headers == (("content-type", "application/json"),)


def test_an_error_that_is_none_is_told_as_it_is():
    error = json.loads(failed("503", b"<p>busy</p>").body)["error"]
    assert error == {"type": "api_error", "message": "<p>busy</p>"}
    error = json.loads(failed("503", b" ", schema="GCPVertexAI").body)["error"]
    assert error == {"type": "api_error", "message": "the backend did not say why"}


def estimated(**request):
    return json.loads(failed("404", b"", {**request}).body)["input_tokens"]


BASE = 4 + 2
"""Of the question alone: what stands around it, and five letters."""
TOOL = {"name": "f", "description": "ab", "input_schema": {}}
SIZES = {
    "the question": ({}, 0),
    "letters": ({"system": "x" * 300}, 100 + 4),
    "letters of three bytes": ({"system": "語" * 30}, 30 + 4),
    "a tool": ({"tools": [TOOL]}, 1 + 4),
    "an image": (
        {
            "messages": [
                *HELLO,
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a/b"}}]},
            ]
        },
        IMAGE_TOKENS + 4,
    ),
    "a file": (
        {
            "messages": [
                *HELLO,
                {"role": "user", "content": [{"type": "document", "source": {"type": "base64", "data": "A" * 1972}}]},
            ]
        },
        100 + 4,
    ),
    "a format": ({"output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}}}, 2),
    "a call": (
        {
            "messages": [
                *HELLO,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b"}}]},
            ]
        },
        3 + 8,
    ),
}


@pytest.mark.parametrize(("request_", "more"), SIZES.values(), ids=SIZES)
def test_estimates(request_, more):
    assert abs(estimated(**request_) - (BASE + more)) <= 1


@given(st.text(max_size=200), st.text(max_size=50))
def test_more_text_is_never_fewer_tokens(text, more):
    assert estimated(system=text + more) >= estimated(system=text)


# --- requests ---


@EVERYWHERE
def test_what_cannot_be_sent_is_not_counted(schema):
    with pytest.raises(UnprocessableRequest, match=r"tools\[0\].type"):
        ask({"tools": [{"type": "computer_20250124", "name": "c"}]}, schema)


@given(request=REQUESTS, schema=st.sampled_from(["OpenAI", "AzureOpenAI", "GCPVertexAI"]))
def test_any_request_is_one_that_the_backend_counts_or_refused(request, schema):
    request = {**request, "model": request["model"] or "m"}
    if schema == "GCPVertexAI":
        # Google's types know few kinds of schemas.
        request.pop("tools", None)
    try:
        ask_bytes(json.dumps(request).encode(), schema)
    except (MalformedRequest, UnprocessableRequest):
        return

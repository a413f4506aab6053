"""Counts and errors of providers, as clients of vLLM's API read them (contract, 15.2 to 15.7)."""

import json

import pytest
from openai import APIError

from extproc.errors import UnreadableAnswer
from extproc.translate.base import UNTOUCHED
from extproc.usage import NO_USAGE
from tests.unit.translate.tokenize.attempts import COUNT_MEMBERS, COUNTING, PROMPT, send

EVERY_COUNTER = pytest.mark.parametrize("schema", COUNTING)
JSON = {"content-type": "application/json"}


def answered(schema, body):
    translator, _ = send(schema, model_override="real")
    assert translator.response_headers(JSON) == []
    return translator.response_body(body, end_of_stream=True)


COUNTS = {"0": 0, "42": 42, "100000": 100_000, "12.0": 12}


@EVERY_COUNTER
@pytest.mark.parametrize("number", COUNTS)
def test_a_count_is_a_count(schema, number):
    result = answered(schema, b'{"x":[1],"%b":%b}' % (COUNT_MEMBERS[schema].encode(), number.encode()))
    assert result.body == b'{"count":%d,"max_model_len":0,"tokens":null}' % COUNTS[number]
    assert (result.usage, result.model, result.complete) == (NO_USAGE, "real", True)


NO_COUNTS = {
    "nothing": b"",
    "no JSON": b"<html>",
    "cut": b'{"inputTokens":1,"input_tokens":1,"totalTokens":1',
    "an array": b"[1]",
    "no count": b"{}",
    "an error": b'{"error":{"message":"no"}}',
    "deep": b"[" * 100_000,
    "binary": b'{"\xff":1}',
    **{
        f"a count of {value}": b'{"inputTokens":%b,"input_tokens":%b,"totalTokens":%b}' % ((value.encode(),) * 3)
        for value in ("null", '"5"', "-1", "true", "1.5", "[]", "{}", "1e400", "9" * 5000, "NaN")
    },
}


@EVERY_COUNTER
@pytest.mark.parametrize("body", NO_COUNTS.values(), ids=NO_COUNTS)
def test_an_answer_without_a_count_is_none(schema, body):
    with pytest.raises(UnreadableAnswer):
        answered(schema, body)


@EVERY_COUNTER
def test_an_answer_may_come_in_pieces(schema):
    body = b'{"%b": 42}' % COUNT_MEMBERS[schema].encode()
    for cut in range(len(body) + 1):
        translator, _ = send(schema)
        translator.response_headers(JSON)
        first = translator.response_body(body[:cut], end_of_stream=False)
        last = translator.response_body(body[cut:], end_of_stream=True)
        assert (first.body, last.body) == (b"", b'{"count":42,"max_model_len":0,"tokens":null}')


@EVERY_COUNTER
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/jsonx"])
def test_an_answer_is_called_json(schema, content_type):
    translator, _ = send(schema)
    assert translator.response_headers({"content-type": content_type}) == [("content-type", "application/json")]


@EVERY_COUNTER
def test_what_a_provider_says_never_reaches_the_client_as_it_is(schema):
    translator, _ = send(schema)
    assert (translator.rewrites_stream, translator.rebuilds_body) == (True, True)


OPENAI = {
    "as vLLM says it": b'{"count":3,"max_model_len":8192,"tokens":[1,2,3],"token_strs":["a","b","c"]}',
    "with usage, which it has not": b'{"count":3,"usage":{"prompt_tokens":3,"total_tokens":3}}',
    "no JSON": b"<html>",
    "nothing": b"",
}


@pytest.mark.parametrize("body", OPENAI.values(), ids=OPENAI)
def test_the_answer_of_the_same_api_passes_and_costs_nothing(body):
    translator, _ = send("OpenAI", model_override="real")
    assert translator.response_headers(JSON) == []
    result = translator.response_body(body, end_of_stream=True)
    assert (result.body, result.usage, result.model) == (None, NO_USAGE, "real")


def test_events_in_place_of_an_answer_pass():
    translator, _ = send("OpenAI")
    translator.response_headers({"content-type": "text/event-stream"})
    result = translator.response_body(b'data: {"usage":{"total_tokens":3}}\n\n', end_of_stream=True)
    assert (result.body, result.usage) == (None, NO_USAGE)


# --- errors ---

AWS = {**JSON, "x-amzn-errortype": "ValidationException"}
NAMESPACED = {**JSON, "x-amzn-errortype": "com.amazon.coral.service#ThrottlingException:http://a/b"}
TEXT = {"content-type": "text/plain"}
GOOGLE = b'{"error":{"code":400,"message":"no \\"x\\"","status":"INVALID_ARGUMENT"}}'
DETAILED = b'{"error":{"message":"no","status":"INVALID_ARGUMENT","details":[{"a" : 1}]}}'
CLAUDE = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow \\"down\\""}}'
ERRORS = {
    # schemas, headers, body: type and message
    "AWS": (("AWSBedrock", "AWSAnthropic"), AWS, b'{"message":"no \\"x\\""}', "ValidationException", 'no "x"'),
    "AWS, namespaced": (("AWSBedrock", "AWSAnthropic"), NAMESPACED, b'{"message":"no"}', "ThrottlingException", "no"),
    "AWS, text": (("AWSBedrock", "AWSAnthropic"), TEXT, b'a "b"\n', "AWSBedrockBackendError", 'a "b"\n'),
    "AWS, broken": (("AWSBedrock", "AWSAnthropic"), AWS, b"{", "AWSBedrockBackendError", "{"),
    "Google": (("GCPVertexAI", "GCPAnthropic"), JSON, GOOGLE, "INVALID_ARGUMENT", 'no "x"'),
    "Google, whatever its type": (("GCPVertexAI", "GCPAnthropic"), TEXT, GOOGLE, "INVALID_ARGUMENT", 'no "x"'),
    "Google, details": (
        ("GCPVertexAI",),
        JSON,
        DETAILED,
        "INVALID_ARGUMENT",
        'Error: no\nDetails: [{"a" : 1}]',
    ),
    "Google, text": (("GCPVertexAI",), TEXT, b"busy", "GCPVertexAIBackendError", "busy"),
    "Google, of another shape": (("GCPVertexAI",), JSON, b'{"a":"b"}', "GCPVertexAIBackendError", '{"a":"b"}'),
    "Claude": (("Anthropic", "GCPAnthropic"), JSON, CLAUDE, "rate_limit_error", 'slow "down"'),
    "Claude, whatever its type": (("Anthropic", "GCPAnthropic"), {}, CLAUDE, "rate_limit_error", 'slow "down"'),
    "Claude, without a type": (("Anthropic",), JSON, b'{"error":{"message":"no"}}', "rate_limit_error", "no"),
    "Anthropic, text": (("Anthropic",), TEXT, b"busy", "AnthropicBackendError", "busy"),
    "Vertex AI, text": (("GCPAnthropic",), TEXT, b"busy", "GCPAnthropicBackendError", "busy"),
    "Vertex AI, broken": (("GCPAnthropic",), JSON, b"{", "GCPAnthropicBackendError", "{"),
    "OpenAI, text": (("OpenAI",), TEXT, b'a "b"', "OpenAIBackendError", 'a "b"'),
    "OpenAI, without a type": (("OpenAI",), {}, b"busy", "OpenAIBackendError", "busy"),
}


@pytest.mark.parametrize(
    ("schema", "headers", "body", "kind", "message"),
    [pytest.param(schema, *row, id=f"{name}: {schema}") for name, (all_, *row) in ERRORS.items() for schema in all_],
)
def test_an_error_is_told_in_openai_s_shape(schema, headers, body, kind, message):
    translator, _ = send(schema)
    result = translator.response_error("429", headers, body)
    assert json.loads(result.body) == {"type": "error", "error": {"type": kind, "code": "429", "message": message}}
    assert result.headers == (("content-type", "application/json"),)
    error = APIError("", request=None, body=json.loads(result.body)["error"])
    assert (error.type, error.code) == (kind, "429")


def test_an_error_of_the_same_api_stays_as_it_is():
    translator, _ = send("OpenAI")
    assert translator.response_error("400", JSON, b'{"object":"error","message":"no"}') == UNTOUCHED


def test_a_request_does_not_change_when_it_is_sent_again():
    first = [send(schema, PROMPT)[1] for schema in COUNTING]
    assert first == [send(schema, PROMPT, force=True)[1] for schema in COUNTING]

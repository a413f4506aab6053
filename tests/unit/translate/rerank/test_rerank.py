"""Rerank: where it goes, what is changed on the way, what it costs and how it fails (contract, 14 and 17.9)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.rerank import Rerank
from extproc.translate.base import UNTOUCHED
from extproc.translate.rerank import rerank_usage
from extproc.usage import MAX_COUNT, NO_USAGE, TokenUsage
from tests.support.golden import make_translator

BODY = b'{ "model" : "m",\n "documents":["a"], "top_n": 1.0}'
SCHEMAS = ("Cohere", "OpenAI")
EVERYWHERE = pytest.mark.parametrize("schema", SCHEMAS)


def send(schema, body=BODY, *, query="", force=False, **backend):
    translator = make_translator(schema, backend, operation=Operation.RERANK)
    parsed = Rerank().parse(body, content_type="", metering=True)
    return translator, translator.request(parsed, query=query, force=force)


def answered(schema, body, headers=None, **backend):
    translator, _ = send(schema, **backend)
    assert translator.response_headers(headers or {"content-type": "application/json"}) == []
    return translator.response_body(body, end_of_stream=True)


PATHS = {
    # schema, backend, query: path
    "Cohere": ("Cohere", {"version": "v2"}, "", "/v2/rerank"),
    "Cohere without a version": ("Cohere", {}, "", "/v2/rerank"),
    "an older version": ("Cohere", {"version": "v1"}, "", "/v1/rerank"),
    "a prefix": ("Cohere", {"prefix": "/gateway/", "version": "/v2/"}, "", "/gateway/v2/rerank"),
    "a prefix without a version": ("Cohere", {"prefix": "compat"}, "", "/compat/v2/rerank"),
    "OpenAI": ("OpenAI", {"prefix": "v1"}, "", "/v1/rerank"),
    "OpenAI without a prefix": ("OpenAI", {}, "", "/rerank"),
    "OpenAI behind a gateway": ("OpenAI", {"prefix": "gateway/v1"}, "", "/gateway/v1/rerank"),
    "the client's query goes along": ("Cohere", {"version": "v2"}, "a=1&b=%20", "/v2/rerank?a=1&b=%20"),
    "so does it to OpenAI": ("OpenAI", {"prefix": "v1"}, "a=1", "/v1/rerank?a=1"),
}


@pytest.mark.parametrize(("schema", "backend", "query", "path"), PATHS.values(), ids=PATHS)
def test_the_path_is_that_of_the_backend(schema, backend, query, path):
    _, sent = send(schema, query=query, **backend)
    assert (sent.path, sent.headers) == (path, ())


BODIES = {
    # override, force: body
    "as it is": ("", False, None),
    "a retry": ("", True, BODY),
    "an override": ("real", False, BODY.replace(b'"m"', b'"real"')),
    "an override in a retry": ("real", True, BODY.replace(b'"m"', b'"real"')),
}


@EVERYWHERE
@pytest.mark.parametrize(("override", "force", "body"), BODIES.values(), ids=BODIES)
def test_only_the_model_is_changed(schema, override, force, body):
    _, sent = send(schema, force=force, model_override=override)
    assert sent.body == body


@EVERYWHERE
def test_no_spelling_of_the_model_gets_past_the_override(schema):
    _, sent = send(schema, b'{"model":"m","mod\\u0065l":"other","query":"q"}', model_override="real")
    assert b"other" not in sent.body
    assert json.loads(sent.body) == {"model": "real", "query": "q"}


def tokens(input_=None, output=None, total=None, **more):
    return TokenUsage(input=input_, output=output, total=total, **more)


USAGES = {
    # meta, usage: tokens
    "input": ({"tokens": {"input_tokens": 25}}, None, tokens(25, None, 25)),
    "input and output": ({"tokens": {"input_tokens": 10, "output_tokens": 2}}, None, tokens(10, 2, 12)),
    "output": ({"tokens": {"output_tokens": 2}}, None, tokens(None, 2, 2)),
    "floats": ({"tokens": {"input_tokens": 10.0, "output_tokens": 2.9}}, None, tokens(10, 2, 12)),
    "zero": ({"tokens": {"input_tokens": 0, "output_tokens": 0}}, None, tokens(0, 0, 0)),
    "no tokens": ({"tokens": {}}, None, tokens(None, None, 0)),
    "tokens before units": (
        {"tokens": {"input_tokens": 25}, "billed_units": {"input_tokens": 20}},
        None,
        tokens(25, None, 25),
    ),
    "billed tokens": (
        {"billed_units": {"input_tokens": 20, "output_tokens": 0, "search_units": 3}},
        None,
        tokens(20, 0, 20),
    ),
    "billed tokens where there are none": (
        {"tokens": {}, "billed_units": {"input_tokens": 20}},
        None,
        tokens(20, None, 20),
    ),
    "billed tokens as a total": ({"billed_units": {"total_tokens": 20}}, None, tokens(20, None, 20)),
    "search units": ({"billed_units": {"search_units": 3}}, None, NO_USAGE),
    "cached": ({"tokens": {"input_tokens": 25}, "cached_tokens": 5}, None, tokens(25, None, 25, cached_input=5)),
    "only cached": ({"cached_tokens": 5}, None, NO_USAGE),
    "vLLM": (None, {"prompt_tokens": 56, "total_tokens": 56}, tokens(56, None, 56)),
    "an older vLLM, and Voyage": (None, {"total_tokens": 56}, tokens(56, None, 56)),
    "of another kind": (None, {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, tokens(5, 2, 7)),
    "without a total": (None, {"prompt_tokens": 5, "completion_tokens": 2}, tokens(5, 2, 7)),
    "meta before usage": ({"tokens": {"input_tokens": 25}}, {"total_tokens": 7}, tokens(25, None, 25)),
    "search units beside usage": ({"billed_units": {"search_units": 1}}, {"total_tokens": 7}, tokens(7, None, 7)),
    "nothing": (None, None, NO_USAGE),
    "nonsense": ({"tokens": [1], "billed_units": "x"}, 5, NO_USAGE),
    "meta that is none": ([1], None, NO_USAGE),
    "numbers that are none": (
        {"tokens": {"input_tokens": "25", "output_tokens": True}},
        {"total_tokens": -1},
        tokens(None, None, 0),
    ),
}


@EVERYWHERE
@pytest.mark.parametrize(("meta", "usage", "expected"), USAGES.values(), ids=USAGES)
def test_usage_is_what_is_counted_in_tokens(schema, meta, usage, expected):
    members = {"results": [{"index": 0, "relevance_score": 0.5}], "meta": meta, "usage": usage}
    result = answered(
        schema, json.dumps({name: value for name, value in members.items() if value is not None}).encode()
    )
    assert result.usage == expected
    assert (result.body, result.complete) == (None, True)


MODELS = {
    # answer, override: model
    "as asked for": ({}, "", "m"),
    "the override": ({}, "real", "real"),
    "as the backend says": ({"model": "bge"}, "real", "bge"),
    "a model that is none": ({"model": 5}, "", "m"),
}


@EVERYWHERE
@pytest.mark.parametrize(("answer", "override", "model"), MODELS.values(), ids=MODELS)
def test_the_model_is_what_the_backend_says(schema, answer, override, model):
    assert answered(schema, json.dumps(answer).encode(), model_override=override).model == model


NONE_OF_THE_API = {
    "no JSON": b"<html>",
    "an array": b"[]",
    "deep": b"[" * 100_000,
    "binary": b"\xff\x00",
    "empty": b"",
}


@EVERYWHERE
@pytest.mark.parametrize("body", NONE_OF_THE_API.values(), ids=NONE_OF_THE_API)
def test_an_answer_that_cannot_be_read_passes(schema, body):
    result = answered(schema, body)
    assert (result.body, result.usage) == (None, NO_USAGE)


@EVERYWHERE
def test_an_answer_in_pieces_is_read_as_a_whole(schema):
    body = b'{"results":[],"meta":{"tokens":{"input_tokens":25}},"usage":{"total_tokens":25}}'
    for cut in range(len(body)):
        translator, _ = send(schema)
        translator.response_headers({})
        first = translator.response_body(body[:cut], end_of_stream=False)
        last = translator.response_body(body[cut:], end_of_stream=True)
        assert (first.usage, last.usage) == (NO_USAGE, tokens(25, None, 25))


@EVERYWHERE
def test_events_have_no_usage(schema):
    result = answered(
        schema, b'data: {"meta":{"tokens":{"input_tokens":5}}}\n\n', {"content-type": "text/event-stream"}
    )
    assert (result.body, result.usage) == (None, NO_USAGE)


# --- errors ---

JSON = {"content-type": "application/json; charset=utf-8"}
TEXT = {"content-type": "text/plain"}
ERRORS = {
    # schema, headers, body: message, or nothing for an error that stays as it is
    "Cohere's": ("Cohere", JSON, b'{"message":"no"}', None),
    "another one of a backend that speaks Cohere's API": ("Cohere", JSON, b'{"error":{"message":"no"}}', None),
    "text": ("Cohere", TEXT, b"busy", "busy"),
    "text without a type": ("Cohere", {}, b"busy", "busy"),
    "text that claims to be JSON": ("Cohere", JSON, b"busy", "busy"),
    "an array": ("Cohere", JSON, b'["busy"]', '["busy"]'),
    "Cohere's, not called JSON": ("Cohere", TEXT, b'{"message":"no"}', "no"),
    "Cohere's, without a type": ("Cohere", {}, b'{"message":"no"}', "no"),
    "nothing": ("Cohere", {}, b"", ""),
    "binary": ("Cohere", TEXT, b"a\xff", "a\ufffd"),
    "vLLM's": ("OpenAI", JSON, b'{"object":"error","message":"no"}', None),
    "OpenAI's": ("OpenAI", JSON, b'{"error":{"message":"say \\"no\\"","type":"x"}}', 'say "no"'),
    "a text": ("OpenAI", JSON, b'{"error":"no"}', "no"),
    "FastAPI's": ("OpenAI", JSON, b'{"detail":"no"}', "no"),
    "FastAPI's list": ("OpenAI", JSON, b'{"detail":[1]}', '{"detail":[1]}'),
    "no message in it": ("OpenAI", JSON, b'{"error":{"type":"x"}}', '{"error":{"type":"x"}}'),
    "a message that is none": ("OpenAI", JSON, b'{"message":5,"error":"no"}', "no"),
    "OpenAI's text": ("OpenAI", {"content-type": "text/html"}, b"<h1>no</h1>", "<h1>no</h1>"),
    "OpenAI's text without a type": ("OpenAI", {}, b"no", "no"),
}


@pytest.mark.parametrize(("schema", "headers", "body", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_reaches_the_client_in_cohere_s_shape(schema, headers, body, message):
    translator, _ = send(schema)
    result = translator.response_error("503", headers, body)
    if message is None:
        assert result == UNTOUCHED
    else:
        assert json.loads(result.body) == {"message": message}
        assert result.headers == (("content-type", "application/json"),)


@EVERYWHERE
def test_a_long_error_is_shortened(schema):
    translator, _ = send(schema)
    for body in (b"x" * 1_000_000, b'{"error":"' + b"x" * 1_000_000 + b'"}'):
        assert len(translator.response_error("503", {}, body).body) < 70_000


# --- anything ---

numbers = st.integers() | st.floats() | st.sampled_from([0, 1, 25, 2.0, 1e300, -1, True, None, "5"])
counts = st.dictionaries(
    st.sampled_from(
        ["input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens", "search_units"]
    ),
    numbers,
)
metas = st.fixed_dictionaries(
    {}, optional={"tokens": counts | numbers, "billed_units": counts | numbers, "cached_tokens": numbers}
)


@given(metas | numbers, counts | numbers)
def test_any_report_gives_counts_or_nothing(meta, usage):
    found = rerank_usage(meta, usage)
    for name in TokenUsage.__struct_fields__:
        count = getattr(found, name)
        assert count is None or 0 <= count <= 2 * MAX_COUNT
    assert (found.total is None) == (found == NO_USAGE)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.sampled_from(SCHEMAS))
def test_any_error_can_be_read_as_cohere_s(body, schema):
    translator, _ = send(schema)
    result = translator.response_error("500", {"content-type": "text/plain"}, body)
    assert json.loads(result.body).keys() == {"message"}

"""The responses API on OpenAI and Azure OpenAI: bytes pass, and what they report is read (contract, responses 7, 8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.responses import Responses, ResponsesInputTokens
from extproc.errors import UnsupportedBackend
from extproc.usage import TokenUsage
from tests.support.golden import make_translator
from tests.support.playbook import BACKEND, SECOND_BACKEND, Gateway, cost, openai_backend
from tests.unit.translate.responses.attempts import DONE, hear

VERSION = "2025-04-01-preview"
ENDPOINTS = {"responses": Responses(), "responses/input_tokens": ResponsesInputTokens()}


def upstream(schema, body, *, suffix="responses", query="", force=False, **backend):
    endpoint = ENDPOINTS[suffix]
    parsed = endpoint.parse(body, content_type="application/json", metering=True)
    translator = make_translator(schema, backend, operation=endpoint.operation)
    return translator.request(parsed, query=query, force=force)


# --- requests ---

PATHS = {
    # schema, members of the backend, client's query: path, where {} is the endpoint
    "the prefix": ("OpenAI", {"prefix": "v1"}, "", "/v1/{}"),
    "a long prefix": ("OpenAI", {"prefix": "custom/v1"}, "", "/custom/v1/{}"),
    "a prefix with slashes": ("OpenAI", {"prefix": "/openai/"}, "", "/openai/{}"),
    "no prefix": ("OpenAI", {"prefix": ""}, "", "/{}"),
    "the client's query": ("OpenAI", {"prefix": "v1"}, "a=1", "/v1/{}?a=1"),
    "Azure": ("AzureOpenAI", {"version": VERSION}, "", f"/openai/{{}}?api-version={VERSION}"),
    "a deployment is not in the path": (
        "AzureOpenAI",
        {"version": VERSION, "model_override": "d 1/x"},
        "",
        f"/openai/{{}}?api-version={VERSION}",
    ),
    "a version is escaped": ("AzureOpenAI", {"version": "a&b"}, "", "/openai/{}?api-version=a%26b"),
    "the configured version wins": (
        "AzureOpenAI",
        {"version": "v1"},
        "x=%20&api-version=c&y",
        "/openai/{}?api-version=v1&x=%20&y",
    ),
    "the client brings the version": ("AzureOpenAI", {}, "api-version=c", "/openai/{}?api-version=c"),
    "no version": ("AzureOpenAI", {}, "", "/openai/{}"),
}


@pytest.mark.parametrize("suffix", ENDPOINTS)
@pytest.mark.parametrize("case", PATHS)
def test_paths(case, suffix):
    schema, backend, query, expected = PATHS[case]
    translated = upstream(schema, b'{"model":"m"}', suffix=suffix, query=query, **backend)
    assert translated.path == expected.format(suffix)


ODD = b'{ "input":[{"type":"brand_new","n":1.0e2}], "model" : "a" , "tools":[{"type":"new"}],"stream": false}'
BODIES = {
    # body, override, force: the new body
    "as it is": (ODD, "", False, None),
    "again": (ODD, "", True, ODD),
    "with another model": (ODD, "b", False, ODD.replace(b'"a"', b'"b"')),
    "with a model": (b'{"input":"x"}', "b", False, b'{"input":"x","model":"b"}'),
    "every model": (b'{"model":"a","\\u006dodel":"c"}', "b", False, b'{"model":"b","\\u006dodel":"b"}'),
}


@pytest.mark.parametrize("suffix", ENDPOINTS)
@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
@pytest.mark.parametrize("case", BODIES)
def test_bodies(case, schema, suffix):
    body, override, force, expected = BODIES[case]
    assert upstream(schema, body, suffix=suffix, force=force, model_override=override).body == expected


def test_a_retry_sends_the_bytes_again_and_the_length():
    config = {"version": "dev", "backends": [openai_backend(), openai_backend(SECOND_BACKEND, modelNameOverride="b")]}
    exchange = Gateway(config).exchange()
    exchange.request(ODD, {":path": "/v1/responses"})
    assert exchange.attempt().body is None
    again = exchange.attempt(SECOND_BACKEND)
    assert again.body == ODD.replace(b'"a"', b'"b"')
    assert again.set["content-length"] == str(len(again.body))


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
def test_a_backend_that_serves_only_chat_completions_counts_no_tokens(schema):
    with pytest.raises(UnsupportedBackend, match="chat completions only"):
        upstream(schema, b'{"model":"m"}', suffix="responses/input_tokens", chat_only=True)


# --- documents ---


def answered(body, *, stream=False, suffix="responses", request=b'{"model":"asked"}', size=0, **backend):
    endpoint = ENDPOINTS[suffix]
    request = request[:-1] + b',"stream":true}' if stream else request
    parsed = endpoint.parse(request, content_type="application/json", metering=True)
    translator = make_translator("OpenAI", backend, operation=endpoint.operation)
    translator.request(parsed, query="", force=False)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return hear(translator, data, stream=stream, size=size), data


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 2, "cache_creation_input_tokens": 3},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 15,
}
COUNTS = TokenUsage(input=10, output=5, total=15, cached_input=2, cache_creation_input=3, reasoning=4)
ZERO_DETAILS = TokenUsage(input=10, output=5, total=15, cached_input=0, cache_creation_input=0, reasoning=0)
NOTHING = TokenUsage()

REPORTS = {
    "all six counts": (USAGE, COUNTS),
    "OpenAI's name of what is written to the cache": (
        {**USAGE, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}},
        COUNTS,
    ),
    "no details": ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, ZERO_DETAILS),
    "empty details": ({**USAGE, "input_tokens_details": {}, "output_tokens_details": None}, ZERO_DETAILS),
    "details that are none": ({**USAGE, "input_tokens_details": [], "output_tokens_details": "x"}, ZERO_DETAILS),
    "no total": (
        {"input_tokens": 10, "output_tokens": 5},
        TokenUsage(input=10, output=5, total=15, cached_input=0, cache_creation_input=0, reasoning=0),
    ),
    "null": (None, NOTHING),
    "none of its type": ("many", NOTHING),
    "counts that are none": (
        {"input_tokens": "10", "output_tokens": -5, "total_tokens": True},
        TokenUsage(cached_input=0, cache_creation_input=0, reasoning=0),
    ),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_document_reports_usage(case):
    report, expected = REPORTS[case]
    heard, data = answered({"object": "response", "model": "real", "usage": report})
    assert (heard.body, heard.usage, heard.model) == (data, expected, "real")


@pytest.mark.parametrize("status", ["completed", "failed", "incomplete", "in_progress", "cancelled", "brand_new"])
def test_the_usage_of_a_document_counts_in_any_state(status):
    heard, _ = answered({"status": status, "usage": USAGE, "output": [{"type": "brand_new"}], "metadata": {"a": 1}})
    assert heard.usage == COUNTS


def test_an_answer_that_works_in_the_background_has_no_usage_yet():
    document = {"id": "resp_1", "status": "queued", "background": True, "model": "real", "output": [], "usage": None}
    heard, _ = answered(document)
    assert (heard.usage, heard.model, heard.complete) == (NOTHING, "real", True)


MODELS = {
    # override, the answer's: what is known
    "the answer's": ("", "real", "real"),
    "the asked one": ("", "", "asked"),
    "the asked one, as it has none": ("", None, "asked"),
    "the override": ("override", "", "override"),
    "of another type": ("", 7, "asked"),
}


@pytest.mark.parametrize("case", MODELS)
def test_the_model_of_a_document(case):
    override, model, expected = MODELS[case]
    heard, _ = answered({"model": model, "usage": USAGE}, model_override=override)
    assert heard.model == expected


UNREADABLE = {"empty": b"", "no JSON": b"<html>", "cut": b'{"usage":{"input', "an array": b"[]", "deep": b"[" * 100_000}


@pytest.mark.parametrize("suffix", ENDPOINTS)
@pytest.mark.parametrize("case", UNREADABLE)
def test_a_document_that_cannot_be_read_passes_without_usage(case, suffix):
    heard, data = answered(UNREADABLE[case], suffix=suffix)
    assert (heard.body, heard.usage, heard.model) == (data, NOTHING, "asked")


COUNTED = {
    "as in the contract": (b'{"object":"response.input_tokens","input_tokens":31}', TokenUsage(input=31, total=31)),
    "without its object": (b'{"input_tokens":100}', TokenUsage(input=100, total=100)),
    "none": (b'{"input_tokens":0}', TokenUsage(input=0, total=0)),
    "no count": (b'{"input_tokens":"many"}', NOTHING),
    "nothing": (b"{}", NOTHING),
}


@pytest.mark.parametrize("case", COUNTED)
def test_a_count_is_input(case):
    body, expected = COUNTED[case]
    heard, _ = answered(body, suffix="responses/input_tokens")
    assert (heard.body, heard.usage) == (body, expected)


# --- streams ---


def sse(*events: dict[str, Any], end: str = "\n", named: bool = True, space: str = " ") -> bytes:
    return b"".join(
        (f"event:{space}{event['type']}{end}" if named else "").encode()
        + f"data:{space}{json.dumps(event)}{end}{end}".encode()
        for event in events
    )


CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "real", "usage": None}}
DELTA = {"type": "response.output_text.delta", "delta": 'say "response" and "usage": {"input_tokens": 99}'}
COMPLETED = {"type": "response.completed", "response": {"model": "real", "usage": USAGE, "output": [{"type": "new"}]}}
PLAIN = (CREATED, {"type": "brand.new", "x": {"usage": {"input_tokens": 99}}}, DELTA, COMPLETED)

STREAMS = {
    "as OpenAI sends it": sse(*PLAIN),
    "with CRLF": sse(*PLAIN, end="\r\n"),
    "with CR": sse(*PLAIN, end="\r"),
    "without names": sse(*PLAIN, named=False),
    "without spaces": sse(*PLAIN, space=""),
    "without its last line end": sse(*PLAIN)[:-2],
    "with comments": b": ping\n\n" + sse(*PLAIN).replace(b"\n\n", b"\n\n: ping\n\n"),
    "with a mark at its end": sse(*PLAIN) + DONE,
    "with an event that is not JSON": sse(CREATED) + b'data: {"response"\n\n' + sse(COMPLETED),
    "with a response that is none": sse(CREATED, {"type": "response.completed", "response": 7}, COMPLETED),
    "with escaped names": sse(*PLAIN).replace(b'"response":', b'"\\u0072esponse":'),
    "reported twice": sse(*PLAIN, COMPLETED),
}


@pytest.mark.parametrize("size", [0, 1, 7, 100])
@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_reports_usage(case, size):
    heard, data = answered(STREAMS[case], stream=True, size=size)
    assert (heard.body, heard.usage, heard.model, heard.failure) == (data, COUNTS, "real", "")
    assert heard.complete


ENDS = {
    # the last event: usage, failure
    "incomplete": ({"type": "response.incomplete", "response": {"usage": USAGE}}, COUNTS, ""),
    "failed": (
        {"type": "response.failed", "response": {"usage": USAGE, "error": {"code": "rate_limit_exceeded"}}},
        COUNTS,
        "rate_limit_exceeded",
    ),
    "failed without a word": ({"type": "response.failed", "response": {"usage": None}}, NOTHING, "server_error"),
    "completed without usage": ({"type": "response.completed", "response": {"usage": None}}, NOTHING, ""),
    "an error": ({"type": "error", "code": "server_error", "message": "m", "error": None}, NOTHING, "server_error"),
    "an error as Azure writes it": (
        {"type": "error", "error": {"type": "too_many_requests", "code": "429", "message": "m"}},
        NOTHING,
        "429",
    ),
    "an error without a type": ({"error": {"type": "overloaded", "message": "m"}}, NOTHING, "overloaded"),
    "usage elsewhere does not count": ({"type": "response.in_progress", "response": {"usage": USAGE}}, NOTHING, ""),
}


@pytest.mark.parametrize("case", ENDS)
def test_ends_of_streams(case):
    event, usage, failure = ENDS[case]
    heard, data = answered(sse(CREATED, DELTA, event, named=False), stream=True, size=5)
    assert (heard.body, heard.usage, heard.failure) == (data, usage, failure)


def test_usage_before_an_error_counts():
    heard, _ = answered(sse(CREATED, COMPLETED, {"type": "error", "code": "late", "error": None}), stream=True)
    assert (heard.usage, heard.failure) == (COUNTS, "late")


def test_without_a_model_it_is_the_one_that_was_asked_for():
    created = {"type": "response.created", "response": {"model": ""}}
    assert answered(sse(created, DELTA), stream=True)[0].model == "asked"


def test_the_model_is_known_from_the_beginning():
    assert answered(sse(CREATED, DELTA), stream=True)[0].model == "real"


@given(data=st.binary(max_size=80) | st.text(max_size=40).map(str.encode), cut=st.integers(1, 9))
def test_any_bytes_pass(data, cut):
    for stream in (False, True):
        heard, _ = answered(data, stream=stream, size=cut)
        assert heard.body == data


@given(mangled=st.integers(0, len(sse(*PLAIN)) - 1), byte=st.integers(0, 255), size=st.integers(1, 50))
def test_a_mutilated_stream_passes_and_reports_what_can_be_read(mangled, byte, size):
    data = bytearray(sse(*PLAIN))
    data[mangled] = byte
    heard, _ = answered(bytes(data), stream=True, size=size)
    assert heard.body == data
    assert heard.usage == answered(bytes(data), stream=True)[0].usage


# --- the exchange ---

COSTS = [
    cost("in", "InputToken"),
    cost("out", "OutputToken"),
    cost("total"),
    cost("creation", "CacheCreationInputToken"),
]


def metered(body, answer, *pieces, path="/v1/responses"):
    gateway = Gateway({"version": "dev", "backends": [openai_backend()], "llmRequestCosts": COSTS})
    exchange = gateway.exchange()
    exchange.request(body, {":path": path})
    exchange.attempt(BACKEND)
    exchange.response({"content-type": answer})
    replies = [exchange.piece(piece, eos=False) for piece in pieces[:-1]]
    return [*replies, exchange.piece(pieces[-1], eos=True)], gateway


def test_costs_are_there_with_the_event_that_reports_them():
    stream = sse(CREATED, COMPLETED)
    (first, last, _), _ = metered(b'{"model":"m","stream":true}', "text/event-stream", stream[:-60], stream[-60:], b"")
    assert first.metadata == {}
    assert {name: last.metadata[name] for name in ("in", "out", "total", "creation")} == {
        "in": 10,
        "out": 5,
        "total": 15,
        "creation": 3,
    }


FAILURES = {
    "response.failed": sse(CREATED, {"type": "response.failed", "response": {"error": {"code": "c"}, "usage": USAGE}}),
    "error": sse(CREATED, {"type": "error", "code": "c", "message": "m"}),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_stream_that_fails_is_a_failure_of_the_attempt_and_its_bytes_stay(case):
    (reply,), gateway = metered(b'{"model":"m","stream":true}', "text/event-stream", FAILURES[case])
    assert reply.body is None
    assert reply.metadata["response_error"] == "c"
    outcomes = [
        sample.labels["outcome"]
        for family in gateway.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "extproc_attempts_total" and sample.value
    ]
    assert outcomes == ["failed"]


def test_a_count_costs_nothing():
    """BR-70: what is counted has not been spent."""
    (reply,), _ = metered(
        b'{"model":"m"}', "application/json", b'{"input_tokens":31}', path="/v1/responses/input_tokens"
    )
    assert reply.body is None
    assert not reply.metadata.get("in")


# --- errors ---


@pytest.mark.parametrize("suffix", ENDPOINTS)
@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json; charset=utf-8", b'{"error":{"message":"no"}}', None),
        ("text/plain", b'say "no"\n', 'say "no"\n'),
        ("", b"no", "no"),
    ],
)
def test_errors_pass_or_are_wrapped(suffix, content_type, body, expected):
    endpoint = ENDPOINTS[suffix]
    translator = make_translator("AzureOpenAI", {}, operation=endpoint.operation)
    headers = {"content-type": content_type} if content_type else {}
    result = translator.response_error("503", headers, body)
    if expected is None:
        assert result.body is None
        return
    error = {"type": "OpenAIBackendError", "code": "503", "message": expected}
    assert json.loads(result.body or b"") == {"type": "error", "error": error}
    assert result.headers == (("content-type", "application/json"),)


def test_the_operation_is_known_to_both():
    assert {endpoint.operation for endpoint in ENDPOINTS.values()} == {
        Operation.RESPONSES,
        Operation.RESPONSES_INPUT_TOKENS,
    }

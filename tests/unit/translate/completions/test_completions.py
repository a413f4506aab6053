"""Text completions in the exchange: where they go, what is known of their answers (contract, completions 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.endpoints.base import Operation
from extproc.endpoints.completions import Completions
from extproc.errors import UnprocessableRequest
from extproc.translate.table import TRANSLATORS
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import make_translator
from tests.support.playbook import BACKEND, Gateway, cost, openai_backend

BODY = b'{"model": "m", "prompt": "a"}'
AZURE = {"version": "2024-12-01-preview"}
AT = "/openai/deployments"


def start(schema: str = "OpenAI", body: bytes = BODY, *, query: str = "", force: bool = False, **backend: str):
    translator = make_translator(schema, backend, operation=Operation.COMPLETION)
    parsed = Completions().parse(body, content_type="application/json", metering=False)
    return translator, translator.request(parsed, query=query, force=force)


PATHS = {
    # schema, backend, query: path
    "OpenAI": ("OpenAI", {"prefix": "v1"}, "", "/v1/completions"),
    "OpenAI, no prefix": ("OpenAI", {}, "", "/completions"),
    "OpenAI, a query": ("OpenAI", {"prefix": "/x/v1/"}, "a=1&b", "/x/v1/completions?a=1&b"),
    "Azure": ("AzureOpenAI", AZURE, "", f"{AT}/m/completions?api-version=2024-12-01-preview"),
    "Azure, an override": (
        "AzureOpenAI",
        AZURE | {"model_override": "dep 1/x"},
        "",
        f"{AT}/dep%201%2Fx/completions?api-version=2024-12-01-preview",
    ),
    "Azure, a query": (
        "AzureOpenAI",
        AZURE,
        "api-version=c&a=1",
        f"{AT}/m/completions?api-version=2024-12-01-preview&a=1",
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_path_is_the_backends(name):
    schema, backend, query, expected = PATHS[name]
    _, translated = start(schema, query=query, **backend)
    assert translated.path == expected


BODIES = {
    # schema, override, force: body
    "as it came": ("OpenAI", "", False, None),
    "a retry": ("OpenAI", "", True, BODY),
    "an override": ("OpenAI", "n", False, b'{"model": "n", "prompt": "a"}'),
    "an override, again": ("OpenAI", "n", True, b'{"model": "n", "prompt": "a"}'),
    "Azure": ("AzureOpenAI", "", False, None),
    "Azure, an override": ("AzureOpenAI", "n", False, b'{"model": "n", "prompt": "a"}'),
    "Azure, a retry": ("AzureOpenAI", "", True, BODY),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_body_keeps_its_bytes(name):
    schema, override, force, expected = BODIES[name]
    _, translated = start(schema, force=force, model_override=override)
    assert translated.body == expected


def test_a_deployment_needs_a_name():
    with pytest.raises(UnprocessableRequest, match="model is required, it names the deployment"):
        start("AzureOpenAI", b'{"prompt":"a"}')


def test_no_other_schema_has_completions():
    assert {schema for operation, schema in TRANSLATORS if operation is Operation.COMPLETION} == {
        "OpenAI",
        "AzureOpenAI",
    }


DETAILS = {"prompt_tokens_details": {"cached_tokens": 2, "cache_creation_input_tokens": 1}}
USAGES = {
    "counts": (
        {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13},
        TokenUsage(input=5, output=8, total=13),
    ),
    "details": (
        {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13, **DETAILS},
        TokenUsage(input=5, output=8, total=13, cached_input=2, cache_creation_input=1),
    ),
    "reasoning": (
        {
            "prompt_tokens": 5,
            "completion_tokens": 8,
            "total_tokens": 13,
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        TokenUsage(input=5, output=8, total=13, reasoning=3),
    ),
    "negative": ({"prompt_tokens": -5, "completion_tokens": 8, "total_tokens": -1}, TokenUsage(output=8, total=8)),
    "none": (None, NO_USAGE),
    "nonsense": ([1], NO_USAGE),
}


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
@pytest.mark.parametrize("name", USAGES)
def test_a_document_is_read_and_passes(name, schema):
    reported, usage = USAGES[name]
    translator, _ = start(schema)
    translator.response_headers({"content-type": "application/json"})
    document = {"model": "said", "choices": [], "usage": reported}
    result = translator.response_body(json.dumps(document).encode(), end_of_stream=True)
    assert (result.body, result.usage, result.model) == (None, usage, "said")


@pytest.mark.parametrize("document", [b"{}", b'{"model":""}', b'{"model":null}', b'{"model":7}', b"no JSON"])
def test_an_answer_that_names_no_model_is_of_the_one_that_was_asked(document):
    translator, _ = start(model_override="n")
    translator.response_headers({"content-type": "application/json"})
    result = translator.response_body(document, end_of_stream=True)
    assert (result.body, result.model) == (None, "n")


def chunk(**members: Any) -> bytes:
    return b"data: " + json.dumps({"object": "text_completion", "model": "said", "choices": [], **members}).encode()


PIECES = [chunk(choices=[{"index": 0, "text": "a"}]), chunk(), b"data: [DONE]"]
REPORT = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_is_read_in_any_pieces(end, size):
    translator, _ = start(body=b'{"model":"m","prompt":"a","stream":true}')
    translator.response_headers({"content-type": "text/event-stream"})
    text = end.join([PIECES[0], chunk(usage=REPORT), b"data: [DONE]"])
    usage = NO_USAGE
    results = [translator.response_body(text[at : at + size], end_of_stream=False) for at in range(0, len(text), size)]
    results.append(translator.response_body(b"", end_of_stream=True))
    for result in results:
        usage = usage.merge(result.usage)
        assert result.body is None
    assert usage == TokenUsage(input=5, output=3, total=8)
    assert (results[-1].model, any(result.complete for result in results)) == ("said", True)


def test_a_stream_without_a_report_has_no_usage():
    translator, _ = start(body=b'{"model":"m","prompt":"a","stream":true}')
    translator.response_headers({"content-type": "text/event-stream"})
    result = translator.response_body(b"\n\n".join([*PIECES, b""]), end_of_stream=True)
    assert (result.usage, result.model) == (NO_USAGE, "said")


def test_a_report_that_was_forced_is_kept_from_the_client_and_charged():
    gateway = Gateway({"version": "dev", "backends": [openai_backend()], "llmRequestCosts": [cost("total")]})
    exchange = gateway.exchange()
    exchange.request({"model": "m", "prompt": "a", "stream": True}, {":path": "/v1/completions"})
    sent = exchange.attempt(BACKEND)
    assert json.loads(sent.body)["stream_options"] == {"include_usage": True}
    exchange.response({"content-type": "text/event-stream"})
    pieces = [PIECES[0] + b"\n\n", chunk(usage=REPORT) + b"\n\n", b"data: [DONE]\n\n"]
    output, metadata = exchange.pieces(pieces)
    assert output == pieces[0] + pieces[2]
    assert metadata["total"] == 8


ERRORS = {
    "JSON": ("application/json", b'{"error":{"message":"no"}}', None),
    "JSON with a charset": ("application/json; charset=utf-8", b"{}", None),
    "text": ("text/plain", b'a "b"\n', 'a "b"\n'),
    "no type": (None, b"gone", "gone"),
}


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_can_be_read_by_the_client(name, schema):
    content_type, body, message = ERRORS[name]
    translator, _ = start(schema)
    result = translator.response_error("503", {"content-type": content_type} if content_type else {}, body)
    if message is None:
        assert (result.body, result.headers) == (None, ())
    else:
        error = {"type": "OpenAIBackendError", "code": "503", "message": message}
        assert json.loads(result.body) == {"type": "error", "error": error}
        assert result.headers == (("content-type", "application/json"),)

"""Images on backends of OpenAI's API: paths, edits, usage and streams (contract, images 11; errors 3.6)."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.image_edits import ImageEdits
from extproc.errors import UnprocessableRequest, UnsupportedBackend
from extproc.translate.media import media_usage
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.forms import CONTENT_TYPE, form, read_form
from tests.support.golden import make_translator

GENERATION, EDIT = Operation.IMAGE_GENERATION, Operation.IMAGE_EDIT
SSE = {"content-type": "text/event-stream"}
USAGE = {"input_tokens": 40, "output_tokens": 60, "total_tokens": 100}
COUNTED = TokenUsage(input=40, output=60, total=100)


def sent(operation, request, *, schema="OpenAI", query="", force=False, **backend):
    return make_translator(schema, backend, operation=operation).request(request, query=query, force=force)


def json_request(body=b'{"model":"m"}', *, stream=False):
    return ParsedRequest(model="m", stream=stream, body=body)


PATHS = {
    "no prefix": ("OpenAI", {}, "", "/images/generations"),
    "v1": ("OpenAI", {"prefix": "v1"}, "", "/v1/images/generations"),
    "prefix of many parts": ("OpenAI", {"prefix": "/a//b/"}, "", "/a/b/images/generations"),
    "query": ("OpenAI", {"prefix": "v1"}, "a=b", "/v1/images/generations?a=b"),
    "azure": ("AzureOpenAI", {"version": "v"}, "", "/openai/deployments/m/images/generations?api-version=v"),
    "azure, no version": ("AzureOpenAI", {}, "api-version=w", "/openai/deployments/m/images/generations?api-version=w"),
    "azure, two versions": (
        "AzureOpenAI",
        {"version": "v"},
        "api-version=w&a=b",
        "/openai/deployments/m/images/generations?api-version=v&a=b",
    ),
    "azure, override": (
        "AzureOpenAI",
        {"version": "v 1", "model_override": "a/b?c"},
        "",
        "/openai/deployments/a%2Fb%3Fc/images/generations?api-version=v%201",
    ),
}


@pytest.mark.parametrize(("schema", "backend", "query", "path"), PATHS.values(), ids=PATHS)
def test_paths(schema, backend, query, path):
    assert sent(GENERATION, json_request(), schema=schema, query=query, **backend).path == path
    edits = path.replace("generations", "edits")
    assert sent(EDIT, json_request(), schema=schema, query=query, **backend).path == edits


@pytest.mark.parametrize("operation", [GENERATION, EDIT])
@pytest.mark.parametrize("schema", ["AWSBedrock", "GCPVertexAI", "Anthropic", "AWSAnthropic", "GCPAnthropic", "Cohere"])
def test_other_backends_have_no_images(operation, schema):
    with pytest.raises(UnsupportedBackend):
        make_translator(schema, {}, operation=operation)


def test_json_is_edited_in_place_and_only_when_it_must_be():
    request = json_request(b'{ "model" : "m", "stream":true ,"model":"n"}')

    assert sent(GENERATION, request).body is None
    assert sent(GENERATION, request, force=True).body is request.body
    edited = b'{ "model" : "b", "stream":true ,"model":"b"}'
    assert sent(GENERATION, request, model_override="b").body == edited
    assert sent(EDIT, request, model_override="b", force=True).body == edited
    assert sent(GENERATION, json_request(b'{"prompt":"x"}'), model_override="b").body == b'{"prompt":"x","model":"b"}'


IMAGE = b"\x89PNG\r\n--a-boundary-of-the-clien\r\n"
FORM = form(("model", "m"), ("image[]", IMAGE), ("prompt", "größe"), ("model", ""), ("stream", "true"))


def form_request(body=FORM, content_type=CONTENT_TYPE):
    return ImageEdits().parse(body, content_type=content_type, metering=False)


def test_a_form_is_edited_in_place_and_only_when_it_must_be():
    body = b"preamble\r\n" + FORM + b"epilogue"
    request = form_request(body)

    assert sent(EDIT, request).body is None
    assert sent(EDIT, request, force=True).body is body
    for force in (False, True):
        translated = sent(EDIT, request, model_override="b-2", force=force)
        # Neither the boundary nor anything that is not the model has changed, so no header has to.
        assert translated.headers == ()
        assert translated.body == body.replace(b"\r\n\r\nm\r\n", b"\r\n\r\nb-2\r\n").replace(
            b'"model"\r\n\r\n\r\n', b'"model"\r\n\r\nb-2\r\n'
        )
        assert read_form(translated.body, CONTENT_TYPE) == [
            ("model", b"b-2"),
            ("image[]", IMAGE),
            ("prompt", "größe".encode()),
            ("model", b"b-2"),
            ("stream", b"true"),
        ]


def test_the_model_in_a_form_follows_the_deployment_in_the_path():
    request = form_request(form(("model", "m"), ("image[]", IMAGE)))

    assert sent(EDIT, request, schema="AzureOpenAI").body is None
    body = sent(EDIT, request, schema="AzureOpenAI", model_override="b").body
    assert body is not None
    assert ("model", b"b") in read_form(body, CONTENT_TYPE)


def test_a_model_that_would_break_the_form_is_a_422():
    with pytest.raises(UnprocessableRequest, match="the model cannot be replaced: the new content holds"):
        sent(EDIT, form_request(), model_override="--a-boundary-of-the-client")


USAGES = {
    "images": (USAGE, COUNTED),
    "no total": ({"input_tokens": 4, "output_tokens": 6}, TokenUsage(input=4, output=6)),
    "cached": (
        {**USAGE, "input_tokens_details": {"cached_tokens": 8, "image_tokens": 30}},
        TokenUsage(input=40, output=60, total=100, cached_input=8),
    ),
    "chat": (
        {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10},
        TokenUsage(input=4, output=6, total=10),
    ),
    "both": ({**USAGE, "prompt_tokens": 0, "completion_tokens": 0}, COUNTED),
    "tokens by name": ({**USAGE, "type": "tokens"}, COUNTED),
    "duration": ({"type": "duration", "seconds": 9}, NO_USAGE),
    "duration with counts": ({**USAGE, "type": "duration"}, NO_USAGE),
    "another type": ({**USAGE, "type": ["tokens"]}, NO_USAGE),
    "another shape": ({"images": 1}, NO_USAGE),
    "nonsense": ({"input_tokens": -1, "output_tokens": "6", "total_tokens": None}, NO_USAGE),
    "details of nothing": ({**USAGE, "input_tokens_details": None}, COUNTED),
    "empty": ({}, NO_USAGE),
    "null": (None, NO_USAGE),
    "a list": ([1], NO_USAGE),
    "a number": (7, NO_USAGE),
}


@pytest.mark.parametrize(("usage", "counts"), USAGES.values(), ids=USAGES)
def test_usage(usage, counts):
    read = media_usage(usage)
    assert read == counts
    assert (read is NO_USAGE) == (counts is NO_USAGE)
    translator = make_translator("OpenAI", {}, operation=GENERATION)
    translator.request(json_request(), query="", force=False)
    translator.response_headers({"content-type": "application/json"})

    answer = translator.response_body(json.dumps({"created": 1, "usage": usage}).encode(), end_of_stream=True)

    assert (answer.usage, answer.body, answer.complete) == (counts, None, True)


@pytest.mark.parametrize("body", [b"null", b"", b"[]", b"7", b"not JSON", b'{"usage":', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("operation", [GENERATION, EDIT])
def test_an_answer_that_cannot_be_read_passes_unmetered(operation, body):
    translator = make_translator("OpenAI", {"model_override": "b"}, operation=operation)
    translator.request(json_request(), query="", force=False)
    assert translator.response_headers({"content-type": "application/json"}) == []

    answer = translator.response_body(body, end_of_stream=True)

    assert (answer.usage, answer.body, answer.model) == (NO_USAGE, None, "b")


def test_the_model_is_the_one_that_was_asked_for():
    translator = make_translator("OpenAI", {}, operation=GENERATION)
    translator.request(json_request(), query="", force=False)
    translator.response_headers({"content-type": "application/json"})

    assert translator.response_body(b'{"model":"another"}', end_of_stream=True).model == "m"


# --- streams ---


def event(document, name=""):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()


PARTIAL = event({"type": "image_generation.partial_image", "b64_json": 'aW0="usage"'}, "image_generation.partial_image")
END = event({"type": "image_generation.completed", "b64_json": "aW0=", "usage": USAGE}, "image_generation.completed")


def streamed(pieces, operation=GENERATION, headers=SSE):
    """What is known after a stream: usage, whether it is complete, and its failure. Nothing is changed on the way."""
    translator = make_translator("OpenAI", {}, operation=operation)
    translator.request(json_request(stream=True), query="", force=False)
    assert translator.response_headers(headers) == []
    assert not translator.rewrites_stream
    results = [
        translator.response_body(piece, end_of_stream=number == len(pieces)) for number, piece in enumerate(pieces, 1)
    ]
    assert all(result.body is None for result in results)
    usage = NO_USAGE
    for result in results:
        usage = usage.merge(result.usage)
    failures = [result.failure for result in results if result.failure]
    return usage, any(result.complete for result in results), *failures


STREAMS = {
    "to its end": (PARTIAL + PARTIAL + END, (COUNTED, True)),
    "in CRLF": ((PARTIAL + END).replace(b"\n", b"\r\n"), (COUNTED, True)),
    "without its last line end": (END[:-1], (COUNTED, True)),
    "without names of events": (event({"type": "image_generation.completed", "usage": USAGE}), (COUNTED, True)),
    "named by the event alone": (event({"usage": USAGE}, "image_generation.completed"), (COUNTED, True)),
    "a later report replaces": (
        event({"type": "image_generation.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}) + END,
        (COUNTED, True),
    ),
    "no usage": (event({"type": "image_generation.completed"}), (NO_USAGE, True)),
    "cut off": (PARTIAL, (NO_USAGE, False)),
    "with a marker at its end": (PARTIAL + b"data: [DONE]\n\n", (NO_USAGE, True)),
    "comments and nonsense": (b": hello\n\ndata: nonsense\n\ndata: 7\n\ndata: null\n\n" + END, (COUNTED, True)),
    "error": (event({"type": "error", "error": {"code": "c", "type": "t"}}, "error"), (NO_USAGE, True, "c")),
    "error without a code": (event({"error": {"code": None, "type": "t"}}), (NO_USAGE, True, "t")),
    "error at the top": (event({"type": "error", "code": "c", "message": "m"}), (NO_USAGE, True, "c")),
    "error of a word": (event({"error": "overloaded"}), (NO_USAGE, True, "server_error")),
    "error in the event's name": (event({"message": "m"}, "error"), (NO_USAGE, True, "server_error")),
    "error of null": (event({"type": "x", "error": None}) + END, (COUNTED, True)),
    "usage and then an error": (END + event({"type": "error", "error": {}}), (COUNTED, True, "server_error")),
}


@pytest.mark.parametrize(("stream", "known"), STREAMS.values(), ids=STREAMS)
def test_a_stream_passes_and_is_metered(stream, known):
    assert streamed([stream]) == known
    assert streamed([stream[at : at + 1] for at in range(len(stream))]) == known


def test_the_name_of_an_error_is_bounded():
    assert streamed([event({"error": {"code": "c" * 10_000}})]) == (NO_USAGE, True, "c" * 256)


def test_an_edit_ends_with_its_own_event():
    assert streamed([event({"type": "image_edit.completed", "usage": USAGE})], EDIT) == (COUNTED, True)
    assert streamed([END], EDIT) == (COUNTED, False)


def test_an_image_of_megabytes_is_metered():
    stream = event({"type": "image_generation.completed", "b64_json": "A" * 8_000_000, "usage": USAGE})

    assert streamed([stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]) == (COUNTED, True)


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/octet-stream"}])
def test_a_stream_under_another_name_is_metered(headers):
    assert streamed([PARTIAL, END], headers=headers) == (COUNTED, True)


@given(stream=st.sampled_from(sorted(case[0] for case in STREAMS.values())), data=st.data())
def test_any_mutilated_stream_in_any_cut_passes(stream, data):
    mutilated = bytearray(stream)
    place = data.draw(st.integers(0, len(stream)))
    mutilated[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    stream = bytes(mutilated)
    edges = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=5)) | {0, len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(edges)] or [stream]

    assert streamed(pieces) == streamed([stream])


# --- errors ---


ERRORS = {
    "text": ({"content-type": "text/plain"}, b'say "no"\n', 'say "no"\n'),
    "no type": ({}, b"no", "no"),
    "not UTF-8": ({"content-type": "text/html"}, b"\xff", "\ufffd"),
}


@pytest.mark.parametrize(("headers", "body", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_that_is_no_json_is_wrapped(headers, body, message):
    answer = make_translator("OpenAI", {}, operation=GENERATION).response_error("503", headers, body)

    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": "OpenAIBackendError", "code": "503", "message": message},
    }
    assert answer.headers == (("content-type", "application/json"),)


def test_an_error_in_json_stays():
    headers = {"content-type": "Application/JSON; charset=utf-8"}

    assert make_translator("OpenAI", {}, operation=EDIT).response_error("400", headers, b"{}").body is None

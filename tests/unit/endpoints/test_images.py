"""What is read of requests for images, and what is refused (contract, request parsing 2.2, images 11)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.image_edits import ImageEdits
from extproc.endpoints.images import ImageGenerations
from extproc.errors import MalformedRequest
from tests.support.forms import CONTENT_TYPE, form

JSON = "application/json"


def generation(body, content_type=JSON):
    return ImageGenerations().parse(body, content_type=content_type, metering=True)


def edit(body, content_type=CONTENT_TYPE):
    return ImageEdits().parse(body, content_type=content_type, metering=True)


JSON_REQUESTS = {
    "plain": ({"model": "gpt-image-1", "prompt": "a cat"}, "gpt-image-1", False),
    "stream": ({"model": "gpt-image-1", "prompt": "a cat", "stream": True, "partial_images": 2}, "gpt-image-1", True),
    "no stream": ({"model": "gpt-image-1", "stream": False}, "gpt-image-1", False),
    "stream of null": ({"model": "gpt-image-1", "stream": None}, "gpt-image-1", False),
    "no model": ({"prompt": "a cat"}, "", False),
    "model of null": ({"model": None, "prompt": "a cat"}, "", False),
    "what only a backend knows": ({"model": "m", "n": "many", "size": [1, 2], "user": {"a": 1}}, "m", False),
}


@pytest.mark.parametrize("parse", [generation, lambda body: edit(body, JSON)], ids=["generations", "edits"])
@pytest.mark.parametrize(("request_", "model", "stream"), JSON_REQUESTS.values(), ids=JSON_REQUESTS)
def test_model_and_stream_are_read_from_json(parse, request_, model, stream):
    body = json.dumps(request_).encode()

    parsed = parse(body)

    assert (parsed.model, parsed.stream, parsed.content_type) == (model, stream, "")
    assert parsed.body is body
    assert not parsed.rewritten


BAD_JSON = {
    "no JSON": b"not JSON",
    "cut off": b'{"model":"m"',
    "more than JSON": b'{"model":"m"} x',
    "no object": b'["model"]',
    "model of another type": b'{"model":7}',
    "stream of another type": b'{"model":"m","stream":"true"}',
    "no UTF-8": b'{"model":"\xff"}',
    "too deep": b'{"model":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json_is_a_400_that_names_the_path(body):
    with pytest.raises(
        MalformedRequest, match=r"^malformed request: failed to parse JSON for /v1/images/generations: "
    ):
        generation(body)
    with pytest.raises(MalformedRequest, match=r"^malformed request: failed to parse JSON for /v1/images/edits: "):
        edit(body, JSON)


def test_a_generation_is_no_form():
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        generation(form(("model", "m")), CONTENT_TYPE)


@pytest.mark.parametrize("model", ["a\nb", "x" * 2049])
def test_a_model_that_no_header_can_carry_is_a_400(model):
    with pytest.raises(MalformedRequest, match="model "):
        generation(json.dumps({"model": model}).encode())
    with pytest.raises(MalformedRequest, match="model "):
        edit(form(("model", model)))


IMAGE = b"\x89PNG\r\n\x1a\n--a-boundary"
FORMS = {
    "one image": ((("image", IMAGE), ("prompt", "a hat"), ("model", "gpt-image-1")), "gpt-image-1", False),
    "images and a mask": (
        (("model", "m"), ("image[]", IMAGE), ("image[]", IMAGE), ("mask", IMAGE), ("prompt", "a hat")),
        "m",
        False,
    ),
    "stream": ((("model", "m"), ("stream", "true"), ("partial_images", "2")), "m", True),
    "stream in capitals": ((("stream", "TRUE"), ("model", "m")), "m", True),
    "no stream": ((("model", "m"), ("stream", "false")), "m", False),
    "the last model counts": ((("model", "a"), ("stream", "true"), ("model", "b"), ("stream", "no")), "b", False),
    "empty model": ((("model", ""),), "", False),
}


@pytest.mark.parametrize(("fields", "model", "stream"), FORMS.values(), ids=FORMS)
def test_model_and_stream_are_read_from_a_form(fields, model, stream):
    body = form(*fields)

    parsed = edit(body)

    assert (parsed.model, parsed.stream, parsed.content_type) == (model, stream, CONTENT_TYPE)
    assert parsed.body is body


def test_a_form_without_a_model_is_a_400():
    with pytest.raises(MalformedRequest, match=r"^malformed request: missing required field 'model'$"):
        edit(form(("image", IMAGE), ("prompt", "a hat")))


BAD_FORMS = {
    "no boundary": (form(("model", "m")), "multipart/form-data", "missing boundary"),
    "another boundary": (form(("model", "m")), "multipart/form-data; boundary=x", "the boundary is nowhere"),
    "cut off": (form(("model", "m"))[:-4], CONTENT_TYPE, "the closing boundary is missing"),
    "JSON": (b'{"model":"m"}', CONTENT_TYPE, "the boundary is nowhere"),
}


@pytest.mark.parametrize(("body", "content_type", "reason"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_a_broken_form_is_a_400(body, content_type, reason):
    with pytest.raises(MalformedRequest, match=f"^malformed request: failed to parse multipart form data: .*{reason}"):
        edit(body, content_type)


@given(body=st.binary(max_size=80), content_type=st.sampled_from([JSON, CONTENT_TYPE, "", "multipart/form-data; x"]))
def test_any_bytes_are_read_or_refused(body, content_type):
    for parse in (generation, edit):
        with suppress(MalformedRequest):
            parse(body, content_type)


@pytest.mark.parametrize("endpoint", [ImageGenerations(), ImageEdits()])
def test_errors_have_the_shape_of_the_api(endpoint):
    assert json.loads(endpoint.error_body(MalformedRequest('a "b"\n'))) == {
        "type": "error",
        "error": {"type": "BadRequest", "code": "400", "message": 'malformed request: a "b"\n'},
    }

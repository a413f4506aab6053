"""What is read of requests for sound, and what is refused (contract, parsing 2.2, speech 12, audio 13.1)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.speech import Speech
from extproc.endpoints.transcriptions import Transcriptions
from extproc.endpoints.translations import Translations
from extproc.errors import MalformedRequest
from tests.support.forms import CONTENT_TYPE, form

FILE = ("file", b"RIFF\0\r\n--a-boundary\r\n\r\n")
MODEL = ("model", "whisper-1")
FORM_ENDPOINTS = {"transcriptions": Transcriptions(), "translations": Translations()}
every_form_endpoint = pytest.mark.parametrize("endpoint", FORM_ENDPOINTS.values(), ids=FORM_ENDPOINTS)


def parse(endpoint, body, content_type=CONTENT_TYPE):
    return endpoint.parse(body, content_type=content_type, metering=True)


# --- speech ---

SPEECH = {
    "plain": {"model": "tts-1", "input": "hello", "voice": "alloy"},
    "voice of the client's own": {"model": "tts-1", "input": "hello", "voice": {"id": "voice_123"}},
    "events": {"model": "tts-1", "input": "hello", "voice": "alloy", "stream_format": "sse"},
    "audio": {"model": "tts-1", "input": "hello", "voice": "alloy", "stream_format": "audio"},
    "everything": {"model": "tts-1", "input": "a", "instructions": "b", "response_format": "opus", "speed": 1.5},
    "what only a backend knows": {"model": "tts-1", "input": ["a"], "speed": "fast", "stream_format": 7},
}


@pytest.mark.parametrize("request_", SPEECH.values(), ids=SPEECH)
def test_speech_always_streams(request_):
    body = json.dumps(request_).encode()

    parsed = parse(Speech(), body, "application/json")

    assert (parsed.model, parsed.stream, parsed.content_type) == ("tts-1", True, "")
    assert parsed.body is body


@pytest.mark.parametrize("body", [b"not JSON", b'{"model":7}', b"", b"[]", b'{"model":"\xff"}', b'{"model":"m"'])
def test_bad_speech_is_a_400(body):
    with pytest.raises(MalformedRequest, match=r"^malformed request: failed to parse JSON for /v1/audio/speech: "):
        parse(Speech(), body, "application/json")


def test_speech_is_no_form():
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        parse(Speech(), form(MODEL))


def test_speech_without_a_model_has_none():
    assert parse(Speech(), b'{"input":"a"}', "").model == ""


# --- forms ---

FORMS = {
    "plain": ((MODEL, FILE), False),
    "everything": (
        (
            FILE,
            ("language", "de"),
            ("prompt", "Ärzte"),
            ("response_format", "verbose_json"),
            ("temperature", "0.5"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
            ("include[]", "logprobs"),
            ("chunking_strategy", "auto"),
            MODEL,
        ),
        False,
    ),
    "stream": ((MODEL, FILE, ("stream", "true")), True),
    "stream in capitals": ((("stream", "True"), MODEL, FILE), True),
    "no stream": ((MODEL, FILE, ("stream", "false")), False),
    "another word": ((MODEL, FILE, ("stream", "1")), False),
    "the last model counts": ((("model", "a"), FILE, MODEL), False),
    "two files": ((MODEL, FILE, FILE), False),
    "a file without a name of its own": ((MODEL, ("file", "RIFF")), False),
}


@every_form_endpoint
@pytest.mark.parametrize(("fields", "stream"), FORMS.values(), ids=FORMS)
def test_model_and_stream_are_read_from_a_form(endpoint, fields, stream):
    body = form(*fields)

    parsed = parse(endpoint, body)

    assert (parsed.model, parsed.content_type) == ("whisper-1", CONTENT_TYPE)
    # Only transcriptions can be streamed.
    assert parsed.stream == (stream and isinstance(endpoint, Transcriptions))
    assert parsed.body is body


@every_form_endpoint
def test_an_empty_model_is_one(endpoint):
    assert parse(endpoint, form(("model", ""), FILE)).model == ""


@every_form_endpoint
def test_fields_in_quoted_printable_are_decoded(endpoint):
    body = form(MODEL, FILE, ("stream", "=74rue")).replace(
        b'name="model"\r\n\r\nwhisper-1',
        b'name="model"\r\ncontent-transfer-encoding: quoted-printable\r\n\r\nwhisper=2D1',
    )

    parsed = parse(endpoint, body)

    assert (parsed.model, parsed.stream) == ("whisper-1", False)


NUMBERS = ["0", "0.5", "1.", ".5", "-0", "+1", "1e-1", "2E+0", "0" * 300]
NO_NUMBERS = ["", "hot", "0.5 ", "0,5", "1e999", "nan", "inf", "0x1p-2", "1_0", "٣", "1e", "-", '"\n']


@every_form_endpoint
@pytest.mark.parametrize("number", NUMBERS)
def test_a_temperature_is_a_number(endpoint, number):
    assert parse(endpoint, form(MODEL, FILE, ("temperature", number))).model == "whisper-1"


@every_form_endpoint
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_another_temperature_is_a_400_that_quotes_it(endpoint, text):
    with pytest.raises(MalformedRequest) as caught:
        # Every one of them is looked at, and it is found before a missing file is.
        parse(endpoint, form(MODEL, ("temperature", text), ("temperature", "1")))

    assert str(caught.value) == f'malformed request: invalid temperature value "{text}": it is not a number'
    # Quotes and line ends do not break the body.
    assert json.loads(endpoint.error_body(caught.value))["error"]["message"] == str(caught.value)


@every_form_endpoint
def test_a_temperature_is_quoted_in_part(endpoint):
    with pytest.raises(MalformedRequest) as caught:
        parse(endpoint, form(MODEL, FILE, ("temperature", "x" * 60_000)))

    assert len(str(caught.value)) < 150


REFUSED = {
    "no model": (form(FILE), CONTENT_TYPE, "missing required field 'model'"),
    "another case": (form(("Model", "m"), FILE), CONTENT_TYPE, "missing required field 'model'"),
    "no file": (form(MODEL), CONTENT_TYPE, "missing required field 'file'"),
    "neither": (form(("prompt", "x")), CONTENT_TYPE, "missing required field 'model'"),
    "no boundary": (form(MODEL, FILE), "multipart/form-data", "failed to parse multipart form data: missing boundary"),
    "no content type that can be read": (
        form(MODEL, FILE),
        "multipart/form-data; ===",
        "failed to parse multipart form data: a header has a parameter that cannot be read",
    ),
    "garbage": (b"garbage", CONTENT_TYPE, "failed to parse multipart form data: the boundary is nowhere in the body"),
    "no closing boundary": (
        form(MODEL, FILE)[:-10],
        CONTENT_TYPE,
        "failed to parse multipart form data: unexpected end: the closing boundary is missing",
    ),
    "model that is no text": (
        form(MODEL, FILE).replace(b"whisper-1", b"\xff"),
        CONTENT_TYPE,
        "failed to read model field: it is not UTF-8",
    ),
    "model that is too long": (
        form(("model", "x" * 70_000), FILE),
        CONTENT_TYPE,
        "failed to read model field: it is longer than 65536 bytes",
    ),
    "model with a line end": (form(("model", "a\r\n"), FILE), CONTENT_TYPE, "model holds a control character"),
}


@every_form_endpoint
@pytest.mark.parametrize(("body", "content_type", "message"), REFUSED.values(), ids=REFUSED)
def test_a_broken_form_is_a_400_that_says_why(endpoint, body, content_type, message):
    with pytest.raises(MalformedRequest) as caught:
        parse(endpoint, body, content_type)

    assert str(caught.value) == f"malformed request: {message}"


@pytest.mark.parametrize("content_type", ["application/json", "", "text/plain; boundary=x"])
def test_what_is_no_form_is_a_400_that_names_the_path(content_type):
    for name, endpoint in FORM_ENDPOINTS.items():
        with pytest.raises(MalformedRequest) as caught:
            parse(endpoint, b'{"model":"m"}', content_type)
        assert str(caught.value) == (
            f"malformed request: expected multipart/form-data content type for /v1/audio/{name}"
        )


@given(
    body=st.one_of(
        st.binary(max_size=60),
        st.lists(st.tuples(st.sampled_from(["model", "file"]), st.text())).map(lambda fields: form(*fields)),
    ),
    content_type=st.sampled_from([CONTENT_TYPE, "multipart/form-data", "application/json"]),
)
def test_any_bytes_are_read_or_refused(body, content_type):
    for endpoint in (*FORM_ENDPOINTS.values(), Speech()):
        with suppress(MalformedRequest):
            parse(endpoint, body, content_type)

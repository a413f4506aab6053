"""Sound and images through a whole exchange: what Envoy is told, and what ends in costs."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.forms import CONTENT_TYPE, form, read_form
from tests.support.playbook import BACKEND, SECOND_BACKEND, Gateway, cost, openai_backend

SPEECH, TRANSCRIPTIONS, EDITS = "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/edits"
COSTS = [cost("in", "InputToken"), cost("out", "OutputToken"), cost("total")]
CONFIG = {
    "version": "dev",
    "backends": [openai_backend(), {**openai_backend(SECOND_BACKEND), "modelNameOverride": "other"}],
    "llmRequestCosts": COSTS,
}
USAGE = {"input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
FORM = form(("file", b"RIFF\r\n\xff"), ("model", "m"))


@pytest.fixture
def exchange():
    exchange = Gateway(CONFIG).exchange()
    yield exchange
    exchange.close()


def start(exchange, path, body, content_type=CONTENT_TYPE):
    reply = exchange.request(body, {":path": path, "content-type": content_type})
    assert reply.set["x-ai-eg-model"] == "m"
    assert exchange.attempt(BACKEND).kind == "request_headers"


def costs(metadata):
    return {key: metadata[key] for key in ("in", "out", "total") if key in metadata}


def test_envoy_is_told_to_stream_sound(exchange):
    start(exchange, SPEECH, b'{"model":"m","input":"a","voice":"alloy"}', "application/json")

    headers = exchange.response({"content-type": "audio/mpeg"})

    assert headers.message.mode_override.response_body_mode == 1
    for piece in (b"ID3", b"\n\ndata: {}\n\n", b"\xff\xfb"):
        assert exchange.piece(piece).is_neutral
    end = exchange.piece(b"", eos=True)
    assert end.body is None
    assert costs(end.metadata) == {"in": 0, "out": 0, "total": 0}


def test_an_error_instead_of_sound_is_translated_as_a_whole(exchange):
    start(exchange, SPEECH, b'{"model":"m"}', "application/json")

    headers = exchange.response({"content-type": "text/plain"}, status="503")

    assert not headers.message.HasField("mode_override")
    assert json.loads(exchange.piece(b"busy", eos=True).body)["error"]["message"] == "busy"


def test_events_of_speech_are_charged(exchange):
    start(exchange, SPEECH, b'{"model":"m","stream_format":"sse"}', "application/json")
    exchange.response({"content-type": "text/event-stream"})
    done = f"data: {json.dumps({'type': 'speech.audio.done', 'usage': USAGE})}\n\n".encode()

    _, metadata = exchange.pieces([done[:20], done[20:], b""])

    assert costs(metadata) == {"in": 14, "out": 45, "total": 59}


def test_a_transcript_is_charged(exchange):
    start(exchange, TRANSCRIPTIONS, FORM)
    headers = exchange.response({"content-type": "application/json", "content-encoding": "gzip"})
    assert headers.is_neutral

    end = exchange.piece(gzip.compress(json.dumps({"text": "a", "usage": USAGE}).encode()), eos=True)

    assert end.body is None
    assert costs(end.metadata) == {"in": 14, "out": 45, "total": 59}
    assert end.metadata["response_model"] == "m"


def test_an_edit_in_a_form_is_streamed_and_charged(exchange):
    start(exchange, EDITS, form(("model", "m"), ("image", b"PNG"), ("stream", "true")))
    assert exchange.response({"content-type": "text/event-stream"}).message.mode_override.response_body_mode == 1
    end = f"data: {json.dumps({'type': 'image_edit.completed', 'usage': USAGE})}\n\n".encode()

    assert costs(exchange.piece(end).metadata) == {"in": 14, "out": 45, "total": 59}


def test_every_attempt_starts_from_the_form_that_the_client_sent(exchange):
    start(exchange, TRANSCRIPTIONS, FORM)

    second = exchange.attempt(SECOND_BACKEND)
    third = exchange.attempt(BACKEND)

    assert second.set["content-length"] == str(len(second.body))
    assert "content-type" not in second.set
    assert read_form(second.body, CONTENT_TYPE) == [("file", b"RIFF\r\n\xff"), ("model", b"other")]
    assert third.body == FORM


REFUSED = {
    "no form": (TRANSCRIPTIONS, "application/json", b'{"model":"m"}', "expected multipart/form-data content type"),
    "broken form": (TRANSCRIPTIONS, CONTENT_TYPE, FORM[:-3], "the closing boundary is missing"),
    "temperature": (TRANSCRIPTIONS, CONTENT_TYPE, form(("temperature", '"')), 'invalid temperature value """'),
    "no JSON": (SPEECH, "application/json", b"{", "failed to parse JSON for /v1/audio/speech"),
    "no model": (EDITS, CONTENT_TYPE, form(("image", b"PNG")), "missing required field 'model'"),
}


@pytest.mark.parametrize(("path", "content_type", "body", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_request_is_a_400_in_the_shape_of_the_api(exchange, path, content_type, body, message):
    reply = exchange.request(body, {":path": path, "content-type": content_type})

    assert reply.status == 400
    assert (reply.json["error"]["type"], reply.json["error"]["code"]) == ("BadRequest", "400")
    assert message in reply.json["error"]["message"]

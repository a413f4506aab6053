"""Sound through Envoy with the official SDK: spoken, transcribed and translated, and charged where tokens are known."""

from __future__ import annotations

import base64
import json
import random

import httpx
import openai
import pytest

from tests.dataplane.harness.client import OpenAnswer, new_id
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Gate, Reply, body_reply, json_reply, stream_reply
from tests.support.forms import BOUNDARY, CONTENT_TYPE, form
from tests.unit.translate.audio.oracle import SPEECH, TRANSCRIPTION, TRANSLATION

AZURE = {"name": "AzureOpenAI", "version": "2025-04-01-preview"}
# Longer than any window, and full of what looks like the lines of a form.
WAV = b"RIFF\r\n--" + random.Random(7).randbytes(5 * 1024 * 1024) + b"\r\n--\r\n"
USAGE = {"input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
TOKENS = {"type": "tokens", **USAGE, "input_token_details": {"audio_tokens": 14, "text_tokens": 0}}
COSTS = {"in": 14, "out": 45, "total": 59}
NO_COSTS = dict.fromkeys(COSTS, 0)
# The SDK would rather have clients transcribe and translate themselves.
translates = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    where = route(rule(upstream, models=["sound"]))
    azure = route(rule(upstream, models=["azure-sound"]), name="azure")
    return start_stack(
        routes=[where, azure],
        config=filter_config(
            backend(where.backend_name(0, 0), model="gpt-4o-transcribe", key="sk"),
            backend(
                azure.backend_name(0, 0), model="my-sound", schema=AZURE, auth={"azureAPIKey": {"key": "azure-key"}}
            ),
            globalLLMRequestCosts=[cost("in", "InputToken"), cost("out", "OutputToken"), cost("total")],
        ),
        cost_keys=list(COSTS),
    )


@pytest.fixture(scope="module")
def sdk(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-client", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def charged(stack):
    """A header with an id, and what the request that carries it has cost."""
    request_id = new_id("audio")
    return {"x-request-id": request_id}, lambda: stack.access_log.wait_for(request_id)["costs"]


def event(document):
    return f"event: {document['type']}\ndata: {json.dumps(document)}\n\n".encode()


# --- speech ---


def sound_reply(*pieces, framing="chunked"):
    return Reply(headers=(("content-type", "audio/mpeg"),), pieces=pieces, framing=framing)


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_speech_is_the_sound_of_the_upstream(sdk, upstream, charged, framing):
    headers, costs = charged
    upstream.reply(sound_reply(*(WAV[at : at + 100_000] for at in range(0, len(WAV), 100_000)), framing=framing))

    answer = sdk.audio.speech.create(
        model="sound", input="Hello? 👩‍🚀", voice={"id": "voice_1"}, response_format="mp3", extra_headers=headers
    )

    assert answer.read() == WAV
    assert answer.response.headers["content-type"] == "audio/mpeg"
    assert upstream.last.target == "/v1/audio/speech"
    SPEECH.validate_python(upstream.last.json())
    assert upstream.last.json() == {
        "model": "gpt-4o-transcribe",
        "input": "Hello? 👩‍🚀",
        "voice": {"id": "voice_1"},
        "response_format": "mp3",
    }
    assert costs() == NO_COSTS


def test_speech_is_heard_while_it_is_being_spoken(sdk, upstream):
    gate = Gate()
    upstream.reply(sound_reply(b"ID3 first", gate, b"\n\ndata: last"))

    with sdk.audio.speech.with_streaming_response.create(model="sound", input="Hello", voice="alloy") as answer:
        pieces = answer.iter_bytes()
        first = next(pieces)
        # The rest is not even sent yet.
        assert first == b"ID3 first"
        gate.open()
        assert first + b"".join(pieces) == b"ID3 first\n\ndata: last"


@pytest.mark.parametrize("piece", [None, 11])
def test_speech_in_events_is_charged(stack, upstream, charged, piece):
    headers, costs = charged
    deltas = [{"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()} for part in (b"ID3", b"sound")]
    stream = [event(each) for each in (*deltas, {"type": "speech.audio.done", "usage": USAGE})]
    upstream.reply(stream_reply(*stream, piece=piece))
    request = {"model": "sound", "input": "Hello", "voice": "alloy", "stream_format": "sse"}

    with OpenAnswer(stack, request, path="/v1/audio/speech", **headers) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.rest() == b"".join(stream)

    assert upstream.last.json() == {**request, "model": "gpt-4o-transcribe"}
    assert costs() == COSTS


def test_speech_has_errors_of_the_sdk(sdk, upstream):
    upstream.reply(body_reply(b"busy", status=503, content_type="text/plain"))
    with pytest.raises(openai.InternalServerError) as caught:
        sdk.audio.speech.create(model="sound", input="Hello", voice="alloy")
    assert caught.value.body == {"type": "OpenAIBackendError", "code": "503", "message": "busy"}

    with pytest.raises(openai.BadRequestError, match="failed to parse JSON for /v1/audio/speech"):
        sdk.audio.speech.create(model=7, input="Hello", voice="alloy")
    assert len(upstream.requests) == 1


# --- transcriptions and translations ---


def test_a_file_is_transcribed(sdk, upstream, charged):
    headers, costs = charged
    upstream.reply(json_reply({"text": "Hello.", "usage": TOKENS}))

    answer = sdk.audio.transcriptions.create(
        model="sound",
        file=("größe.wav", WAV, "audio/wav"),
        prompt="Ärzte",
        temperature=0.25,
        timestamp_granularities=["word", "segment"],
        extra_headers=headers,
    )

    assert (answer.text, answer.usage.total_tokens) == ("Hello.", 59)
    received = upstream.last
    assert received.target == "/v1/audio/transcriptions"
    assert received.header("content-length") == str(len(received.body))
    assert TRANSCRIPTION.accept(received.body, received.header("content-type")) == {
        "model": "gpt-4o-transcribe",
        "file": WAV,
        "prompt": "Ärzte",
        "temperature": "0.25",
        "timestamp_granularities": ["word", "segment"],
    }
    assert costs() == COSTS


def test_nothing_of_a_form_changes_but_the_model(stack, upstream):
    upstream.reply(json_reply({"text": "Hello."}))
    body = b"preamble\r\n" + form(("file", WAV), ("model", "other"), ("x", ""), ("model", "sound")) + b"epilogue"

    answer = httpx.post(
        f"{stack.base_url}/v1/audio/transcriptions",
        content=body,
        headers={"content-type": CONTENT_TYPE},
        trust_env=False,
    )

    assert answer.json() == {"text": "Hello."}
    assert upstream.last.header("content-type") == CONTENT_TYPE
    expected = body.replace(b"\r\n\r\nother\r\n", b"\r\n\r\ngpt-4o-transcribe\r\n")
    assert upstream.last.body == expected.replace(b"\r\n\r\nsound\r\n", b"\r\n\r\ngpt-4o-transcribe\r\n")


@pytest.mark.parametrize("piece", [None, 13])
def test_a_file_is_transcribed_as_a_stream(sdk, upstream, charged, piece):
    headers, costs = charged
    deltas = [{"type": "transcript.text.delta", "delta": part} for part in ("Hel", "lo 👩‍🚀")]
    done = {"type": "transcript.text.done", "text": "Hello 👩‍🚀", "usage": TOKENS}
    upstream.reply(stream_reply(*(event(each) for each in (*deltas, done)), b"data: [DONE]\n\n", piece=piece))

    events = list(
        sdk.audio.transcriptions.create(model="sound", file=("a.wav", WAV), stream=True, extra_headers=headers)
    )

    assert "".join(each.delta for each in events[:-1]) == events[-1].text == "Hello 👩‍🚀"
    arguments = TRANSCRIPTION.accept(upstream.last.body, upstream.last.header("content-type"))
    assert (arguments["model"], arguments["file"], arguments["stream"]) == ("gpt-4o-transcribe", WAV, "true")
    assert costs() == COSTS


def test_a_transcript_is_read_while_it_is_being_written(sdk, upstream):
    gate = Gate()
    first = event({"type": "transcript.text.delta", "delta": "Hel"})
    upstream.reply(stream_reply(first, gate, event({"type": "transcript.text.done", "text": "Hello"})))

    events = iter(sdk.audio.transcriptions.create(model="sound", file=("a.wav", b"RIFF"), stream=True))

    assert next(events).delta == "Hel"
    gate.open()
    assert next(events).text == "Hello"


TEXTS = {
    "text": ("text/plain; charset=utf-8", "Grüße.\n"),
    "srt": ("text/plain; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,000\nGrüße.\n\n"),
    "vtt": ("text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nGrüße.\n\n"),
}


@pytest.mark.parametrize("response_format", TEXTS)
def test_other_formats_pass_as_they_are(sdk, upstream, charged, response_format):
    headers, costs = charged
    content_type, text = TEXTS[response_format]
    upstream.reply(body_reply(text.encode(), content_type=content_type))

    answer = sdk.audio.transcriptions.create(
        model="sound", file=("a.wav", b"RIFF"), response_format=response_format, extra_headers=headers
    )

    assert answer == text
    assert costs() == NO_COSTS


def test_a_duration_is_no_tokens(sdk, upstream, charged):
    headers, costs = charged
    document = {"task": "transcribe", "language": "english", "duration": 8.5, "text": "Hello."}
    upstream.reply(json_reply({**document, "usage": {"type": "duration", "seconds": 9}}))

    answer = sdk.audio.transcriptions.create(
        model="sound", file=("a.wav", b"RIFF"), response_format="verbose_json", extra_headers=headers
    )

    assert (answer.duration, answer.usage.seconds) == (8.5, 9)
    assert costs() == NO_COSTS


@translates
def test_a_file_is_translated(sdk, upstream, charged):
    headers, costs = charged
    upstream.reply(json_reply({"text": "Hello.", "usage": TOKENS}, encoding="gzip"))

    answer = sdk.audio.translations.create(model="sound", file=("a.wav", WAV), prompt="hi", extra_headers=headers)

    assert answer.text == "Hello."
    assert upstream.last.target == "/v1/audio/translations"
    assert TRANSLATION.accept(upstream.last.body, upstream.last.header("content-type")) == {
        "model": "gpt-4o-transcribe",
        "file": WAV,
        "prompt": "hi",
    }
    assert costs() == COSTS


@translates
def test_azure_has_sound_below_a_deployment(sdk, upstream):
    upstream.always(lambda received: body_reply(b"ID3") if "speech" in received.target else json_reply({"text": "a"}))
    file = ("a.wav", b"RIFF")

    assert sdk.audio.speech.create(model="azure-sound", input="Hello", voice="alloy").read() == b"ID3"
    assert sdk.audio.transcriptions.create(model="azure-sound", file=file).text == "a"
    assert sdk.audio.translations.create(model="azure-sound", file=file).text == "a"

    assert [received.target for received in upstream.requests] == [
        f"/openai/deployments/my-sound/audio/{name}?api-version=2025-04-01-preview"
        for name in ("speech", "transcriptions", "translations")
    ]
    assert {received.header("api-key") for received in upstream.requests} == {"azure-key"}


REFUSED = {
    "no closing boundary": (form(("model", "sound"), ("file", b"RIFF"))[:-4], "the closing boundary is missing"),
    "another boundary": (b"--x\r\n\r\n\r\n--x--", "the boundary is nowhere in the body"),
    "bare line end": (
        form(("model", "sound"), ("file", b"RIFF\n--" + BOUNDARY.encode() + b"\r\n\r\n")),
        "a boundary line follows a line with another line end",
    ),
    "no file": (form(("model", "sound")), "missing required field 'file'"),
    "no model": (form(("file", b"RIFF")), "missing required field 'model'"),
    "temperature": (form(("temperature", '"hot"\n')), 'invalid temperature value ""hot"\n": it is not a number'),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_a_broken_form_is_a_400_and_never_reaches_the_upstream(stack, upstream, body, message):
    for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
        answer = httpx.post(
            stack.base_url + path, content=body, headers={"content-type": CONTENT_TYPE}, trust_env=False
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "BadRequest"
        assert message in answer.json()["error"]["message"]
    assert upstream.requests == []


def test_a_transcription_in_json_is_a_400(stack, upstream):
    answer = httpx.post(f"{stack.base_url}/v1/audio/transcriptions", json={"model": "sound"}, trust_env=False)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "malformed request: expected multipart/form-data content type for /v1/audio/transcriptions"
    )
    assert upstream.requests == []

"""Sound on backends of OpenAI's API: paths, forms, usage, and sound that nobody holds (contract 12 and 13)."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.speech import Speech
from extproc.endpoints.transcriptions import Transcriptions
from extproc.endpoints.translations import Translations
from extproc.errors import UnsupportedBackend
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.forms import CONTENT_TYPE, form, read_form
from tests.support.golden import make_translator

SOUND = b"RIFF\xff\xfb\r\n\r\n--a-boundary-of\n\ndata: x"
FORM = form(("file", SOUND), ("model", "m"), ("response_format", "json"), ("timestamp_granularities[]", "word"))
STREAM_FORM = form(("file", SOUND), ("model", "m"), ("stream", "true"))
SPEECH = b'{"model":"m","input":"hello","voice":{"id":"v"}}'

ENDPOINTS = {
    "speech": (Speech(), SPEECH, "application/json"),
    "transcriptions": (Transcriptions(), FORM, CONTENT_TYPE),
    "translations": (Translations(), FORM, CONTENT_TYPE),
}
every_endpoint = pytest.mark.parametrize("name", ENDPOINTS)


def asked(name, *, schema="OpenAI", body=None, query="", force=False, **backend):
    """A translator that has sent a request, and what it has sent."""
    endpoint, usual, content_type = ENDPOINTS[name]
    parsed = endpoint.parse(usual if body is None else body, content_type=content_type, metering=True)
    translator = make_translator(schema, backend, operation=endpoint.operation)
    return translator, translator.request(parsed, query=query, force=force)


PATHS = {
    "v1": ("OpenAI", {"prefix": "v1"}, "/v1/audio/{}"),
    "no prefix": ("OpenAI", {}, "/audio/{}"),
    "azure": ("AzureOpenAI", {"version": "v"}, "/openai/deployments/m/audio/{}?api-version=v"),
    "azure, override": ("AzureOpenAI", {"model_override": "a b"}, "/openai/deployments/a%20b/audio/{}"),
}


@every_endpoint
@pytest.mark.parametrize(("schema", "backend", "path"), PATHS.values(), ids=PATHS)
def test_paths(name, schema, backend, path):
    _, sent = asked(name, schema=schema, **backend)

    assert (sent.path, sent.headers) == (path.format(name), ())
    assert (sent.body is None) == ("model_override" not in backend)


@every_endpoint
@pytest.mark.parametrize("schema", ["AWSBedrock", "GCPVertexAI", "Anthropic", "AWSAnthropic", "GCPAnthropic", "Cohere"])
def test_other_backends_have_no_sound(name, schema):
    with pytest.raises(UnsupportedBackend):
        make_translator(schema, {}, operation=ENDPOINTS[name][0].operation)


@every_endpoint
def test_a_retry_sends_the_body_as_it_came(name):
    _, sent = asked(name, force=True)

    assert (sent.body, sent.headers) == (ENDPOINTS[name][1], ())


def test_speech_gets_the_model_of_the_backend():
    _, sent = asked("speech", model_override="b")

    assert sent.body == SPEECH.replace(b'"m"', b'"b"')


@pytest.mark.parametrize("name", ["transcriptions", "translations"])
def test_a_form_gets_the_model_of_the_backend(name):
    _, sent = asked(name, model_override="whisper-1")
    _, again = asked(name, model_override="whisper-1", force=True)

    assert sent.body == FORM.replace(b"\r\n\r\nm\r\n", b"\r\n\r\nwhisper-1\r\n")
    assert (sent.headers, again.body) == ((), sent.body)
    assert read_form(sent.body, CONTENT_TYPE) == [
        ("file", SOUND),
        ("model", b"whisper-1"),
        ("response_format", b"json"),
        ("timestamp_granularities[]", b"word"),
    ]


# --- transcripts ---

TOKENS = {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
COUNTED = TokenUsage(input=14, output=45, total=59)
DOCUMENTS = {
    "json": ("application/json", json.dumps({"text": "a", "usage": TOKENS}).encode(), COUNTED),
    "json by duration": ("application/json", b'{"text":"a","usage":{"type":"duration","seconds":9}}', NO_USAGE),
    "json without usage": ("application/json", b'{"text":"a"}', NO_USAGE),
    "verbose_json": ("application/json", b'{"task":"transcribe","duration":8.5,"text":"a","words":[]}', NO_USAGE),
    "json of another name": ("text/plain", json.dumps({"text": "a", "usage": TOKENS}).encode(), COUNTED),
    "text": ("text/plain; charset=utf-8", "grüße\n".encode(), NO_USAGE),
    "srt": ("text/plain", b"1\n00:00:00,000 --> 00:00:01,000\na\n\n", NO_USAGE),
    "vtt": ("text/vtt", b"WEBVTT\n\n00:00.000 --> 00:01.000\na\n\n", NO_USAGE),
    "null": ("application/json", b"null", NO_USAGE),
    "nothing": ("text/plain", b"", NO_USAGE),
}


@pytest.mark.parametrize("name", ["transcriptions", "translations"])
@pytest.mark.parametrize(("content_type", "body", "usage"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_transcript_passes_as_it_is_and_is_metered(name, content_type, body, usage):
    translator, _ = asked(name, model_override="b")
    assert translator.response_headers({"content-type": content_type}) == []

    answer = translator.response_body(body, end_of_stream=True)

    assert (answer.body, answer.headers, answer.usage, answer.model) == (None, (), usage, "b")


def event(document):
    return f"data: {json.dumps(document)}\n\n".encode()


DELTA = event({"type": "transcript.text.delta", "delta": "grüße"})
DONE = event({"type": "transcript.text.done", "text": "grüße", "usage": TOKENS})
STREAMS = {
    "usage at the end": ("text/event-stream", DELTA + DONE, COUNTED),
    "in CRLF": ("text/event-stream", (DELTA + DONE).replace(b"\n", b"\r\n"), COUNTED),
    "with a marker": ("text/event-stream", DELTA + DONE + b"data: [DONE]\n\n", COUNTED),
    "unknown events": ("text/event-stream", event({"type": "x.y", "usage": None}) + b": c\n\n" + DONE, COUNTED),
    "no usage": ("text/event-stream", DELTA + event({"type": "transcript.text.done", "text": "a"}), NO_USAGE),
    "a document instead": ("application/json", json.dumps({"text": "a", "usage": TOKENS}).encode(), COUNTED),
    "text instead": ("text/plain", b"hello\n\nworld", NO_USAGE),
}


@pytest.mark.parametrize(("content_type", "body", "usage"), STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_streamed_transcript_passes_as_it_is_and_is_metered(content_type, body, usage, size):
    translator, _ = asked("transcriptions", body=STREAM_FORM)
    assert translator.response_headers({"content-type": content_type}) == []
    known = NO_USAGE
    for at in range(0, len(body), size):
        result = translator.response_body(body[at : at + size], end_of_stream=at + size >= len(body))
        assert result.body is None
        known = known.merge(result.usage)
    assert known == usage


# --- speech ---

SPEECH_EVENTS = b"".join(
    [
        event({"type": "speech.audio.delta", "audio": "SUQz"}),
        event({"type": "speech.audio.done", "usage": {"input_tokens": 14, "output_tokens": 45, "total_tokens": 59}}),
    ]
)
EVENT_TYPES = ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream", "text/plain"]


@pytest.mark.parametrize("content_type", EVENT_TYPES)
def test_events_of_speech_are_metered(content_type):
    translator, _ = asked("speech")
    translator.response_headers({"content-type": content_type})

    results = [translator.response_body(SPEECH_EVENTS[at : at + 9], end_of_stream=False) for at in range(0, 400, 9)]

    known = NO_USAGE
    for result in results:
        assert result.body is None
        known = known.merge(result.usage)
    assert known == COUNTED
    assert any(result.complete for result in results)


SOUND_TYPES = ["audio/mpeg", "audio/wav", "audio/pcm", "application/octet-stream", "", "application/json"]
BEGINNINGS = {"sound": b"ID3", "brace": b"{", "bracket": b"[", "blank": b" \n", "event": SPEECH_EVENTS}


@pytest.mark.parametrize("content_type", SOUND_TYPES)
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_sound_passes_without_being_held_or_searched(content_type, beginning):
    translator, _ = asked("speech")
    translator.response_headers({"content-type": content_type} if content_type else {})
    piece = beginning + bytes(64 * 1024)

    tracemalloc.start()
    try:
        results = {translator.response_body(piece[:-1] + bytes([at]), end_of_stream=False).body for at in range(200)}
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    last = translator.response_body(b"", end_of_stream=True)

    assert results == {None}
    # 13 MB have passed.
    assert held < 1_000_000
    assert (last.body, last.usage, last.model) == (None, NO_USAGE, "m")


@given(pieces=st.lists(st.binary(max_size=30), min_size=1), content_type=st.sampled_from([*SOUND_TYPES, *EVENT_TYPES]))
def test_any_answer_to_speech_passes(pieces, content_type):
    translator, _ = asked("speech")
    translator.response_headers({"content-type": content_type})

    for piece in pieces:
        result = translator.response_body(piece, end_of_stream=False)
        assert (result.body, result.headers) == (None, ())


@every_endpoint
def test_errors_are_wrapped_when_they_are_no_json(name):
    translator, _ = asked(name)

    wrapped = translator.response_error("502", {}, b'bad "gateway"')
    kept = translator.response_error("400", {"content-type": "application/json"}, b"{}")

    assert json.loads(wrapped.body)["error"] == {
        "type": "OpenAIBackendError",
        "code": "502",
        "message": 'bad "gateway"',
    }
    assert (wrapped.headers, kept.body) == ((("content-type", "application/json"),), None)


def test_operations_have_their_names():
    assert [endpoint.operation for endpoint, _, _ in ENDPOINTS.values()] == [
        Operation.SPEECH,
        Operation.TRANSCRIPTION,
        Operation.TRANSLATION,
    ]

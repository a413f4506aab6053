"""Field reports on images, speech and transcripts, told of both kinds of backend through the exchange."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.field_reports import CODINGS, JSON, SSE, cuts
from tests.support.forms import BOUNDARY, CONTENT_TYPE, form, read_form
from tests.support.playbook import SECOND_BACKEND, openai_backend
from tests.support.translated import backend, config

USAGE = {
    "type": "tokens",
    "input_tokens": 14,
    "input_token_details": {"text_tokens": 4, "audio_tokens": 10},
    "output_tokens": 45,
    "total_tokens": 59,
}
SPENT = {"in": 14, "out": 45, "total": 59}
NOTHING = {"in": 0, "out": 0, "total": 0}
SCHEMAS = ["OpenAI", "AzureOpenAI"]


@dataclass(frozen=True)
class API:
    """One endpoint: the end of its path, its request, and the events of its stream."""

    path: str
    request: bytes
    content_type: str
    ends: str
    delta: dict[str, Any]

    def with_model(self, model: str) -> bytes:
        return self.request.replace(b'"m"', json.dumps(model).encode()).replace(
            b"\r\n\r\nm\r\n", f"\r\n\r\n{model}\r\n".encode()
        )

    def events(self, *, newline: bytes = b"\n", prefix: bytes = b"data: ", **members: Any) -> list[bytes]:
        told = [self.delta, {"type": self.ends, "usage": USAGE, **members}]
        return [prefix.replace(b"\n", newline) + json.dumps(each).encode() + newline * 2 for each in told]


def json_api(path: str, ends: str, delta: dict[str, Any], **members: Any) -> API:
    return API(path, json.dumps({"model": "m", **members}).encode(), "application/json", ends, delta)


def form_api(path: str, ends: str, delta: dict[str, Any], *fields: tuple[str, str | bytes]) -> API:
    return API(path, form(("model", "m"), *fields), CONTENT_TYPE, ends, delta)


PARTIAL = {"type": "partial_image", "b64_json": "AA"}
SOUND = {"type": "speech.audio.delta", "audio": "AA"}
WORDS = {"type": "transcript.text.delta", "delta": "a"}
APIS = {
    "images": json_api("images/generations", "image_generation.completed", PARTIAL, prompt="p", stream=True),
    "edits": form_api("images/edits", "image_edit.completed", PARTIAL, ("image", b"\x89PNG\r\n"), ("stream", "true")),
    "edits of references": json_api("images/edits", "image_edit.completed", PARTIAL, images=[], stream=True),
    "speech": json_api("audio/speech", "speech.audio.done", SOUND, input="a", voice={"id": "v"}, stream_format="sse"),
    "transcripts": form_api(
        "audio/transcriptions", "transcript.text.done", WORDS, ("file", b"RIFF\xff\r\n-"), ("stream", "TRUE")
    ),
    "translations": form_api(
        "audio/translations", "transcript.text.done", WORDS, ("file", b"RIFF"), ("stream", "true")
    ),
}
STREAMED = [name for name in APIS if name != "translations"]


def configured(schema, override="", **second):
    first = openai_backend() if schema == "OpenAI" else backend(schema)
    others = [{**openai_backend(SECOND_BACKEND), **second}] if second else []
    return config({**first, "modelNameOverride": override}, *others)


@pytest.fixture
def ask(open_gateway):
    """``ask(name, schema)``: an exchange with its attempt, and the reply to that."""
    gateways = {}

    def ask_(name, schema="OpenAI", *, override="", query="", body=None, content_type=None):
        if (schema, override) not in gateways:
            gateways[schema, override] = open_gateway(configured(schema, override))
        api, exchange = APIS[name], gateways[schema, override].exchange()
        headers = {":path": f"/v1/{api.path}{query}", "content-type": content_type or api.content_type}
        exchange.request(api.request if body is None else body, headers)
        return exchange, exchange.attempt()

    return ask_


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", STREAMED)
class TestStreams:
    def test_any_cut_is_billed(self, ask, name, schema):
        """BR-01, BR-07: every byte passes, and the usage is known with the piece that ends it."""
        events = APIS[name].events()
        for pieces in [[*events, b""], *[*cuts(b"".join(events))][:: 1 + len(b"".join(events)) // 20]]:
            exchange, _ = ask(name, schema)
            begun = exchange.response(SSE)
            assert begun.message.mode_override.response_body_mode == 1
            played = exchange.play(pieces)
            assert (played.tokens, played.output) == (SPENT, played.sent)

    @pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
    def test_every_style_of_events_is_read(self, ask, name, schema, newline):
        """BR-02, BR-05: mislabelled as well, though sound is known by its type alone."""
        types = ["text/event-stream", "Text/Event-Stream; charset=utf-8", "text/plain"]
        for prefix in (b"data:", b": c\ndata: ", b"event: x\nid: 1\ndata: "):
            for content_type in types:
                exchange, _ = ask(name, schema)
                exchange.response({"content-type": content_type})
                played = exchange.play(APIS[name].events(newline=newline, prefix=prefix))
                assert (played.tokens, played.output) == (SPENT, played.sent)

    @pytest.mark.parametrize("coding", CODINGS)
    def test_every_coding(self, ask, name, schema, coding):
        """BR-14, BR-16, BR-18: what passes keeps its coding."""
        data = CODINGS[coding](b"".join(APIS[name].events()))
        exchange, _ = ask(name, schema)
        begun = exchange.response({**SSE, "content-encoding": coding})
        assert "content-encoding" not in begun.remove
        played = exchange.play([data[:9], b"", data[9:]])
        assert (played.tokens, played.output) == (SPENT, data)

    def test_a_report_is_not_added_up(self, ask, name, schema):
        """BR-12, BR-119: said twice, said by an event before the last, then said to be nothing."""
        events = APIS[name].events()
        early = APIS[name].events(type="later", usage={**USAGE, "output_tokens": 1, "total_tokens": 15})[1]
        null = APIS[name].events(usage=None)[1]
        for order in ([early, events[1]], [events[1], events[1]], [events[1], null], [early, events[1], null]):
            exchange, _ = ask(name, schema)
            exchange.response(SSE)
            assert exchange.play([events[0], *order]).tokens == SPENT

    def test_an_error_in_a_stream_is_a_failure(self, ask, name, schema):
        """BR-13, BR-53, BR-80: it passes, the usage is kept, and logs and metrics know of it."""
        for told, failure in (
            (b'data: {"error":{"code":429,"type":"overloaded","message":"m"}}\n\n', "overloaded"),
            (b'event: error\ndata: {"type":"error","code":"rate_limit","message":"m"}\n\n', "rate_limit"),
            (b'data:{"error":"m","usage":null}\n\ndata: [DONE]\n\n', "server_error"),
        ):
            exchange, _ = ask(name, schema)
            exchange.response(SSE)
            played = exchange.play([*APIS[name].events(), told])
            assert (played.tokens, played.output) == (SPENT, played.sent)
            assert played.metadata["response_error"] == failure

    @pytest.mark.parametrize("coding", ["", "gzip"])
    def test_an_error_instead_of_a_stream(self, ask, name, schema, coding):
        """BR-17, BR-20, BR-65: status, body and headers stay where SDKs can read them; else they become JSON."""
        for content_type, body in (
            ("application/json", b'{"error":{"message":"slow","type":"BadRequestError","code":400}}'),
            ("text/html", b'<h1>"slow"\\\xff</h1>'),
            ("", b"slow"),
            ("text/event-stream", b'data: {"error":{"message":"slow"}}'),
        ):
            exchange, _ = ask(name, schema)
            headers = {"retry-after": "3", **({"content-type": content_type} if content_type else {})}
            headers |= {"content-encoding": coding} if coding else {}
            begun = exchange.response(headers, status="429")
            assert begun.is_neutral
            reply = exchange.piece(gzip.compress(body) if coding else body, eos=True)
            if content_type == "application/json":
                assert reply.is_neutral
                continue
            told = json.loads(reply.body)["error"]
            assert (told["type"], told["code"]) == ("OpenAIBackendError", "429")
            assert "slow" in told["message"]
            assert reply.set["content-length"] == str(len(reply.body))
            assert reply.set["content-type"] == "application/json"
            assert ("content-encoding" in reply.remove) == bool(coding)


REPORTS: dict[str, tuple[Any, dict[str, int]]] = {
    "of its own": (USAGE, SPENT),
    "of chat": ({"prompt_tokens": 14, "completion_tokens": 45, "total_tokens": 59}, SPENT),
    "no type": ({"input_tokens": 14, "output_tokens": 45, "total_tokens": 59}, SPENT),
    "no total": ({"input_tokens": 14, "output_tokens": 45}, SPENT),
    "whole floats": ({"input_tokens": 14.0, "output_tokens": 45.0, "total_tokens": 59.0}, SPENT),
    "a duration": ({"type": "duration", "seconds": 3, "input_tokens": 9}, NOTHING),
    "negative": ({"input_tokens": -1, "output_tokens": -2, "total_tokens": -3}, NOTHING),
    "text": ({"input_tokens": "14"}, NOTHING),
    "null": (None, NOTHING),
    "a list": ([USAGE], NOTHING),
}


@pytest.mark.parametrize("coding", ["", *CODINGS])
@pytest.mark.parametrize("name", [name for name in APIS if name != "speech"])
def test_a_document_is_billed(ask, name, coding):
    """BR-16, BR-34: whatever the coding, the type that it claims, and the way of counting; its bytes pass."""
    for usage, expected in REPORTS.values():
        data = json.dumps({"created": 1, "data": [], "text": "a", "usage": usage}).encode()
        data = CODINGS[coding](data) if coding else data
        exchange, _ = ask(name)
        exchange.response({**JSON, **({"content-encoding": coding} if coding else {})})
        reply = exchange.piece(data, eos=True)
        assert {key: reply.metadata[key] for key in SPENT} == expected
        assert reply.body is None
        assert reply.metadata["response_model"] == "m"


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"1\n00:00 --> 00:01\n\xff", b'{"usage":', b"WEBVTT\n\n"])
@pytest.mark.parametrize("name", APIS)
def test_a_success_of_another_form_passes(ask, name, body):
    """BR-15, BR-31: what cannot be read costs nothing, and is the client's."""
    for content_type in ("application/json", "text/plain", "text/vtt", "audio/mpeg", ""):
        exchange, _ = ask(name)
        exchange.response({"content-type": content_type} if content_type else {})
        reply = exchange.piece(body, eos=True)
        assert reply.body is None
        assert {key: reply.metadata[key] for key in SPENT} == NOTHING


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_sound_is_not_read(ask, coding):
    """BR-01, BR-110: not even where it looks like events, and it goes on piece by piece."""
    sound = b'ID3\n\ndata: {"type":"speech.audio.done","usage":{"input_tokens":9,"output_tokens":9}}\n\n'
    exchange, _ = ask("speech")
    exchange.response({"content-type": "audio/mpeg", **({"content-encoding": coding} if coding else {})})
    played = exchange.play([gzip.compress(sound) if coding else sound, b""])
    assert (played.output, played.tokens) == (played.sent, NOTHING)


# --- requests ---

NAMES = ["pub/real-1@2024", "/models/x/y", "..", 'a?b#c%2e é"\\', "my image 1"]


@pytest.mark.parametrize("override", NAMES)
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", APIS)
def test_the_override_is_where_the_backend_looks(ask, name, schema, override):
    """BR-23, BR-42, BR-103: in the body, or one segment of the path; the client's name is in neither."""
    api = APIS[name]
    exchange, reply = ask(name, schema, override=override, query="?x=1&api-version=y", body=api.with_model("virt"))
    target = exchange.carried[":path"]
    assert "virt" not in target
    assert b"virt" not in reply.body
    assert reply.set["content-length"] == str(len(reply.body))
    assert "content-type" not in reply.set
    if api.content_type == CONTENT_TYPE:
        before = read_form(api.request, CONTENT_TYPE)
        assert read_form(reply.body, CONTENT_TYPE) == [("model", override.encode()), *before[1:]]
    else:
        assert json.loads(reply.body) == {**json.loads(api.request), "model": override}
    if schema == "OpenAI":
        assert target == f"/v1/{api.path}?x=1&api-version=y"
        return
    path, _, query = target.partition("?")
    deployment = path.removeprefix("/openai/deployments/").removesuffix(f"/{api.path}")
    assert "/" not in deployment
    assert deployment not in {".", "..", ""}
    assert unquote(deployment) == override
    assert query == "api-version=2025-01-01-preview&x=1"


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", APIS)
def test_every_attempt_starts_from_the_clients_request(open_gateway, name, schema):
    """BR-40: byte by byte, whatever an attempt before has made of it."""
    api = APIS[name]
    gateway = open_gateway(configured(schema, "first", modelNameOverride="second"))
    exchange = gateway.exchange()
    exchange.request(api.request, {":path": f"/v1/{api.path}", "content-type": api.content_type})
    exchange.attempt()
    assert exchange.attempt(SECOND_BACKEND).body == api.with_model("second")
    assert exchange.attempt().body == api.with_model("first")


BAD: dict[str, tuple[str, bytes, str, str]] = {
    # API, body, content type, what the message says
    "a list": ("images", b"[]", "application/json", "/v1/images/generations"),
    "no JSON": ("images", b'{"model":', "application/json", "/v1/images/generations"),
    "nothing": ("speech", b"", "application/json", "/v1/audio/speech"),
    "no text": ("speech", b'{"model":"\xff"}', "application/json", "/v1/audio/speech"),
    "NaN": ("images", b'{"model":"m","n":NaN}', "application/json", "/v1/images/generations"),
    "nested deep": ("speech", b'{"a":' * 5000, "application/json", "/v1/audio/speech"),
    "a model that is a number": ("images", b'{"model":7}', "application/json", "model"),
    "a model that is no header": ("speech", b'{"model":"a\\nb"}', "application/json", "control character"),
    "a stream that is text": ("images", b'{"model":"m","stream":"true"}', "application/json", "stream"),
    "a form": ("images", form(("model", "m")), CONTENT_TYPE, "multipart body not supported"),
    "JSON for a form": ("transcripts", b'{"model":"m"}', "application/json", "expected multipart/form-data"),
    "no boundary": ("transcripts", form(("model", "m")), "multipart/form-data", "missing boundary"),
    "another boundary": ("edits", form(("model", "m")), "multipart/form-data; boundary=x", "nowhere in the body"),
    "cut short": ("transcripts", form(("model", "m"), ("file", b"x"))[:-8], CONTENT_TYPE, "multipart form data"),
    "no part": ("edits", f"--{BOUNDARY}--\r\n".encode(), CONTENT_TYPE, "multipart form data"),
    "no model": ("transcripts", form(("file", b"x")), CONTENT_TYPE, "missing required field 'model'"),
    "no file": ("translations", form(("model", "m")), CONTENT_TYPE, "missing required field 'file'"),
    "a model that is no text": ("edits", form(("model", b"\xff")), CONTENT_TYPE, "model"),
    "a temperature": (
        "transcripts",
        form(("model", "m"), ("file", b"x"), ("temperature", 'a"b')),
        CONTENT_TYPE,
        "temperature",
    ),
    "a temperature beyond all bounds": (
        "translations",
        form(("model", "m"), ("file", b"x"), ("temperature", "1e999")),
        CONTENT_TYPE,
        "temperature",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_the_clients_fault(open_gateway, case):
    """BR-31, BR-67: a 400 in the shape of the API, whatever quotes there are in its words."""
    name, body, content_type, words = BAD[case]
    headers = {":path": f"/v1/{APIS[name].path}", "content-type": content_type}
    reply = open_gateway(configured("OpenAI")).exchange().request(body, headers)
    assert (reply.status, reply.json["error"]["type"], reply.json["error"]["code"]) == (400, "BadRequest", "400")
    assert words in reply.json["error"]["message"]


@pytest.mark.parametrize("name", APIS)
def test_a_deployment_needs_a_name(open_gateway, name):
    """BR-103: there is no empty segment."""
    api = APIS[name]
    exchange = open_gateway(configured("AzureOpenAI")).exchange()
    exchange.request(api.with_model(""), {":path": f"/v1/{api.path}", "content-type": api.content_type})
    reply = exchange.attempt()
    assert reply.status == 422
    assert "model is required" in reply.json["error"]["message"]


UNKNOWN = {
    "images": b'{"model":"m","prompt":7,"new":{"model":"inner"},"n":1e999,"size":null}',
    "speech": b'{"model":"m","voice":[],"input":{"text":"a"},"speed":"fast"}',
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_members_that_need_not_be_read_are_the_backends_affair(ask, name):
    """BR-82: of any type, byte by byte, and with an override only the model is another."""
    body = UNKNOWN[name]
    assert ask(name, body=body)[1].body is None
    assert ask(name, body=body, override="b")[1].body == body.replace(b'"m"', b'"b"')

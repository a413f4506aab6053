"""Field reports on embeddings and text completions, told of every kind of backend through the exchange."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.embeddings import (
    ACCEPTS,
    as_openai_reads,
    cohere_answer,
    embed_content_answer,
    predict_answer,
    titan_answer,
)
from tests.support.field_reports import (
    CODINGS,
    COMPLETIONS,
    DONE,
    EMBEDDINGS,
    JSON,
    SSE,
    TRIPLE,
    USAGE,
    cut,
    cuts,
    event,
    report,
    text,
)
from tests.support.playbook import openai_backend
from tests.support.translated import backend, config

VECTOR = [0.5, 0.1]
CODED = {"": bytes, **CODINGS}
TOKENS = {"in": 3, "out": 0, "total": 3}


@dataclass(frozen=True)
class Place:
    """Where embeddings are, and what is answered there to one text."""

    schema: str
    model: str
    answer: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def translated(self) -> bool:
        return self.schema not in {"OpenAI", "AzureOpenAI"}


LISTED = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": VECTOR}],
    "model": "said",
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}
COUNTED = {"x-amzn-bedrock-input-token-count": "3"}
PLACES = {
    "OpenAI": Place("OpenAI", "m", LISTED),
    "Azure": Place("AzureOpenAI", "m", LISTED),
    "Titan": Place("AWSBedrock", "amazon.titan-embed-text-v2:0", titan_answer(VECTOR)),
    "Cohere": Place("AWSBedrock", "cohere.embed-v4:0", cohere_answer(VECTOR), COUNTED),
    "Cohere 3": Place("AWSBedrock", "cohere.embed-english-v3", cohere_answer(VECTOR, by_type=False), COUNTED),
    "predict": Place("GCPVertexAI", "text-embedding-005", predict_answer(VECTOR)),
    "embedContent": Place("GCPVertexAI", "gemini-embedding-2", embed_content_answer(VECTOR)),
}
TRANSLATED = [name for name, place in PLACES.items() if place.translated]


def configured(schema, override=""):
    if schema == "OpenAI":
        return config({**openai_backend(), "modelNameOverride": override})
    return config(backend(schema, override=override))


def ask(open_gateway, place, *, override="", path=EMBEDDINGS, query="", **request):
    """An exchange with its attempt, and the reply to that."""
    return send(open_gateway(configured(place.schema, override)), place, path=path, query=query, **request)


def send(gateway, place, *, path, query="", **request):
    exchange = gateway.exchange()
    asked = {"model": place.model, **({"input": "x"} if path == EMBEDDINGS else {}), **request}
    exchange.request(asked, {":path": path + query})
    return exchange, exchange.attempt()


@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("name", PLACES)
def test_the_bill_and_what_the_client_reads(open_gateway, name, coding):
    """BR-16, BR-17, BR-34: whatever the coding; numbers keep the provider's digits."""
    place = PLACES[name]
    exchange, _ = ask(open_gateway, place, encoding_format="float")
    exchange.response({**JSON, **place.headers, **({"content-encoding": coding} if coding else {})})
    data = CODED[coding](json.dumps(place.answer).encode())
    reply = exchange.piece(data, eos=True)
    assert {key: reply.metadata[key] for key in TOKENS} == TOKENS
    if not place.translated:
        assert reply.body is None
        return
    read = as_openai_reads(reply.body, encoding_format="float")
    assert (read.data[0].embedding, read.model, read.usage.prompt_tokens) == (VECTOR, place.model, 3)
    assert reply.set["content-length"] == str(len(reply.body))
    assert ("content-encoding" in reply.remove) == bool(coding)


@pytest.mark.parametrize("name", TRANSLATED)
def test_base64_is_what_sdks_ask_for(open_gateway, name):
    """Issue 18 of what users ask for."""
    place = PLACES[name]
    exchange, _ = ask(open_gateway, place, encoding_format="base64")
    exchange.response({**JSON, **place.headers})
    told = json.loads(exchange.piece(json.dumps(place.answer).encode(), eos=True).body)
    assert base64.b64decode(told["data"][0]["embedding"]) == struct.pack("<2f", *VECTOR)


OVERRIDES = ["amazon.titan-embed-text-v2:0", "pub/titan 1@2024", "/models/x/y", "..", "a?b#c%2e é"]


@pytest.mark.parametrize("override", OVERRIDES)
@pytest.mark.parametrize(
    ("path", "name"),
    [(COMPLETIONS, "OpenAI"), (COMPLETIONS, "Azure"), *((EMBEDDINGS, name) for name in ("OpenAI", "Azure", "predict"))],
)
def test_the_override_is_where_the_backend_looks(open_gateway, path, name, override):
    """BR-42, BR-103: in the body, or one segment of the path; the client's name is in neither."""
    place = PLACES[name]
    exchange, reply = ask(open_gateway, place, override=override, path=path, query="?x=1", model="virt")
    sent, target = json.loads(reply.body), exchange.carried[":path"]
    assert "virt" not in target
    assert b"virt" not in reply.body
    if place.schema == "OpenAI":
        assert (target, sent["model"]) == (f"/v1{path.removeprefix('/v1')}?x=1", override)
        return
    segments = target.partition("?")[0].split("/")
    assert not {".", "..", ""} & set(segments[1:])
    assert override.rsplit("/", 1)[-1] in unquote(target)
    if place.schema == "AzureOpenAI":
        assert (len(segments), sent["model"]) == (5, override)
        assert target.endswith("?api-version=2025-01-01-preview&x=1")


BEDROCK_NAMES = {
    "arn:aws:bedrock:eu:1:application-inference-profile/abc": "virt",
    "arn:aws:bedrock:eu:1:provisioned-model/abc": "cohere.embed-v4:0",
    "eu.amazon.titan-embed-text-v2:0": "virt",
    "arn:aws:bedrock:us-east-1::foundation-model/cohere.embed-multilingual-v3": "virt",
}


@pytest.mark.parametrize("override", BEDROCK_NAMES)
def test_a_name_of_amazons_is_asked_as_its_family(open_gateway, override):
    """BR-42, BR-96: also where the ARN does not say which one that is."""
    asked_as = BEDROCK_NAMES[override]
    exchange, reply = ask(open_gateway, PLACES["Titan"], override=override, model=asked_as)
    target = exchange.carried[":path"]
    assert target.count("/") == 3
    assert unquote(target) == f"/model/{override}/invoke"
    assert ("texts" in json.loads(reply.body)) == ("cohere" in override + asked_as)


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    # members, places that refuse them, what the message names
    "both": ({"messages": []}, tuple(PLACES), "either 'input' or 'messages'"),
    "a number": ({"input": 7}, tuple(PLACES), "input"),
    "null": ({"input": None}, tuple(PLACES), "input"),
    "mixed": ({"input": ["a", 1]}, tuple(PLACES), "input"),
    "tokens": ({"input": [1, 2]}, tuple(TRANSLATED), "input"),
    "none": ({"input": []}, tuple(TRANSLATED), ""),
    "a format": ({"encoding_format": "int8"}, tuple(TRANSLATED), "encoding_format"),
    "dimensions of text": ({"dimensions": "x"}, tuple(TRANSLATED), "dimensions"),
    "dimensions beyond all bounds": ({"dimensions": 1e400}, (), ""),
    "too many texts": ({"input": ["x"] * 97}, ("Titan", "Cohere", "Cohere 3", "embedContent"), ""),
    "dimensions where there are none": ({"dimensions": 5}, ("Cohere 3",), "dimensions"),
    "a purpose": ({"task_type": "NEW"}, ("Cohere", "Cohere 3"), "task_type"),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_the_clients_fault(open_gateway, name, case):
    """BR-31, BR-67, BR-85: a 4xx that names the member, or a request that the provider takes."""
    members, places, named = BAD[case]
    place = PLACES[name]
    exchange = open_gateway(configured(place.schema)).exchange()
    first = exchange.request({"model": place.model, "input": "x", **members}, {":path": EMBEDDINGS})
    reply = first if first.kind == "immediate_response" else exchange.attempt()
    if reply.kind == "immediate_response":
        assert name in places or case == "dimensions beyond all bounds"
        assert reply.status in {400, 422}
        assert named in reply.json["error"]["message"]
        return
    assert name not in places
    if place.translated:
        ACCEPTS[place.schema](exchange.carried[":path"].removeprefix("/v1/projects/p/locations/r/"), reply.body)


# --- errors ---

ERRORS = {
    "numeric code": b'{"error":{"message":"no such","type":"BadRequestError","param":null,"code":400}}',
    "text": b'{"error":"no such"}',
    "detail": b'{"detail":"no such"}',
    "flat": b'{"object":"error","message":"no such","code":404}',
    "Amazon's": b'{"message":"no such"}',
    "Google's": b'{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"no such"}}',
    "a list": b'["no such"]',
    "null": b"null",
    "a page": b'<h1>"no such"\\\xff</h1>',
    "nothing": b"",
    "half": b'{"error":{"message":"no such',
}
ERROR_TYPES = ["application/json", "text/html", "", "text/event-stream"]


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("name", TRANSLATED)
def test_every_error_can_be_read(open_gateway, name, case, coding):
    """BR-17, BR-20, BR-65, BR-67: status and headers stay, the body is JSON of the client's API."""
    body = ERRORS[case]
    for content_type in ERROR_TYPES:
        exchange, _ = ask(open_gateway, PLACES[name])
        headers = {"retry-after": "3", **({"content-type": content_type} if content_type else {})}
        headers |= {"content-encoding": coding} if coding else {}
        assert "retry-after" not in exchange.response(headers, status="429").remove
        reply = exchange.piece(gzip.compress(body) if coding else body, eos=True)
        told = json.loads(reply.body)
        assert isinstance(told["error"], dict | str)
        assert "no such" in json.dumps(told) or case in {"null", "nothing"}
        assert reply.set.get("content-type", content_type) == "application/json"
        assert reply.set["content-length"] == str(len(reply.body))
        assert ("content-encoding" in reply.remove) == bool(coding)


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("name", TRANSLATED)
def test_an_error_in_pieces_is_whole(open_gateway, name, case):
    """BR-20, BR-35: where Envoy is set to stream bodies, no piece of an error is lost."""
    exchange = open_gateway(configured(PLACES[name].schema)).exchange()
    exchange.headers_with_modes(response="STREAMED", headers={":path": EMBEDDINGS})
    exchange.body({"model": PLACES[name].model, "input": "x"})
    exchange.attempt()
    begun = exchange.response({"content-type": "text/plain", "content-length": "9"}, status="400")
    assert (begun.set["content-type"], begun.remove) == ("application/json", ["content-length"])
    played = exchange.play(cut(ERRORS[case], [5, 20]))
    assert isinstance(json.loads(played.output)["error"], dict | str)


@pytest.mark.parametrize("case", [b"{", b"[]", b"null", b"\xff", b'{"embedding":"x"}', b'{"embeddings":[["x"]]}', b""])
@pytest.mark.parametrize("name", TRANSLATED)
def test_a_success_that_is_no_answer_is_a_502(open_gateway, name, case):
    """BR-31: or an answer of nothing; none of the backend's bytes pass."""
    exchange, _ = ask(open_gateway, PLACES[name])
    exchange.response()
    reply = exchange.piece(case, eos=True)
    if reply.kind == "immediate_response":
        assert (reply.status, reply.json["error"]["type"]) == (502, "BadGateway")
    else:
        assert json.loads(reply.body)["data"] == []


def test_an_answer_beyond_the_limit_of_grpc(open_gateway):
    """BR-38: tens of megabytes, to be read and to be translated."""
    vector = [0.123456789] * 400_000
    for name in ("OpenAI", "predict"):
        answer = predict_answer(vector) if name == "predict" else {**LISTED, "data": [{"embedding": vector}]}
        exchange, _ = ask(open_gateway, PLACES[name])
        exchange.response()
        reply = exchange.piece(json.dumps(answer).encode(), eos=True)
        assert reply.metadata["in"] == 3


# --- text completions ---

ROW = [event(text("he")), event(text("y", finish_reason="stop")), event(report()), DONE]
HIDDEN = b"".join((ROW[0], ROW[1], DONE))


@pytest.fixture(params=["OpenAI", "Azure"])
def completions(open_gateway, request):
    """``completions(**members)``: an exchange whose stream has begun, and the reply to its attempt."""
    place = PLACES[request.param]
    gateway = open_gateway(configured(place.schema))

    def begin(**members):
        exchange, reply = send(gateway, place, path=COMPLETIONS, prompt="x", stream=True, **members)
        exchange.response(SSE)
        return exchange, reply

    return begin


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False, "x": 1}, {"include_usage": True}])
def test_usage_is_asked_for_and_hidden(completions, options):
    """BR-01, BR-09, BR-10: whatever the cut, it is billed, and only who asked for it sees it."""
    asked = {"stream_options": options} if options is not None else {}
    wanted = bool(options and options.get("include_usage"))
    for pieces in [*cuts(b"".join(ROW))][::19]:
        exchange, reply = completions(**asked)
        if not wanted:
            assert json.loads(reply.body)["stream_options"] == {**(options or {}), "include_usage": True}
        played = exchange.play(pieces)
        assert played.tokens == TRIPLE
        assert played.output == (b"".join(ROW) if wanted else HIDDEN)


TOTALS = {
    "running": [{**USAGE, "completion_tokens": each, "total_tokens": 11 + each} for each in (1, 2, 4)],
    "again": [USAGE, USAGE],
    "then null": [USAGE, None],
}


@pytest.mark.parametrize("case", TOTALS)
def test_running_totals_are_not_added_up(completions, case):
    """BR-12, BR-119."""
    exchange, _ = completions()
    played = exchange.play([*(event(text("a", usage=usage)) for usage in TOTALS[case]), DONE])
    assert played.tokens == TRIPLE


FAILURES = {
    # event: its name, when it is an error
    "a type": ({"error": {"message": "m", "type": "overloaded_error", "code": 529}}, "overloaded_error"),
    "a code": ({"error": {"message": "m", "type": "server_error", "code": "rate_limit"}}, "rate_limit"),
    "text": ({"error": "m"}, "server_error"),
    "with usage": ({"error": {"message": "m"}, "usage": USAGE}, "server_error"),
    "none": (text("a", error=None), None),
    "of a name alone": (text('"error"'), None),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_in_a_stream_is_a_failure(completions, case):
    """BR-13, BR-53, BR-80: it passes, the usage is kept, and logs and metrics know of it."""
    told, name = FAILURES[case]
    exchange, _ = completions()
    played = exchange.play([event(text("a")), event(report()), event(told), DONE])
    assert played.tokens == TRIPLE
    assert played.metadata.get("response_error") == name
    assert b'"m"' in played.output or name is None


@pytest.mark.parametrize("style", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("prefix", [b"data:", b"data: ", b": c\ndata: ", b"event: x\nid: 1\ndata: "])
def test_every_style_of_events_is_read(completions, style, prefix):
    """BR-02, BR-05."""
    exchange, _ = completions(stream_options={"include_usage": True})
    wire = b"".join(event(each, prefix=prefix) for each in (text("a"), report())).replace(b"\n", style)
    played = exchange.play([wire[:50], wire[50:]])
    assert (played.tokens, played.output) == (TRIPLE, wire)

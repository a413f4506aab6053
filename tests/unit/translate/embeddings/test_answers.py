"""What clients read of answers and errors, and what is known of them for costs (contract, embeddings 10.2 to 10.5)."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from extproc.errors import UnreadableAnswer
from extproc.usage import TokenUsage
from tests.support.embeddings import (
    as_openai_reads,
    cohere_answer,
    embed_content_answer,
    predict_answer,
    titan_answer,
)
from tests.unit.translate.embeddings.attempts import (
    COHERE,
    COHERE_3,
    EMBED_CONTENT,
    EVERY_MODEL,
    JSON,
    PREDICT,
    TITAN,
    answer,
    answered,
    attempt,
    attempt_bytes,
)

COUNT = "x-amzn-bedrock-input-token-count"
ANSWERS = {
    TITAN: titan_answer([0.5, -1.0]),
    COHERE: cohere_answer([0.5, -1.0]),
    COHERE_3: cohere_answer([0.5, -1.0], by_type=False),
    PREDICT: predict_answer([0.5, -1.0]),
    EMBED_CONTENT: embed_content_answer([0.5, -1.0]),
}


@pytest.mark.parametrize("model", EVERY_MODEL)
def test_every_answer_is_the_same_to_the_client(model):
    result = answered(model, ANSWERS[model], headers={COUNT: "3"})
    assert json.loads(result.body) == {
        "object": "list",
        "data": [{"object": "embedding", "embedding": [0.5, -1.0], "index": 0}],
        "model": model,
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    assert result.usage == TokenUsage(input=3, total=3)
    assert (result.model, result.complete) == (model, True)


@pytest.mark.parametrize("model", EVERY_MODEL)
@pytest.mark.parametrize("asked", [{}, {"encoding_format": "base64"}, {"encoding_format": "float"}])
def test_openais_sdk_reads_what_it_asked_for(model, asked):
    wanted = asked or {"encoding_format": "base64"}
    body = answered(model, ANSWERS[model], **wanted).body
    read = as_openai_reads(body, **asked)
    # Base64 that was not asked for in so many words is decoded.
    assert read.data[0].embedding == ("AAAAPwAAgL8=" if asked == {"encoding_format": "base64"} else [0.5, -1.0])


@pytest.mark.parametrize("model", EVERY_MODEL)
def test_base64_is_little_endian_floats(model):
    text = answer(model, ANSWERS[model], encoding_format="base64")["data"][0]["embedding"]
    assert base64.b64decode(text) == struct.pack("<2f", 0.5, -1.0)


def test_numbers_keep_their_digits():
    digits = b"[0.1,\n  -1.50 ,2E-07,\t0.30000000000000004,1]"
    body = answered(PREDICT, b'{"predictions":[{"embeddings":{"values":%s}}]}' % digits).body
    assert b'"embedding":[0.1,-1.50,2E-07,0.30000000000000004,1],' in body


NUMBERS = {
    # model, answer, headers of the answer: tokens
    "Titan, in the body": (TITAN, titan_answer([1.0], tokens=7), {COUNT: "8"}, 7),
    "Titan, in the header": (TITAN, {"embedding": [1.0]}, {COUNT: "8"}, 8),
    "Titan, nowhere": (TITAN, {"embedding": [1.0], "inputTextTokenCount": "many"}, {}, 0),
    "Cohere": (COHERE, cohere_answer([1.0]), {COUNT: "12"}, 12),
    "Cohere, not at all": (COHERE, cohere_answer([1.0]), {}, 0),
    "Cohere, nonsense": (COHERE, cohere_answer([1.0]), {COUNT: "-1"}, 0),
    "Cohere, too much": (COHERE, cohere_answer([1.0]), {COUNT: "9" * 5000}, 0),
    "Cohere, no digits": (COHERE, cohere_answer([1.0]), {COUNT: "²"}, 0),
    "predict, a whole float": (PREDICT, predict_answer([1.0], tokens=4.0), {}, 4),
    "predict, no statistics": (PREDICT, {"predictions": [{"embeddings": {"values": [1.0]}}]}, {}, 0),
    "predict, null statistics": (
        PREDICT,
        {"predictions": [{"embeddings": {"values": [1], "statistics": None}}]},
        {},
        0,
    ),
    "predict, no predictions": (PREDICT, {"predictions": None}, {}, 0),
    "embedContent": (EMBED_CONTENT, embed_content_answer([1.0], tokens=9), {}, 9),
    "embedContent, nothing said": (EMBED_CONTENT, {"embedding": {"values": [1.0]}}, {}, 0),
    "embedContent, tokens of nothing": (EMBED_CONTENT, {"usageMetadata": {"promptTokenCount": 9}}, {}, 9),
    "embedContent, nothing": (EMBED_CONTENT, {}, {}, 0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_tokens_are_counted_as_reported(name):
    model, document, headers, tokens = NUMBERS[name]
    result = answered(model, document, headers=headers)
    assert json.loads(result.body)["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert result.usage == TokenUsage(input=tokens, total=tokens)


def test_predictions_are_numbered_and_their_tokens_added():
    read = answer(PREDICT, predict_answer([1.0], [2.0], [3.0], tokens=2), input=["a", "b", "c"])
    assert [(each["index"], each["embedding"]) for each in read["data"]] == [(0, [1.0]), (1, [2.0]), (2, [3.0])]
    assert read["usage"]["total_tokens"] == 6


@pytest.mark.parametrize("by_type", [True, False])
def test_a_batch_of_cohere_is_numbered(by_type):
    read = answer(COHERE, cohere_answer([1.0], [2.0], by_type=by_type), input=["a", "b"])
    assert [(each["index"], each["embedding"]) for each in read["data"]] == [(0, [1.0]), (1, [2.0])]


@pytest.mark.parametrize("model", [PREDICT, EMBED_CONTENT])
@pytest.mark.parametrize("truncated", [True, False])
def test_that_a_text_was_cut_is_told(model, truncated):
    write = predict_answer if model == PREDICT else embed_content_answer
    read = answer(model, write([1.0], truncated=truncated))
    assert read["data"][0].get("truncated") == (True if truncated else None)


EMPTY = {
    "no predictions": (PREDICT, {}),
    "null predictions": (PREDICT, {"predictions": None}),
    "an empty list": (PREDICT, {"predictions": []}),
    "no embedding": (EMBED_CONTENT, {}),
    "a null embedding": (EMBED_CONTENT, {"embedding": None}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_answer_of_nothing_has_no_data(name):
    model, document = EMPTY[name]
    assert answer(model, document)["data"] == []


def test_a_vector_without_values_is_one():
    assert answer(PREDICT, predict_answer([]))["data"][0]["embedding"] == []


UNREADABLE = {
    "Titan, no JSON": (TITAN, b"not json"),
    "Titan, empty": (TITAN, b""),
    "Titan, no object": (TITAN, []),
    "Titan, no embedding": (TITAN, {"message": "no"}),
    "Titan, null": (TITAN, {"embedding": None}),
    "Titan, no numbers": (TITAN, {"embedding": ["1"]}),
    "Titan, text": (TITAN, {"embedding": "AAAA"}),
    "Titan, no end of a number": (TITAN, b'{"embedding":[1e999]}'),
    "Titan, too deep": (TITAN, b'{"embedding":' + b"[" * 100_000),
    "Cohere, no embeddings": (COHERE, {"id": "1"}),
    "Cohere, another type": (COHERE, {"embeddings": {"int8": [[1]]}}),
    "Cohere, too few": (COHERE, cohere_answer([1.0], [2.0])),
    "predict, no JSON": (PREDICT, b"<html>"),
    "predict, a null prediction": (PREDICT, {"predictions": [None]}),
    "predict, a prediction of nothing": (PREDICT, {"predictions": [{}]}),
    "predict, too many": (PREDICT, predict_answer([1.0], [2.0])),
    "embedContent, no values": (EMBED_CONTENT, {"embedding": {}}),
    "embedContent, no JSON": (EMBED_CONTENT, b"{"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_answer_is_said_to_be_none(name):
    model, document = UNREADABLE[name]
    with pytest.raises(UnreadableAnswer, match="the backend's answer cannot be read: "):
        answered(model, document)


@pytest.mark.parametrize("model", EVERY_MODEL)
def test_an_answer_in_pieces_is_read_when_it_is_whole(model):
    translator, _, _ = attempt(model, input="x")
    translator.response_headers(JSON)
    data = json.dumps(ANSWERS[model]).encode()
    first = translator.response_body(data[:9], end_of_stream=False)
    assert (first.body, first.complete) == (b"", False)
    whole = translator.response_body(data[9:], end_of_stream=True)
    assert whole.body == answered(model, ANSWERS[model]).body


def test_the_effective_model_is_named_and_a_foreign_type_is_corrected():
    translator, _, _ = attempt("small", schema="AWSBedrock", override=TITAN, input="x")
    assert translator.response_headers({"content-type": "text/plain"}) == [("content-type", "application/json")]
    result = translator.response_body(json.dumps(ANSWERS[TITAN]).encode(), end_of_stream=True)
    assert (json.loads(result.body)["model"], result.model) == (TITAN, TITAN)


# --- errors ---

CORAL = "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/"
AS_JSON = "application/json; charset=utf-8"
OURS = {"type": "error", "error": {"type": "UnprocessableEntity", "code": "422", "message": "no"}}
ERRORS = {
    # model, content type, AWS's header, body: type and message, or None for one that stays as it is
    "AWS": (TITAN, AS_JSON, "ValidationException", {"message": 'a "b"'}, ("ValidationException", 'a "b"')),
    "AWS, with an address": (TITAN, AS_JSON, CORAL, {"message": "m"}, ("ValidationException", "m")),
    "AWS, a credential": (COHERE, AS_JSON, "ExpiredTokenException", {"message": "m"}, ("ExpiredTokenException", "m")),
    "AWS, its type in the body": (TITAN, AS_JSON, "", {"__type": "a#Throttled", "Message": "m"}, ("Throttled", "m")),
    "AWS, malformed": (TITAN, AS_JSON, "X", b"{", ("AWSBedrockBackendError", "{")),
    "AWS, text": (TITAN, "text/plain", "", b"down", ("AWSBedrockBackendError", "down")),
    "AWS, JSON without a name": (TITAN, AS_JSON, "", {"message": "m"}, ("AWSBedrockBackendError", "m")),
    "AWS, a gateway's own": (TITAN, AS_JSON, "", OURS, None),
    "Google": (
        PREDICT,
        AS_JSON,
        "",
        {"error": {"status": "INVALID_ARGUMENT", "message": "m"}},
        ("INVALID_ARGUMENT", "m"),
    ),
    "Google, in a list": (EMBED_CONTENT, AS_JSON, "", [{"error": {"status": "S", "message": "m"}}], ("S", "m")),
    "Google, with details": (
        EMBED_CONTENT,
        AS_JSON,
        "",
        b'{"error":{"status":"S","message":"m","details":[ {"a" : 1} ]}}',
        ("S", 'Error: m\nDetails: [ {"a" : 1} ]'),
    ),
    "Google, without a status": (PREDICT, AS_JSON, "", {"error": {"message": "m"}}, ("GCPVertexAIBackendError", "m")),
    "Google, without the object": (PREDICT, AS_JSON, "", b'{"x": 1}', ("GCPVertexAIBackendError", '{"x": 1}')),
    "Google, text": (PREDICT, "text/html", "", b"<p>no</p>", ("GCPVertexAIBackendError", "<p>no</p>")),
}


@pytest.mark.parametrize("status", ["400", "401", "404", "429", "503"])
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_told_in_the_clients_shape(name, status):
    model, content_type, kind, body, expected = ERRORS[name]
    translator, _, _ = attempt(model, input="x")
    headers = {":status": status, "content-type": content_type, **({"x-amzn-errortype": kind} if kind else {})}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    result = translator.response_error(status, headers, data)
    if expected is None:
        assert (result.body, result.headers) == (data, ())
    else:
        error = {"type": expected[0], "code": status, "message": expected[1]}
        assert json.loads(result.body) == {"type": "error", "error": error}
        assert result.headers == (("content-type", "application/json"),)


# --- backends of the client's own API ---

LISTED = {"object": "list", "data": [], "model": "said", "usage": {"prompt_tokens": 8, "total_tokens": 8}}
OBSERVED = {
    # answer: input and total, model
    "as it should be": (LISTED, (8, 8), "said"),
    "base64": ({**LISTED, "data": [{"embedding": "AAAA"}]}, (8, 8), "said"),
    "no model": ({**LISTED, "model": None}, (8, 8), "asked"),
    "an error object": ({"error": {"message": "m"}}, (0, 0), "asked"),
    "no usage": ({"data": []}, (0, 0), "asked"),
    "only a total": ({"usage": {"total_tokens": 5}}, (5, 5), "asked"),
    "only a prompt": ({"usage": {"prompt_tokens": 5}}, (5, 5), "asked"),
    "an output that is none": (
        {"usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}},
        (5, 5),
        "asked",
    ),
    "nonsense": ({"usage": {"prompt_tokens": -1, "total_tokens": "x"}}, (0, 0), "asked"),
}


@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
@pytest.mark.parametrize("name", OBSERVED)
def test_an_answer_of_openais_api_passes_and_is_read(name, schema):
    document, (read, total), model = OBSERVED[name]
    translator = attempt_openai(schema)
    translator.response_headers(JSON)
    result = translator.response_body(json.dumps(document).encode(), end_of_stream=True)
    assert result.body is None
    assert result.usage == TokenUsage(input=read, total=total)
    assert result.model == model


def attempt_openai(schema):
    translator, _, _ = attempt_bytes(b'{"model":"m","input":"x"}', schema=schema, override="asked")
    return translator

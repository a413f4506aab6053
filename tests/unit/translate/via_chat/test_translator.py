"""What carrying over chat completions does by itself, seen with the messages API on a backend of OpenAI's."""

import json

import pytest

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.errors import UnprocessableRequest
from extproc.translate.openai_errors import MAX_TYPE_LENGTH
from tests.support.golden import make_translator

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}]}).encode()
HEADERS = {"content-type": "text/event-stream"}


def translator(**backend):
    return make_translator("OpenAI", {"prefix": "v1", **backend}, operation=Operation.MESSAGES)


def asked(*, stream=True, **backend):
    made = translator(**backend)
    return made, made.request(ParsedRequest(model="m", stream=stream, body=BODY), query="beta=true", force=False)


def test_a_request_needs_a_model():
    with pytest.raises(UnprocessableRequest, match="model is required"):
        translator().request(ParsedRequest(model="", stream=False, body=BODY), query="", force=False)


@pytest.mark.parametrize("stream", [False, True])
def test_the_backend_s_model_is_asked_and_the_client_s_query_stays_here(stream):
    _, request = asked(stream=stream, model_override="a/b")
    assert request.path == "/v1/chat/completions"
    body = json.loads(request.body)
    assert body["model"] == "a/b"
    assert body.get("stream_options") == ({"include_usage": True} if stream else None)


def test_the_same_request_twice_is_the_same():
    assert asked()[1] == asked()[1]


def test_the_model_is_what_the_backend_says_once_it_does():
    made, _ = asked(model_override="a")
    made.response_headers(HEADERS)
    assert made.response_body(b"", end_of_stream=False).model == "a"
    piece = b'data: {"model":"b","choices":[{"delta":{"content":"x"}}]}\n\n'
    assert made.response_body(piece, end_of_stream=False).model == "b"


def test_nothing_of_the_backend_s_own_bytes_reaches_the_client():
    made, _ = asked()
    assert made.rewrites_stream
    assert made.rebuilds_body
    made.response_headers(HEADERS)
    assert made.response_body(b": a comment\n\nid: 7\n\n", end_of_stream=False).body == b""


def test_a_name_of_a_failure_is_bounded():
    made, _ = asked()
    made.response_headers(HEADERS)
    error = json.dumps({"error": {"type": "t" * 1000, "message": "m"}}).encode()
    result = made.response_body(b"data: " + error + b"\n\n", end_of_stream=False)
    assert result.failure == "t" * MAX_TYPE_LENGTH
    assert result.complete
    assert made.response_body(b"", end_of_stream=True).failure == result.failure

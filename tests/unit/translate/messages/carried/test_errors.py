"""Errors in the words of Anthropic's API, whatever the backend says (BR-65, BR-67)."""

import json

import pytest

from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from tests.unit.translate.messages.carried.attempts import error_of

JSON = {"content-type": "application/json"}
STATUSES = {
    "400": "invalid_request_error",
    "401": "authentication_error",
    "402": "billing_error",
    "403": "permission_error",
    "404": "not_found_error",
    "405": "invalid_request_error",
    "413": "request_too_large",
    "422": "invalid_request_error",
    "429": "rate_limit_error",
    "500": "api_error",
    "502": "api_error",
    "503": "api_error",
    "504": "timeout_error",
    "529": "overloaded_error",
    "599": "api_error",
}


@pytest.mark.parametrize(("status", "name"), STATUSES.items())
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_the_status_says_the_type(status, name, content_type):
    body = json.dumps({"error": {"message": "m", "type": "whatever", "code": None}}).encode()
    error = error_of(status, {"content-type": content_type}, body if content_type == "application/json" else b"m")
    assert (error.type, error.message) == (name, "m")


BODIES = {
    "a numeric code": (b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}', "m"),
    "a code that is a text": (b'{"error":{"message":"m","code":"c"}}', "m"),
    "an error that is a text": (b'{"error":"text"}', "text"),
    "an error at the top": (b'{"object":"error","message":"x","code":404}', "x"),
    "another shape": (b'{"detail":"x"}', '{"detail":"x"}'),
    "a list": (b"[]", "[]"),
    "a null": (b"null", "null"),
    "no object inside": (b'{"error":7}', '{"error":7}'),
    "no message": (b'{"error":{"type":"t"}}', '{"error":{"type":"t"}}'),
    "a page": (b'<p>"so"</p>\n', '<p>"so"</p>'),
    "nothing": (b"", "the backend answered with status 400"),
    "white space": (b" \n", "the backend answered with status 400"),
    "no text": (b"\xff", "\ufffd"),
}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("headers", [JSON, {"content-type": "text/html"}, {}], ids=["JSON", "HTML", "untyped"])
def test_the_message_is_the_backend_s(body, message, headers):
    error = error_of("400", headers, body)
    assert error.type == "invalid_request_error"
    if "json" in headers.get("content-type", "") or not body.startswith(b"{"):
        assert error.message == message
    else:
        # What is not called JSON is not read as such.
        assert error.message == body.decode()


def test_a_long_message_is_cut():
    assert len(error_of("500", {}, b"x" * 10**6).message) == MAX_MESSAGE_BYTES


TOO_LONG = {
    "OpenAI": {"message": "Your input exceeds the context window.", "code": "context_length_exceeded"},
    "vLLM": {"message": "This model's maximum context length is 4096 tokens.", "code": 400},
}


@pytest.mark.parametrize("fault", TOO_LONG.values(), ids=TOO_LONG)
def test_a_prompt_that_does_not_fit_is_called_as_agents_know_it(fault):
    error = error_of("400", JSON, json.dumps({"error": fault}).encode())
    assert error.message == f"prompt is too long: {fault['message']}"


def test_an_error_of_google_s():
    body = b'{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}'
    error = error_of("403", JSON, body, "GCPVertexAI")
    assert (error.type, error.message) == ("permission_error", "no")

"""Error answers of the three places, as clients of Anthropic's API read them."""

import json

import anthropic
import httpx2
import pytest

from extproc.translate.messages.native_errors import answer_error_type
from tests.unit.translate.messages.native.attempts import CLOUDS, COUNT_TOKENS, MESSAGES, SCHEMAS, ask, error

QUOTED = 'a "b"\n\\ \u2028 ü </script>'
ENDPOINTS = {"messages": MESSAGES, "count_tokens": COUNT_TOKENS}
EVERYWHERE = pytest.mark.parametrize("schema", SCHEMAS)
BOTH = pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)

TYPES = {
    "400": "invalid_request_error",
    "401": "authentication_error",
    "402": "billing_error",
    "403": "permission_error",
    "404": "not_found_error",
    "405": "invalid_request_error",
    "408": "timeout_error",
    "409": "invalid_request_error",
    "413": "request_too_large",
    "422": "invalid_request_error",
    "424": "api_error",
    "429": "rate_limit_error",
    "500": "api_error",
    "502": "api_error",
    "503": "api_error",
    "504": "timeout_error",
    "529": "overloaded_error",
    "302": "api_error",
    "": "api_error",
}


def told(response):
    """The error that a client reads, in the API's shape."""
    document = json.loads(response.body)
    assert dict(response.headers) == {"content-type": "application/json"}
    assert document.pop("type") == "error"
    document.pop("request_id", None)
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"type", "message"}
    return document["error"]


@pytest.mark.parametrize(("status", "kind"), TYPES.items(), ids=[f"status {status}" for status in TYPES])
def test_the_type_follows_from_the_status(status, kind):
    assert answer_error_type(status) == kind
    for schema in SCHEMAS:
        assert told(error(schema, status, QUOTED.encode(), content_type="text/plain")) == {
            "type": kind,
            "message": QUOTED,
        }


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("status", ["400", "429", "529"])
def test_an_error_in_the_apis_own_shape_keeps_its_bytes(schema, endpoint, status):
    body = b'{ "type":"error","error":{"type":"later_error","message":"m","x":1.0},"request_id":"req_1" }\n'
    response = error(schema, status, body, endpoint=endpoint, content_type="application/json")
    # Where pieces of errors are held back, they have to be given; otherwise Envoy has them.
    assert response.body == (None if schema == "Anthropic" else body)
    response = error(schema, status, body, endpoint=endpoint, content_type="text/plain")
    assert (response.body, response.headers) == (body, (("content-type", "application/json"),))


SHAPES = {
    "Amazon's": (b'{"message":"not supported"}', "not supported"),
    "Amazon's, of another service": (b'{"Message":"no","__type":"x#AccessDenied"}', "no"),
    "Google's": (b'{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}', "bad"),
    "Google's in a list": (b'[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]', "bad"),
    "Google's with details": (
        b'{"error":{"code":400,"message":"bad","details":[{"@type":"x"}]}}',
        'Error: bad\nDetails: [{"@type":"x"}]',
    ),
    "an error without a type": (b'{"error":{"message":"m"}}', "m"),
    "a list of the API's": (b'[{"type":"error","error":{"type":"t","message":"m"}}]', "m"),
    "an error that is text": (b'{"error":"text"}', '{"error":"text"}'),
    "another object": (b'{"detail":"x"}', '{"detail":"x"}'),
    "an empty object": (b"{}", "{}"),
    "null": (b"null", "null"),
    "a number": (b"7", "7"),
    "text": (b"upstream connect error", "upstream connect error"),
    "a page": (b"<html>\n\"'</html>", "<html>\n\"'</html>"),
    "no text": (b"\xff\x00", "\ufffd\x00"),
    "half an object": (b'{"message":"x', '{"message":"x'),
    "empty": (b"", "the backend answered with status 400"),
    "blank": (b" \n", "the backend answered with status 400"),
}


@EVERYWHERE
@BOTH
@pytest.mark.parametrize("content_type", ["application/json", "text/html", ""])
@pytest.mark.parametrize(("body", "message"), SHAPES.values(), ids=SHAPES)
def test_any_other_error_becomes_one_of_the_api(schema, endpoint, content_type, body, message):
    """BR-70: counting as well, JSON or not."""
    response = error(schema, "400", body, endpoint=endpoint, content_type=content_type)
    assert told(response) == {"type": "invalid_request_error", "message": message}


def test_an_error_that_amazon_names_only_in_a_header_is_known_by_that():
    response = error("AWSAnthropic", "429", b"", x_amzn_errortype="ThrottlingException:http://x/")
    assert told(response)["message"] == "the backend answered with status 429: ThrottlingException"


@EVERYWHERE
def test_the_id_of_the_request_at_the_provider_is_given(schema):
    for name in ("request_id", "x_amzn_requestid"):
        assert json.loads(error(schema, "500", b"x", **{name: "r-1"}).body)["request_id"] == "r-1"
    assert "request_id" not in json.loads(error(schema, "500", b"x").body)


@EVERYWHERE
def test_a_page_without_end_is_shortened(schema):
    assert len(error(schema, "502", b"\xff" * 1_000_000).body) < 300_000
    assert len(error(schema, "502", b"[" * 1_000_000, content_type="application/json").body) < 300_000


@pytest.mark.parametrize("schema", CLOUDS)
def test_a_clouds_errors_are_held_back_until_they_are_whole(schema):
    """Where Envoy streams error bodies too: they mean nothing to the client before they are translated."""
    translator, _ = ask(schema, {})
    assert translator.rebuilds_body
    translator.response_headers({":status": "200", "content-type": "application/json"})
    assert not translator.rebuilds_body


CLASSES = {
    "400": anthropic.BadRequestError,
    "401": anthropic.AuthenticationError,
    "403": anthropic.PermissionDeniedError,
    "404": anthropic.NotFoundError,
    "413": anthropic.RequestTooLargeError,
    "429": anthropic.RateLimitError,
    "503": anthropic.InternalServerError,
    "529": anthropic.OverloadedError,
}


@pytest.mark.parametrize(("status", "kind"), CLASSES.items(), ids=CLASSES)
def test_the_official_sdk_raises_the_class_and_reads_type_and_message(status, kind):
    response = error("AWSAnthropic", status, b'{"message":"the model says no"}', content_type="application/json")

    def answer(_):
        return httpx2.Response(int(status), headers=dict(response.headers), content=response.body)

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="none", http_client=http_client, max_retries=0)
    with pytest.raises(kind, match="the model says no") as caught:
        client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "q"}])
    assert caught.value.body["error"]["type"] == answer_error_type(status)

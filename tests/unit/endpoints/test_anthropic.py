"""What is read of requests of Anthropic's API, and the shape of our own errors there."""

import json

import pytest

from extproc import errors
from extproc.endpoints.base import Operation
from extproc.endpoints.count_tokens import CountTokens
from extproc.endpoints.messages import Messages
from extproc.errors import MalformedRequest

BOTH = pytest.mark.parametrize("endpoint", [Messages(), CountTokens()], ids=["messages", "count_tokens"])


def parse(endpoint, body, content_type="application/json"):
    return endpoint.parse(body, content_type=content_type, metering=True)


def test_the_operations_have_their_names():
    assert (Messages.operation, CountTokens.operation) == (Operation.MESSAGES, Operation.COUNT_TOKENS)


@BOTH
def test_only_what_is_needed_is_read(endpoint):
    body = (
        b'{"messages":"x","tools":7,"system":[1],"thinking":{"budget_tokens":"y"},"model":"claude-3","max_tokens":"z"}'
    )
    request = parse(endpoint, body, content_type="text/plain")
    assert (request.model, request.stream, request.body) == ("claude-3", False, body)
    assert not request.rewritten


def test_a_message_may_be_streamed_and_a_count_may_not():
    body = b'{"model":"claude-3","stream":true}'
    assert parse(Messages(), body).stream
    assert not parse(CountTokens(), body).stream
    assert not parse(Messages(), b'{"model":"m","stream":null}').stream
    assert not parse(CountTokens(), b'{"model":"m","stream":"of no meaning"}').stream
    with pytest.raises(MalformedRequest, match="stream"):
        parse(Messages(), b'{"model":"m","stream":"true"}')


@BOTH
@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":""}'])
def test_a_model_is_required(endpoint, body):
    with pytest.raises(MalformedRequest) as caught:
        parse(endpoint, body)
    assert str(caught.value) == "invalid request body: model field is required"
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


def test_what_cannot_be_read_is_told_with_its_path():
    with pytest.raises(MalformedRequest, match=r"^malformed request: failed to parse JSON for /v1/messages: "):
        parse(Messages(), b"{")
    with pytest.raises(MalformedRequest, match=r"^malformed request: failed to parse JSON for /v1/messages/count_tok"):
        parse(CountTokens(), b'{"model":7}')
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        parse(Messages(), b"--x", content_type="multipart/form-data; boundary=x")


QUOTED = 'a "b"\n\\ \u2028 ü'
ERRORS = {
    "400": (errors.MalformedRequest(QUOTED), "invalid_request_error", f"malformed request: {QUOTED}"),
    "401": (errors.MissingCredential(), "authentication_error", "missing upstream credential"),
    "413": (
        errors.RequestTooLarge(7),
        "request_too_large",
        "request body is larger than the limit of 7 bytes",
    ),
    "422": (errors.UnprocessableRequest(QUOTED), "invalid_request_error", f"invalid request body: {QUOTED}"),
    "500": (errors.InternalFault("id-1"), "api_error", "internal error, id id-1"),
    "501": (errors.UnsupportedBackend(QUOTED), "api_error", QUOTED),
    "502": (errors.UnreadableAnswer(QUOTED), "api_error", f"the backend's answer cannot be read: {QUOTED}"),
    "503": (errors.BackendUnavailable(QUOTED), "api_error", QUOTED),
}


@BOTH
@pytest.mark.parametrize(("error", "kind", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_of_ours_have_the_apis_shape(endpoint, error, kind, message):
    assert json.loads(endpoint.error_body(error)) == {"type": "error", "error": {"type": kind, "message": message}}

"""What Bedrock's APIs share: paths, errors of answers, errors within streams."""

from __future__ import annotations

import json
from urllib.parse import unquote

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.formats.eventstream import EventStreamReader
from extproc.translate.aws import FALLBACK_TYPE, StreamError, model_path, read_aws_error, stream_error
from extproc.translate.chat.translator import BackendError
from tests.support import eventstream

PATHS = {
    "a name": ("anthropic.claude-v1:0", "/model/anthropic.claude-v1:0/converse"),
    "an ARN": (
        "arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.x-v1:0",
        "/model/arn:aws:bedrock:eu-west-1:111122223333:inference-profile%2Feu.x-v1:0/converse",
    ),
    "what stays": ("aZ09-_.~$&+:=@", "/model/aZ09-_.~$&+:=@/converse"),
    "what does not": ("a;b,c?d e#f%2F!'()*", "/model/a%3Bb%2Cc%3Fd%20e%23f%252F%21%27%28%29%2A/converse"),
    "beyond ASCII": ("é", "/model/%C3%A9/converse"),
    "a dot segment": ("..", "/model/%2E%2E/converse"),
    "dots in a name": ("..a", "/model/..a/converse"),
    "a climb": ("../../admin", "/model/..%2F..%2Fadmin/converse"),
}


@pytest.mark.parametrize(("model", "path"), PATHS.values(), ids=PATHS)
def test_a_model_is_one_segment_of_the_path(model: str, path: str):
    assert model_path(model, "converse") == path


@given(st.text(max_size=40))
def test_any_model_can_be_read_back_from_the_path(model: str):
    path = model_path(model, "invoke")
    assert path.isascii()
    _, top, segment, action = path.split("/")
    assert (top, unquote(segment), action) == ("model", model, "invoke")


ERRORS = {
    "named in the header": (
        {"content-type": "application/json", "x-amzn-errortype": "ThrottledException"},
        b'{"message":"slow"}',
        ("ThrottledException", "slow"),
    ),
    "with an address behind the name": (
        {"x-amzn-errortype": "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/"},
        b'{"message":"no"}',
        ("ValidationException", "no"),
    ),
    "with a capital": ({"x-amzn-errortype": "E"}, b'{"Message":"no"}', ("E", "no")),
    "of the JSON protocol": (
        {"content-type": "application/x-amz-json-1.1"},
        b'{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}',
        ("AccessDeniedException", "no"),
    ),
    "named in the body": ({"content-type": "application/json"}, b'{"code":"Odd","message":"no"}', ("Odd", "no")),
    "not named": ({"content-type": "application/json"}, b'{"message":"no"}', (FALLBACK_TYPE, "no")),
    "members of other types": (
        {"content-type": "application/json"},
        b'{"code":5,"message":{"a":1}}',
        (FALLBACK_TYPE, '{"code":5,"message":{"a":1}}'),
    ),
    "without a message": ({"x-amzn-errortype": "E"}, b'{"a":1}', ("E", '{"a":1}')),
    "text": ({"content-type": "text/plain"}, b"no healthy upstream", (FALLBACK_TYPE, "no healthy upstream")),
    "text that says JSON": ({"content-type": "application/json"}, b"oops", (FALLBACK_TYPE, "oops")),
    "JSON that says text": ({"content-type": "text/plain"}, b'{"message":"no"}', (FALLBACK_TYPE, "no")),
    "JSON of another shape": ({"content-type": "application/json"}, b"[1]", (FALLBACK_TYPE, "[1]")),
    "empty": ({"content-type": "application/json"}, b"", (FALLBACK_TYPE, "")),
    "empty but named": ({"x-amzn-errortype": "ServiceUnavailable"}, b" ", ("ServiceUnavailable", "")),
    "not UTF-8": ({}, b"\xff", (FALLBACK_TYPE, "�")),
}


@pytest.mark.parametrize(("headers", "body", "expected"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_read_whatever_its_content_type_says(
    headers: dict[str, str], body: bytes, expected: tuple[str, str]
):
    assert read_aws_error("400", headers, body) == BackendError(type=expected[0], message=expected[1])


@given(st.binary(max_size=60))
def test_no_error_body_fails_to_be_read(body: bytes):
    assert read_aws_error("500", {}, body).type


def test_a_deep_error_body_is_text():
    body = b'{"message":' + b"[" * 100_000 + b"}"
    assert read_aws_error("500", {}, body).message == body.decode()


def one(data: bytes) -> StreamError | None:
    [message] = EventStreamReader().feed(data)
    return stream_error(message)


def test_an_event_is_no_error():
    assert one(eventstream.event("messageStart", {"message": "x"})) is None


def test_an_exception_has_the_status_that_it_has_outside_of_streams():
    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    for operation in ("ConverseStream", "InvokeModelWithResponseStream"):
        events = service.operation_model(operation).get_event_stream_output().members
        exceptions = {name: shape for name, shape in events.items() if shape.metadata.get("exception")}
        assert "throttlingException" in exceptions
        for name, shape in exceptions.items():
            error = one(eventstream.exception(name, {"message": 'slow "down"'}))
            code = str(shape.metadata["error"]["httpStatusCode"])
            assert error == StreamError(type=name, message='slow "down"', code=code)


def test_exceptions_that_are_not_known_are_errors_all_the_same():
    assert one(eventstream.exception("newException", b"text")) == StreamError(
        type="newException", message="text", code="500"
    )
    assert one(eventstream.frame({":message-type": "exception"}, b"")) == StreamError(
        type=FALLBACK_TYPE, message="", code="500"
    )


def test_an_error_of_the_framing_is_in_its_headers():
    assert one(eventstream.error("InternalError", "lost")) == StreamError(
        type="InternalError", message="lost", code="500"
    )


def test_a_message_without_a_type_is_an_event():
    assert one(eventstream.frame({":event-type": "chunk"}, json.dumps({}).encode())) is None

"""Error answers of the three places where Claude is served (contract, chat 12, 13, 15 and endpoints 3.6)."""

import json

import pytest

from tests.unit.translate.chat.anthropic.attempts import ask


def told(schema, status, body, **headers):
    translator, _ = ask(schema, {})
    result = translator.response_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
    assert result.headers == (("content-type", "application/json"),)
    document = json.loads(result.body)
    assert document["type"] == "error"
    assert document["error"].pop("code") == status
    return document["error"]


ANTHROPIC = (
    b'{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: \\"x\\""},"request_id":"r"}'
)


@pytest.mark.parametrize(
    ("schema", "status", "body", "expected"),
    [
        ("Anthropic", "400", ANTHROPIC, {"type": "invalid_request_error", "message": 'max_tokens: "x"'}),
        ("GCPAnthropic", "400", ANTHROPIC, {"type": "invalid_request_error", "message": 'max_tokens: "x"'}),
        ("Anthropic", "529", b'{"error":{"message":"busy"}}', {"type": "overloaded_error", "message": "busy"}),
        ("Anthropic", "503", b'{"error":{"message":"busy"}}', {"type": "api_error", "message": "busy"}),
        ("Anthropic", "500", b'{"error":{"type":"api_error"}}', {"type": "api_error"}),
        ("Anthropic", "502", b"<html>bad</html>", {"type": "AnthropicBackendError", "message": "<html>bad</html>"}),
        ("Anthropic", "500", b'{"error":"flat"}', {"type": "AnthropicBackendError", "message": '{"error":"flat"}'}),
        ("Anthropic", "500", b'{"error":{}}', {"type": "AnthropicBackendError", "message": '{"error":{}}'}),
        ("GCPAnthropic", "502", b"bad \xff gateway", {"type": "GCPBackendError", "message": "bad \ufffd gateway"}),
        (
            "GCPAnthropic",
            "403",
            b'{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}',
            {"type": "PERMISSION_DENIED", "message": "denied"},
        ),
        (
            "GCPAnthropic",
            "429",
            b'[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]',
            {"type": "RESOURCE_EXHAUSTED", "message": "quota"},
        ),
        (
            "GCPAnthropic",
            "429",
            b'{"error":{"code":429,"message":"quota"}}',
            {"type": "rate_limit_error", "message": "quota"},
        ),
        ("GCPAnthropic", "500", b"[]", {"type": "GCPBackendError", "message": "[]"}),
        ("AWSAnthropic", "503", b"busy", {"type": "AWSBedrockBackendError", "message": "busy"}),
    ],
)
def test_errors_are_told_in_the_shape_of_the_client(schema, status, body, expected):
    # The content type is not asked: front ends are often wrong about it.
    assert told(schema, status, body) == told(schema, status, body, content_type="application/json") == expected


def test_bedrock_names_its_errors_in_a_header():
    body = b'{"message":"Malformed input"}'
    error = told("AWSAnthropic", "400", body, content_type="application/json", x_amzn_errortype="ValidationException")
    assert error == {"type": "ValidationException", "message": "Malformed input"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("Anthropic", "AnthropicBackendError"),
        ("GCPAnthropic", "GCPBackendError"),
        ("AWSAnthropic", "AWSBedrockBackendError"),
    ],
)
@pytest.mark.parametrize("body", [b"", b"{", b"null", b"7", b"[" * 60_000])
def test_any_body_can_be_told(schema, kind, body):
    error = told(schema, "500", body, content_type="application/json")
    assert error["type"] == kind
    assert error.get("message", "") == body.decode()

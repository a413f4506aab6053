"""How a count is asked of Bedrock, and told to a client of Anthropic's API (contract, count_tokens 6 and 17.7)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from extproc.endpoints.count_tokens import CountTokens
from extproc.errors import ClientError, MalformedRequest, UnprocessableRequest, UnreadableAnswer
from extproc.translate.base import Target, TranslatedRequest, Translator
from extproc.translate.count_tokens.aws import base_model
from extproc.translate.count_tokens.bedrock import BEDROCK
from extproc.usage import TokenUsage
from filter_config.model import VersionedAPISchema
from tests.unit.translate.count_tokens.bedrock.oracle import accept

CLAUDE = "anthropic.claude-z"
NOVA = "amazon.nova-lite-v1:0"
USER = {"role": "user", "content": "q"}
FOUNDATION = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-z"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-z"
APPLICATION = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"


def make_translator(*, headers: dict[str, str] | None = None, version: str = "", override: str = "") -> Translator:
    target = Target(
        schema=VersionedAPISchema(name="AWSBedrock", version=version),
        model_override=override,
        now=lambda: 0.0,
        new_id=lambda: "id",
        headers=headers or {},
    )
    return BEDROCK["AWSBedrock"](target)


def send(translator: Translator, body: bytes) -> TranslatedRequest:
    parsed = CountTokens().parse(body, content_type="", metering=False)
    return translator.request(parsed, query="beta=true", force=False)


def counted(model: str, *, headers: dict[str, str] | None = None, **request: Any) -> dict[str, Any]:
    """What the service is asked to count, which it accepts."""
    body = json.dumps({"model": model, "messages": [USER], **request}).encode()
    sent = send(make_translator(headers=headers), body)
    return accept(sent.path, sent.body or b"")


def inner(body: bytes, **backend: str) -> bytes:
    sent = send(make_translator(**backend), body)
    return base64.b64decode(json.loads(sent.body or b"")["input"]["invokeModel"]["body"])


@pytest.mark.parametrize(
    ("model", "base"),
    {
        CLAUDE: CLAUDE,
        f"us.{CLAUDE}": CLAUDE,
        f"eu.{CLAUDE}": CLAUDE,
        f"apac.{CLAUDE}": CLAUDE,
        f"us-gov.{CLAUDE}": CLAUDE,
        f"global.{CLAUDE}": CLAUDE,
        f"jp.{CLAUDE}": CLAUDE,
        f"us.{NOVA}": NOVA,
        f"my.{CLAUDE}": f"my.{CLAUDE}",
        "us.model": "us.model",
        "focus.us.anthropic.x": "focus.us.anthropic.x",
        FOUNDATION: FOUNDATION,
        PROFILE: CLAUDE,
        PROFILE.replace("us.anthropic", "anthropic"): CLAUDE,
        APPLICATION: APPLICATION,
        "": "",
    }.items(),
)
def test_the_base_model(model, base):
    assert base_model(model) == base


def test_the_path_names_the_base_model_of_the_override():
    sent = send(make_translator(override=f"eu.{CLAUDE}"), b'{"model":"m","messages":[]}')
    assert sent.path == f"/model/{CLAUDE}/count-tokens"
    assert sent.headers == ()
    arn = send(make_translator(override=FOUNDATION), b'{"model":"m","messages":[]}')
    assert arn.path == "/model/arn:aws:bedrock:us-east-1::foundation-model%2Fanthropic.claude-z/count-tokens"


def test_claude_counts_the_clients_own_bytes():
    body = b'{"model":"eu.anthropic.claude-z", "messages":[ ] }'
    assert inner(body) == b'{ "messages":[ ] ,"anthropic_version":"bedrock-2023-05-31","max_tokens":1}'
    assert send(make_translator(), body).body == (
        b'{"input":{"invokeModel":{"body":"' + base64.b64encode(inner(body)) + b'"}}}'
    )


@pytest.mark.parametrize(
    ("body", "version", "told"),
    {
        "the configured version": ({}, "bedrock-9", {"anthropic_version": "bedrock-9"}),
        "the client's": ({"anthropic_version": "bedrock-8"}, "", {"anthropic_version": "bedrock-8"}),
        "the configured one wins": (
            {"anthropic_version": "bedrock-8"},
            "bedrock-9",
            {"anthropic_version": "bedrock-9"},
        ),
        "a limit of the client's": ({"max_tokens": 7}, "", {"max_tokens": 7}),
        "no limit": ({"max_tokens": None}, "", {"max_tokens": 1}),
        "room for thoughts": ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "", {"max_tokens": 1025}),
        "thoughts without a budget": ({"thinking": {"type": "adaptive"}}, "", {"max_tokens": 1}),
        "thinking that is none": ({"thinking": 7}, "", {"max_tokens": 1}),
    }.values(),
    ids=str,
)
def test_what_invoke_model_demands(body, version, told):
    spelled = json.dumps({"model": CLAUDE, "messages": [USER], **body}).encode()
    found = json.loads(inner(spelled, version=version))
    assert {name: found[name] for name in told} == told


def test_members_that_come_twice_are_gone_twice():
    body = b'{"model":"m","stream":true,"model":"anthropic.x","messages":[],"str\\u0065am":false}'
    assert inner(body) == b'{"messages":[],"anthropic_version":"bedrock-2023-05-31","max_tokens":1}'


def test_known_beta_flags_go_into_the_body():
    """BR-68."""
    headers = {"anthropic-beta": "token-counting-2024-11-01,files-api-2025-04-14"}
    assert counted(CLAUDE, headers=headers, anthropic_beta=["x"])["anthropic_beta"] == ["token-counting-2024-11-01"]
    assert "anthropic_beta" not in counted(CLAUDE, anthropic_beta=["x"])


def test_claude_may_be_sent_what_converse_cannot_say():
    tools = [{"type": "bash_20250124", "name": "bash"}]
    assert counted(CLAUDE, tools=tools)["tools"] == tools


@pytest.mark.parametrize("model", [NOVA, f"us.{NOVA}", APPLICATION])
def test_other_models_count_what_converse_would_be_sent(model):
    tool = {"name": "f", "input_schema": {"type": "object"}}
    found = counted(model, system="s", tools=[tool], thinking={"type": "disabled"}, headers={"anthropic-beta": "x"})
    assert found == {
        "messages": [{"role": "user", "content": [{"text": "q"}]}],
        "system": [{"text": "s"}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]},
        "additionalModelRequestFields": {"thinking": {"type": "disabled"}},
    }


def test_what_converse_cannot_say_is_refused():
    with pytest.raises(UnprocessableRequest, match="tools\\[0\\] of type bash_20250124"):
        counted(NOVA, tools=[{"type": "bash_20250124", "name": "bash"}])
    with pytest.raises(MalformedRequest, match="/v1/messages/count_tokens"):
        counted(NOVA, messages="x")


# --- answers ---


def test_the_count():
    translator = make_translator()
    assert translator.response_headers({"content-type": "application/json"}) == []
    assert translator.response_body(b'{"inputTo', end_of_stream=False).body == b""
    result = translator.response_body(b'kens":99}', end_of_stream=True)
    assert (result.body, result.model, result.complete) == (b'{"input_tokens":99}', "", True)
    assert result.usage == TokenUsage(input=99)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"<html>", b'{"inputTokens":"9"}', b'{"inputTokens":-1}', b"\xff"])
def test_what_is_no_count_is_unreadable(body):
    with pytest.raises(UnreadableAnswer) as caught:
        make_translator().response_body(body, end_of_stream=True)
    assert isinstance(caught.value, ClientError)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    {
        "of the service": (
            "400",
            b'{"message":"not supported"}',
            {
                "error": {"message": "not supported", "type": "invalid_request_error"},
                "request_id": "r",
                "type": "error",
            },
        ),
        "no JSON": (
            "503",
            b"down",
            {"error": {"message": "down", "type": "api_error"}, "request_id": "r", "type": "error"},
        ),
        "of Claude": (
            "400",
            b'{"type":"error","error":{"type":"invalid_request_error","message":"m"}}',
            {"type": "error", "error": {"type": "invalid_request_error", "message": "m"}},
        ),
    }.values(),
    ids=str,
)
def test_errors_are_of_the_clients_api(status, body, told):
    """BR-70."""
    headers = {"x-amzn-requestid": "r", "x-amzn-errortype": "ValidationException", "content-type": "application/json"}
    assert json.loads(make_translator().response_error(status, headers, body).body or b"") == told

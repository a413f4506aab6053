"""Counting where Claude is: what is sent, what comes back, and what is known of it."""

import base64
import json

import pytest

from extproc.errors import UnreadableAnswer
from extproc.usage import NO_USAGE, TokenUsage
from tests.unit.translate.messages.native import attempts
from tests.unit.translate.messages.native.attempts import COUNT_TOKENS, SCHEMAS
from tests.unit.translate.messages.native.oracle import accepts

KNOWN = "context-1m-2025-08-07"
VERTEX_PATH = "publishers/anthropic/models/count-tokens:rawPredict"
ARN = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-z"


def ask(schema, body, **more):
    return attempts.ask(schema, body, endpoint=COUNT_TOKENS, **more)[1]


def counted(schema, body, **backend):
    return attempts.document(schema, body, endpoint=COUNT_TOKENS, **backend)


def inner(translated):
    """The body that InvokeModel would be sent."""
    return base64.b64decode(json.loads(translated.body)["input"]["invokeModel"]["body"], validate=True)


PATHS = {
    "first party": ("Anthropic", "m", {}, "/v1/messages/count_tokens"),
    "first party, a prefix": ("Anthropic", "m", {"prefix": "gateway/v1"}, "/gateway/v1/messages/count_tokens"),
    "Vertex AI": ("GCPAnthropic", "m", {}, VERTEX_PATH),
    "Bedrock": ("AWSAnthropic", "anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, us": ("AWSAnthropic", "us.anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, eu": ("AWSAnthropic", "eu.anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, apac": ("AWSAnthropic", "apac.anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, us-gov": ("AWSAnthropic", "us-gov.anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, global": ("AWSAnthropic", "global.anthropic.claude-z", {}, "/model/anthropic.claude-z/count-tokens"),
    "Bedrock, override": (
        "AWSAnthropic",
        "m",
        {"model_override": "eu.anthropic.claude-z-v1:0"},
        "/model/anthropic.claude-z-v1:0/count-tokens",
    ),
    "Bedrock, no geography": ("AWSAnthropic", "my.anthropic.x", {}, "/model/my.anthropic.x/count-tokens"),
    "Bedrock, an ARN": ("AWSAnthropic", ARN, {}, f"/model/{ARN.replace('/', '%2F')}/count-tokens"),
}


@pytest.mark.parametrize(("schema", "model", "backend", "path"), PATHS.values(), ids=PATHS)
def test_the_path_is_that_of_the_counter(schema, model, backend, path):
    assert ask(schema, {"model": model}, **backend).path == path


def test_the_query_of_the_client_goes_along_where_its_api_is():
    assert ask("Anthropic", {}, query="beta=true").path == "/v1/messages/count_tokens?beta=true"
    assert ask("GCPAnthropic", {}, query="beta=true").path == VERTEX_PATH
    assert "beta" not in ask("AWSAnthropic", {}, query="beta=true").path


def test_the_first_party_gets_the_clients_bytes():
    body = b'{ "model" : "m", "messages": 7, "stream": "yes" }'
    assert ask("Anthropic", body).body is None
    assert ask("Anthropic", body, force=True).body == body
    assert ask("Anthropic", body, model_override="b").body == b'{ "model" : "b", "messages": 7, "stream": "yes" }'
    assert ask("Anthropic", body).headers == (("anthropic-version", "2023-06-01"),)
    assert ask("Anthropic", body, headers={"anthropic-version": "x"}).headers == ()


MODELS = {
    "claude-x": "claude-x",
    "claude-x@default": "claude-x",
    "claude-x@latest": "claude-x",
    "claude-x@latest@default": "claude-x",
    "claude-x@default@latest": "claude-x@default",
    "claude-x@20251001": "claude-x@20251001",
    "anthropic/claude-x@default": "claude-x",
}


@pytest.mark.parametrize(("model", "expected"), MODELS.items(), ids=MODELS)
def test_vertex_counts_for_a_model_without_aliases(model, expected):
    for body, backend in (({"model": model}, {}), ({"model": "other"}, {"model_override": model})):
        translated = ask("GCPAnthropic", body, **backend)
        assert json.loads(translated.body)["model"] == expected


def test_vertex_gets_model_and_version_in_the_body():
    body = b'{"mod\\u0065l":"a","messages":[],"model":"b@default"}'
    assert ask("GCPAnthropic", body, version="v").body == (
        b'{"mod\\u0065l":"b","messages":[],"model":"b","anthropic_version":"v"}'
    )
    assert ask("GCPAnthropic", body).body.endswith(b'"anthropic_version":"vertex-2023-10-16"}')
    flags = ask("GCPAnthropic", {"anthropic_beta": ["a-1"]}, headers={"anthropic-beta": "b-2"})
    assert flags.headers == (("anthropic-beta", "b-2,a-1"),)
    accepts(flags.path, flags.body)


def test_bedrock_gets_the_body_of_an_invocation():
    """The contract's own example."""
    body = b'{"model":"eu.anthropic.claude-z","messages":[]}'
    translated = ask("AWSAnthropic", body, version="bedrock-2023-05-31")
    assert inner(translated) == b'{"messages":[],"anthropic_version":"bedrock-2023-05-31","max_tokens":1}'
    assert inner(ask("AWSAnthropic", body)) == inner(translated)


def test_bedrock_gets_no_more_than_it_knows():
    """The client's limit stays, model and stream go, and flags are those of both lists that it takes."""
    body = {"max_tokens": 7, "stream": True, "anthropic_beta": ["memory-2025-08-18", KNOWN]}
    translated = ask("AWSAnthropic", body, headers={"anthropic-beta": "files-api-2025-04-14"})
    assert json.loads(inner(translated)) == {
        "messages": attempts.HELLO,
        "max_tokens": 7,
        "anthropic_version": "bedrock-2023-05-31",
        "anthropic_beta": [KNOWN],
    }
    accepts(translated.path, translated.body)


ANSWERS = {
    "a count": (b'{"input_tokens":42}', 42),
    "with more": (b'{ "input_tokens" : 42, "context_management": {} }', 42),
    "a float": (b'{"input_tokens":12.0}', 12),
    "nothing": (b"{}", None),
    "nonsense": (b'{"input_tokens":"42"}', None),
    "no JSON": (b"<html>", None),
    "empty": (b"", None),
}


@pytest.mark.parametrize("schema", ["Anthropic", "GCPAnthropic"])
@pytest.mark.parametrize(("body", "count"), ANSWERS.values(), ids=ANSWERS)
def test_a_count_passes_and_is_input_and_no_output(schema, body, count):
    told = counted(schema, body)
    assert (told.body, told.model) == (None, "")
    assert told.usage == (NO_USAGE if count is None else TokenUsage(input=count))


def test_bedrocks_count_has_another_name():
    told = counted("AWSAnthropic", b'{"inputTokens":99}')
    assert (told.body, told.model, told.usage) == (b'{"input_tokens":99}', "", TokenUsage(input=99))
    assert counted("AWSAnthropic", b'{"inputTokens":12.0}').body == b'{"input_tokens":12}'
    for body in (b"", b"{}", b"<html>", b'{"inputTokens":null}'):
        with pytest.raises(UnreadableAnswer):
            counted("AWSAnthropic", body)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_an_sdk_sends_is_accepted(schema):
    request = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
        "system": "Be brief.",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
    }
    translated = ask(schema, request, model_override="us.anthropic.claude-x")
    assert translated.body is not None
    accepts(translated.path, translated.body)

"""Two versions of Anthropic's API on its three hosts, and how each of them counts tokens."""

import base64
import json

import pytest

from tests.unit.deploy.demo.providers.conversations import APIS, CLAUDE, CONVERSE_REQUEST, VERTEX_CLAUDE

REVISED = "2026-10-21"
NEWER = "anthropic.claude-opus-4-7"
VERSIONED = {
    "Anthropic": {"headers": {"anthropic-version": REVISED}},
    "GCPAnthropic": {"changes": {"anthropic_version": REVISED}},
    "AWSAnthropic": {"changes": {"anthropic_version": REVISED}, "target": f"/model/{NEWER}/invoke"},
}
"""How each host is asked for the newer version."""

ON_ALL_HOSTS = pytest.mark.parametrize("schema", VERSIONED)


def ask(schema, **changes):
    """The status, and the document."""
    how = VERSIONED[schema]
    reply = APIS[schema].ask(
        how.get("changes", {}) | changes, headers=how.get("headers"), target=how.get("target", APIS[schema].target)
    )
    return reply.status, json.loads(reply.body)


@ON_ALL_HOSTS
def test_the_newer_version_is_taken(schema):
    status, message = ask(schema)

    assert status == 200
    assert message["type"] == "message"


CITED = [{"type": "text", "text": "a", "citations": [{"type": "char_location"}]}]
GONE = {
    "temperature": ({"temperature": 1}, "temperature: Extra inputs are not permitted"),
    "top_p": ({"top_p": 0.99}, "top_p: Extra inputs are not permitted"),
    "top_k": ({"top_k": 5}, "top_k: Extra inputs are not permitted"),
    "citations of the user": ({"messages": [{"role": "user", "content": CITED}]}, "citations"),
}


@ON_ALL_HOSTS
@pytest.mark.parametrize(("changes", "complaint"), GONE.values(), ids=GONE)
def test_what_it_has_no_more_is_refused_by_it_alone(schema, changes, complaint):
    status, refused = ask(schema, **changes)

    assert status == 400
    assert complaint in json.dumps(refused)
    assert APIS[schema].ask(changes).status == 200


def test_models_with_a_version_of_bedrocks_know_the_first_version_alone():
    reply = APIS["AWSAnthropic"].ask({"anthropic_version": REVISED})

    assert reply.status == 400
    assert "not supported" in reply.body.decode()


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        (None, "anthropic-version: header is required"),
        ("2024-10-22", 'anthropic-version: "2024-10-22" is not a valid version'),
        ("2023-06-01, 2023-06-01", 'anthropic-version: "2023-06-01, 2023-06-01" is not a valid version'),
    ],
)
def test_a_version_that_never_was(version, complaint):
    reply = APIS["Anthropic"].ask(headers={"anthropic-version": version})

    assert (reply.status, json.loads(reply.body)["error"]["message"]) == (400, complaint)


KEYS = {
    "as SDKs had it": ({"x-api-key": "sk-ant-1"}, 200),
    "as SDKs have it": ({"x-api-key": None, "authorization": "Bearer sk-ant-1"}, 200),
    "in both": ({"x-api-key": "sk-ant-1", "authorization": "Bearer sk-ant-1"}, 200),
    "and somebody else's": ({"x-api-key": "sk-ant-1", "authorization": "Bearer sk-of-the-client"}, 401),
    "nobody's": ({"x-api-key": None}, 401),
    "another": ({"x-api-key": None, "authorization": "Bearer x"}, 401),
}


@pytest.mark.parametrize(("headers", "status"), KEYS.values(), ids=KEYS)
def test_the_key_in_either_header(headers, status):
    assert APIS["Anthropic"].ask(headers=headers).status == status


# --- counts ---

_ANSWERS = {"max_tokens", "stream", "anthropic_version", "model"}
PROMPT = {name: value for name, value in APIS["Anthropic"].request.items() if name not in _ANSWERS}


def tokens_of(schema):
    """All of the prompt, as the provider counts it for an answer."""
    usage = json.loads(APIS[schema].ask().body)["usage"]
    return sum(usage[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))


def count(schema, body, target):
    reply = APIS[schema].ask(body=json.dumps(body).encode(), target=target)
    return reply.status, json.loads(reply.body)


FIRST_PARTY = "/v1/messages/count_tokens"
VERTEX = VERTEX_CLAUDE.replace("claude-sonnet-4-5", "count-tokens:rawPredict")
BEDROCK = f"/model/{CLAUDE}/count-tokens"


def invoked(**changes):
    body = {**PROMPT, "max_tokens": 1, "anthropic_version": "bedrock-2023-05-31", **changes}
    return {"input": {"invokeModel": {"body": base64.b64encode(json.dumps(body).encode()).decode()}}}


def test_anthropic_counts():
    for query in ("", "?beta=true"):
        told = count("Anthropic", {**PROMPT, "model": "claude-x"}, FIRST_PARTY + query)
        assert told == (200, {"input_tokens": tokens_of("Anthropic")})


def test_google_counts_with_a_model_of_its_own():
    body = {**PROMPT, "model": "claude-x@20990101", "anthropic_version": "vertex-2023-10-16"}

    assert count("GCPAnthropic", body, VERTEX) == (200, {"input_tokens": tokens_of("GCPAnthropic")})


def test_amazon_counts_either_request():
    assert count("AWSAnthropic", invoked(), BEDROCK) == (200, {"inputTokens": tokens_of("AWSAnthropic")})
    status, told = count("AWSBedrock", {"input": {"converse": CONVERSE_REQUEST}}, BEDROCK)
    assert status == 200
    assert told["inputTokens"] > 0


UNCOUNTED = {
    "Anthropic: a limit": ("Anthropic", {**PROMPT, "model": "claude-x", "max_tokens": 1}, FIRST_PARTY),
    "Anthropic: no model": ("Anthropic", PROMPT, FIRST_PARTY),
    "Anthropic: no messages": ("Anthropic", {**PROMPT, "model": "claude-x", "messages": []}, FIRST_PARTY),
    "Google: no version": ("GCPAnthropic", {**PROMPT, "model": "claude-x"}, VERTEX),
    "Amazon: no limit": ("AWSAnthropic", invoked(max_tokens=None), BEDROCK),
    "Amazon: a model": ("AWSAnthropic", invoked(model="claude-x"), BEDROCK),
    "Amazon: a profile": ("AWSAnthropic", invoked(), f"/model/us.{CLAUDE}/count-tokens"),
    "Amazon: both": ("AWSAnthropic", {"input": {**invoked()["input"], "converse": CONVERSE_REQUEST}}, BEDROCK),
    "Amazon: neither": ("AWSAnthropic", {"input": {}}, BEDROCK),
    "Amazon: another maker's": ("AWSAnthropic", invoked(), "/model/amazon.nova-pro-v1:0/count-tokens"),
}


@pytest.mark.parametrize(("schema", "body", "target"), UNCOUNTED.values(), ids=UNCOUNTED)
def test_what_cannot_be_counted(schema, body, target):
    assert count(schema, body, target)[0] == 400


@pytest.mark.parametrize("model", ["claude-x@default", "claude-x@latest", "gemini-9"])
def test_google_does_not_count_for_a_model_that_it_does_not_have(model):
    body = {**PROMPT, "model": model, "anthropic_version": "vertex-2023-10-16"}

    assert count("GCPAnthropic", body, VERTEX)[0] == 404

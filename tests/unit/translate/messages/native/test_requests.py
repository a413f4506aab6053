"""What is sent to the three places that speak Anthropic's API: paths, headers, and bodies byte for byte."""

import json

import pytest

from extproc.errors import MalformedRequest
from tests.unit.translate.messages.native.attempts import CLOUDS, SCHEMAS, ask, sent
from tests.unit.translate.messages.native.oracle import accepts

ARN = "arn:aws:bedrock:us-east-1:1:application-inference-profile/aaaaaaaaa"

PATHS = {
    "first party": ("Anthropic", {}, {}, "/v1/messages"),
    "first party, stream": ("Anthropic", {"stream": True}, {}, "/v1/messages"),
    "first party, prefix of two": ("Anthropic", {}, {"prefix": "gateway/v1"}, "/gateway/v1/messages"),
    "first party, absolute prefix": ("Anthropic", {}, {"prefix": "/custom"}, "/custom/messages"),
    "Vertex AI": ("GCPAnthropic", {}, {}, "publishers/anthropic/models/claude-x:rawPredict"),
    "Vertex AI, no stream": ("GCPAnthropic", {"stream": False}, {}, "publishers/anthropic/models/claude-x:rawPredict"),
    "Vertex AI, stream": (
        "GCPAnthropic",
        {"stream": True},
        {},
        "publishers/anthropic/models/claude-x:streamRawPredict",
    ),
    "Vertex AI, override": (
        "GCPAnthropic",
        {},
        {"model_override": "claude-y@20251001"},
        "publishers/anthropic/models/claude-y@20251001:rawPredict",
    ),
    "Vertex AI, a name that climbs": (
        "GCPAnthropic",
        {"model": "../../x"},
        {},
        "publishers/anthropic/models/..%2F..%2Fx:rawPredict",
    ),
    "Bedrock": (
        "AWSAnthropic",
        {"model": "anthropic.claude-3-sonnet-20240229-v1:0"},
        {},
        "/model/anthropic.claude-3-sonnet-20240229-v1:0/invoke",
    ),
    "Bedrock, stream": (
        "AWSAnthropic",
        {"stream": True, "model": "global.anthropic.claude-sonnet-4-5-v1:0"},
        {},
        "/model/global.anthropic.claude-sonnet-4-5-v1:0/invoke-with-response-stream",
    ),
    "Bedrock, an ARN": (
        "AWSAnthropic",
        {},
        {"model_override": ARN},
        "/model/arn:aws:bedrock:us-east-1:1:application-inference-profile%2Faaaaaaaaa/invoke",
    ),
}


@pytest.mark.parametrize(("schema", "request_", "backend", "path"), PATHS.values(), ids=PATHS)
def test_the_path_says_what_the_place_wants_to_know(schema, request_, backend, path):
    assert ask(schema, request_, **backend)[1].path == path


def test_the_query_of_the_client_goes_along_where_its_api_is():
    assert ask("Anthropic", {}, query="beta=true")[1].path == "/v1/messages?beta=true"
    for schema in CLOUDS:
        assert "beta" not in ask(schema, {}, query="beta=true")[1].path


BODIES = {
    "first party, override": (
        "Anthropic",
        '{ "x":1, "model" : "a" , "y":2.50, "stream": false}',
        {"model_override": "b"},
        '{ "x":1, "model" : "b" , "y":2.50, "stream": false}',
    ),
    "first party, override, twice and escaped": (
        "Anthropic",
        '{"model":"a","x":{"model":"n"},"mod\\u0065l":"c"}',
        {"model_override": "b"},
        '{"model":"b","x":{"model":"n"},"mod\\u0065l":"b"}',
    ),
    "first party, two models": (
        "Anthropic",
        '{"model":"dear","model":"cheap"}',
        {},
        '{"model":"cheap","model":"cheap"}',
    ),
    "first party, two streams": (
        "Anthropic",
        '{"model":"m","stream":true,"str\\u0065am":false}',
        {},
        '{"model":"m","stream":false,"str\\u0065am":false}',
    ),
    "first party, override with quotes": (
        "Anthropic",
        '{"model":"a"}',
        {"model_override": 'ü"<b>\\'},
        '{"model":"ü\\"<b>\\\\"}',
    ),
    "Vertex AI": (
        "GCPAnthropic",
        '{"model":"claude-x","max_tokens":9,"messages":[]}',
        {"version": "vertex-2023-10-16"},
        '{"max_tokens":9,"messages":[],"anthropic_version":"vertex-2023-10-16"}',
    ),
    "Vertex AI, stream stays": (
        "GCPAnthropic",
        '{"model":"m","stream":true}',
        {"version": "v"},
        '{"stream":true,"anthropic_version":"v"}',
    ),
    "Vertex AI, no version": (
        "GCPAnthropic",
        '{"model":"m","x":1}',
        {},
        '{"x":1,"anthropic_version":"vertex-2023-10-16"}',
    ),
    "Vertex AI, the client's version": (
        "GCPAnthropic",
        '{"model":"m","anthropic_version":"vertex-2099-01-01"}',
        {},
        '{"anthropic_version":"vertex-2099-01-01"}',
    ),
    "Vertex AI, the client's version of a later kind": (
        "GCPAnthropic",
        '{"model":"m","anthropic_version":"2099-01-01"}',
        {},
        '{"anthropic_version":"2099-01-01"}',
    ),
    "Bedrock, an empty version": (
        "AWSAnthropic",
        '{"model":"m","anthropic_version":""}',
        {},
        '{"anthropic_version":"bedrock-2023-05-31"}',
    ),
    "Vertex AI, the client's version of elsewhere": (
        "GCPAnthropic",
        '{"anthropic_version":"bedrock-2023-05-31","model":"m"}',
        {},
        '{"anthropic_version":"vertex-2023-10-16"}',
    ),
    "Vertex AI, the backend's version wins": (
        "GCPAnthropic",
        '{"anthropic_version":"a","model":"m","anthropic\\u005fversion":"b"}',
        {"version": "v"},
        '{"anthropic_version":"v","anthropic\\u005fversion":"v"}',
    ),
    "Vertex AI, everything twice": (
        "GCPAnthropic",
        '{"model":"a","stream":true,"model":"b","stream":false,"mo\\u0064el":"c"}',
        {"version": "v"},
        '{"stream":false,"stream":false,"anthropic_version":"v"}',
    ),
    "Vertex AI, blanks": (
        "GCPAnthropic",
        '{ "model": "a" , "x":1 }\n',
        {"version": "v"},
        '{ "x":1 ,"anthropic_version":"v"}',
    ),
    "Vertex AI, nothing but the model": (
        "GCPAnthropic",
        '{"model":"a"}',
        {"version": "v"},
        '{"anthropic_version":"v"}',
    ),
    "Bedrock": (
        "AWSAnthropic",
        '{"model":"m","stream":true,"max_tokens":9,"messages":[]}',
        {"version": "bedrock-2023-05-31"},
        '{"max_tokens":9,"messages":[],"anthropic_version":"bedrock-2023-05-31"}',
    ),
    "Bedrock, no version": (
        "AWSAnthropic",
        '{"a":1,"model":"m","b":2,"stream":false}',
        {},
        '{"a":1,"b":2,"anthropic_version":"bedrock-2023-05-31"}',
    ),
    "Bedrock, the client's version": (
        "AWSAnthropic",
        '{"model":"m","anthropic_version":"bedrock-2099"}',
        {},
        '{"anthropic_version":"bedrock-2099"}',
    ),
    "Bedrock, a version that is none": (
        "AWSAnthropic",
        '{"model":"m","anthropic_version":null}',
        {},
        '{"anthropic_version":"bedrock-2023-05-31"}',
    ),
    "Bedrock, everything twice": (
        "AWSAnthropic",
        '{"model":"a","model":"b","x":1,"stream":true,"stream":true,"str\\u0065am":true}',
        {"version": "v"},
        '{"x":1,"anthropic_version":"v"}',
    ),
    "Bedrock, nested ones stay": (
        "AWSAnthropic",
        '{"model":"a","x":{"model":"n","stream":1,"anthropic_version":2}}',
        {"version": "v"},
        '{"x":{"model":"n","stream":1,"anthropic_version":2},"anthropic_version":"v"}',
    ),
}


@pytest.mark.parametrize(("schema", "body", "backend", "expected"), BODIES.values(), ids=BODIES)
def test_a_body_keeps_its_bytes_but_for_what_the_place_demands(schema, body, backend, expected):
    assert sent(schema, body.encode(), **backend).decode() == expected


def test_the_first_party_gets_the_clients_bytes():
    body = b'{ "model": "m",\n\t"future": {"x": [1.0, 1e400]}, "messages": "not even a list" }\n'
    assert ask("Anthropic", body)[1].body is None
    assert ask("Anthropic", body, model_override="m")[1].body is None
    assert ask("Anthropic", body, force=True)[1].body == body


def test_what_only_the_provider_knows_is_not_checked():
    request = {"messages": 7, "tools": "x", "thinking": {"type": 1}, "system": [None]}
    for schema in SCHEMAS:
        ask(schema, request)


def test_more_members_of_a_name_than_anyone_sends_take_no_time_to_speak_of():
    body = b'{"model":"m"' + b',"stream":true' * 50_000 + b"}"
    assert sent("AWSAnthropic", body, version="v") == b'{"anthropic_version":"v"}'
    assert sent("GCPAnthropic", body, version="v").count(b"true") == 50_000


# --- versions and flags ---


def test_the_version_header_is_set_where_the_client_has_none():
    assert ask("Anthropic", {})[1].headers == (("anthropic-version", "2023-06-01"),)
    assert ask("Anthropic", {}, headers={"anthropic-version": "2099-01-01"})[1].headers == ()
    assert ask("Anthropic", {}, headers={"anthropic-version": ""})[1].headers == (("anthropic-version", "2023-06-01"),)


KNOWN, OTHER, UMBRELLA = "context-1m-2025-08-07", "interleaved-thinking-2025-05-14", "advanced-tool-use-2025-11-20"
MAPPED = "tool-search-tool-2025-10-19"
REFUSED = "prompt-caching-2024-07-31", "files-api-2025-04-14", "memory-2025-08-18"

BETAS = {
    "one": (KNOWN, None, [KNOWN]),
    "several, in order": (f"{OTHER},{KNOWN}", None, [OTHER, KNOWN]),
    "blanks": (f"  {KNOWN} ,\t{OTHER} ", None, [KNOWN, OTHER]),
    "others are dropped": (f"{KNOWN},{REFUSED[0]},x", None, [KNOWN]),
    "an umbrella": (f"{KNOWN}, memory-2025-08-18, {UMBRELLA}", None, [KNOWN, MAPPED]),
    "an umbrella and what is below it": (f"{UMBRELLA},{MAPPED}", None, [MAPPED]),
    "an umbrella among others": (f"{UMBRELLA},{REFUSED[1]}", None, [MAPPED]),
    "only others": (",".join(REFUSED), None, None),
    "empty": ("", None, None),
    "no header": (None, None, None),
    "the body's own": (None, [OTHER, REFUSED[0]], [OTHER]),
    "only others in the body": (None, [*REFUSED], None),
    "an empty list": (None, [], None),
    "both": (f"{KNOWN},x", [OTHER, KNOWN, UMBRELLA, "y"], [KNOWN, OTHER, MAPPED]),
    "the body's is no list": (KNOWN, "x", [KNOWN]),
    "the body's holds no text": (KNOWN, [1, None, OTHER], [KNOWN, OTHER]),
}


@pytest.mark.parametrize(("header", "listed", "expected"), BETAS.values(), ids=BETAS)
def test_bedrock_gets_the_flags_that_it_knows(header, listed, expected):
    """BR-68: one that it does not know would fail the whole request."""
    headers = {} if header is None else {"anthropic-beta": header}
    body = sent(
        "AWSAnthropic", {"max_tokens": 1} | ({} if listed is None else {"anthropic_beta": listed}), headers=headers
    )
    assert json.loads(body).get("anthropic_beta") == expected
    accepts("/model/m/invoke", body)


def test_flags_of_a_body_that_lists_them_twice_are_replaced_in_both_places():
    body = b'{"model":"m","anthropic_beta":["x"],"anthropic_b\\u0065ta":["%b"]}' % KNOWN.encode()
    expected = b'{"anthropic_beta":["%b"],"anthropic_b\\u0065ta":["%b"],"anthropic_version":"v"}'
    assert sent("AWSAnthropic", body, version="v") == expected % (KNOWN.encode(), KNOWN.encode())


VERTEX_BETAS = {
    "header alone": ("a-1,b-2", None, None),
    "neither": (None, None, None),
    "list alone": (None, ["a-1", "b-2"], "a-1,b-2"),
    "both": ("b-2, a-1", ["a-1", "c-3"], "b-2,a-1,c-3"),
}


@pytest.mark.parametrize(("header", "listed", "expected"), VERTEX_BETAS.values(), ids=VERTEX_BETAS)
def test_google_gets_the_flags_in_the_header(header, listed, expected):
    """BR-69: they are refused when they stand in the body alone. The client's header travels on by itself."""
    headers = {} if header is None else {"anthropic-beta": header}
    _, translated = ask("GCPAnthropic", {"anthropic_beta": listed} if listed else {}, headers=headers)
    assert dict(translated.headers).get("anthropic-beta") == expected
    assert "anthropic_beta" not in json.loads(translated.body)


@pytest.mark.parametrize("listed", ["x", 7, ["a\r\nx-api-key: b"], ["a,b"], [None]])
def test_flags_that_no_header_can_carry_stay_for_google_to_refuse(listed):
    _, translated = ask("GCPAnthropic", {"anthropic_beta": listed})
    assert translated.headers == ()
    assert json.loads(translated.body)["anthropic_beta"] == listed


# --- what a client can do wrong ---

MALFORMED = {
    "no model": b"{}",
    "a null model": b'{"model":null}',
    "an empty model": b'{"model":""}',
    "a model that is a number": b'{"model":7}',
    "a stream that is text": b'{"model":"m","stream":"true"}',
    "a list": b"[]",
    "empty": b"",
    "null": b"null",
    "garbage behind": b'{"model":"m"}x',
    "not a number": b'{"model":"m","x":NaN}',
    "no text": b'{"model":"\xff"}',
    "deep": b'{"model":"m","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a line break in the model": b'{"model":"a\\nb"}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_is_refused(body):
    """BR-67: by us, with a 400, and not by an exception of another kind."""
    with pytest.raises(MalformedRequest):
        ask("Anthropic", body)

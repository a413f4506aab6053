"""The rules of HTTP, addresses and credentials: a request that breaks one is refused in the provider's own shape."""

from __future__ import annotations

import json

import pytest

from tests.unit.deploy.demo.providers.conversations import APIS, CLAUDE, GEMINI, SIGNED, VERTEX_CLAUDE

EVERYWHERE = pytest.mark.parametrize("schema", APIS)


def fault_of(schema, reply):
    """Name and message of an error, read as clients of this API read it."""
    assert reply.header("content-type") == "application/json"
    told = json.loads(reply.body)
    match schema:
        case "AWSBedrock" | "AWSAnthropic":
            assert set(told) == {"message"}
            return reply.header("x-amzn-errortype"), told["message"]
        case "Anthropic":
            assert told["type"] == "error"
            return told["error"]["type"], told["error"]["message"]
        case "GCPVertexAI" | "GCPAnthropic":
            assert told["error"]["code"] == reply.status
            return told["error"]["status"], told["error"]["message"]
        case _:
            return told["error"].get("type", told["error"]["code"]), told["error"]["message"]


BAD_REQUEST = {
    "OpenAI": "invalid_request_error",
    "AzureOpenAI": "invalid_request_error",
    "AWSBedrock": "ValidationException",
    "GCPVertexAI": "INVALID_ARGUMENT",
    "GCPAnthropic": "INVALID_ARGUMENT",
    "AWSAnthropic": "ValidationException",
    "Anthropic": "invalid_request_error",
}
BROKEN = {
    "no content-length": ({"content-length": None}, 411, "content-length"),
    "another content-length": ({"content-length": "3"}, 411, "content-length"),
    "no content-type": ({"content-type": None}, 415, "application/json"),
    "text": ({"content-type": "text/plain"}, 415, "application/json"),
}


@EVERYWHERE
@pytest.mark.parametrize(("headers", "status", "complaint"), BROKEN.values(), ids=BROKEN)
def test_a_body_needs_its_length_and_type(schema, headers, status, complaint):
    reply = APIS[schema].ask(headers=headers)

    assert reply.status == status
    name, message = fault_of(schema, reply)
    assert name == BAD_REQUEST[schema]
    assert complaint in message


@EVERYWHERE
def test_another_method(schema):
    assert APIS[schema].ask(method="PUT").status == 405


@EVERYWHERE
def test_a_credential_that_came_twice(schema):
    api = APIS[schema]
    body = json.dumps(api.request).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), *api.headers.items()]

    reply = api.provider.answer("POST", api.target, [*headers, next(iter(api.headers.items()))], body)

    assert reply.status == 400
    assert "came 2 times" in fault_of(schema, reply)[1]


@EVERYWHERE
def test_a_path_that_there_is_not(schema):
    assert APIS[schema].ask(target="/v1/nothing").status == 404


@EVERYWHERE
def test_a_query_that_there_is_not(schema):
    target = APIS[schema].target
    reply = APIS[schema].ask(target=f"{target}{'&' if '?' in target else '?'}trace=1")

    assert reply.status == 400
    assert "'trace'" in fault_of(schema, reply)[1]


@EVERYWHERE
def test_no_json(schema):
    reply = APIS[schema].ask(body=b'{"')

    assert reply.status == 400
    assert b"not JSON" in reply.body


@EVERYWHERE
def test_an_unknown_member(schema):
    reply = APIS[schema].ask({"frobnicate": True})

    assert reply.status == 400
    assert b"unknown field `frobnicate`" in reply.body


OTHER_CREDENTIALS = {
    "OpenAI: none": ("OpenAI", {"authorization": None}, "invalid_request_error"),
    "OpenAI: another key": ("OpenAI", {"authorization": "Bearer sk-2"}, "invalid_request_error"),
    "OpenAI: no scheme": ("OpenAI", {"authorization": "sk-1"}, "invalid_request_error"),
    "Azure: none": ("AzureOpenAI", {"api-key": None}, "401"),
    "Azure: another key": ("AzureOpenAI", {"api-key": "sk-1"}, "401"),
    "Azure: a key and a token": ("AzureOpenAI", {"authorization": "Bearer entra-1"}, "401"),
    "Google: none": ("GCPVertexAI", {"authorization": None}, "UNAUTHENTICATED"),
    "Google: another token": ("GCPAnthropic", {"authorization": "Bearer sk-1"}, "UNAUTHENTICATED"),
    "Anthropic: none": ("Anthropic", {"x-api-key": None}, "authentication_error"),
    "Anthropic: another key": ("Anthropic", {"x-api-key": "sk-1"}, "authentication_error"),
    "Anthropic: a token too": ("Anthropic", {"authorization": "Bearer x"}, "authentication_error"),
}


@pytest.mark.parametrize(("schema", "headers", "name"), OTHER_CREDENTIALS.values(), ids=OTHER_CREDENTIALS)
def test_a_credential_that_lets_nobody_in(schema, headers, name):
    reply = APIS[schema].ask(headers=headers)

    assert reply.status == 401
    assert fault_of(schema, reply)[0] == name


SIGNATURES = {
    "none": ({"authorization": None}, "MissingAuthenticationTokenException"),
    "a bearer token": ({"authorization": "Bearer x"}, "MissingAuthenticationTokenException"),
    "of a stranger": ({"authorization": SIGNED.replace("AKIDEXAMPLE", "AKIDOTHER")}, "UnrecognizedClientException"),
    "for another region": ({"authorization": SIGNED.replace("us-east-1", "eu-west-1")}, "InvalidSignatureException"),
    "for another service": (
        {"authorization": SIGNED.replace("/bedrock/", "/s3/")},
        "MissingAuthenticationTokenException",
    ),
    "of the host not": ({"authorization": SIGNED.replace("host;", "")}, "InvalidSignatureException"),
    "of another day": ({"x-amz-date": "20260102T000000Z"}, "InvalidSignatureException"),
    "without a date": ({"x-amz-date": None}, "InvalidSignatureException"),
}


@pytest.mark.parametrize(("headers", "name"), SIGNATURES.values(), ids=SIGNATURES)
@pytest.mark.parametrize("schema", ["AWSBedrock", "AWSAnthropic"])
def test_a_signature_that_lets_nobody_in(schema, headers, name):
    reply = APIS[schema].ask(headers=headers)

    assert reply.status == 403
    assert fault_of(schema, reply)[0] == name


def test_azure_takes_a_token_as_well():
    assert APIS["AzureOpenAI"].ask(headers={"api-key": None, "authorization": "Bearer entra-1"}).status == 200


AZURE = "/openai/deployments/gpt-5/chat/completions"


@pytest.mark.parametrize("query", ["", "?api-version=", "?api-version=v1"])
def test_azure_needs_a_version_of_its_api(query):
    reply = APIS["AzureOpenAI"].ask(target=AZURE + query)

    assert reply.status == 404
    assert "api-version" in fault_of("AzureOpenAI", reply)[1]


@pytest.mark.parametrize("version", [None, "2024-01-01"])
def test_anthropic_needs_a_version_in_a_header(version):
    reply = APIS["Anthropic"].ask(headers={"anthropic-version": version})

    assert reply.status == 400
    assert "anthropic-version" in fault_of("Anthropic", reply)[1]


PLACES = {
    "another project": (GEMINI.replace("project-1", "project-2") + ":generateContent", 403),
    "another location": (GEMINI.replace("us-central1", "europe-west4") + ":generateContent", 403),
    "a model of another maker": (GEMINI.replace("gemini-2.5-pro", "claude-x") + ":generateContent", 404),
    "a method of another publisher": (f"{GEMINI}:rawPredict", 404),
    "no leading slash": (f"{GEMINI}:generateContent"[1:], 404),
    "a stream that is no event stream": (f"{GEMINI}:streamGenerateContent", 400),
}


@pytest.mark.parametrize(("target", "status"), PLACES.values(), ids=PLACES)
def test_an_address_at_google_that_is_wrong(target, status):
    assert APIS["GCPVertexAI"].ask(target=target).status == status


MODELS = {
    "a name": (f"/model/{CLAUDE}/converse", 200),
    "an escaped colon": (f"/model/{CLAUDE.replace(':', '%3A')}/converse", 200),
    "a profile": (
        "/model/arn:aws:bedrock:us-east-1:111122223333:inference-profile%2Fus.anthropic.claude-x-v1:0/converse",
        200,
    ),
    "a slash": (
        "/model/arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.anthropic.claude-x-v1:0/converse",
        404,
    ),
    "a blank": ("/model/claude%20x/converse", 400),
    "an unescaped character": ("/model/claude(x)/converse", 400),
    "another operation": (f"/model/{CLAUDE}/apply", 404),
}


@pytest.mark.parametrize(("target", "status"), MODELS.values(), ids=MODELS)
def test_the_name_of_a_model_at_amazon(target, status):
    assert APIS["AWSBedrock"].ask(target=target).status == status


def test_invoke_is_for_claude_here():
    reply = APIS["AWSAnthropic"].ask(target="/model/amazon.nova-pro-v1:0/invoke")

    assert reply.status == 400
    assert "Messages API" in fault_of("AWSAnthropic", reply)[1]


@pytest.mark.parametrize("stream", [True, False])
def test_method_and_body_at_google_agree_on_streaming(stream):
    target = f"{VERTEX_CLAUDE}:{'rawPredict' if stream else 'streamRawPredict'}"

    assert APIS["GCPAnthropic"].ask({"stream": stream}, target=target).status == 400

"""Credentials that a request brings: sources, absence, fallback, refusal (contract 6.4, 10.9)."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from extproc.auth.build import build_authenticator
from extproc.auth.sources import Cells
from extproc.errors import ClientError, IncompleteCredential, MissingCredential
from filter_config.model import BackendAuth
from filter_config.redact import dec_hook
from tests.support.sigv4_verifier import verify

FILE = "[default]\naws_access_key_id = AKIASTATIC\naws_secret_access_key = static\n"

API_KEY = {"apiKey": {"key": "static"}}
AZURE_API_KEY = {"azureAPIKey": {"key": "static"}}
AZURE = {"azure": {"accessToken": "static"}}
ANTHROPIC = {"anthropicAPIKey": {"key": "static"}}
GCP = {"gcp": {"accessToken": "static", "region": "us-central1", "projectName": "test-project"}}
AWS = {"aws": {"credentialFileLiteral": FILE, "region": "us-east-1"}}

METADATA_SOURCE = {"dynamicMetadataNamespace": "ns", "dynamicMetadataKey": "k"}


def build(method: dict[str, Any], override: dict[str, Any], *, fallback: bool = False):
    auth = {**method, "credentialOverride": {**override, "fallbackToConfigured": fallback}}
    return build_authenticator(msgspec.convert(auth, BackendAuth, dec_hook=dec_hook), Cells())


# --- tokens ---

SCHEMES = {
    "api key": (API_KEY, [("Authorization", "Bearer mine")]),
    "azure token": (AZURE, [("Authorization", "Bearer mine")]),
    "azure api key": (AZURE_API_KEY, [("api-key", "mine")]),
    "anthropic": (ANTHROPIC, [("x-api-key", "mine")]),
    "gcp": (
        GCP,
        [
            (":path", "/v1/projects/test-project/locations/us-central1/model/m/converse"),
            ("Authorization", "Bearer mine"),
        ],
    ),
}
SOURCES = {
    "header": ({"headerName": "x-k"}, {"headers": {"x-k": " mine "}}),
    "header in capitals": ({"headerName": "X-K"}, {"headers": {"x-k": "mine"}}),
    "metadata": (METADATA_SOURCE, {"metadata": {"ns": {"k": "\tmine\n"}}}),
    "a header wins over metadata": (
        {"headerName": "x-k", **METADATA_SOURCE},
        {"headers": {"x-k": "mine"}, "metadata": {"ns": {"k": "other"}}},
    ),
}


@pytest.mark.parametrize(("source", "brings"), SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(("method", "expected"), SCHEMES.values(), ids=SCHEMES)
def test_a_token_of_the_request_is_applied_as_the_configured_one_would_be(call, method, expected, source, brings):
    for fallback in (True, False):
        assert build(method, source, fallback=fallback).authenticate(call(**brings)) == expected


ABSENT_TOKENS = {
    "no header": ({"headerName": "x-k"}, {}),
    "an empty header": ({"headerName": "x-k"}, {"headers": {"x-k": ""}}),
    "a blank header": ({"headerName": "x-k"}, {"headers": {"x-k": " \t"}}),
    "a header, but metadata is not looked at": (
        {"headerName": "x-k", **METADATA_SOURCE},
        {"metadata": {"ns": {"k": "mine"}}},
    ),
    "no metadata": (METADATA_SOURCE, {}),
    "another namespace": (METADATA_SOURCE, {"metadata": {"other": {"k": "mine"}}}),
    "another key": (METADATA_SOURCE, {"metadata": {"ns": {"other": "mine"}}}),
    "a number": (METADATA_SOURCE, {"metadata": {"ns": {"k": 5}}}),
    "a struct": (METADATA_SOURCE, {"metadata": {"ns": {"k": {"accessKeyId": "a"}}}}),
    "null": (METADATA_SOURCE, {"metadata": {"ns": {"k": None}}}),
    "blanks in metadata": (METADATA_SOURCE, {"metadata": {"ns": {"k": "  "}}}),
    "what no header can carry": (METADATA_SOURCE, {"metadata": {"ns": {"k": "a\nb: c"}}}),
    "no source": ({}, {"headers": {"x-k": "mine"}, "metadata": {"": {"": "mine"}}}),
}


@pytest.mark.parametrize(("source", "brings"), ABSENT_TOKENS.values(), ids=ABSENT_TOKENS)
@pytest.mark.parametrize(("method", "mine"), SCHEMES.values(), ids=SCHEMES)
def test_without_a_token_the_configured_one_is_used_or_the_request_refused(call, method, mine, source, brings):
    made = call(**brings)
    expected = [(name, value.replace("mine", "static")) for name, value in mine]
    assert build(method, source, fallback=True).authenticate(made) == expected
    with pytest.raises(MissingCredential, match=r"^missing upstream credential$"):
        build(method, source).authenticate(made)


# --- AWS ---

SECRETS = {"AKIASTATIC": "static", "AKIAMINE": "mine"}
PREFIX = {"headerName": "x-aigw-aws-"}


@dataclass
class Brought:
    """What a request brings; ``key_id`` and ``token`` are what it must be signed with."""

    override: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    token: str | None = None


def parts(prefix: str = "x-aigw-aws-", *, key_id: str = "", secret: str = "", token: str = "") -> dict[str, str]:
    named = {"access-key-id": key_id, "secret-access-key": secret, "session-token": token}
    return {prefix + name: value for name, value in named.items() if value}


def struct(**members: Any) -> dict[str, Any]:
    return {"ns": {"k": members}}


BROUGHT = {
    "three headers": Brought(PREFIX, parts(key_id="AKIAMINE", secret="mine", token="t"), token="t"),
    "no session token": Brought(PREFIX, parts(key_id="AKIAMINE", secret="mine")),
    "blanks around": Brought(PREFIX, parts(key_id=" AKIAMINE ", secret="\tmine ", token=" t "), token="t"),
    "a blank session token": Brought(PREFIX, parts(key_id="AKIAMINE", secret="mine", token="  ")),
    "a custom prefix": Brought(
        {"headerName": "x-tenant-aws-"}, parts("x-tenant-aws-", key_id="AKIAMINE", secret="mine")
    ),
    "a prefix in capitals": Brought({"headerName": "X-Tenant"}, parts("x-tenant", key_id="AKIAMINE", secret="mine")),
    "a struct": Brought(
        METADATA_SOURCE,
        metadata=struct(accessKeyId="AKIAMINE", secretAccessKey="mine", sessionToken="t"),
        token="t",
    ),
    "a struct without a token": Brought(
        METADATA_SOURCE, metadata=struct(accessKeyId=" AKIAMINE", secretAccessKey="mine\n")
    ),
    "a token of another kind": Brought(
        METADATA_SOURCE, metadata=struct(accessKeyId="AKIAMINE", secretAccessKey="mine", sessionToken=5)
    ),
    "headers win over metadata": Brought(
        {**PREFIX, **METADATA_SOURCE},
        parts(key_id="AKIAMINE", secret="mine"),
        struct(accessKeyId="AKIAOTHER", secretAccessKey="other"),
    ),
}


def signed_with(made, headers):
    host = made.headers.get("x-ai-eg-upstream-host", "bedrock-runtime.us-east-1.amazonaws.com")
    return verify(
        method=made.headers[":method"],
        path=made.headers[":path"],
        headers=[("host", host), *headers],
        body=made.body,
        secrets=SECRETS,
    )


@pytest.mark.parametrize("fallback", [True, False], ids=["fallback", "no fallback"])
@pytest.mark.parametrize("case", BROUGHT.values(), ids=BROUGHT)
def test_a_request_is_signed_with_the_key_that_it_brings(call, case, fallback):
    made = call(case.headers, metadata=case.metadata)
    signature = signed_with(made, build(AWS, case.override, fallback=fallback).authenticate(made))
    assert signature.access_key_id == "AKIAMINE"
    assert signature.session_token == case.token


def test_host_and_region_follow_the_same_rules(call):
    made = call(
        {**parts(key_id="AKIAMINE", secret="mine"), "x-ai-eg-upstream-host": "bedrock-runtime.eu-west-3.amazonaws.com"}
    )
    assert signed_with(made, build(AWS, PREFIX).authenticate(made)).region == "eu-west-3"


ABSENT_KEYS = {
    "no headers": Brought(PREFIX),
    "blank headers": Brought(PREFIX, parts(key_id=" ", secret="  ", token="\t")),
    "headers of another prefix": Brought(PREFIX, parts("x-other-", key_id="AKIAMINE", secret="mine")),
    "the prefix as a header": Brought(PREFIX, {"x-aigw-aws-": "AKIAMINE"}),
    "no metadata": Brought(METADATA_SOURCE),
    "another namespace": Brought(METADATA_SOURCE, metadata={"other": {"k": {"accessKeyId": "AKIAMINE"}}}),
    "a string": Brought(METADATA_SOURCE, metadata={"ns": {"k": "AKIAMINE"}}),
    "an empty struct": Brought(METADATA_SOURCE, metadata=struct()),
    "members of other kinds": Brought(METADATA_SOURCE, metadata=struct(accessKeyId=1, secretAccessKey={"a": "b"})),
    "members of other names": Brought(METADATA_SOURCE, metadata=struct(access_key_id="AKIAMINE")),
    "no source": Brought({}, parts(key_id="AKIAMINE", secret="mine")),
}


@pytest.mark.parametrize("case", ABSENT_KEYS.values(), ids=ABSENT_KEYS)
def test_without_a_key_the_configured_one_is_used_or_the_request_refused(call, case):
    made = call(case.headers, metadata=case.metadata)
    fallback = build(AWS, case.override, fallback=True).authenticate(made)
    assert signed_with(made, fallback).access_key_id == "AKIASTATIC"
    with pytest.raises(MissingCredential):
        build(AWS, case.override).authenticate(made)


INCOMPLETE = {
    "id only": Brought(PREFIX, parts(key_id="AKIAMINE")),
    "secret only": Brought(PREFIX, parts(secret="mine")),
    "token only": Brought(PREFIX, parts(token="t")),
    "id and token": Brought(PREFIX, parts(key_id="AKIAMINE", token="t")),
    "secret and token": Brought(PREFIX, parts(secret="mine", token="t")),
    "a blank secret": Brought(PREFIX, parts(key_id="AKIAMINE", secret="  ")),
    "id only, in a struct": Brought(METADATA_SOURCE, metadata=struct(accessKeyId="AKIAMINE")),
    "a secret of another kind": Brought(
        METADATA_SOURCE, metadata=struct(accessKeyId="AKIAMINE", secretAccessKey=["mine"])
    ),
    "an id that no header can carry": Brought(
        METADATA_SOURCE, metadata=struct(accessKeyId="AKIA\nMINE", secretAccessKey="mine")
    ),
}


@pytest.mark.parametrize("fallback", [True, False], ids=["fallback", "no fallback"])
@pytest.mark.parametrize("case", INCOMPLETE.values(), ids=INCOMPLETE)
def test_half_a_key_is_refused_even_with_a_fallback(call, case, fallback):
    with pytest.raises(IncompleteCredential) as caught:
        build(AWS, case.override, fallback=fallback).authenticate(call(case.headers, metadata=case.metadata))
    assert str(caught.value) == (
        "incomplete per-request AWS credential: access key ID and secret access key must both be present"
    )
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")


def test_missing_and_incomplete_are_told_apart():
    assert issubclass(MissingCredential, ClientError)
    assert issubclass(IncompleteCredential, ClientError)
    assert not issubclass(MissingCredential, IncompleteCredential)
    assert not issubclass(IncompleteCredential, MissingCredential)


def test_reading_a_credential_leaves_the_metadata_as_it_was(call):
    made = call(metadata=struct(accessKeyId="AKIAMINE"))
    before = made.metadata["ns"].SerializeToString()
    with pytest.raises(IncompleteCredential):
        build(AWS, METADATA_SOURCE).authenticate(made)
    assert made.metadata["ns"].SerializeToString() == before


# --- what is kept from the backend ---

STRIPS = {
    "a token header": (API_KEY, {"headerName": "X-K"}, {"x-k"}),
    "three headers": (
        AWS,
        PREFIX,
        {
            "x-aigw-aws-access-key-id",
            "x-aigw-aws-secret-access-key",
            "x-aigw-aws-session-token",
            "x-amz-date",
            "x-amz-security-token",
            "x-amz-content-sha256",
        },
    ),
    "metadata": (GCP, METADATA_SOURCE, set()),
}


@pytest.mark.parametrize(("method", "source", "names"), STRIPS.values(), ids=STRIPS)
def test_the_source_and_the_clients_own_credentials_are_stripped(method, source, names):
    clients = {"authorization", "x-api-key", "api-key", "x-goog-api-key"}
    assert build(method, source).strips == names | clients

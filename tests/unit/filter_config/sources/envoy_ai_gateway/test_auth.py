"""Policies to auth: types with their Secrets, overrides, what leaves a backend out (contract, control plane 2.8)."""

from __future__ import annotations

import base64

import pytest

from filter_config.load import decode
from tests.support.gateway_resources import (
    AI,
    INFERENCE,
    api_key,
    compiled,
    document,
    faults,
    gateway,
    grant,
    only,
    policy,
    ref,
    resource,
    route,
    rule,
    secret,
    served,
)

FILE = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n"
OIDC = {"oidc": {"provider": {"issuer": "https://i"}, "clientID": "c", "clientSecret": {"name": "s", "namespace": "n"}}}
AZURE = {"clientID": "c", "tenantID": "t"}
GCP = {"projectName": "p", "region": "r"}
FEDERATION = {
    "projectID": "1",
    "workloadIdentityPoolName": "pool",
    "workloadIdentityProviderName": "provider",
    "oidcExchangeToken": OIDC,
}


def by(name: str) -> dict:
    return {"secretRef": {"name": name}}


# type, its credential, secrets, expected auth
TYPES = {
    "API key": ("APIKey", {"apiKey": by("s")}, [secret("s", apiKey="K")], {"apiKey": {"key": "K"}}),
    "Azure API key": (
        "AzureAPIKey",
        {"azureAPIKey": by("s")},
        [secret("s", apiKey="K")],
        {"azureAPIKey": {"key": "K"}},
    ),
    "Anthropic API key": (
        "AnthropicAPIKey",
        {"anthropicAPIKey": by("s")},
        [secret("s", apiKey="K")],
        {"anthropicAPIKey": {"key": "K"}},
    ),
    "AWS default chain": ("AWSCredentials", {"awsCredentials": {"region": "r"}}, [], {"aws": {"region": "r"}}),
    "AWS file": (
        "AWSCredentials",
        {"awsCredentials": {"region": "r", "credentialsFile": by("s")}},
        [secret("s", credentials=FILE)],
        {"aws": {"region": "r", "credentialFileLiteral": FILE}},
    ),
    "AWS file with a profile": (
        "AWSCredentials",
        {"awsCredentials": {"region": "r", "credentialsFile": {**by("s"), "profile": "other"}}},
        [secret("s", credentials=FILE + "[other]\naws_access_key_id = C\naws_secret_access_key = D%\n")],
        {
            "aws": {
                "region": "r",
                "credentialFileLiteral": "[default]\naws_access_key_id = C\naws_secret_access_key = D%\n\n",
            }
        },
    ),
    "AWS OIDC": (
        "AWSCredentials",
        {"awsCredentials": {"region": "r", "oidcExchangeToken": {**OIDC, "awsRoleArn": "arn"}}},
        [secret("ai-eg-bsp-p", credentials=FILE)],
        {"aws": {"region": "r", "credentialFileLiteral": FILE}},
    ),
    "Azure client secret, rotated": (
        "AzureCredentials",
        {"azureCredentials": {**AZURE, "clientSecretRef": {"name": "s"}}},
        [secret("ai-eg-bsp-p", azureAccessToken="T"), secret("s", **{"client-secret": "S"})],
        {"azure": {"accessToken": "T"}},
    ),
    "Azure client secret, which the processor uses itself": (
        "AzureCredentials",
        {"azureCredentials": {**AZURE, "clientSecretRef": {"name": "s"}}},
        [secret("s", **{"client-secret": "S"})],
        {"azure": {"clientID": "c", "tenantID": "t", "clientSecret": "S"}},
    ),
    "Azure OIDC": (
        "AzureCredentials",
        {"azureCredentials": {**AZURE, "oidcExchangeToken": OIDC}},
        [secret("ai-eg-bsp-p", azureAccessToken="T")],
        {"azure": {"accessToken": "T"}},
    ),
    "GCP default credentials": (
        "GCPCredentials",
        {"gcpCredentials": GCP},
        [],
        {"gcp": {"accessToken": "", "region": "r", "projectName": "p"}},
    ),
    "GCP file": (
        "GCPCredentials",
        {"gcpCredentials": {**GCP, "credentialsFile": by("s")}},
        [secret("ai-eg-bsp-p", gcpAccessToken="T")],
        {"gcp": {"accessToken": "T", "region": "r", "projectName": "p"}},
    ),
    "GCP federation": (
        "GCPCredentials",
        {"gcpCredentials": {**GCP, "workloadIdentityFederationConfig": FEDERATION}},
        [secret("ai-eg-bsp-p", gcpAccessToken="T")],
        {"gcp": {"accessToken": "T", "region": "r", "projectName": "p"}},
    ),
}


@pytest.mark.parametrize(("kind", "credential", "secrets", "expected"), TYPES.values(), ids=TYPES)
def test_each_type_reads_its_secret(kind, credential, secrets, expected):
    resources = gateway(), route("r", rule("b")), *served("b"), policy("p", kind, "b", **credential), *secrets
    made = only(compiled(*resources))
    assert document(made)["backends"][0]["auth"] == expected
    assert decode(made.payload).faults == {}


NEEDS_A_SECRET = {name: case for name, case in TYPES.items() if case[2]}


@pytest.mark.parametrize(("kind", "credential", "secrets", "expected"), NEEDS_A_SECRET.values(), ids=NEEDS_A_SECRET)
def test_without_its_secret_a_backend_is_left_out_and_no_other(kind, credential, secrets, expected):
    result = compiled(gateway(), route("r", rule("b", "c")), *served("b", "c"), policy("p", kind, "b", **credential))
    assert [backend.name for backend in result.gateways[0].config.backends] == ["default/c/route/r/rule/0/ref/1"]
    said = faults(result)
    assert said[0].startswith("warning AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: ")
    assert "does not exist" in said[1]
    assert said[1].startswith("error BackendSecurityPolicy default/p: spec.")
    assert len(said) == 2


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# data, stringData, the key or what is wrong
SECRETS = {
    "data": ({"apiKey": encoded("D")}, {}, "D"),
    "data before stringData": ({"apiKey": encoded("D")}, {"apiKey": "S"}, "D"),
    "data in lines": ({"apiKey": "RERE\nRERE\n"}, {}, "DDDDDD"),
    "no base64": ({"apiKey": "sk-plain-text!"}, {}, "Secret default/s: data.apiKey is no base64 of a text"),
    "beyond ASCII": ({"apiKey": "é"}, {}, "Secret default/s: data.apiKey is no base64 of a text"),
    "no text": ({"apiKey": "/w=="}, {}, "Secret default/s: data.apiKey is no base64 of a text"),
    "another key": ({"key": encoded("D")}, {"apikey": "S"}, "Secret default/s has no key apiKey"),
}


@pytest.mark.parametrize(("data", "string_data", "expected"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_read_from_data_before_string_data(data, string_data, expected):
    held = resource("v1", "Secret", "s", data=data, stringData=string_data)
    spec = {"apiKey": by("s")}
    result = compiled(gateway(), route("r", rule("b")), *served("b"), policy("p", "APIKey", "b", **spec), held)
    if expected.startswith("Secret"):
        assert faults(result)[1] == f"error BackendSecurityPolicy default/p: spec.apiKey: {expected}"
        assert "sk-plain" not in "".join(map(str, result.faults))
    else:
        assert document(only(result))["backends"][0]["auth"]["apiKey"]["key"] == expected


# --- which policy ---


def test_two_policies_leave_a_backend_out():
    policies = api_key("p", "b"), api_key("q", "b"), secret("p", apiKey="1"), secret("q", apiKey="2")
    result = compiled(gateway(), route("r", rule("b")), *served("b"), *policies)
    assert result.gateways[0].config.backends == ()
    assert faults(result) == [
        (
            "error AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: AIServiceBackend default/b: several "
            "BackendSecurityPolicies are about it: default/p, default/q; the backend is left out"
        )
    ]


def test_a_policy_that_names_a_backend_twice_is_one_policy():
    made = only(
        compiled(gateway(), route("r", rule("b")), *served("b"), api_key("p", "b", "b"), secret("p", apiKey="1"))
    )
    assert document(made)["backends"][0]["auth"] == {"apiKey": {"key": "1"}}


BROKEN = {
    "an unknown type": {"type": "ApiKey"},
    "a credential of another type": {"awsCredentials": {"region": "r"}},
    "no credential": {"apiKey": None},
    "no spec to speak of": {"type": None, "apiKey": 3},
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_a_backend_whose_policy_is_invalid_is_not_served_without_a_credential(fields):
    broken = api_key("p", "b", **fields)
    result = compiled(gateway(), route("r", rule("b")), *served("b"), broken, secret("p", apiKey="1"))
    assert result.gateways[0].config.backends == ()
    assert any("BackendSecurityPolicy default/p has faults of its own" in fault for fault in faults(result))
    assert any(fault.startswith("error BackendSecurityPolicy default/p: spec.") for fault in faults(result))


def test_policies_that_contradict_each_other_leave_all_their_backends_out():
    twice = api_key("p", "b"), api_key("p", "c")
    for policies in (twice, twice[::-1]):
        resources = *served("b", "c", "d"), *policies, secret("p", apiKey="1")
        result = compiled(gateway(), route("r", rule("b", "c", "d")), *resources)
        assert [backend.name for backend in result.gateways[0].config.backends] == ["default/d/route/r/rule/0/ref/2"]


def test_a_policy_of_a_version_that_is_not_served_leaves_its_backend_out():
    newer = {**api_key("p", "b"), "apiVersion": f"{AI}/v2"}
    result = compiled(gateway(), route("r", rule("b")), *served("b"), newer, secret("p", apiKey="1"))
    assert result.gateways[0].config.backends == ()
    assert not result.ok


def test_a_policy_that_is_being_deleted_gives_nothing_and_takes_nothing():
    going = api_key("p", "b")
    going["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    made = only(compiled(gateway(), route("r", rule("b")), *served("b"), going, secret("p", apiKey="1")))
    assert "auth" not in document(made)["backends"][0]


def test_a_policy_of_another_namespace_or_kind_is_not_the_backends():
    pool = policy("q", "APIKey", apiKey=by("s"))
    pool["spec"]["targetRefs"] = [{"group": INFERENCE, "kind": "InferencePool", "name": "b"}]
    others = api_key("p", "b", namespace="other"), pool
    made = only(compiled(gateway(), route("r", rule("b")), *served("b"), *others))
    assert "auth" not in document(made)["backends"][0]


def test_a_pool_has_the_auth_of_its_policy():
    pool = policy("q", "APIKey", apiKey=by("s"))
    pool["spec"]["targetRefs"] = [{"group": INFERENCE, "kind": "InferencePool", "name": "b"}]
    rules = rule(ref("b", group=INFERENCE, kind="InferencePool"))
    result = compiled(gateway(), route("r", rules), pool, secret("s", apiKey="K"))
    assert document(result.gateways[0])["backends"][0]["auth"] == {"apiKey": {"key": "K"}}


def test_a_pool_without_its_credential_is_left_out():
    pool = policy("q", "APIKey", apiKey=by("s"))
    pool["spec"]["targetRefs"] = [{"group": INFERENCE, "kind": "InferencePool", "name": "b"}]
    result = compiled(gateway(), route("r", rule(ref("b", group=INFERENCE, kind="InferencePool"))), pool)
    assert result.gateways[0].config.backends == ()


def test_a_credential_is_read_from_secrets_alone():
    spec = {"apiKey": {"secretRef": {"name": "s", "kind": "ConfigMap"}}}
    result = compiled(gateway(), route("r", rule("b")), *served("b"), policy("p", "APIKey", "b", **spec), HELD)
    assert result.gateways[0].config.backends == ()
    assert faults(result)[1].endswith("spec.apiKey: a credential in a ConfigMap cannot be read")


def test_a_secret_of_another_namespace_needs_a_grant():
    spec = {"apiKey": {"secretRef": {"name": "s", "namespace": "vault"}}}
    resources = gateway(), route("r", rule("b")), *served("b"), policy("p", "APIKey", "b", **spec)
    resources = *resources, secret("s", apiKey="decoy"), secret("s", "vault", apiKey="K")
    refused = compiled(*resources)
    assert refused.gateways[0].config.backends == ()
    assert faults(refused)[1] == (
        "error BackendSecurityPolicy default/p: spec.apiKey: Secret vault/s is in another namespace, which does not "
        "allow it"
    )
    granted = grant("vault", source=(AI, "BackendSecurityPolicy", "default"), target=("", "Secret", "s"))
    assert document(only(compiled(*resources, granted)))["backends"][0]["auth"] == {"apiKey": {"key": "K"}}


def test_a_profile_that_is_not_there_leaves_the_backend_out_and_shows_nothing():
    spec = {"awsCredentials": {"region": "r", "credentialsFile": {**by("s"), "profile": "other"}}}
    resources = gateway(), route("r", rule("b")), *served("b"), policy("p", "AWSCredentials", "b", **spec)
    for file, said in (
        (FILE, "the AWS credentials file has no profile 'other'"),
        ("nonsense", "the key credentials is"),
    ):
        result = compiled(*resources, secret("s", credentials=file))
        assert result.gateways[0].config.backends == ()
        assert faults(result)[1].startswith(f"error BackendSecurityPolicy default/p: spec.awsCredentials: {said}")


def test_a_credential_that_would_break_a_header_is_told_at_its_policy():
    keyed = api_key("p", "b"), secret("p", apiKey="two\nlines")
    result = compiled(gateway(), route("r", rule("b", "c")), *served("b", "c"), *keyed)
    assert [backend.name for backend in result.gateways[0].config.backends] == ["default/c/route/r/rule/0/ref/1"]
    assert faults(result) == [
        "error BackendSecurityPolicy default/p: spec.apiKey: the credential holds a line break or a NUL character"
    ]


# --- override ---

AWS_HEADERS = ["access-key-id", "secret-access-key", "session-token"]
# type, its credential, header or prefix, metadata key
DEFAULTS = {
    "APIKey": ({"apiKey": by("s")}, "x-aigw-api-key", "x-aigw-api-key"),
    "AnthropicAPIKey": ({"anthropicAPIKey": by("s")}, "x-aigw-anthropic-api-key", "x-aigw-anthropic-api-key"),
    "AzureAPIKey": ({"azureAPIKey": by("s")}, "x-aigw-azure-api-key", "x-aigw-azure-api-key"),
    "AzureCredentials": (
        {"azureCredentials": {**AZURE, "clientSecretRef": {"name": "s"}}},
        "x-aigw-azure-access-token",
        "x-aigw-azure-access-token",
    ),
    "GCPCredentials": ({"gcpCredentials": GCP}, "x-aigw-gcp-access-token", "x-aigw-gcp-access-token"),
    "AWSCredentials": ({"awsCredentials": {"region": "r"}}, "x-aigw-aws-", "x-aigw-aws-credentials"),
}
HELD = secret("s", apiKey="K", **{"client-secret": "S"})


def overridden(kind, credential, **override):
    spec = {**credential, "credentialOverride": override}
    made = only(compiled(gateway(), route("r", rule("b")), *served("b"), policy("p", kind, "b", **spec), HELD))
    return document(made)["backends"][0]


@pytest.mark.parametrize("kind", DEFAULTS)
def test_a_credential_in_headers_has_default_names_which_are_removed(kind):
    credential, header, _ = DEFAULTS[kind]
    backend = overridden(kind, credential, fromRequestHeaders={})
    removed = [header + suffix for suffix in AWS_HEADERS] if kind == "AWSCredentials" else [header]
    assert backend["auth"]["credentialOverride"] == {
        "headerName": header,
        "fallbackToConfigured": True,
        "inputHeadersToRemove": removed,
    }
    assert backend["httpHeaderMutation"] == {"remove": removed}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_a_credential_in_metadata_has_a_default_key(kind):
    credential, _, key = DEFAULTS[kind]
    backend = overridden(kind, credential, fromDynamicMetadata={"namespace": "n", "fallbackToConfigured": False})
    assert backend["auth"]["credentialOverride"] == {
        "dynamicMetadataNamespace": "n",
        "dynamicMetadataKey": key,
        "fallbackToConfigured": False,
    }
    assert "httpHeaderMutation" not in backend


def test_configured_names_are_used_and_headers_have_no_case():
    header = {"header": "X-Mine-", "fallbackToConfigured": False}
    backend = overridden("AWSCredentials", {"awsCredentials": {"region": "r"}}, fromRequestHeaders=header)
    override = backend["auth"]["credentialOverride"]
    assert (override["headerName"], override["fallbackToConfigured"]) == ("x-mine-", False)
    assert override["inputHeadersToRemove"] == [f"x-mine-{suffix}" for suffix in AWS_HEADERS]
    backend = overridden("APIKey", {"apiKey": by("s")}, fromDynamicMetadata={"namespace": "n", "key": "Mine"})
    assert backend["auth"]["credentialOverride"]["dynamicMetadataKey"] == "Mine"

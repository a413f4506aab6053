"""The CRDs: what they refuse, with which words, and that files are judged alike by ``extproc translate --check``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.kubernetes import validations
from deploy.kubernetes.crds import DEFINITIONS, to_yaml
from deploy.kubernetes.structural import PRESERVE
from filter_config.sources.envoy_ai_gateway import rules
from tests.support.gateway_resources import (
    AI,
    ENVOY_GATEWAY,
    INFERENCE,
    api_key,
    found,
    header,
    mcp,
    policy,
    quota,
    resource,
    route,
    rule,
    secured,
    server,
    service,
)

POOL = {"name": "p", "group": INFERENCE, "kind": "InferencePool"}
REF = "spec.rules[0].backendRefs[0]"
SECRET = {"secretRef": {"name": "s"}}
OIDC = {"provider": {"issuer": "https://i.example.com"}, "clientID": "c", "clientSecret": {"name": "s"}}
EXCHANGE = {"oidc": OIDC}
FEDERATION = {
    "projectID": "p",
    "workloadIdentityPoolName": "pool",
    "workloadIdentityProviderName": "provider",
    "oidcExchangeToken": EXCHANGE,
}
ENTRA = {"clientID": "c", "tenantID": "t"}
GOOGLE = {"projectName": "p", "region": "r"}
OAUTH = {"issuer": "https://i.example.com", "protectedResourceMetadata": {"resource": "https://r.example.com/mcp"}}
BUCKET = {"limit": 1, "duration": "1h"}
JWT = {"source": {"jwt": {"scopes": ["s"]}}}


def old(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "apiVersion": f"{AI}/v1alpha1"}


def config(**spec: Any) -> dict[str, Any]:
    return resource(f"{AI}/v1beta1", "GatewayConfig", "c", spec=spec)


def container(**fields: Any) -> dict[str, Any]:
    return config(extProc={"kubernetes": fields})


def entra(**fields: Any) -> dict[str, Any]:
    return policy("p", "AzureCredentials", azureCredentials={**ENTRA, **fields})


def google(**fields: Any) -> dict[str, Any]:
    return policy("p", "GCPCredentials", gcpCredentials={**GOOGLE, **fields})


def amazon(**fields: Any) -> dict[str, Any]:
    return policy("p", "AWSCredentials", awsCredentials={"region": "r", **fields})


def role(**oidc: Any) -> dict[str, Any]:
    return amazon(oidcExchangeToken={"oidc": {**OIDC, **oidc}, "awsRoleArn": "arn"})


def override(**sources: Any) -> dict[str, Any]:
    return api_key("k", credentialOverride=sources)


def authorization(**rule_: Any) -> dict[str, Any]:
    return secured(oauth=OAUTH, authorization={"rules": [rule_]})


def selector(**lists: Any) -> dict[str, Any]:
    return mcp(server(toolSelector=lists))


def mcp_key(**fields: Any) -> dict[str, Any]:
    return mcp(server(securityPolicy={"apiKey": fields}))


def target(group: str, kind: str) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind, "name": "t"}]


CREDENTIALS: dict[str, tuple[str, dict[str, Any]]] = {
    "APIKey": ("apiKey", SECRET),
    "AWSCredentials": ("awsCredentials", {"region": "r"}),
    "AzureAPIKey": ("azureAPIKey", SECRET),
    "AzureCredentials": ("azureCredentials", {**ENTRA, "clientSecretRef": {"name": "s"}}),
    "GCPCredentials": ("gcpCredentials", GOOGLE),
    "AnthropicAPIKey": ("anthropicAPIKey", SECRET),
}

Case = tuple[dict[str, Any], dict[str, Any], str]

# By the message of a rule: what it takes, what it refuses, and where.
RULES: dict[str, Case] = {
    "a route attaches to a Gateway of gateway.networking.k8s.io": (
        route("r", rule(), parentRefs=[{"name": "gw", "sectionName": "http"}]),
        route("r", rule(), parentRefs=[{"name": "gw", "kind": "Service"}]),
        "spec.parentRefs[0]",
    ),
    "names of rules are unique": (
        route("r", rule(name="a"), rule(name="b"), rule(), rule()),
        route("r", rule(name="a"), rule(name="a")),
        "spec",
    ),
    "route-not-found is reserved, choose another name": (
        route("r", rule(name="route-found")),
        route("r", rule(name="route-not-found")),
        "spec.rules[0]",
    ),
    "an InferencePool needs a rule of its own": (
        route("r", rule("a", "b"), rule(POOL)),
        route("r", rule("a", POOL)),
        "spec.rules[0]",
    ),
    "group and kind are given together": (
        route("r", rule("b")),
        route("r", rule({"name": "p", "group": INFERENCE})),
        REF,
    ),
    f"write group {INFERENCE} and kind InferencePool, or neither for an AIServiceBackend": (
        route("r", rule(POOL)),
        route("r", rule({"name": "p", "group": "", "kind": "Service"})),
        REF,
    ),
    "backendRequest is not more than request": (
        route("r", rule(timeouts={"request": "1m30s", "backendRequest": "90s"})),
        route("r", rule(timeouts={"request": "1m30s", "backendRequest": "91s"})),
        "spec.rules[0].timeouts",
    ),
    f"backendRef is of group {ENVOY_GATEWAY} and kind Backend": (
        service(),
        service(backendRef={"name": "b"}),
        "spec",
    ),
    "a target is an AIServiceBackend or an InferencePool": (
        api_key("k", targetRefs=target(INFERENCE, "InferencePool")),
        api_key("k", targetRefs=target(AI, "InferencePool")),
        "spec",
    ),
    **{
        f"{member} goes with type {kind}, and with no other": (
            policy("p", kind, **{member: value}),
            policy("p", kind),
            "spec",
        )
        for kind, (member, value) in CREDENTIALS.items()
    },
    "credentialsFile and oidcExchangeToken exclude each other": (
        amazon(credentialsFile=SECRET),
        amazon(credentialsFile=SECRET, oidcExchangeToken={**EXCHANGE, "awsRoleArn": "arn"}),
        "spec.awsCredentials",
    ),
    "exactly one of clientSecretRef and oidcExchangeToken is needed": (
        entra(oidcExchangeToken=EXCHANGE),
        entra(),
        "spec.azureCredentials",
    ),
    "credentialsFile and workloadIdentityFederationConfig exclude each other": (
        google(workloadIdentityFederationConfig=FEDERATION),
        google(workloadIdentityFederationConfig=FEDERATION, credentialsFile=SECRET),
        "spec.gcpCredentials",
    ),
    "give credentialsFile or workloadIdentityFederationConfig, or write apiVersion v1beta1": (
        old(google(credentialsFile=SECRET)),
        old(google()),
        "spec.gcpCredentials",
    ),
    "exactly one of clientID and clientIDRef is needed": (
        role(),
        role(clientIDRef={"name": "s"}),
        "spec.awsCredentials.oidcExchangeToken.oidc",
    ),
    "exactly one of fromRequestHeaders and fromDynamicMetadata is needed": (
        override(fromRequestHeaders={}),
        override(fromRequestHeaders={}, fromDynamicMetadata={"namespace": "n"}),
        "spec.credentialOverride",
    ),
    "image and imageRepository exclude each other": (
        container(imageRepository="registry.example.com:5000/extproc"),
        container(imageRepository="extproc", image="extproc:1"),
        "spec.extProc.kubernetes",
    ),
    "a target is an AIServiceBackend": (
        quota(target(AI, "AIServiceBackend"), defaultBucket=BUCKET),
        quota(target(INFERENCE, "InferencePool"), defaultBucket=BUCKET),
        "spec",
    ),
    "a rate limit service counts to 4294967295": (
        quota(defaultBucket={"limit": 2**32 - 1, "duration": "1d"}),
        quota(defaultBucket={"limit": 2**32, "duration": "1d"}),
        "spec.perModelQuotas[0].quota.defaultBucket",
    ),
    "give defaultBucket or bucketRules": (
        quota(bucketRules=[{"quota": BUCKET}]),
        quota(bucketRules=[]),
        "spec.perModelQuotas[0].quota",
    ),
    "names of backends are unique": (
        mcp(server(), server(name="other")),
        mcp(server(), server()),
        "spec",
    ),
    "port is required for a Service": (
        mcp({"name": "s", "group": ENVOY_GATEWAY, "kind": "Backend"}),
        mcp({"name": "s"}),
        "spec.backendRefs[0]",
    ),
    "include and includeRegex exclude each other": (
        selector(include=["a"], excludeRegex=["b"]),
        selector(include=["a"], includeRegex=["b"]),
        "spec.backendRefs[0].toolSelector",
    ),
    "exclude and excludeRegex exclude each other": (
        selector(exclude=["a"], includeRegex=["b"]),
        selector(exclude=["a"], excludeRegex=["b"]),
        "spec.backendRefs[0].toolSelector",
    ),
    "give include, includeRegex, exclude or excludeRegex": (
        selector(exclude=[]),
        selector(),
        "spec.backendRefs[0].toolSelector",
    ),
    "exactly one of secretRef and inline is needed": (
        mcp_key(**SECRET),
        mcp_key(),
        "spec.backendRefs[0].securityPolicy.apiKey",
    ),
    "header and queryParam exclude each other": (
        mcp_key(inline="k", queryParam="q"),
        mcp_key(inline="k", queryParam="q", header="h"),
        "spec.backendRefs[0].securityPolicy.apiKey",
    ),
    "exactly one of remoteJWKS and localJWKS is needed": (
        secured(oauth={**OAUTH, "jwks": {"remoteJWKS": {"uri": "https://k.example.com"}}}),
        secured(oauth={**OAUTH, "jwks": {}}),
        "spec.securityPolicy.oauth.jwks",
    ),
    "extAuth has exactly one of grpc and http": (
        secured(extAuth={"grpc": {"backendRefs": []}, "failOpen": False}),
        secured(extAuth={"grpc": {}, "http": {}}),
        "spec.securityPolicy",
    ),
    "a rule about tokens needs oauth": (
        secured(authorization={"defaultAction": "Deny"}),
        secured(authorization={"rules": [JWT]}),
        "spec.securityPolicy",
    ),
    "give scopes or claims": (
        authorization(source={"jwt": {"claims": [{"name": "sub", "values": ["a"]}]}}),
        authorization(source={"jwt": {"scopes": []}}),
        "spec.securityPolicy.authorization.rules[0].source.jwt",
    ),
    "scope is not a claim here, write it under scopes": (
        authorization(source={"jwt": {"claims": [{"name": "scopes", "values": ["a"]}]}}),
        authorization(source={"jwt": {"claims": [{"name": "scope", "values": ["a"]}]}}),
        "spec.securityPolicy.authorization.rules[0].source.jwt.claims[0]",
    ),
}


def test_every_rule_has_a_case():
    assert set(RULES) == {made.message for of_struct in validations.RULES.values() for made in of_struct}


@pytest.mark.parametrize(("message", "case"), RULES.items(), ids=RULES)
def test_a_rule_takes_what_is_good_and_refuses_what_is_bad(message, case, api_server):
    good, bad, path = case
    assert api_server.complaints(good) == []
    assert f"{path}: {message}" in api_server.complaints(bad)


def errors(value: Any) -> list[str]:
    return [line for line in found(value) if not line.startswith("warning ")]


@pytest.mark.parametrize(("good", "bad", "path"), RULES.values(), ids=RULES)
def test_files_are_judged_like_objects_in_a_cluster(good, bad, path):
    assert errors(good) == []
    assert errors(bad) != []


# --- what one field may hold ---

FIELDS: dict[str, tuple[Any, bool]] = {
    "sixteen rules": (route("r", *[rule()] * 16), False),
    "a route without rules": (resource(f"{AI}/v1beta1", "AIGatewayRoute", "r", spec={}), False),
    "a route without a spec": (resource(f"{AI}/v1beta1", "AIGatewayRoute", "r"), False),
    "a GatewayConfig without a spec": (resource(f"{AI}/v1beta1", "GatewayConfig", "c"), True),
    "a host name with capitals": (route("r", rule(), hostnames=["Example.com"]), False),
    "a wildcard": (route("r", rule(), hostnames=["*.example.com"]), True),
    "an unknown field": (route("r", rule(), hostname="x"), True),
    "a null": (route("r", rule(), hostnames=None), True),
    "an unknown field of Envoy Gateway's": (role(logoutPath="/logout"), True),
    "a day": (route("r", rule(timeouts={"request": "1d"})), False),
    "no time out, and a longer attempt": (route("r", rule(timeouts={"request": "0s", "backendRequest": "1m"})), True),
    "a time without a zone": (route("r", rule(modelsCreatedAt="2026-01-01T00:00:00")), False),
    "a time": (route("r", rule(modelsCreatedAt="2026-01-01T00:00:00.5+01:00")), True),
    "an unknown cost": (route("r", rule(), llmRequestCosts=[{"metadataKey": "k", "type": "Total"}]), False),
    "a negative weight": (route("r", rule({"name": "b", "weight": -1})), False),
    "a priority beyond 32 bits": (route("r", rule({"name": "b", "priority": 2**32})), False),
    "a header twice in a match": (
        route("r", rule(model=None, matches=[{"headers": [header("a"), header("a")]}])),
        False,
    ),
    "a header set twice": (service(headerMutation={"set": [header("a"), header("a")]}), False),
    "a header removed twice": (service(headerMutation={"remove": ["a", "a"]}), False),
    "a header without a value": (service(headerMutation={"set": [header("a", "")]}), False),
    "a path set twice": (service(bodyMutation={"set": [{"path": "a", "value": "1"}] * 2}), False),
    "a number where JSON is text": (service(bodyMutation={"set": [{"path": "a", "value": 1}]}), False),
    "an unknown API": (service(schema="OpenAPI"), False),
    "two costs of one key": (
        config(globalLLMRequestCosts=[{"metadataKey": "k", "type": "TotalToken"}] * 2),
        False,
    ),
    "an image with a digest": (container(image=f"registry.example.com:5000/a/b:1@sha256:{'a' * 64}"), True),
    "an image in capitals": (container(image="Extproc"), False),
    "a repository with a tag": (container(imageRepository="example.com:5000/a:1"), False),
    "a repository with a digest": (container(imageRepository="a@sha256:0"), False),
    "a proxy": (config(forwardProxy={"address": "[::1]:3128"}), True),
    "a proxy without a port": (config(forwardProxy={"address": "proxy.example.com"}), False),
    "a proxy at port 0": (config(forwardProxy={"address": "proxy:0"}), False),
    "a proxy at the last port": (config(forwardProxy={"address": "proxy:65535"}), True),
    "a proxy beyond the last port": (config(forwardProxy={"address": "proxy:65536"}), False),
    "a quota of a week": (quota(defaultBucket={"limit": 1, "duration": "1w"}), False),
    "an issuer that is no URI": (secured(oauth={**OAUTH, "issuer": "here"}), False),
    "a default action": (secured(authorization={"defaultAction": "Maybe"}), False),
    "no backends": (mcp(backendRefs=[]), False),
    "more than an HTTPRoute takes": (route("r", rule(*(f"b{n}" for n in range(17)))), True),
}


@pytest.mark.parametrize(("value", "good"), FIELDS.values(), ids=FIELDS)
def test_fields_are_judged_alike_in_files_and_in_a_cluster(value, good, api_server):
    assert (api_server.complaints(value) == []) is good
    assert (errors(value) == []) is good


def test_a_pattern_of_ours_is_that_of_the_rule():
    ours = rules._IMAGE.pattern.removesuffix(r"\Z")
    assert f"^{ours}$" == validations.IMAGE


# --- files and a cluster, on whatever is written ---

_SEEDS = [case[place] for case in RULES.values() for place in (0, 1)] + [value for value, _ in FIELDS.values()]
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 70000),
    st.text("aA0.-:/@* ", max_size=6),
    st.sampled_from(["Gateway", "Service", "Backend", "10s", "0s", "1m", "APIKey", "GCPCredentials", AI, "Exact"]),
    st.just([]),
    st.just({}),
)


def _places(value: Any, path: tuple[Any, ...] = ()):
    """Where something is, below the spec."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield (*path, key)
        yield from _places(entry, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A resource in which a few things are other, gone, twice, or from another resource."""
    value = copy.deepcopy(draw(st.sampled_from(_SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value.get("spec"), ("spec",)))
        if not places:
            return value
        *above, last = draw(st.sampled_from(places))
        inside = value
        for key in above:
            inside = inside[key]
        match draw(st.sampled_from(["other", "gone", "twice", "foreign"])):
            case "other":
                inside[last] = draw(_VALUES)
            case "gone":
                del inside[last]
            case "twice" if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[last]))
            case _:
                spec = draw(st.sampled_from(_SEEDS)).get("spec", {})
                if isinstance(inside, dict) and spec:
                    key = draw(st.sampled_from(sorted(spec)))
                    inside[key] = copy.deepcopy(spec[key])
    return value


def only_files_refuse(value: dict[str, Any]) -> bool:
    """A file may be for the peer's CRDs, where the old version lacks the field; ours keep what is stored."""
    spec = value.get("spec")
    return value["apiVersion"].endswith("/v1alpha1") and isinstance(spec, dict) and "credentialOverride" in spec


# Envoy Gateway's own objects, which are opaque here; only a cluster asks that they are objects.
_OPAQUE = ("remoteJWKS", "localJWKS", "grpc", "http")


def only_a_cluster_refuses(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(only_a_cluster_refuses, value))
    if not isinstance(value, dict):
        return False
    return any(
        (key in _OPAQUE and not isinstance(entry, dict)) or only_a_cluster_refuses(entry)
        for key, entry in value.items()
    )


@given(value=mutated())
def test_any_resource_is_judged_alike_in_files_and_in_a_cluster(value, api_server):
    if not only_files_refuse(value) and not only_a_cluster_refuses(value):
        # Unknown fields are warnings in files, and dropped in a cluster before it looks at the rest.
        assert (api_server.complaints(value) == []) == (errors(api_server.pruned(value)) == [])


# --- the definitions themselves ---


def schemas(schema: Any):
    """A schema and all schemas in it."""
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, dict):
            yield from schemas(each)


# What a structural schema may say, of what is used here.
STRUCTURAL = {
    "type", "description", "properties", "required", "items", "enum", "pattern", "format", "default",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "additionalProperties", PRESERVE,
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
}  # fmt: skip
EVERY = {f"{made.plural} {version}": (made, version) for made in DEFINITIONS for version in made.versions}


@pytest.mark.parametrize(("made", "version"), EVERY.values(), ids=EVERY)
def test_schemas_are_structural(made, version):
    for schema in schemas(made.schema(version)):
        assert set(schema) <= STRUCTURAL
        assert "type" in schema or schema.get(PRESERVE)
        assert not ("properties" in schema and "additionalProperties" in schema)
        assert r"\Z" not in schema.get("pattern", "")
        if schema.get("x-kubernetes-list-type") == "map":
            assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


@pytest.mark.parametrize("made", DEFINITIONS, ids=lambda made: made.plural)
def test_one_version_is_stored_and_older_ones_are_deprecated(made):
    spec = made.to_object()["spec"]
    stored = [version["name"] for version in spec["versions"] if version["storage"]]
    assert stored == [made.versions[0]]
    assert {version["name"]: version.get("deprecated", False) for version in spec["versions"]} == {
        version: version != made.versions[0] for version in made.versions
    }
    assert all(version["served"] and version["subresources"] == {"status": {}} for version in spec["versions"])
    assert all(version["additionalPrinterColumns"][0]["name"] == "Status" for version in spec["versions"])


def test_names_are_those_that_clusters_have():
    kinds = {made.name: made.kind.__name__ for made in DEFINITIONS}
    assert kinds == {
        f"aigatewayroutes.{AI}": "AIGatewayRoute",
        f"aiservicebackends.{AI}": "AIServiceBackend",
        f"backendsecuritypolicies.{AI}": "BackendSecurityPolicy",
        f"gatewayconfigs.{AI}": "GatewayConfig",
        f"mcproutes.{AI}": "MCPRoute",
        f"quotapolicies.{AI}": "QuotaPolicy",
    }


def test_a_policy_keeps_its_override_when_the_old_version_is_read_and_written(api_server):
    written = override(fromRequestHeaders={"header": "x-key"})
    through = api_server.admitted(old(api_server.admitted(written)))
    assert through["spec"]["credentialOverride"] == {
        "fromRequestHeaders": {"header": "x-key", "fallbackToConfigured": True}
    }
    assert api_server.complaints(through) == []


def test_what_is_stored_says_what_was_left_open(api_server):
    stored = api_server.admitted(route("r", rule("b")))["spec"]
    parent = {"name": "gw", "group": "gateway.networking.k8s.io", "kind": "Gateway"}
    assert stored["parentRefs"] == [parent]
    assert stored["rules"] == [
        {
            "matches": [{"headers": [{"type": "Exact", "name": "x-ai-eg-model", "value": "m"}]}],
            "backendRefs": [{"name": "b", "weight": 1, "priority": 0}],
            "modelsOwnedBy": "Envoy AI Gateway",
        }
    ]


@pytest.mark.parametrize("made", DEFINITIONS, ids=lambda made: made.plural)
def test_a_chart_may_hold_a_definition(made):
    assert "{{" not in to_yaml(made.to_object())

"""What the CRDs refuse: every fault of a resource at once, with its path (contract, control plane 1)."""

from __future__ import annotations

from typing import Any

import pytest

from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.load import load
from filter_config.sources.faults import Faults
from tests.support.gateway_resources import (
    AI,
    ENVOY_GATEWAY,
    GATEWAY_API,
    INFERENCE,
    api_key,
    endpoint,
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

Findings = list[str]


def test_all_faults_are_told_at_once_with_file_line_resource_path_and_remedy():
    value = route(
        "r",
        rule({"name": "", "weight": -1, "priority": "1"}, name="route-not-found"),
        rule("b", timeouts={"request": "1d"}, modelsCreatedAt="yesterday"),
        hostnames=["Example.com"],
        parentRefs=[{"name": "gw", "kind": "Service"}],
        llmRequestCosts=[{"metadataKey": "k", "type": "TotalTokens"}],
        parentRef=[],
    )
    faults = Faults()
    load([Document(file="dir/routes.yaml", line=7, value=value)], faults)
    prefix = "dir/routes.yaml:7: AIGatewayRoute default/r: spec."
    assert [str(fault) for fault in faults.closed()] == [
        prefix + "hostnames[0]: 'Example.com' is not allowed; write a host name in lower case, or *. and a domain",
        prefix + "llmRequestCosts[0].type: 'TotalTokens' is not allowed; did you mean TotalToken?",
        prefix + "parentRef: warning: unknown field 'parentRef'; did you mean parentRefs?",
        prefix + "parentRefs[0].kind: 'Service' is no gateway; write Gateway",
        prefix + "rules[0].backendRefs[0].name: must not be empty; write a text",
        prefix + "rules[0].backendRefs[0].priority: expected an integer, got a text; write an integer, without quotes",
        prefix + "rules[0].backendRefs[0].weight: -1 is less than 0; write 0 or more",
        prefix + "rules[0].name: 'route-not-found' is reserved; choose another name",
        prefix + "rules[1].modelsCreatedAt: 'yesterday' is no timestamp; write an RFC 3339 timestamp with a time zone, "
        'such as "2024-01-02T03:04:05Z"',
        prefix + 'rules[1].timeouts.request: \'1d\' is not allowed; write a duration such as "30s" or "1m30s"',
    ]


REF = "spec.rules[0].backendRefs[0]"
BUCKET = {"limit": 1, "duration": "1h"}
QUOTA = "spec.perModelQuotas[0].quota"
OAUTH = {"issuer": "https://i.example.com", "protectedResourceMetadata": {"resource": "https://r.example.com/mcp"}}
AUTHORIZATION = "spec.securityPolicy.authorization.rules[0].source.jwt"


# --- documents that are no resource we know ---

DOCUMENTS: dict[str, tuple[Any, Findings]] = {
    "a list": ([], [": is no resource"]),
    "without a kind": ({"apiVersion": "v1"}, [": is no resource: apiVersion or kind is missing"]),
    "a kind of others": (resource("apps/v1", "Deployment", "x"), []),
    "a kind that there is not": (
        resource(f"{AI}/v1beta1", "AIGatewayRoutes", "x"),
        ["kind: 'AIGatewayRoutes' is no kind of aigateway.envoyproxy.io"],
    ),
    "a kind that looks like one": (
        resource(f"{GATEWAY_API}/v1", "Gatewy", "x"),
        ["warning kind: 'Gatewy' is unknown here and passed over"],
    ),
    "a kind of the core that looks like one": (
        resource("v1", "Secrets", "x"),
        ["warning kind: 'Secrets' is unknown here and passed over"],
    ),
    "a group that looks like one": (
        resource("aigatway.envoyproxy.io/v1beta1", "AIGatewayRoute", "x"),
        ["warning apiVersion: 'aigatway.envoyproxy.io/v1beta1' is unknown here and passed over"],
    ),
    "a group without a version": (
        resource(GATEWAY_API, "Gateway", "x"),
        ["warning apiVersion: 'gateway.networking.k8s.io' is unknown here and passed over"],
    ),
    "kinds that look alike and are others": (resource(f"{GATEWAY_API}/v1", "GatewayClass", "x"), []),
    "a gateway of others": (resource("networking.istio.io/v1", "Gateway", "x"), []),
    "addresses that are none": (
        endpoint(
            endpoints=[
                {"fqdn": {"hostname": "https://api.example.com/v1", "port": 443}},
                {"ip": {"address": "127.0.0.300", "port": 443}},
                {"ip": {"address": "::1", "port": 443}},
                {"fqdn": {"hostname": "model_server.local", "port": 443}},
            ]
        ),
        [
            "spec.endpoints[0].fqdn.hostname: 'https://api.example.com/v1' is no host name",
            "spec.endpoints[1].ip.address: '127.0.0.300' is no IP address",
        ],
    ),
    "names and sockets that Envoy would refuse": (
        endpoint(
            endpoints=[
                {"unix": {"path": "/" + "x" * 107}},
                {"unix": {"path": "/" + "x" * 106}},
                {"unix": {"path": "/" + "é" * 54}},
                {"unix": {"path": "/a\0b"}},
                {"unix": {"path": ""}},
                {"fqdn": {"hostname": "x" * 254, "port": 443}},
                {"hostname": "x" * 254, "fqdn": {"hostname": "x" * 253, "port": 443}},
            ],
            tls={"sni": "x" * 254},
        ),
        [
            "spec.endpoints[0].unix.path: cannot be the path of a socket",
            "spec.endpoints[2].unix.path: cannot be the path of a socket",
            "spec.endpoints[3].unix.path: cannot be the path of a socket",
            "spec.endpoints[4].unix.path: must not be empty",
            "spec.endpoints[5].fqdn.hostname: longer than 253 characters",
            "spec.endpoints[6].hostname: longer than 253 characters",
            "spec.tls.sni: longer than 253 characters",
        ],
    ),
    "a version that is not served": (
        {**service(), "apiVersion": f"{AI}/v1"},
        ["apiVersion: 'aigateway.envoyproxy.io/v1' is not served"],
    ),
    "a QuotaPolicy of the version that it does not have": (
        resource(f"{AI}/v1beta1", "QuotaPolicy", "q", spec={}),
        ["apiVersion: 'aigateway.envoyproxy.io/v1beta1' is not served"],
    ),
    "without a name": ({**service(), "metadata": {}}, ["metadata.name: is required"]),
    "without metadata": (
        {key: value for key, value in service().items() if key != "metadata"},
        ["metadata: is required"],
    ),
    "with a status and with nulls": (
        {**route("r", rule("b"), hostnames=None), "status": {"conditions": []}},
        [],
    ),
}


@pytest.mark.parametrize(("value", "expected"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents(value, expected):
    assert found(value) == expected


# --- AIGatewayRoute ---

POOL = {"name": "p", "group": INFERENCE, "kind": "InferencePool"}
HALF = "group and kind must be given together"
TWICE = "is there twice"


ROUTES: dict[str, tuple[Any, Findings]] = {
    "least": (route("r", rule()), []),
    "no rules": (
        resource(f"{AI}/v1beta1", "AIGatewayRoute", "r", spec={"parentRefs": []}),
        ["spec.rules: is required"],
    ),
    "too many rules": (
        route("r", *[rule()] * 16),
        ["spec.rules: 16 entries, and at most 15 are allowed"],
    ),
    "two rules of one name": (
        route("r", rule(name="a"), rule(name="a"), rule(), rule()),
        ["spec.rules[1].name: 'a' is the name of another rule"],
    ),
    "a parent of another group": (
        route("r", rule(), parentRefs=[{"name": "gw", "group": "example.com"}]),
        ["spec.parentRefs[0].group: 'example.com' has no gateways"],
    ),
    "a port that there is not": (
        route("r", rule(), parentRefs=[{"name": "gw", "port": 65536}]),
        ["spec.parentRefs[0].port: 65536 is more than 65535"],
    ),
    "a pool": (route("r", rule(POOL)), []),
    "a pool and a backend": (
        route("r", rule(POOL, "b")),
        ["spec.rules[0].backendRefs: an InferencePool and another backend in one rule"],
    ),
    "a group without a kind": (route("r", rule({"name": "p", "group": INFERENCE})), [f"{REF}: {HALF}"]),
    "a kind without a group": (route("r", rule({"name": "p", "kind": "InferencePool"})), [f"{REF}: {HALF}"]),
    "a Service": (
        route("r", rule({"name": "s", "group": "core", "kind": "Service"})),
        [f"{REF}: 'core/Service' cannot be a backend"],
    ),
    "a header twice in a mutation": (
        route("r", rule({"name": "b", "headerMutation": {"set": [header("a"), header("a")], "remove": ["b", "b"]}})),
        [
            f"{REF}.headerMutation.remove[1]: 'b' {TWICE}",
            f"{REF}.headerMutation.set[1].name: 'a' {TWICE}",
        ],
    ),
    "a header without a value": (
        route("r", rule({"name": "b", "headerMutation": {"set": [header("a", "")]}})),
        [f"{REF}.headerMutation.set[0].value: a header's value has 1 to 4096 characters"],
    ),
    "a header with a space": (
        route("r", rule({"name": "b", "headerMutation": {"set": [header("a b")]}})),
        [f"{REF}.headerMutation.set[0].name: 'a b' is not allowed"],
    ),
    "a path twice in a mutation": (
        route("r", rule({"name": "b", "bodyMutation": {"set": [{"path": "a", "value": "1"}] * 2}})),
        [f"{REF}.bodyMutation.set[1].path: 'a' {TWICE}"],
    ),
    "a number where JSON is written as text": (
        route("r", rule({"name": "b", "bodyMutation": {"set": [{"path": "a", "value": 1}]}})),
        [f"{REF}.bodyMutation.set[0].value: expected a text, got a number"],
    ),
    "a header twice in a match": (
        route("r", rule(model=None, matches=[{"headers": [header("a"), header("a")]}])),
        [f"spec.rules[0].matches[0].headers[1].name: 'a' {TWICE}"],
    ),
    "a match of an unknown type": (
        route("r", rule(model=None, matches=[{"headers": [header("a", type="Prefix")]}])),
        ["spec.rules[0].matches[0].headers[0].type: 'Prefix' is not allowed"],
    ),
    "an attempt longer than the exchange": (
        route("r", rule(timeouts={"request": "10s", "backendRequest": "1m"})),
        ["spec.rules[0].timeouts.backendRequest: 1m is more than the request timeout 10s"],
    ),
    "an attempt and an exchange without bound": (
        route("r", rule(timeouts={"request": "0s", "backendRequest": "1m"})),
        [],
    ),
    "a time without a zone": (
        route("r", rule(modelsCreatedAt="2026-01-01T00:00:00")),
        ["spec.rules[0].modelsCreatedAt: '2026-01-01T00:00:00' is no timestamp"],
    ),
    "more than an HTTPRoute takes": (
        route("r", rule(*(f"b{n}" for n in range(17)), model=None, matches=[{"headers": [header("a")]}] * 65)),
        [
            (
                "warning spec.rules[0].backendRefs: 17 entries: a rule of an HTTPRoute, which a cluster makes of it, "
                "has at most 16"
            ),
            (
                "warning spec.rules[0].matches: 65 entries: a rule of an HTTPRoute, which a cluster makes of it, has "
                "at most 64"
            ),
        ],
    ),
    "more matches than an HTTPRoute takes": (
        route("r", *[rule(model=None, matches=[{"headers": [header("a")]}] * 64)] * 2, rule(model=None)),
        ["warning spec.rules: 129 matches: an HTTPRoute, which a cluster makes of it, has at most 128"],
    ),
    "a name that objects made of it cannot have": (
        route("r" * 223, rule()),
        ["warning metadata.name: longer than 222 characters: names of objects that a cluster makes of it do not fit"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), ROUTES.values(), ids=ROUTES)
def test_routes(value, expected):
    assert found(value) == expected


# --- BackendTrafficPolicy ---


def traffic(*targets: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"targetRefs": [{"group": GATEWAY_API, **target} for target in targets], **spec}
    return resource(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", "t", spec=spec)


def charged(**cost: Any) -> dict[str, Any]:
    limit = {"limit": {"requests": 1, "unit": "Hour"}, "cost": {"response": {"from": "Number", **cost}}}
    return traffic(rateLimit={"type": "Global", "global": {"rules": [limit]}})


TRAFFIC = {
    "of a route, a rule and a gateway": (
        traffic(
            {"kind": "HTTPRoute", "name": "r"},
            {"kind": "HTTPRoute", "name": "r", "sectionName": "first"},
            {"kind": "Gateway", "name": "gw"},
            retry={"numRetries": 2**31 - 1, "retryOn": {"triggers": ["5xx", "reset"], "httpStatusCodes": [100, 599]}},
        ),
        [],
    ),
    "of a listener": (
        traffic({"kind": "Gateway", "name": "gw", "sectionName": "http"}),
        ["warning spec.targetRefs[0].sectionName: a policy of a single listener has no effect here"],
    ),
    "of a listener, as it was written before": (
        traffic(targetRef={"group": GATEWAY_API, "kind": "Gateway", "name": "gw", "sectionName": "http"}),
        ["warning spec.targetRef.sectionName: a policy of a single listener has no effect here"],
    ),
    "of whatever has a label": (
        traffic(targetSelectors=[{"kind": "HTTPRoute", "matchLabels": {"a": "b"}}]),
        ["warning spec.targetSelectors: has no effect here"],
    ),
    "numbers that Envoy does not have": (
        traffic(
            retry={
                "numRetries": 2**31,
                "numAttemptsPerPriority": -1,
                "retryOn": {"httpStatusCodes": [99, 600, 1 << 70]},
            }
        ),
        [
            "spec.retry.numAttemptsPerPriority: -1 is less than 0",
            "spec.retry.numRetries: 2147483648 is more than 2147483647",
            "spec.retry.retryOn.httpStatusCodes[0]: 99 is less than 100",
            "spec.retry.retryOn.httpStatusCodes[1]: 600 is more than 599",
            "spec.retry.retryOn.httpStatusCodes[2]: 1180591620717411303424 is more than 599",
        ],
    ),
    "a trigger that is misspelt": (
        traffic(retry={"retryOn": {"triggers": ["reset", "reset-all"]}}),
        [
            "warning spec.retry.retryOn.triggers[1]: 'reset-all' is unknown to Envoy, and nothing is repeated for it",
        ],
    ),
    "as much as Envoy takes at once": (charged(number=1_000_000_000), []),
    "more than Envoy takes at once": (
        charged(number=1_000_000_001),
        ["spec.rateLimit.global.rules[0].cost.response.number: 1000000001 is more than 1000000000"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), TRAFFIC.values(), ids=TRAFFIC)
def test_traffic(value, expected):
    assert found(value) == expected


# --- AIServiceBackend and BackendSecurityPolicy ---

SECRET = {"secretRef": {"name": "s"}}
OIDC = {"provider": {"issuer": "https://i"}, "clientID": "c", "clientSecret": {"name": "s"}}
AZURE = {"clientID": "c", "tenantID": "t"}
GCP = {"projectName": "p", "region": "r"}


def gcp(**sources: Any) -> dict[str, Any]:
    return policy("p", "GCPCredentials", gcpCredentials={**GCP, **sources})


def alpha(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "apiVersion": f"{AI}/v1alpha1"}


FEDERATION = {
    "projectID": "1",
    "workloadIdentityPoolName": "p",
    "workloadIdentityProviderName": "p",
    "oidcExchangeToken": {"oidc": OIDC},
}

FEDERATED = "spec.gcpCredentials.workloadIdentityFederationConfig"

BACKENDS: dict[str, tuple[Any, Findings]] = {
    "a Service behind a backend": (
        service("b", backendRef={"name": "b"}),
        ["spec.backendRef: '/Service' cannot be used"],
    ),
    "timeouts, which older examples have": (
        service("b", timeouts={"request": "3m"}),
        ["warning spec.timeouts: unknown field 'timeouts'"],
    ),
    "a header twice": (
        service("b", headerMutation={"remove": ["a", "a"]}),
        [f"spec.headerMutation.remove[1]: 'a' {TWICE}"],
    ),
    "a policy for a Service": (
        {
            **api_key("k"),
            "spec": {**api_key("k")["spec"], "targetRefs": [{"group": "", "kind": "Service", "name": "s"}]},
        },
        ["spec.targetRefs[0]: '/Service' cannot be a target"],
    ),
    "no credential": (policy("p", "APIKey"), ["spec.apiKey: type APIKey needs it"]),
    "two credentials": (
        api_key("k", anthropicAPIKey=SECRET),
        ["spec.anthropicAPIKey: does not go with type APIKey"],
    ),
    "a secret without a name": (
        policy("p", "APIKey", apiKey={"secretRef": {}}),
        ["spec.apiKey.secretRef.name: is required"],
    ),
    "Azure without a source": (
        policy("p", "AzureCredentials", azureCredentials=AZURE),
        ["spec.azureCredentials: exactly one source of the token is needed"],
    ),
    "Azure with two sources": (
        policy(
            "p",
            "AzureCredentials",
            azureCredentials={**AZURE, "clientSecretRef": {"name": "s"}, "oidcExchangeToken": {"oidc": OIDC}},
        ),
        ["spec.azureCredentials: exactly one source of the token is needed"],
    ),
    "AWS with two sources": (
        policy(
            "p",
            "AWSCredentials",
            awsCredentials={
                "region": "r",
                "credentialsFile": SECRET,
                "oidcExchangeToken": {"oidc": OIDC, "awsRoleArn": "a"},
            },
        ),
        ["spec.awsCredentials: two sources of credentials"],
    ),
    "AWS without a region": (
        policy("p", "AWSCredentials", awsCredentials={"region": ""}),
        ["spec.awsCredentials.region: must not be empty"],
    ),
    "GCP without a source": (gcp(), []),
    "GCP without a source, formerly": (alpha(gcp()), ["spec.gcpCredentials: v1alpha1 needs a source of credentials"]),
    "GCP with two sources": (
        gcp(credentialsFile=SECRET, workloadIdentityFederationConfig=FEDERATION),
        ["spec.gcpCredentials: two sources of credentials"],
    ),
    "OIDC without a client": (
        gcp(
            workloadIdentityFederationConfig={
                **FEDERATION,
                "oidcExchangeToken": {"oidc": {"provider": {"issuer": "i"}, "clientSecret": {"name": "s"}}},
            }
        ),
        [f"{FEDERATED}.oidcExchangeToken.oidc: needs clientID or clientIDRef"],
    ),
    "an override": (api_key("k", credentialOverride={"fromRequestHeaders": {}}), []),
    "an override from nowhere": (
        api_key("k", credentialOverride={}),
        ["spec.credentialOverride: exactly one source is needed"],
    ),
    "an override from everywhere": (
        api_key("k", credentialOverride={"fromRequestHeaders": {}, "fromDynamicMetadata": {"namespace": "n"}}),
        ["spec.credentialOverride: exactly one source is needed"],
    ),
    "an override, formerly": (
        alpha(api_key("k", credentialOverride={"fromRequestHeaders": {}})),
        ["spec.credentialOverride: v1alpha1 has no such field, and a cluster would drop it"],
    ),
    "an unknown field beside what is wrong": (
        gcp(
            workloadIdentityFederationConfig={
                **FEDERATION,
                "oidcExchangeToken": {
                    "oidc": {"provider": {"issuer": "i"}, "clientSecret": {"name": "s", "nmespace": "x"}}
                },
            }
        ),
        [
            f"{FEDERATED}.oidcExchangeToken.oidc: needs clientID or clientIDRef",
            f"warning {FEDERATED}.oidcExchangeToken.oidc.clientSecret.nmespace: unknown field 'nmespace'",
        ],
    ),
    "a misspelt override is no silence": (
        api_key("k", credentialOveride={"fromRequestHeaders": {}}),
        ["warning spec.credentialOveride: unknown field 'credentialOveride'"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), BACKENDS.values(), ids=BACKENDS)
def test_backends_and_policies(value, expected):
    assert found(value) == expected


# --- GatewayConfig and QuotaPolicy ---


def config(**spec: Any) -> dict[str, Any]:
    return resource(f"{AI}/v1beta1", "GatewayConfig", "c", spec=spec)


def container(**fields: Any) -> dict[str, Any]:
    return config(extProc={"kubernetes": fields})


CONTAINER = "spec.extProc.kubernetes"


SETTINGS: dict[str, tuple[Any, Findings]] = {
    "an image with a digest": (container(image="registry.example.com:5000/a/b:v1@sha256:" + "0" * 64), []),
    "an image of capitals": (container(image="Registry/a"), [f"{CONTAINER}.image: 'Registry/a' is no image"]),
    "image and repository": (
        container(image="a/b", imageRepository="a/b"),
        [f"{CONTAINER}: image and imageRepository exclude each other"],
    ),
    "a repository with a port": (container(imageRepository="registry:5000/a/b"), []),
    "a repository with a tag": (
        container(imageRepository="registry:5000/a/b:v1"),
        [f"{CONTAINER}.imageRepository: must not name a tag"],
    ),
    "a global cost twice": (
        config(globalLLMRequestCosts=[{"metadataKey": "k", "type": "InputToken"}] * 2),
        [f"spec.globalLLMRequestCosts[1].metadataKey: 'k' {TWICE}"],
    ),
    "a proxy without a port": (
        config(forwardProxy={"address": "proxy"}),
        ["spec.forwardProxy.address: 'proxy' is no address"],
    ),
    "a proxy with a port of other digits": (
        config(forwardProxy={"address": "proxy:\u0661"}),
        ["spec.forwardProxy.address: 'proxy:\u0661' is no address"],
    ),
    "a proxy with port 0": (
        config(forwardProxy={"address": "proxy:0"}),
        ["spec.forwardProxy.address: 'proxy:0' is no address"],
    ),
    "a quota for a pool": (
        quota([{"group": INFERENCE, "kind": "InferencePool", "name": "p"}], defaultBucket=BUCKET),
        ["spec.targetRefs[0]: 'inference.networking.k8s.io/InferencePool' cannot be a target"],
    ),
    "a quota without a bucket": (quota(), [f"{QUOTA}: has neither defaultBucket nor bucketRules"]),
    "a bucket of a week": (
        quota(defaultBucket={"limit": 1, "duration": "1w"}),
        [f"{QUOTA}.defaultBucket.duration: '1w' is not allowed"],
    ),
    "a quota in another mode": (
        quota(defaultBucket=BUCKET, mode="Single"),
        [f"{QUOTA}.mode: 'Single' is not allowed"],
    ),
    "a selector of addresses": (
        quota(bucketRules=[{"clientSelectors": [{"sourceCIDR": {"value": "10.0.0.0/8"}}], "quota": BUCKET}]),
        [f"warning {QUOTA}.bucketRules[0].clientSelectors[0]: selects no header, and selects every client"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_gateway_configs_and_quotas(value, expected):
    assert found(value) == expected


# --- MCPRoute ---


MCP_ROUTES: dict[str, tuple[Any, Findings]] = {
    "least": (mcp(), []),
    "no parent": (mcp(parentRefs=[]), ["spec.parentRefs: must not be empty"]),
    "no server": (
        resource(f"{AI}/v1beta1", "MCPRoute", "m", spec={"parentRefs": [{"name": "gw"}]}),
        ["spec.backendRefs: is required"],
    ),
    "a server twice": (mcp(server(), server()), [f"spec.backendRefs[1].name: 's' {TWICE}"]),
    "a Service without a port": (mcp({"name": "s"}), ["spec.backendRefs[0].port: is required for a Service"]),
    "a Backend without a port": (mcp({"name": "s", "group": ENVOY_GATEWAY, "kind": "Backend"}), []),
    "tools chosen in two ways": (
        mcp(server(toolSelector={"include": ["a"], "includeRegex": ["b"], "exclude": ["c"], "excludeRegex": ["d"]})),
        [
            "spec.backendRefs[0].toolSelector: exclude and excludeRegex exclude each other",
            "spec.backendRefs[0].toolSelector: include and includeRegex exclude each other",
        ],
    ),
    "tools chosen in no way": (
        mcp(server(toolSelector={})),
        ["spec.backendRefs[0].toolSelector: selects nothing"],
    ),
    "a key from two places to two places": (
        mcp(server(securityPolicy={"apiKey": {**SECRET, "inline": "k", "header": "a", "queryParam": "b"}})),
        [
            "spec.backendRefs[0].securityPolicy.apiKey: exactly one of secretRef and inline is needed",
            "spec.backendRefs[0].securityPolicy.apiKey: header and queryParam exclude each other",
        ],
    ),
    "an issuer that is no URI": (
        secured(oauth={**OAUTH, "issuer": "i.example.com"}),
        ["spec.securityPolicy.oauth.issuer: 'i.example.com' is not allowed"],
    ),
    "no keys": (
        secured(oauth={**OAUTH, "jwks": {}}),
        ["spec.securityPolicy.oauth.jwks: exactly one of remoteJWKS and localJWKS is needed"],
    ),
    "an authorizer of two protocols": (
        secured(extAuth={"grpc": {}, "http": {}}),
        ["spec.securityPolicy.extAuth: exactly one of grpc and http is needed"],
    ),
    "one authorizer beside a null": (
        secured(extAuth={"grpc": {}, "http": None}),
        [],
    ),
    # The CRD's own rule fails here (contract, control plane 1.5).
    "authorization without rules": (secured(authorization={"defaultAction": "Allow"}), []),
    "a rule about tokens without an issuer": (
        secured(authorization={"rules": [{"source": {"jwt": {"scopes": ["a"]}}}]}),
        [f"{AUTHORIZATION}: a rule about tokens on a route that takes none"],
    ),
    "a rule about nothing of a token": (
        secured(oauth=OAUTH, authorization={"rules": [{"source": {"jwt": {}}}]}),
        [f"{AUTHORIZATION}: asks for nothing"],
    ),
    "a claim that is a scope": (
        secured(
            oauth=OAUTH,
            authorization={"rules": [{"source": {"jwt": {"claims": [{"name": "scope", "values": ["a"]}]}}}]},
        ),
        [f"{AUTHORIZATION}.claims[0].name: 'scope' is not a claim here"],
    ),
    "a header twice": (mcp(headers=[header("a"), header("a")]), [f"spec.headers[1].name: 'a' {TWICE}"]),
    "an action that there is not": (
        mcp(backendSelector={"rules": [{"cel": "true", "action": "Maybe"}]}),
        ["spec.backendSelector.rules[0].action: 'Maybe' is not allowed"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), MCP_ROUTES.values(), ids=MCP_ROUTES)
def test_mcp_routes(value, expected):
    assert found(value) == expected


WRONG_TYPES: dict[str, tuple[Any, Findings]] = {
    "a text for a boolean": (
        api_key("k", credentialOverride={"fromRequestHeaders": {"fallbackToConfigured": "no"}}),
        ["spec.credentialOverride.fromRequestHeaders.fallbackToConfigured: expected a boolean, got a text"],
    ),
    "a boolean for a text": (
        service("b", schema={"name": "OpenAI", "prefix": True}),
        ["spec.schema.prefix: expected a text, got the boolean true"],
    ),
    "a boolean for a number": (
        route("r", rule({"name": "b", "weight": True})),
        [f"{REF}.weight: expected an integer, got the boolean true"],
    ),
    "a number for a word": (service("b", schema={"name": 3}), ["spec.schema.name: expected a text, got a number"]),
    "a mapping for a list": (route("r", rule(), hostnames={}), ["spec.hostnames: expected a list, got a mapping"]),
    "a list for a mapping": (service("b", backendRef=[]), ["spec.backendRef: expected a mapping, got a list"]),
    "a fraction": (
        route("r", rule({"name": "b", "weight": 1.5})),
        [f"{REF}.weight: expected an integer, got a number"],
    ),
}


@pytest.mark.parametrize(("value", "expected"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_types(value, expected):
    assert found(value) == expected


# --- what was unreadable is not judged, and what was not is ---


def test_a_rule_says_nothing_of_a_value_that_could_not_be_read():
    value = policy("p", "APIKey", apiKey={"secretRef": {"name": 3}}, azureCredentials=AZURE)
    assert found(value) == [
        "spec.apiKey.secretRef.name: expected a text, got a number",
        "spec.azureCredentials: does not go with type APIKey",
        "spec.azureCredentials: exactly one source of the token is needed",
    ]


def test_a_rule_does_not_mistake_one_entry_for_another_when_one_could_not_be_read():
    refs = [{"weight": "x"}, {"name": "b", "group": "g"}]
    assert found(route("r", rule(*refs), rule({"name": "c", "kind": "K"}))) == [
        "spec.rules[0].backendRefs[0].name: is required",
        "spec.rules[0].backendRefs[0].weight: expected an integer, got a text",
        f"spec.rules[1].backendRefs[0]: {HALF}",
    ]


def test_no_fault_shows_a_credential():
    values = [
        mcp(server(securityPolicy={"apiKey": {"inline": ["sk-planted"], "secretRef": {"name": "s"}}})),
        service("b", headerMutation={"set": [header("authorization", "sk-planted" * 500)]}),
        service("b", bodyMutation={"set": [{"path": "key", "value": {"sk-planted": 1}}]}),
        resource("v1", "Secret", "s", stringData={"apiKey": ["sk-planted"]}),
        resource("v1", "Secret", "s", data="sk-planted"),
    ]
    for value in values:
        said = found(value)
        assert said
        assert "sk-planted" not in "".join(said)

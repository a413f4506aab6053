"""What a route leads to is all that it is compiled from, and what is missing is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from filter_config.sources.envoy_ai_gateway.closure import Documents, closure_of, gateways_of
from filter_config.sources.envoy_ai_gateway.compiler import compile_documents
from filter_config.sources.envoy_ai_gateway.documents import Document, Text, documents
from filter_config.sources.envoy_ai_gateway.load import Judged, judge, load
from filter_config.sources.envoy_ai_gateway.marks import (
    Key,
    grants_of,
    key_of,
    marks_of,
    policies_for,
    quotas_for,
    tls_for,
    traffic_for,
)
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute
from filter_config.sources.faults import Faults
from tests.support import gateway_resources as g
from tests.support.placeless import comparable

GOLDEN = Path(__file__).parents[4] / "golden" / "resources"
ROUTES = ("AIGatewayRoute", "MCPRoute")
ROUTE = Key("AIGatewayRoute", "default", "r")


class Found:
    """Documents, and what was asked for."""

    def __init__(self, there: Iterable[Document]) -> None:
        self.by_key: dict[Key, list[Document]] = {}
        self.reads: set[tuple[str, ...]] = set()
        for document in there:
            key = key_of(document.value)
            if key is not None:
                self.by_key.setdefault(key, []).append(document)

    def documents(self, key: Key) -> Documents:
        self.reads.add(key)
        return self.by_key.get(key, [])

    def found(self, mark: tuple[str, ...]) -> list[Key]:
        self.reads.add(mark)
        return [
            key
            for key, there in self.by_key.items()
            if any(mark in marks_of(key, document.value) for document in there)
        ]

    def resource(self, document: Document) -> msgspec.Struct | None:
        said: list[Judged] = []

        def remembered(struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
            said.append(judge(struct, kind, value))
            return said[0]

        load((document,), Faults(), judge=remembered)
        return said[0].value if said else None


def found(*resources: dict[str, Any]) -> Found:
    return Found(Document(file="f", line=1, value=value) for value in resources)


def keys(closure: Iterable[Key]) -> set[str]:
    return {str(key) for key in closure}


def routes_of_examples() -> dict[str, tuple[list[Document], Key]]:
    cases = {}
    for case in sorted(GOLDEN.iterdir()):
        there = list(documents(Text(name=case.name, data=(case / "resources.yaml").read_bytes()), Faults()))
        for key in dict.fromkeys(key_of(document.value) for document in there):
            if key is not None and key.kind in ROUTES:
                cases[f"{case.name}: {key}"] = (there, key)
    return cases


EXAMPLES = routes_of_examples()


@pytest.mark.parametrize(("there", "route"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_route_is_compiled_from_its_closure_as_from_everything(there, route):
    alone = [
        document
        for document in there
        if (key := key_of(document.value)) == route or key is None or key.kind not in ROUTES
    ]
    closure = closure_of(route, Found(there))
    picked = [document for among in closure.values() for document in among]

    whole, part = (compile_documents(each, Faults()) for each in (alone, picked))

    assert comparable(part.gateways) == comparable(whole.gateways)


TO_B = [{"group": g.AI, "kind": "AIServiceBackend", "name": "b"}]
BACKEND = {"group": g.ENVOY_GATEWAY, "kind": "Backend", "name": "b"}
AUTHORITY = {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}
TLS = [g.listener("https", protocol="HTTPS", tls={"certificateRefs": [{"name": "cert", "namespace": "team"}]})]
CONFIG = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "c"}}
POOL = g.ref("p", group=g.INFERENCE, kind="InferencePool")
ELSEWHERE = [g.route("r", g.rule(g.ref("b", namespace="team")))]
ONE_ROUTE = [g.route("r", g.rule("b"))]


def tls_policy(**spec: Any) -> dict[str, Any]:
    return g.resource(f"{g.GATEWAY_API}/v1", "BackendTLSPolicy", "t", spec={"targetRefs": [BACKEND], **spec})


def traffic(kind: str, name: str) -> dict[str, Any]:
    refs = [{"group": g.GATEWAY_API, "kind": kind, "name": name}]
    return g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", "t", spec={"targetRefs": refs})


def secrets(name: str, kind: str, **credential: Any) -> list[dict[str, Any]]:
    """A policy whose credential is in the Secret ``s``, and what rotation has written for it."""
    return [g.policy(name, kind, "b", **credential), g.secret("s"), g.secret(f"ai-eg-bsp-{name}")]


SECRET = {"secretRef": {"name": "s"}}
# What there is besides a route and something that has nothing to do with it; all of it belongs to the route.
LED_TO: dict[str, list[dict[str, Any]]] = {
    "namespace": [*ONE_ROUTE, g.resource("v1", "Namespace", "default", "")],
    "gateway with its config": [
        *ONE_ROUTE,
        g.gateway(**CONFIG),
        g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={}),
    ],
    "gateway with its certificates": [
        *ONE_ROUTE,
        g.gateway(listeners=TLS),
        g.secret("cert", "team"),
        g.grant("team", source=(g.GATEWAY_API, "Gateway", "default"), target=("", "Secret")),
    ],
    "policy about the gateway": [*ONE_ROUTE, traffic("Gateway", "gw")],
    "policy about the route": [*ONE_ROUTE, traffic("HTTPRoute", "r")],
    "backend": [*ONE_ROUTE, *g.served("b")],
    "backend of another namespace": [
        *ELSEWHERE,
        *g.served("b", namespace="team"),
        g.grant("team", source=(g.AI, "AIGatewayRoute", "default"), target=(g.AI, "AIServiceBackend")),
    ],
    "backend with its authority": [
        *ONE_ROUTE,
        g.service("b"),
        g.endpoint("b", tls=AUTHORITY),
        g.resource("v1", "ConfigMap", "ca"),
    ],
    "TLS policy with its authority": [
        *ONE_ROUTE,
        *g.served("b"),
        tls_policy(validation={"hostname": "h", **AUTHORITY}),
        g.resource("v1", "ConfigMap", "ca"),
    ],
    "TLS policy that cannot be read": [*ONE_ROUTE, *g.served("b"), tls_policy()],
    "pool": [g.route("r", g.rule(POOL)), g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={})],
    "quota": [*ONE_ROUTE, g.quota(TO_B)],
    "API key": [*ONE_ROUTE, *secrets("k", "APIKey", apiKey=SECRET)],
    "Azure API key": [*ONE_ROUTE, *secrets("k", "AzureAPIKey", azureAPIKey=SECRET)],
    "Anthropic API key": [*ONE_ROUTE, *secrets("k", "AnthropicAPIKey", anthropicAPIKey=SECRET)],
    "AWS file": [
        *ONE_ROUTE,
        *secrets("k", "AWSCredentials", awsCredentials={"region": "r", "credentialsFile": SECRET}),
    ],
    "Azure client secret": [
        *ONE_ROUTE,
        *secrets(
            "k",
            "AzureCredentials",
            azureCredentials={"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "s"}},
        ),
    ],
    "GCP file": [
        *ONE_ROUTE,
        *secrets("k", "GCPCredentials", gcpCredentials={"projectName": "p", "region": "r", "credentialsFile": SECRET}),
    ],
    "key of another namespace": [
        *ONE_ROUTE,
        g.policy("k", "APIKey", "b", apiKey={"secretRef": {"name": "s", "namespace": "team"}}),
        g.secret("s", "team"),
        g.grant("team", source=(g.AI, "BackendSecurityPolicy", "default"), target=("", "Secret")),
    ],
    "policy that cannot be read": [
        *ONE_ROUTE,
        g.resource(f"{g.AI}/v1beta1", "BackendSecurityPolicy", "k", spec={"targetRefs": TO_B}),
    ],
    "a backend twice": [*ONE_ROUTE, g.service("b"), g.service("b", schema="Anthropic")],
}
UNRELATED = [
    g.route("other", g.rule("other")),
    *g.served("other"),
    g.api_key("other", "other"),
    g.secret("other"),
    g.grant("elsewhere", source=("", "A", "a"), target=("", "Secret")),
]


@pytest.mark.parametrize("resources", LED_TO.values(), ids=LED_TO)
def test_a_route_leads_to_all_that_it_is_compiled_from_and_to_nothing_else(resources):
    closure = closure_of(ROUTE, found(*resources, *UNRELATED))
    assert keys(closure) == keys(found(*resources).by_key)
    assert sum(len(there) for there in closure.values()) == len(resources)


@pytest.mark.parametrize("resources", LED_TO.values(), ids=LED_TO)
def test_what_is_missing_is_asked_for(resources):
    """Whatever comes first, the coming of the rest is noticed."""
    for missing in resources:
        finder = found(*(value for value in resources if value is not missing))
        closure_of(ROUTE, finder)
        key = key_of(missing)
        assert key is not None
        assert {key, *marks_of(key, missing)} & finder.reads


def test_everything_that_is_looked_up_for_a_route_without_anything():
    finder = found(*ONE_ROUTE)
    assert keys(closure_of(ROUTE, finder)) == {"AIGatewayRoute default/r"}
    assert finder.reads == {
        ROUTE,
        Key("Namespace", "", "default"),
        Key("Gateway", "default", "gw"),
        Key("AIServiceBackend", "default", "b"),
        traffic_for("default", "Gateway", "gw"),
        traffic_for("default", "HTTPRoute", "r"),
        policies_for("default", "AIServiceBackend", "b"),
        quotas_for("default", "b"),
    }


def test_nothing_leads_from_a_route_that_is_not_there_or_cannot_be_read():
    finder = found(*g.served("b"))
    assert closure_of(ROUTE, finder) == {}
    assert finder.reads == {ROUTE}
    broken = {**g.route("r", g.rule("b")), "spec": "none"}
    assert keys(closure_of(ROUTE, found(broken, *g.served("b")))) == {"AIGatewayRoute default/r"}


def test_an_endpoint_of_another_namespace_is_asked_of_those_who_may_allow_it():
    to = {"name": "b", "namespace": "team", "kind": "Backend", "group": g.ENVOY_GATEWAY}
    finder = found(*ONE_ROUTE, g.service("b", backendRef=to))
    closure_of(ROUTE, finder)
    assert {grants_of("team"), Key("Backend", "team", "b"), tls_for("team", "b")} <= finder.reads


def test_gateways_by_their_places():
    value = g.route("r", parentRefs=[{"name": "a"}, {"name": "b", "namespace": "team"}, {"name": "a"}])
    route = found().resource(Document(file="f", line=1, value=value))
    assert isinstance(route, AIGatewayRoute)
    here, there = Key("Gateway", "default", "a"), Key("Gateway", "team", "b")
    assert gateways_of(route, "default") == [here, there, here]

"""Any order of any changes ends in the same cluster, and in the configs that the compiler makes of all resources."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.controller.kinds import Key
from filter_config.sources.envoy_ai_gateway.compiler import compile_documents
from filter_config.sources.faults import Faults
from tests.support import gateway_resources as g
from tests.support.kube_world import World, gateway, gateway_class, namespace

KINDS_COMPILED = (
    "AIGatewayRoute",
    "AIServiceBackend",
    "BackendSecurityPolicy",
    "GatewayConfig",
    "MCPRoute",
    "QuotaPolicy",
    "Gateway",
    "ReferenceGrant",
    "Backend",
    "InferencePool",
    "Secret",
    "Namespace",
)
CONFIG = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "c"}}
AZURE = {"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "k"}}
BUCKET = {"limit": 10, "duration": "1h"}
POOL = g.ref("p", group=g.INFERENCE, kind="InferencePool")


def aged(value: dict[str, Any], day: int) -> dict[str, Any]:
    """A resource of a known age, as order among routes is by age."""
    metadata = {**value["metadata"], "creationTimestamp": f"2026-01-{day:02d}T00:00:00Z"}
    return {**value, "metadata": metadata}


def costs(cel: str = "total_tokens") -> list[dict[str, Any]]:
    return [{"metadataKey": "cost", "type": "CEL", "cel": cel}]


def policy_pair(name: str, *targets: str) -> list[dict[str, Any]]:
    return [g.api_key(name, *targets), g.secret(name, apiKey=f"key-of-{name}")]


def traffic(name: str, target: str, kind: str = "HTTPRoute", **spec: Any) -> dict[str, Any]:
    """A policy of somebody's own, which is Envoy Gateway's to enforce."""
    ref = {"group": g.GATEWAY_API, "kind": kind, "name": target}
    return g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", name, spec={"targetRefs": [ref], **spec})


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A policy that lacks what every one must have: nothing but its targets can be read."""
    return {**value, "spec": {key: part for key, part in value["spec"].items() if key != name}}


# Everything that a cluster may have, each in the forms that it may have it in; BackendTLSPolicies are not watched. All
# routes can be read: one that cannot be keeps what was made of it before, which is not the same for everybody.
FORMS: list[list[dict[str, Any]]] = [
    [gateway_class(), gateway_class(controller="example.com/other")],
    [
        gateway(),
        gateway(**CONFIG),
        gateway(listeners=[g.listener(allowedRoutes={"namespaces": {"from": "All"}}, hostname="*.example.com")]),
    ],
    [gateway("gw2", listeners=[g.listener(allowedRoutes={"namespaces": {"from": "All"}})])],
    [namespace(), namespace(team="a")],
    [
        aged(g.route("r", g.rule("b", "c"), llmRequestCosts=costs()), 3),
        aged(g.route("r", g.rule("b"), hostnames=["a.example.com", "b.example.com"]), 3),
        aged(g.route("r", g.rule("b"), g.rule(POOL), parentRefs=[{"name": "gw"}, {"name": "gw2"}]), 3),
    ],
    [
        aged(g.route("s", g.rule("c", model="n"), g.rule(g.ref("b", modelNameOverride="o"), model="m")), 2),
        aged(g.route("s", g.rule(POOL, model="p"), hostnames=["a.example.com"], llmRequestCosts=costs("1 +")), 2),
    ],
    [
        aged(
            g.route(
                "t",
                g.rule(g.ref("b", namespace="default")),
                namespace="team",
                parentRefs=[{"name": "gw2", "namespace": "default"}],
            ),
            1,
        )
    ],
    [g.service("b"), g.service("b", schema="Anthropic")],
    [g.service("c"), g.service("c", headerMutation={"set": [{"name": "x-a", "value": "1"}]})],
    [g.endpoint("b")],
    [g.endpoint("c")],
    [g.api_key("k", "b"), g.api_key("k", "b", "c")],
    [g.api_key("l", "d"), g.api_key("l", "b"), without(g.api_key("l", "c"), "type")],
    [g.secret("k", apiKey="key-of-k"), g.secret("k", apiKey="another"), g.secret("k", other="x")],
    [g.secret("l", apiKey="key-of-l")],
    [g.policy("az", "AzureCredentials", "c", azureCredentials=AZURE)],
    [g.secret("ai-eg-bsp-az", azureAccessToken="t"), g.secret("ai-eg-bsp-az", azureAccessToken="u")],
    [g.grant("default", source=(g.AI, "AIGatewayRoute", "team"), target=(g.AI, "AIServiceBackend"))],
    [g.grant("default", source=(g.GATEWAY_API, "HTTPRoute", "team"), target=(g.ENVOY_GATEWAY, "Backend"))],
    [g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={"globalLLMRequestCosts": costs()})],
    [
        g.quota(
            [{"group": g.AI, "kind": "AIServiceBackend", "name": "b"}],
            costExpression="input_tokens",
            defaultBucket=BUCKET,
        )
    ],
    [
        traffic("t1", "r", retry={"numRetries": 2}),
        traffic("t1", "r", retry={"numRetries": -1}),
        {**traffic("t1", "r"), "spec": "none"},
    ],
    [traffic("t2", "gw", "Gateway", retry={"numRetries": 3}), traffic("t2", "s", rateLimit={"local": {}})],
    [g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={"endpointPickerRef": {"name": "epp"}})],
    [aged(g.mcp(), 4), aged(g.mcp(path="/tools"), 4)],
]
STEPS = st.lists(st.tuples(st.integers(0, len(FORMS) - 1), st.integers(-1, 2), st.booleans()), min_size=1, max_size=25)


def test_in_the_first_form_of_everything_nothing_is_wrong():
    made = World()
    made.put(*(forms[0] for forms in FORMS))
    made.settle()
    for forms in FORMS:
        kind, name, space = identity(forms[0])
        if forms[0]["apiVersion"].startswith(g.AI):
            assert made.accepted(kind, name, space) == ""


def identity(value: dict[str, Any]) -> tuple[str, str, str]:
    return value["kind"], value["metadata"]["name"], value["metadata"].get("namespace", "")


def whole(made: World) -> dict[Key, bytes]:
    """The filter configs of all resources at once, but for their uuids."""
    store = made.planner.store
    ours = store.get(Key("GatewayClass", "", "eg"))
    entries = [entry for kind in KINDS_COMPILED for entry in store.of_kind(kind)]
    if ours is None or ours.value["spec"]["controllerName"] != made.options.controller:
        entries = [entry for entry in entries if entry.key.kind != "Gateway"]
    result = compile_documents([entry.document for entry in entries], Faults(), version=made.options.version)
    return {
        Key("Gateway", each.model.namespace, each.model.name): without_uuid(each.payload) for each in result.gateways
    }


def without_uuid(payload: bytes) -> bytes:
    return re.sub(rb"uuid: .*\n", b"", payload)


def configs(made: World) -> dict[Key, bytes]:
    keys = [Key("Gateway", model.namespace, model.name) for model in made.planner.gateways()]
    found = {key: made.planner.config(key) for key in keys}
    return {key: without_uuid(config.payload) for key, config in found.items() if config is not None}


@settings(max_examples=30, deadline=None)
@given(begin=st.sets(st.integers(0, len(FORMS) - 1), max_size=3), steps=STEPS)
def test_changes_one_by_one_give_what_all_resources_give_at_once(begin: set[int], steps: list[tuple[int, int, bool]]):
    made = World()
    # From nearly everything: from nothing, most examples would be of resources that lack one another.
    state = {which: forms[0] for which, forms in enumerate(FORMS) if which not in begin}
    made.put(*state.values())
    made.settle()
    for which, form, settle in steps:
        forms = FORMS[which]
        if form < 0:
            if which in state:
                kind, name, space = identity(state.pop(which))
                made.delete(kind, name, space)
        else:
            state[which] = forms[form % len(forms)]
            made.put(state[which])
        if settle:
            made.settle()
    made.settle()
    assert configs(made) == whole(made)
    assert made.restarted().settle() == []
    fresh = World()
    fresh.put(*state.values())
    fresh.settle()
    assert fresh.snapshot() == made.snapshot()


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(len(FORMS))), leaves=st.permutations(range(len(FORMS))))
def test_every_order_of_coming_and_going_ends_the_same(order: list[int], leaves: list[int]):
    made, reference = World(), World()
    for which in order:
        made.put(FORMS[which][0])
        made.settle()
    reference.put(*(forms[0] for forms in FORMS))
    reference.settle()
    assert made.snapshot() == reference.snapshot()
    for which in leaves:
        kind, name, space = identity(FORMS[which][0])
        made.delete(kind, name, space)
        made.settle()
    assert made.cluster.objects == {}


def test_a_change_is_compiled_where_it_matters_and_nowhere_else():
    made = World()
    routes = [g.route(f"r{number}", g.rule(f"b{number}", model=f"m{number}")) for number in range(20)]
    made.put(gateway_class(), gateway(), namespace(), *routes, *g.served(*(f"b{number}" for number in range(20))))
    made.settle()
    before = dict(made.planner.made)
    made.put(g.service("b7", schema="Anthropic"))
    made.settle()
    assert made.planner.made["slice"] - before["slice"] == 1
    assert made.planner.made["gateway"] - before["gateway"] == 1


def test_the_status_of_a_gateway_compiles_nothing():
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    before = dict(made.planner.made)
    place = next(place for place in made.cluster.objects if place.plural == "gateways")
    made.cluster.set_status(place, {"listeners": [{"name": "http", "attachedRoutes": 1}]})
    made.settle()
    assert made.planner.made == before

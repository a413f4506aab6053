"""Which gateways have which routes: parents, and what their listeners admit (contract, control plane 2.1)."""

from __future__ import annotations

import pytest

from tests.support.gateway_resources import (
    compiled,
    faults,
    gateway,
    listener,
    only,
    resource,
    route,
    rule,
    served,
)

APPS = resource("v1", "Namespace", "apps", metadata={"labels": {"team": "a", "tier": "gold"}})


def from_(kind: str, **selector):
    namespaces = {"from": kind, **({"selector": selector} if selector else {})}
    return listener(allowedRoutes={"namespaces": namespaces})


def in_apps(**spec):
    spec = {"parentRefs": [{"name": "gw", "namespace": "default"}], **spec}
    return [route("r", rule("b"), namespace="apps", **spec), *served("b", namespace="apps"), APPS]


NOT_IN = "NotIn"  # codespell:ignore notin


def expression(key: str, operator: str, *values: str):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


# listeners, whether they admit a route of namespace apps
NAMESPACES = {
    "the same, by default": ([listener()], False),
    "the same": ([from_("Same")], False),
    "none": ([from_("None")], False),
    "all": ([from_("All")], True),
    "those with a label": ([from_("Selector", matchLabels={"team": "a"})], True),
    "those with another label": ([from_("Selector", matchLabels={"team": "b"})], False),
    "those with both labels": ([from_("Selector", matchLabels={"team": "a", "tier": "iron"})], False),
    "by name": ([from_("Selector", matchLabels={"kubernetes.io/metadata.name": "apps"})], True),
    "no selector": ([from_("Selector")], False),
    "In": ([from_("Selector", **expression("team", "In", "a", "b"))], True),
    "In others": ([from_("Selector", **expression("team", "In", "b"))], False),
    "not in others": ([from_("Selector", **expression("team", NOT_IN, "b"))], True),
    "not in its own": ([from_("Selector", **expression("team", NOT_IN, "a"))], False),
    "Exists": ([from_("Selector", **expression("team", "Exists"))], True),
    "DoesNotExist": ([from_("Selector", **expression("team", "DoesNotExist"))], False),
    "the second listener": ([from_("Same"), {**from_("All"), "name": "open", "port": 81}], True),
}


@pytest.mark.parametrize(("listeners", "admits"), NAMESPACES.values(), ids=NAMESPACES)
def test_a_listener_says_whose_routes_it_takes(listeners, admits):
    result = compiled(gateway(listeners=listeners), *in_apps())
    assert len(result.gateways) == admits
    refusal = "Gateway default/gw does not admit the route: no listener allows routes of namespace apps"
    assert faults(result) == ([] if admits else [f"error AIGatewayRoute apps/r: spec.parentRefs[0]: {refusal}"])


def test_a_route_that_is_not_admitted_adds_nothing_and_blocks_nothing():
    costs = [{"metadataKey": "k", "type": "CEL", "cel": "1 +"}]
    own = route("own", rule("b", model="own")), *served("b")
    made = compiled(gateway(), *own, *in_apps(llmRequestCosts=costs)).gateways[0]
    assert [model.name for model in made.config.models] == ["own"]
    assert [backend.name for backend in made.config.backends] == ["default/b/route/own/rule/0/ref/0"]
    assert made.config.llm_request_costs == ()


HTTP = "no listener takes HTTP routes"
# listeners, parent reference, why not
LISTENERS = {
    "a name": ([listener("a"), listener("b", port=81)], {"sectionName": "b"}, ""),
    "a name that there is not": ([listener("a")], {"sectionName": "b"}, "no listener has that name or port"),
    "a port": ([listener("a")], {"port": 80}, ""),
    "a port that there is not": ([listener("a")], {"port": 81}, "no listener has that name or port"),
    "HTTPS": ([listener(protocol="HTTPS", port=443)], {}, ""),
    "TCP": ([listener(protocol="TCP")], {}, HTTP),
    "GRPCRoutes": ([listener(allowedRoutes={"kinds": [{"kind": "GRPCRoute"}]})], {}, HTTP),
    "HTTPRoutes": ([listener(allowedRoutes={"kinds": [{"kind": "HTTPRoute"}]})], {}, ""),
    "no listener": ([], {}, "the gateway has no listeners"),
}


@pytest.mark.parametrize(("listeners", "parent", "refusal"), LISTENERS.values(), ids=LISTENERS)
def test_a_parent_may_be_one_listener_which_must_take_http(listeners, parent, refusal):
    made_route = route("r", rule("b"), parentRefs=[{"name": "gw", **parent}])
    result = compiled(gateway(listeners=listeners), made_route, *served("b"))
    said = f"error AIGatewayRoute default/r: spec.parentRefs[0]: Gateway default/gw does not admit the route: {refusal}"
    assert faults(result) == ([said] if refusal else [])
    assert len(result.gateways) == (not refusal)


# listener's hostname, route's hostnames, those that are served
HOSTS = {
    "any": (None, ["a.example.com"], ["a.example.com"]),
    "the same": ("a.example.com", ["b.example.com", "a.example.com"], ["a.example.com"]),
    "a wildcard": ("*.example.com", ["a.example.com", "x.y.example.com", "example.com", "a.example.org"], None),
    "the same wildcard": ("*.example.com", ["*.example.com"], ["*.example.com"]),
    "a wildcard of the route": ("a.example.com", ["*.example.com"], ["*.example.com"]),
    "none": ("a.example.com", ["b.example.com"], []),
}


@pytest.mark.parametrize(("hostname", "hosts", "served_hosts"), HOSTS.values(), ids=HOSTS)
def test_a_route_has_the_hosts_that_a_listener_serves(hostname, hosts, served_hosts):
    expected = ["a.example.com", "x.y.example.com"] if served_hosts is None else served_hosts
    listeners = [listener(**({"hostname": hostname} if hostname else {}))]
    result = compiled(gateway(listeners=listeners), route("r", rule("b"), hostnames=hosts), *served("b"))
    assert sorted(result.gateways[0].config.models_by_host if result.gateways else []) == sorted(expected)
    assert result.ok == bool(expected)


def test_a_route_may_be_on_several_gateways_and_a_missing_one_stops_no_other():
    parents = [{"name": "missing"}, {"name": "gw"}, {"name": "other", "namespace": "infra"}]
    other = gateway("other", "infra", listeners=[from_("All")])
    result = compiled(gateway(), other, route("r", rule("b"), parentRefs=parents), *served("b"))
    assert [made.model.id for made in result.gateways] == ["default/gw", "infra/other"]
    assert result.gateways[0].payload == result.gateways[1].payload
    assert faults(result) == [
        "error AIGatewayRoute default/r: spec.parentRefs[0]: Gateway default/missing does not exist"
    ]


def test_a_gateway_has_only_its_own_routes():
    routes = route("r", rule("b")), route("s", rule("b", model="n"), parentRefs=[{"name": "other"}])
    result = compiled(gateway(), gateway("other"), *routes, *served("b"))
    assert [[model.name for model in made.config.models] for made in result.gateways] == [["m"], ["n"]]


def test_a_route_without_a_parent_is_told():
    result = compiled(gateway(), route("r", rule("b"), parentRefs=[]), *served("b"))
    assert result.gateways == ()
    assert faults(result) == ["warning AIGatewayRoute default/r: spec.parentRefs: the route is attached to nothing"]


def test_listeners_are_carried():
    made = only(
        compiled(gateway(listeners=[listener("a"), listener("b", port=81)]), route("r", rule("b")), *served("b"))
    )
    assert [(entry.name, entry.port, entry.protocol) for entry in made.model.listeners] == [
        ("a", 80, "HTTP"),
        ("b", 81, "HTTP"),
    ]
    assert made.model.routes[0].listeners == ("a", "b")

"""What a route leads to in a cluster: what is Envoy Gateway's is left to it."""

from __future__ import annotations

from typing import Any

from deploy.controller.closure import Closure, closure_in
from deploy.controller.indexes import INDEXES
from deploy.controller.judging import Judging
from deploy.controller.kinds import Key
from deploy.controller.store import Store, View
from tests.support import gateway_resources as g
from tests.support.kube_world import gateway, gateway_class

ROUTE = Key("AIGatewayRoute", "default", "r")
TLS = [g.listener("https", protocol="HTTPS", tls={"certificateRefs": [{"name": "cert"}]})]


def closure(*values: dict[str, Any], key: Key = ROUTE) -> tuple[Closure, View]:
    store = Store(INDEXES)
    for value in values:
        store.put(value)
    view = View(store)
    return closure_in(view, Judging(), key), view


def names(found: Closure) -> list[str]:
    values: list[Any] = [document.value for document in found.documents]
    return sorted(f"{value['kind']} {value['metadata']['name']}" for value in values)


def test_the_certificates_of_a_gateway_are_left_out():
    resources = [gateway_class(), gateway(listeners=TLS), g.route("r", g.rule("b")), g.secret("cert")]
    found, view = closure(*resources)
    assert names(found) == ["AIGatewayRoute r", "Gateway gw"]
    (there,) = [document.value for document in found.documents if document.value["kind"] == "Gateway"]
    assert [listener.get("tls") for listener in there["spec"]["listeners"]] == [None]
    assert Key("Secret", "default", "cert") not in view.reads


def test_retries_and_rate_limits_are_left_out():
    ref = {"group": g.GATEWAY_API, "kind": "HTTPRoute", "name": "r"}
    policy = g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", "t", spec={"targetRefs": [ref]})
    found, _ = closure(gateway_class(), gateway(), g.route("r", g.rule("b")), policy)
    assert names(found) == ["AIGatewayRoute r", "Gateway gw"]


def test_gateways_of_somebody_else_are_known_by_their_places():
    parents = [{"name": "gw"}, {"name": "theirs"}, {"name": "classless"}, {"name": "missing"}, {"name": "theirs"}]
    theirs = gateway("theirs", class_name="other", annotations={"aigateway.envoyproxy.io/gateway-config": "c"})
    found, view = closure(
        gateway_class(),
        gateway_class("other", controller="example.com/other"),
        gateway(),
        theirs,
        gateway("classless", class_name="none"),
        g.route("r", g.rule("b"), parentRefs=parents),
        g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={}),
    )
    assert names(found) == ["AIGatewayRoute r", "Gateway gw"]
    assert found.foreign == {
        1: Key("Gateway", "default", "theirs"),
        2: Key("Gateway", "default", "classless"),
        4: Key("Gateway", "default", "theirs"),
    }
    assert {Key("Gateway", "default", "missing"), Key("GatewayClass", "", "none")} <= view.reads


def test_an_mcp_route_leads_to_its_gateways():
    found, _ = closure(gateway_class(), gateway(), g.mcp(), key=Key("MCPRoute", "default", "m"))
    assert names(found) == ["Gateway gw", "MCPRoute m"]


def test_there_is_nothing_without_the_route():
    found, _ = closure(gateway_class(), gateway())
    assert found == Closure(documents=(), foreign={})

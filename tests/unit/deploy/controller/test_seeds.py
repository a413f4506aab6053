"""Seeds of MCP sessions: where their Secrets are, who refers to them, when pods roll for them, and when they go."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from deploy.controller import seeds
from deploy.controller.options import ControllerOptions
from deploy.injector import names
from filter_config.redact import Secret
from tests.support import gateway_resources as g
from tests.support.kube_world import SIDECAR, World, gateway, gateway_class

EG = "envoy-gateway-system"
LABELS = {
    "gateway.envoyproxy.io/owning-gateway-name": "gw",
    "gateway.envoyproxy.io/owning-gateway-namespace": "default",
}
NAME = names.seed_secret("ai-eg-mcp-seed", names.GatewayRef(namespace="default", name="gw"))


def options(seed: str) -> ControllerOptions:
    value = Secret(seed)
    sidecar = replace(SIDECAR, mcp_seed=seeds.seed(seeds.SEED_KEY, value, 10))
    return ControllerOptions(sidecar=sidecar, mcp_seeds={seeds.SEED_KEY: value})


def world(*values: dict[str, Any], seed: str = "one") -> World:
    made = World(options=options(seed))
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"), *values)
    made.settle()
    return made


def content(made: World, namespace: str = EG) -> dict[str, str]:
    data = made.get("Secret", NAME, namespace)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def deployment(namespace: str) -> dict[str, Any]:
    value = g.resource("apps/v1", "Deployment", "envoy", namespace, spec={"template": {"metadata": {}}})
    value["metadata"]["labels"] = LABELS
    # No rollout is in progress, however often it changes.
    value["status"] = {"observedGeneration": 99}
    return value


def pod(*, refers: bool) -> dict[str, Any]:
    ref = {"name": "SEED", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "seed"}}}
    value = g.resource("v1", "Pod", "envoy-1", EG, spec={"initContainers": [{"name": "x", "env": [ref] * refers}]})
    value["metadata"]["labels"] = LABELS
    return value


def test_a_gateway_with_an_mcp_route_has_its_seed_where_its_pods_will_be():
    made = world(g.mcp(g.server()))

    assert content(made) == {"seed": "one"}
    assert made.settle() == []


def test_it_follows_the_pods():
    made = world(g.mcp(g.server()))
    made.put(deployment("default"))
    made.settle()

    assert content(made, "default") == {"seed": "one"}
    assert not made.has("Secret", NAME, EG)


def test_without_an_mcp_route_nobody_has_it():
    made = world()

    assert not made.has("Secret", NAME, EG)


@pytest.mark.parametrize("refers", [True, False])
def test_it_stays_as_long_as_a_pod_refers_to_it(refers):
    made = world(g.mcp(g.server()), pod(refers=refers))
    made.delete("MCPRoute", g.mcp(g.server())["metadata"]["name"])
    made.settle()

    assert made.has("Secret", NAME, EG) is refers
    if refers:
        made.delete("Pod", "envoy-1", EG)
        made.settle()
        assert not made.has("Secret", NAME, EG)


def test_it_goes_with_the_gateway():
    made = world(g.mcp(g.server()))
    made.delete("Gateway", "gw")
    made.settle()

    assert not made.has("Secret", NAME, EG)


def test_another_seed_is_written_before_pods_roll_for_it():
    first = world(g.mcp(g.server()), deployment(EG), pod(refers=True))
    template = first.get("Deployment", "envoy", EG)["spec"]["template"]
    second = World(cluster=first.cluster, options=options("another"), now=first.now).restarted()
    written = second.settle()

    assert content(second) == {"seed": "another"}
    assert second.get("Deployment", "envoy", EG)["spec"]["template"] != template
    kinds = [write.key.kind for write in written]
    assert kinds.index("Secret") < kinds.index("Deployment")
    # The version is in a hash that everybody may see; the seed is in neither.
    assert "another" not in str(second.get("Deployment", "envoy", EG))


def test_a_secret_of_somebody_else_is_left_alone():
    foreign = g.secret(NAME, password="x")
    foreign["metadata"]["namespace"] = EG
    made = world(foreign, g.mcp(g.server()))

    assert content(made) == {"password": "x"}
    assert any(
        f"Secret {EG}/{NAME} is there and belongs to somebody else" in each.problem for each in made.plans.values()
    )

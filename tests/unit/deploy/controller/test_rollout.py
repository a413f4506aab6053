"""Pods are annotated with their config, and workloads roll when the sidecar has to come, go or change."""

from __future__ import annotations

from typing import Any

from deploy.controller.kinds import Key
from deploy.controller.options import ControllerOptions
from deploy.controller.writes import Patch
from tests.support import gateway_resources as g
from tests.support.kube_world import SIDECAR, World, gateway, gateway_class

EG = "envoy-gateway-system"
UUID = "aigateway.envoyproxy.io/uuid"
HASH = "aigateway.envoyproxy.io/extproc-config-hash"
LABELS = {
    "gateway.envoyproxy.io/owning-gateway-name": "gw",
    "gateway.envoyproxy.io/owning-gateway-namespace": "default",
}
CONTAINER = {"name": "ai-gateway-extproc", "image": SIDECAR.image, "args": ["-logLevel", "info"]}
GATEWAY = Key("Gateway", "default", "gw")


def pod(name: str = "p", *, sidecar: bool, **annotations: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "envoy"}], "initContainers": [CONTAINER] if sidecar else []}
    value = g.resource("v1", "Pod", name, EG, spec=spec)
    value["metadata"] |= {"labels": LABELS, "annotations": annotations}
    return value


def deployment() -> dict[str, Any]:
    value = g.resource("apps/v1", "Deployment", "envoy", EG, spec={"template": {"metadata": {}}})
    value["status"] = {"observedGeneration": 1}
    value["metadata"]["labels"] = LABELS
    return value


def world(*values: dict[str, Any], options: ControllerOptions | None = None) -> World:
    made = World(options=options or ControllerOptions(sidecar=SIDECAR))
    made.put(gateway_class(), gateway(), *g.served("b"), *values)
    made.settle()
    return made


def rolling(made: World, **status: Any) -> None:
    place = next(place for place in made.cluster.objects if place.plural == "deployments")
    made.cluster.set_status(place, {"observedGeneration": 99, "replicas": 2, "updatedReplicas": 1, **status})


def template(made: World) -> dict[str, str]:
    return made.get("Deployment", "envoy", EG)["spec"]["template"]["metadata"].get("annotations", {})


def uuid(made: World) -> str:
    config = made.planner.config(GATEWAY)
    assert config is not None
    return config.uuid


def test_pods_get_the_id_of_their_config_and_workloads_roll_for_the_sidecar():
    made = world(pod(sidecar=False), deployment(), g.route("r", g.rule("b")))
    assert made.get("Pod", "p", EG)["metadata"]["annotations"][UUID] == uuid(made)
    assert set(template(made)) == {UUID, HASH}


def test_the_secrets_are_there_before_the_pods_are_told():
    made = world(pod(sidecar=False), deployment(), g.route("r", g.rule("b")))
    kinds = [write.key.kind for write in made.writes if write.key.kind in ("Secret", "Pod", "Deployment")]
    assert kinds[:5] == ["Secret", "Secret", "Secret", "Pod", "Deployment"]


def test_a_rollout_in_progress_is_waited_for_and_holds_up_no_annotation():
    made = world(pod(sidecar=True), deployment(), g.route("r", g.rule("b")))
    rolling(made)
    made.put(g.service("b", schema="Anthropic"))
    made.settle()
    assert made.get("Pod", "p", EG)["metadata"]["annotations"][UUID] == uuid(made)
    assert made.plans[GATEWAY].requeue_after == 5.0
    before = len(made.cluster.log)
    made.planner.want(GATEWAY)
    assert made.settle() == []
    assert len(made.cluster.log) == before


def test_a_stuck_rollout_heals_when_the_image_is_mended():
    made = world(pod(sidecar=True), deployment(), g.route("r", g.rule("b")))
    rolling(made)
    before = template(made)[HASH]
    meta = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "c"}}
    image = {"extProc": {"kubernetes": {"image": "example.com/extproc:2"}}}
    made.put(gateway(**meta), g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec=image))
    made.settle()
    assert template(made)[HASH] != before


def test_the_last_route_takes_the_sidecar_along():
    made = world(pod(sidecar=True), deployment(), g.route("r", g.rule("b")))
    before = template(made).get(UUID)
    rolling(made, updatedReplicas=2)
    made.delete("AIGatewayRoute", "r")
    made.settle()
    assert template(made)[UUID] != before
    assert made.names("Secret") == []


def test_a_gateway_that_serves_no_models_is_not_touched():
    made = world(pod(sidecar=False), deployment())
    assert [write for write in made.writes if write.key.kind in ("Pod", "Deployment")] == []


def test_without_an_injector_nothing_rolls():
    options = ControllerOptions()
    made = world(pod(sidecar=False), deployment(), g.route("r", g.rule("b")), options=options)
    assert [write for write in made.writes if write.key.kind in ("Pod", "Deployment")] == []


def test_patches_are_of_annotations_alone():
    made = world(pod(sidecar=False), deployment(), g.route("r", g.rule("b")))
    patches = [write for write in made.writes if isinstance(write, Patch) and not write.subresource]
    assert [patch.patch for patch in patches] == [
        {"metadata": {"annotations": {UUID: uuid(made)}}},
        {"spec": {"template": {"metadata": {"annotations": template(made)}}}},
    ]

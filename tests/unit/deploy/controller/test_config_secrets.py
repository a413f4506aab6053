"""The Secrets of a Gateway: where they are, what they hold, when they change and when they go."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
import yaml

from deploy.controller import config_secrets
from deploy.controller.assemble import Assembled
from deploy.controller.config_secrets import TooLarge
from deploy.controller.kinds import Key
from deploy.controller.writes import Apply
from filter_config.bundle import CHUNK_BYTES, MAX_PARTS
from filter_config.load import decode
from filter_config.sources.emit import object_names
from filter_config.sources.faults import Origin
from filter_config.sources.model import Gateway
from tests.support import gateway_resources as g
from tests.support.kube_world import World, gateway, gateway_class

EG = "envoy-gateway-system"
NAMES = object_names("default", "gw")
LABELS = {
    "gateway.envoyproxy.io/owning-gateway-name": "gw",
    "gateway.envoyproxy.io/owning-gateway-namespace": "default",
}


def world(*values: dict[str, Any]) -> World:
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"), *values)
    made.settle()
    return made


def data(made: World, name: str, key: str, namespace: str = EG) -> bytes:
    return base64.b64decode(made.get("Secret", name, namespace)["data"][key])


def deployment(namespace: str, name: str = "envoy") -> dict[str, Any]:
    value = g.resource("apps/v1", "Deployment", name, namespace, spec={"template": {}})
    value["metadata"]["labels"] = LABELS
    return value


def config(payload: bytes) -> Assembled:
    model = Gateway(namespace="default", name="gw", origin=Origin(file=""))
    return Assembled(model=model, payload=payload, uuid="u")


def test_parts_index_and_the_single_secret_hold_one_config():
    made = world()
    assert made.names("Secret") == sorted(f"{EG}/{name}" for name in (NAMES.index, NAMES.parts[0], NAMES.legacy))
    index = yaml.safe_load(data(made, NAMES.index, "index.yaml"))
    part = data(made, NAMES.parts[0], "chunk")
    assert data(made, NAMES.legacy, "filter-config.yaml") == part
    assert index["parts"] == [{"name": NAMES.parts[0], "path": "parts/000", "sizeBytes": len(part)}]
    assert index["checksum"] == hashlib.sha256(part).hexdigest()
    loaded = decode(part)
    assert [backend.name for backend in loaded.config.backends] == ["default/b/route/r/rule/0/ref/0"]
    assert index["uuid"] == loaded.config.uuid


def test_the_parts_are_written_before_their_index():
    made = world()
    written = [write.key.name for write in made.writes if isinstance(write, Apply) and write.key.kind == "Secret"]
    assert written == [NAMES.parts[0], NAMES.index, NAMES.legacy]


def test_a_gateway_without_routes_has_none_and_loses_them_with_the_last():
    made = World()
    made.put(gateway_class(), gateway())
    made.settle()
    assert made.names("Secret") == []
    made.put(g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    assert len(made.names("Secret")) == 3
    made.delete("AIGatewayRoute", "r")
    made.settle()
    assert made.names("Secret") == []


def test_a_deleted_gateway_loses_its_secrets_also_while_nobody_looks():
    made = world()
    made.delete("Gateway", "gw")
    again = made.restarted()
    again.settle()
    assert again.names("Secret") == []


def test_secrets_follow_the_workloads_of_their_gateway():
    made = world(deployment("default"))
    assert {name.partition("/")[0] for name in made.names("Secret")} == {"default"}
    made.delete("Deployment", "envoy")
    made.put(deployment(EG))
    made.settle()
    assert {name.partition("/")[0] for name in made.names("Secret")} == {EG}


STRANGERS = {
    "in another namespace": [deployment("evil")],
    "beside its own": [deployment("evil"), deployment(EG)],
    "beside its own, where its Gateway is": [deployment("default", "another"), deployment(EG)],
    "a pod": [{**deployment("evil"), "apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}],
}


@pytest.mark.parametrize("strangers", STRANGERS.values(), ids=STRANGERS)
def test_credentials_do_not_go_where_somebody_has_put_labels(strangers: list[dict[str, Any]]):
    made = world(*strangers)
    assert {name.partition("/")[0] for name in made.names("Secret")} == {EG}
    problem = made.plans[Key("Gateway", "default", "gw")].problem
    assert ("evil/envoy has the labels" in problem) is ("evil" in str(strangers))


def test_where_other_proxies_are_with_their_gateways_this_one_is_expected_there_too():
    other = deployment("team")
    other["metadata"]["labels"] = {**LABELS, "gateway.envoyproxy.io/owning-gateway-namespace": "team"}
    made = world(other)
    assert {name.partition("/")[0] for name in made.names("Secret")} == {"default"}


def test_the_secrets_of_the_peer_are_taken_over_and_its_surplus_parts_go():
    made = World()
    made.put(g.secret(NAMES.index, EG, **{"index.yaml": "old"}))
    made.put(*(g.secret(name, EG, chunk="old") for name in NAMES.parts[:3]))
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    assert made.names("Secret") == sorted(f"{EG}/{name}" for name in (NAMES.index, NAMES.parts[0], NAMES.legacy))
    assert data(made, NAMES.index, "index.yaml") != b"old"


def test_a_secret_of_somebody_else_is_left_alone():
    made = World()
    made.put(g.secret(NAMES.legacy, EG, password="theirs"))
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    assert made.get("Secret", NAMES.legacy, EG)["data"] == {"password": base64.b64encode(b"theirs").decode()}
    assert "belongs to somebody else" in made.plans[Key("Gateway", "default", "gw")].problem
    assert made.has("Secret", NAMES.index, EG)


def test_two_gateways_of_one_legacy_name_do_not_fight_over_it():
    made = World()
    spec = g.listener(allowedRoutes={"namespaces": {"from": "All"}})
    made.put(gateway_class(), gateway("a-b", "c", listeners=[spec]), gateway("a", "b-c", listeners=[spec]))
    refs = [{"name": "a-b", "namespace": "c"}, {"name": "a", "namespace": "b-c"}]
    made.put(g.route("r", g.rule("b"), parentRefs=refs), *g.served("b"))
    made.settle()
    made.planner.resync()
    assert made.settle() == []
    assert len(made.names("Secret")) == 5


def test_the_uuid_is_of_the_content():
    made = world()
    before = made.planner.config(Key("Gateway", "default", "gw"))
    made.put(g.service("b", schema="Anthropic"))
    made.settle()
    between = made.planner.config(Key("Gateway", "default", "gw"))
    made.put(g.service("b"))
    made.settle()
    after = made.planner.config(Key("Gateway", "default", "gw"))
    assert before is not None
    assert between is not None
    assert before == after
    assert before.uuid != between.uuid


@pytest.mark.parametrize(
    ("size", "parts", "legacy"),
    [(0, 1, True), (CHUNK_BYTES, 1, True), (CHUNK_BYTES + 1, 2, True), (1048577, 2, False)],
)
def test_a_config_is_cut_into_parts(size: int, parts: int, *, legacy: bool):
    made = list(config_secrets.objects(Key("Gateway", "default", "gw"), ["n"], config(b"x" * size), "v"))
    names = [value["metadata"]["name"] for value in made]
    assert names == [*NAMES.parts[:parts], NAMES.index, *([NAMES.legacy] if legacy else [])]


def test_a_config_of_too_many_parts_is_refused():
    with pytest.raises(TooLarge, match="takes 9 parts of a bundle that has 8"):
        list(config_secrets.objects(Key("Gateway", "d", "g"), ["n"], config(b"x" * (CHUNK_BYTES * MAX_PARTS + 1)), "v"))


def test_no_write_shows_a_credential():
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.put(g.api_key("k", "b"), g.secret("k", apiKey="planted-credential"))
    made.settle()
    assert b"planted-credential" in data(made, NAMES.parts[0], "chunk")
    encoded = base64.b64encode(b"planted-credential").decode()
    shown = repr([made.writes, made.plans, made.planner.config(Key("Gateway", "default", "gw"))])
    assert "planted-credential" not in shown
    assert encoded not in shown

"""A controller against an API server: whatever happens to objects, the cluster ends as its resources say."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from deploy.controller.kinds import Key
from tests.support import gateway_resources as g
from tests.support.kube_cluster import Place
from tests.support.kube_controlled import Running, controlling, put, run, scene, until
from tests.support.kube_server import KubeServer, fails, is_write, running
from tests.support.kube_world import World, _timeless, gateway, gateway_class, namespace, place_of

EG = "envoy-gateway-system"
OAUTH = {
    "issuer": "https://id.example.com",
    "jwks": {"remoteJWKS": {"uri": "https://id.example.com/keys"}},
    "protectedResourceMetadata": {"resource": "https://mcp.example.com/mcp"},
}
LABELS = {
    "gateway.envoyproxy.io/owning-gateway-name": "gw",
    "gateway.envoyproxy.io/owning-gateway-namespace": "default",
}


def labelled(value: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {**value, "metadata": {**value["metadata"], "labels": LABELS}, **rest}


def resources() -> list[dict[str, Any]]:
    """Something of every kind, and all of one age: routes are in order of theirs."""
    return [
        {**value, "metadata": {**value["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}
        for value in _resources()
    ]


def _resources() -> list[dict[str, Any]]:
    grants = (
        g.grant("models", source=(g.AI, "AIGatewayRoute", "default"), target=(g.AI, "AIServiceBackend")),
        g.grant("models", source=(g.GATEWAY_API, "HTTPRoute", "default"), target=(g.ENVOY_GATEWAY, "Backend")),
    )
    meta = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "c"}}
    return [
        gateway_class(),
        gateway(**meta),
        namespace(),
        *grants,
        g.route("r", g.rule("b", g.ref("c", namespace="models"))),
        g.route("s", g.rule(g.ref("p", group=g.INFERENCE, kind="InferencePool"), model="n")),
        *g.served("b"),
        *g.served("c", namespace="models"),
        g.api_key("k", "b"),
        g.secret("k", apiKey="key"),
        g.mcp(g.server(securityPolicy={"apiKey": {"secretRef": {"name": "k"}}}), securityPolicy={"oauth": OAUTH}),
        g.quota(
            [{"group": g.AI, "kind": "AIServiceBackend", "name": "b"}], defaultBucket={"limit": 1, "duration": "1s"}
        ),
        g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={}),
        g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={"endpointPickerRef": {"name": "epp"}}),
    ]


def identity(value: dict[str, Any]) -> tuple[str, str, str]:
    return value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"]


def snapshot(server: KubeServer) -> dict[Any, Any]:
    return {place: _timeless(value) for place, value in server.cluster.objects.items()}


def expected(values: list[dict[str, Any]]) -> dict[Any, Any]:
    """What a world without a network comes to."""
    from deploy.controller.options import ControllerOptions
    from tests.support.kube_world import SIDECAR

    world = World(options=ControllerOptions(sidecar=SIDECAR))
    world.put(*values)
    world.settle()
    return world.snapshot()


def drop(server: KubeServer) -> None:
    server.drop_watches()


def forget(server: KubeServer) -> None:
    server.cluster.compact()
    server.drop_watches()


def nothing(server: KubeServer) -> None:
    pass


@pytest.mark.parametrize("disturb", [nothing, drop, forget], ids=["quiet", "watches drop", "versions are too old"])
@pytest.mark.parametrize("seed", range(3))
def test_every_order_ends_the_same(seed: int, disturb):
    order = random.Random(seed)
    values = resources()
    wanted = expected(values)

    async def scenario() -> None:
        async with scene() as made:
            for value in order.sample(values, len(values)):
                put(made.server, value)
                if order.random() < 0.4:
                    disturb(made.server)
                if order.random() < 0.4:
                    await made.settled()
            await made.settled()
            assert snapshot(made.server) == wanted
            for value in order.sample(values, len(values)):
                made.server.cluster.delete(place_of(*identity(value)))
                if order.random() < 0.4:
                    disturb(made.server)
                if order.random() < 0.4:
                    await made.settled()
            await until(lambda: not made.server.cluster.objects, "an empty cluster")

    run(scenario())


MADE = ("httproutes", "httproutefilters", "securitypolicies", "backendtrafficpolicies", "backends")


def meddle(server: KubeServer, chance: random.Random, theirs: set[Place]) -> None:
    """Somebody deletes or edits what the controller has made."""
    made = [place for place in server.cluster.objects if place.plural in MADE and place not in theirs]
    if not made:
        return
    place = chance.choice(made)
    if chance.random() < 0.5:
        server.cluster.delete(place)
    else:
        field = chance.choice(list(server.cluster.objects[place]["spec"]) or ["none"])
        server.cluster.merge_patch(place, {"spec": {field: None}})


def hinder(server: KubeServer, chance: random.Random) -> None:
    """The API server is in trouble for a while."""
    trouble = chance.choice([drop, forget, None])
    if trouble is not None:
        trouble(server)
    else:
        server.trouble(is_write, fails(chance.choice([409, 429, 500])), chance.randint(1, 5))


def without_leases(server: KubeServer) -> dict[Any, Any]:
    return {place: value for place, value in snapshot(server).items() if place.plural != "leases"}


async def nothing_is_left_to_do(server: KubeServer, controllers: list[Running]) -> None:
    for made in controllers:
        await made.settled()
    seen = server.cluster.version
    for made in controllers:
        made.controller.resync()
        await made.settled()
    assert {event.place.plural for event in server.cluster.log[seen:]} <= {"leases"}


@pytest.mark.parametrize("seed", range(3))
def test_two_controllers_hold_out_against_users_and_troubles(seed: int):
    """Which of the two leads changes in between, as each is started again now and then."""
    chance = random.Random(seed)
    values = resources()
    places = {place_of(*identity(value)) for value in values}

    async def scenario() -> None:
        async with running() as server, AsyncExitStack() as stack:
            there: dict[int, dict[str, Any]] = {}
            controllers: list[tuple[AsyncExitStack, Running]] = []

            async def start(name: str) -> None:
                own = await stack.enter_async_context(AsyncExitStack())
                controllers.append((own, await own.enter_async_context(controlling(server, identity=name))))

            for name in ("one", "two"):
                await start(name)
            for step in range(50):
                which = chance.randrange(len(values))
                if which not in there:
                    there[which] = values[which]
                    put(server, values[which])
                elif chance.random() < 0.3:
                    server.cluster.delete(place_of(*identity(there.pop(which))))
                else:
                    meddle(server, chance, places)
                if chance.random() < 0.2:
                    hinder(server, chance)
                if chance.random() < 0.06:
                    await controllers.pop(0)[0].aclose()
                    await start(f"after {step}")
                await asyncio.sleep(chance.choice([0.0, 0.0, 0.01]))
            server.troubles.clear()
            wanted = expected(list(there.values()))
            await until(lambda: without_leases(server) == wanted, "the cluster that the resources say")
            await nothing_is_left_to_do(server, [made for _, made in controllers])

    run(scenario())


def test_nothing_is_written_when_nothing_has_changed():
    async def scenario() -> None:
        async with scene(*resources()) as made:
            await made.settled()
            before = made.server.cluster.version
            written = made.writes
            made.controller.resync()
            await made.settled()
            assert made.writes == written
            async with controlling(made.server) as another:
                await another.settled()
                assert another.writes == 0
            assert made.server.cluster.version == before

    run(scenario())


def test_a_change_reaches_its_secret_and_its_pods():
    pod = labelled(g.resource("v1", "Pod", "p", EG, spec={"containers": [{"name": "envoy"}]}))
    deployment = labelled(g.resource("apps/v1", "Deployment", "d", EG, spec={"template": {"metadata": {}}}))

    async def scenario() -> None:
        async with scene(*resources(), pod, deployment) as made:
            await made.settled()
            config = made.controller.planner.config(Key("Gateway", "default", "gw"))
            assert config is not None
            cluster = made.server.cluster
            uuid = "aigateway.envoyproxy.io/uuid"
            assert cluster.get(place_of("Pod", EG, "p"))["metadata"]["annotations"][uuid] == config.uuid
            template = cluster.get(place_of("Deployment", EG, "d"))["spec"]["template"]
            assert template["metadata"]["annotations"]["aigateway.envoyproxy.io/extproc-config-hash"]
            put(made.server, g.service("b", schema="Anthropic"))
            await made.settled()
            after = made.controller.planner.config(Key("Gateway", "default", "gw"))
            assert after is not None
            assert after.uuid != config.uuid
            assert cluster.get(place_of("Pod", EG, "p"))["metadata"]["annotations"][uuid] == after.uuid

    run(scenario())


def test_a_thousand_events_are_a_few_writes():
    async def scenario() -> None:
        async with scene(*resources(), coalesce=0.02) as made:
            await made.settled()
            written = made.count(made.controller.metrics.writes, kind="Secret", verb="apply")
            for number in range(1000):
                put(made.server, g.route("r", g.rule("b", model=f"m{number}")))
            await made.settled()
            assert made.count(made.controller.metrics.writes, kind="Secret", verb="apply") - written < 100
            config = made.controller.planner.config(Key("Gateway", "default", "gw"))
            assert config is not None
            assert b"Name: m999\n" in config.payload

    run(scenario())


def test_one_bad_resource_harms_only_itself():
    bad = g.route("bad", g.rule("b"), llmRequestCosts=[{"metadataKey": "x", "type": "CEL", "cel": "1 +"}])
    strange = g.resource(f"{g.AI}/v1beta1", "AIGatewayRoute", "strange", spec={"rules": 3, "parentRefs": "gw"})
    odd = g.resource(f"{g.GATEWAY_API}/v1", "Gateway", "odd", spec={"gatewayClassName": 7, "listeners": {"a": 1}})

    async def scenario() -> None:
        async with scene(*resources(), bad, strange, odd) as made:
            await made.settled()
            conditions = {
                name: made.server.cluster.get(place_of("AIGatewayRoute", "default", name))["status"]["conditions"][0]
                for name in ("r", "bad", "strange")
            }
            assert conditions["r"]["status"] == "True"
            assert "llmRequestCosts[0]" in conditions["bad"]["message"]
            assert "spec.rules" in conditions["strange"]["message"]
            assert place_of("HTTPRoute", "default", "r") in made.server.cluster.objects

    run(scenario())


def test_the_extension_server_is_told_of_every_change():
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            async with controlling(server) as made:
                told: list[list[str]] = []
                made.controller._gateways = lambda models: told.append([model.id for model in models])
                await made.settled()
                server.cluster.delete(place_of("Gateway", "default", "gw"))
                await made.settled()
                assert told[-1] == []
                assert made.controller.planner.gateways() == ()

    run(scenario())


def test_the_webhook_knows_the_cluster_when_everything_was_seen():
    from deploy.injector.facts import FactsUnknown, KubernetesVersion
    from deploy.injector.names import GatewayRef

    ref = GatewayRef(namespace="default", name="gw")

    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            image = {"extProc": {"kubernetes": {"image": "example.com/extproc:2"}}}
            put(server, g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec=image))
            async with controlling(server) as made:
                with pytest.raises(FactsUnknown):
                    made.controller.facts.attached(ref)
                await made.settled()
                facts = made.controller.facts
                assert facts.attached(ref).ai_routes
                assert facts.attached(ref).mcp_routes
                assert not facts.attached(GatewayRef(namespace="default", name="other"))
                assert facts.secret_exists("default", "k")
                assert not facts.secret_exists("default", "other")
                container = facts.extproc_container(ref)
                assert container is not None
                assert container.image == "example.com/extproc:2"
                assert facts.kubernetes_version() == KubernetesVersion(1, 33)

    run(scenario())

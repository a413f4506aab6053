"""The quotas of a cluster as they reach a rate limit service: from QuotaPolicies over the controller to its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from deploy.controller.service import ControllerService, ServiceOptions
from deploy.quota_xds.server import NODE_ID, QuotaXdsServer
from deploy.quota_xds.snapshot import TYPE_URL
from protos.discovery_pb2 import DiscoveryRequest, DiscoveryResponse, Node, RateLimitConfig
from tests.support import gateway_resources as g
from tests.support.kube_controlled import SECONDS, put, run, until
from tests.support.kube_server import KubeServer, client, running
from tests.support.kube_world import gateway, gateway_class, namespace, place_of

PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
POLICIES = 40


def policy(name: str, model: str, limit: int) -> dict[str, Any]:
    spec = {
        "targetRefs": [{"group": g.AI, "kind": "AIServiceBackend", "name": "b"}],
        "perModelQuotas": [{"modelName": model, "quota": {"defaultBucket": {"limit": limit, "duration": "1h"}}}],
    }
    return g.resource(f"{g.AI}/v1alpha1", "QuotaPolicy", name, spec=spec)


def cluster() -> list[dict[str, Any]]:
    policies = [policy(f"q{index:02d}", f"m{index}", index + 1) for index in range(POLICIES)]
    return [gateway_class(), gateway(), namespace(), g.route("r", g.rule("b")), *g.served("b"), *policies]


LIMITS = {f"m{index}": index + 1 for index in range(POLICIES)}


class RateLimitService:
    """A client that accepts everything."""

    def __init__(self, channel: aio.Channel) -> None:
        self._call = channel.stream_stream(
            PATH,
            request_serializer=DiscoveryRequest.SerializeToString,
            response_deserializer=DiscoveryResponse.FromString,
        )()
        self.version = ""

    async def ask(self, nonce: str = "") -> None:
        node = Node(id=NODE_ID)
        await self._call.write(
            DiscoveryRequest(node=node, type_url=TYPE_URL, version_info=self.version, response_nonce=nonce)
        )

    async def limits(self) -> dict[str, int]:
        answer = await asyncio.wait_for(self._call.read(), SECONDS)
        self.version = answer.version_info
        await self.ask(answer.nonce)
        configs = [RateLimitConfig.FromString(resource.value) for resource in answer.resources]
        return {
            model.value: model.rate_limit.requests_per_unit
            for config in configs
            for backend in config.descriptors
            for model in backend.descriptors
        }


@asynccontextmanager
async def replica(server: KubeServer, identity: str) -> AsyncIterator[tuple[QuotaXdsServer, RateLimitService]]:
    """A controller with its server of quotas, and a client of it that has asked before there was anything."""
    quotas = QuotaXdsServer("127.0.0.1:0")
    port, stop = quotas.listen(), asyncio.Event()
    options = ServiceOptions(identity=identity, namespace="envoy-gateway-system")
    service = ControllerService(client(server), options, gateways=quotas.publish)
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        serving = asyncio.create_task(quotas.run(stop))
        asking = RateLimitService(channel)
        await asking.ask()
        controlling = asyncio.create_task(service.run(stop))
        try:
            yield quotas, asking
        finally:
            stop.set()
            await asyncio.gather(serving, controlling)


def test_every_replica_gives_all_quotas_from_its_first_answer_on():
    async def scenario() -> None:
        async with running() as server:
            put(server, *cluster())
            async with replica(server, "one") as (one, first), replica(server, "two") as (two, second):
                assert await first.limits() == await second.limits() == LIMITS
                assert first.version == second.version

                put(server, policy("q07", "m7", 700))
                assert await first.limits() == await second.limits() == {**LIMITS, "m7": 700}
                assert first.version == second.version

                server.cluster.delete(place_of("AIGatewayRoute", "default", "r"))
                assert await first.limits() == await second.limits() == {}
                await until(lambda: one.version == two.version, "the same version")

    run(scenario())


def test_a_restarted_controller_gives_the_same_version_and_nothing_in_between():
    async def scenario() -> None:
        async with running() as server:
            put(server, *cluster())
            async with replica(server, "one") as (_, asking):
                await asking.limits()
            async with replica(server, "two") as (_, after):
                assert await after.limits() == LIMITS
                assert after.version == asking.version

    run(scenario())


def test_a_cluster_without_a_gateway_has_an_answer():
    async def scenario() -> None:
        async with running() as server:
            put(server, gateway_class(), namespace())
            async with replica(server, "one") as (_, asking):
                assert await asking.limits() == {}

    run(scenario())

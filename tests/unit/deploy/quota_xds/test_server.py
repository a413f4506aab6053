"""The server as a rate limit service finds it: a real client over a socket, speaking Envoy's complete types."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
import structlog
from grpc import aio
from prometheus_client import CollectorRegistry

from deploy.quota_xds.server import ListenFailed, QuotaXdsServer
from deploy.quota_xds.snapshot import TYPE_URL
from protos.discovery_pb2 import RateLimitConfig
from tests.support.quotas import bucket, gateways, limited, quota

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    import envoy_data_plane.envoy.config.core.v3 as core
    import envoy_data_plane.envoy.service.discovery.v3 as discovery
    from envoy_data_plane.google import rpc

NODE = "envoy-ai-gateway-ratelimit"
PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
PATIENCE = 20.0
ONE, TWO = [quota(default=bucket(limit=1))], [quota(default=bucket(limit=2))]


class RateLimitService:
    """What ``envoyproxy/ratelimit`` does: says what it has, takes answers, and tells whether it could use them."""

    def __init__(self, call):
        self.call = call
        self.version = ""

    async def ask(self, *, nonce="", error=None, node=NODE, type_url=TYPE_URL):
        detail = None if error is None else rpc.Status(code=13, message=error)
        request = discovery.DiscoveryRequest(
            version_info=self.version,
            node=core.Node(id=node),
            type_url=type_url,
            response_nonce=nonce,
            error_detail=detail,
        )
        await self.call.write(bytes(request))

    async def get(self):
        body = await asyncio.wait_for(self.call.read(), PATIENCE)
        return body if body is aio.EOF else discovery.DiscoveryResponse.parse(body)

    async def accept(self):
        """The next answer, accepted: the limits in it."""
        answer = await self.get()
        self.version = answer.version_info
        await self.ask(nonce=answer.nonce)
        return limits(answer)


def limits(answer):
    """The limit of each model in an answer."""
    assert answer.type_url == TYPE_URL
    configs = [RateLimitConfig.FromString(resource.value) for resource in answer.resources]
    return {
        model.value: model.rate_limit.requests_per_unit
        for config in configs
        for backend in config.descriptors
        for model in backend.descriptors
    }


class Scene:
    """A server and its clients."""

    def __init__(self, server, registry, port, stack):
        self.server, self._registry, self._port, self._stack = server, registry, port, stack

    async def channel(self):
        return await self._stack.enter_async_context(aio.insecure_channel(f"127.0.0.1:{self._port}"))

    async def client(self, method="StreamAggregatedResources"):
        return RateLimitService((await self.channel()).stream_stream(f"{PATH}/{method}")())

    def metric(self, name, **labels):
        return self._registry.get_sample_value(f"extproc_quota_xds_{name}", labels)

    async def until(self, name, value, **labels):
        """Waits for what the server has done of itself, such as taking an acceptance."""
        async with asyncio.timeout(PATIENCE):
            while self.metric(name, **labels) != value:  # noqa: ASYNC110 - a counter wakes nobody
                await asyncio.sleep(0.005)


@asynccontextmanager
async def scene(*quotas, published=True, **options):
    registry = CollectorRegistry()
    server = QuotaXdsServer("127.0.0.1:0", registry=registry, **options)
    port = server.listen()
    stop = asyncio.Event()
    running = asyncio.create_task(server.run(stop))
    if published:
        server.publish(gateways(*quotas))
    async with AsyncExitStack() as stack:
        yield Scene(server, registry, port, stack)
        stop.set()
        await running


def in_a_loop(test):
    """A test that is a coroutine."""

    def run():
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@in_a_loop
async def test_a_service_gets_the_quotas_and_every_change_of_them():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask()
        assert await client.accept() == {"m": 1}
        made.server.publish(gateways(*TWO))
        assert await client.accept() == {"m": 2}
        await made.until("requests_total", 2, verdict="accepted")
        assert (made.metric("clients"), made.metric("responses_total"), made.metric("limits")) == (1, 2, 1)


@in_a_loop
async def test_what_is_published_again_is_not_sent_again():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask()
        await client.accept()
        await made.until("requests_total", 1, verdict="accepted")
        made.server.publish(gateways(*ONE))
        made.server.publish(gateways(*TWO))
        assert await client.accept() == {"m": 2}
        assert made.metric("changes_total") == 2


@in_a_loop
async def test_when_all_quotas_are_gone_the_service_gets_none():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask()
        await client.accept()
        made.server.publish([])
        answer = await client.get()
        assert (answer.resources, answer.version_info) == ([], limited().version)


@in_a_loop
async def test_a_cluster_without_quotas_has_an_answer_too():
    async with scene() as made:
        client = await made.client()
        await client.ask()
        assert await client.accept() == {}


@in_a_loop
async def test_nobody_is_answered_before_everything_was_read():
    async with scene(published=False) as made:
        client = await made.client()
        await client.ask()
        await made.until("requests_total", 1, verdict="begun")
        assert (made.metric("responses_total"), made.metric("published"), made.server.version) == (0, 0, "")
        made.server.publish(gateways(*ONE))
        assert await client.accept() == {"m": 1}
        assert made.metric("published") == 1


@in_a_loop
async def test_a_refusal_is_told_and_not_answered_before_a_change():
    async with scene(*ONE) as made:
        client = await made.client()
        with structlog.testing.capture_logs() as told:
            await client.ask()
            answer = await client.get()
            await client.ask(nonce=answer.nonce, error="duplicate descriptor composite key")
            await made.until("requests_total", 1, verdict="refused")
        (line,) = told
        assert (line["log_level"], line["reason"]) == ("error", "duplicate descriptor composite key")
        assert line["version"] == answer.version_info
        assert (made.metric("refusing_clients"), made.metric("responses_total")) == (1, 1)
        made.server.publish(gateways(*TWO))
        assert await client.accept() == {"m": 2}
        await made.until("refusing_clients", 0)


@in_a_loop
async def test_who_comes_back_with_the_version_gets_only_what_has_changed():
    async with scene(*ONE) as made:
        before = await made.client()
        await before.ask()
        await before.accept()
        before.call.cancel()
        after = await made.client()
        after.version = before.version
        await after.ask()
        await made.until("requests_total", 2, verdict="begun")
        assert made.metric("responses_total") == 1
        made.server.publish(gateways(*TWO))
        assert await after.accept() == {"m": 2}
        await made.until("clients", 1)


@in_a_loop
async def test_replicas_agree_on_the_version_so_that_it_does_not_matter_which_one_answers():
    async with scene(*ONE, *[quota(model="n", default=bucket())]) as one:
        client = await one.client()
        await client.ask()
        await client.accept()
    async with scene(*[quota(model="n", default=bucket())], *ONE) as other:
        assert client.version == other.server.version


@in_a_loop
async def test_two_services_are_served_each_at_its_own_pace():
    async with scene(*ONE) as made:
        quick, slow = await made.client(), await made.client()
        await quick.ask()
        await slow.ask()
        await quick.accept()
        held = await slow.get()
        for limit in (2, 3):
            made.server.publish(gateways(quota(default=bucket(limit=limit))))
            assert await quick.accept() == {"m": limit}
        await slow.ask(nonce=held.nonce)
        # What came in the meantime was never for it to see.
        assert await slow.accept() == {"m": 3}


@in_a_loop
async def test_a_stranger_gets_nothing_and_is_named_once():
    async with scene(*ONE) as made:
        with structlog.testing.capture_logs() as told:
            for _ in range(2):
                stranger = await made.client()
                await stranger.ask(node="somebody")
            await made.until("requests_total", 2, verdict="stranger")
        assert [(line["node"], line["expected"]) for line in told] == [("somebody", NODE)]
        assert (made.metric("clients"), made.metric("responses_total")) == (0, 0)


@in_a_loop
async def test_the_node_can_have_another_name():
    async with scene(*ONE, node_id="mine") as made:
        client = await made.client()
        await client.ask(node="mine")
        assert limits(await client.get()) == {"m": 1}


@in_a_loop
async def test_another_type_is_ignored_beside_the_one_that_is_served():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask(type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster")
        await client.ask()
        assert await client.accept() == {"m": 1}


async def code_of(client):
    with pytest.raises(aio.AioRpcError) as caught:
        assert await client.get() is not aio.EOF
    return caught.value.code(), caught.value.details()


@in_a_loop
async def test_delta_is_not_spoken():
    async with scene(*ONE) as made:
        code, details = await code_of(await made.client("DeltaAggregatedResources"))
        assert code is grpc.StatusCode.UNIMPLEMENTED
        assert "StreamAggregatedResources" in details


@in_a_loop
async def test_what_is_no_request_ends_the_stream():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.call.write(b"\xff\xff")
        assert await code_of(client) == (grpc.StatusCode.INVALID_ARGUMENT, "what was sent is no DiscoveryRequest")


@in_a_loop
async def test_a_client_that_is_gone_is_forgotten():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask()
        await client.accept()
        await made.until("clients", 1)
        client.call.cancel()
        await made.until("clients", 0)


@in_a_loop
async def test_at_the_end_streams_end_so_that_clients_turn_to_another_replica():
    async with scene(*ONE) as made:
        client = await made.client()
        await client.ask()
        await client.accept()
        stopping = asyncio.create_task(made.server.stop())
        assert await client.get() is aio.EOF
        await stopping


@in_a_loop
async def test_an_address_that_is_taken_is_told():
    async with scene() as made:
        with pytest.raises(ListenFailed, match=r"listen 127\.0\.0\.1:\d+: "):
            QuotaXdsServer(f"127.0.0.1:{made._port}").listen()

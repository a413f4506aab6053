"""The server as Envoy Gateway and a health checker find it: statuses, limits, metrics, and its end."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc import aio
from prometheus_client import CollectorRegistry

from deploy.extension_server.knowledge import NotKnownYet, Snapshot
from deploy.extension_server.server import ExtensionServer, ListenFailed, encode, serve
from protos import extension_pb2 as wire
from protos import health_pb2 as health
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

SERVICE = "/envoygateway.extension.EnvoyGatewayExtension/"
HEALTH = "/grpc.health.v1.Health/"
RULE = "default/r/rule/0"


@pytest.fixture
def known(knowledge):
    return knowledge(res.gateway(), res.route("r", res.rule("b")), *res.served("b"))


class Talk:
    """A server, its metrics, and a channel to it."""

    def __init__(self, knowledge, **arguments):
        self.registry = CollectorRegistry()
        self.server = ExtensionServer(knowledge, registry=self.registry, **arguments)
        self.port = self.server.listen("127.0.0.1:0")

    async def __aenter__(self):
        await self.server.start()
        self.channel = aio.insecure_channel(
            f"127.0.0.1:{self.port}",
            options=[("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)],
        )
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.server.stop(0)

    async def call(self, method, body):
        return await self.channel.unary_unary(method)(body, timeout=10)

    def count(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0


def talk(scenario, knowledge, **arguments):
    async def run():
        async with Talk(knowledge, **arguments) as talking:
            await scenario(talking)

    asyncio.run(run())


def test_a_hook_is_answered_and_counted(known):
    request = eg.request(clusters=[eg.cluster(RULE, eg.locality(ref=f"{RULE}/backend/0"))])

    async def scenario(talking):
        body = await talking.call(f"{SERVICE}PostTranslateModify", encode(request))

        answer = wire.PostTranslateModifyResponse.FromString(body)
        assert [cluster.name for cluster in answer.clusters] == [f"httproute/{RULE}", "ai-gateway-extproc-uds"]
        assert talking.count("extension_server_hooks_total", hook="PostTranslateModify", code="OK") == 1
        assert talking.count("extension_server_hook_seconds_count", hook="PostTranslateModify") == 1
        assert talking.count("extension_server_findings_total", hook="PostTranslateModify") == 0

    talk(scenario, lambda: known)


HOOKS = {
    "PostClusterModify": wire.PostClusterModifyRequest(cluster=eg.message(eg.xds.Cluster, eg.cluster())),
    "PostRouteModify": wire.PostRouteModifyRequest(route=eg.message(eg.xds.Route, eg.route())),
    "PostEndpointsModify": wire.PostEndpointsModifyRequest(
        load_assignment=eg.message(eg.xds.ClusterLoadAssignment, {"clusterName": "c", "endpoints": [eg.locality()]})
    ),
    "PostTranslateModify": wire.PostTranslateModifyRequest(),
}


@pytest.mark.parametrize(("name", "request_"), HOOKS.items(), ids=HOOKS)
def test_what_is_not_ours_comes_back_as_it_was(name, request_):
    async def scenario(talking):
        body = await talking.call(SERVICE + name, encode(request_))

        answer = getattr(wire, f"{name}Response").FromString(body)
        for field, value in answer.ListFields():
            assert getattr(request_, field.name) == value
        assert len(answer.ListFields()) == len(request_.ListFields())

    talk(scenario, Snapshot)


async def refused(call):
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("name", ["PostVirtualHostModify", "PostHTTPListenerModify", "PostSomethingNew"])
def test_a_hook_that_is_not_ours_is_unimplemented(name):
    async def scenario(talking):
        code, _ = await refused(talking.call(SERVICE + name, b""))
        assert code is grpc.StatusCode.UNIMPLEMENTED

    talk(scenario, Snapshot)


def test_bytes_that_are_no_request_are_an_invalid_argument():
    async def scenario(talking):
        code, details = await refused(talking.call(f"{SERVICE}PostTranslateModify", b"\xff"))

        assert (code, details) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "the request is no PostTranslateModifyRequest",
        )
        assert talking.count("extension_server_hooks_total", hook="PostTranslateModify", code="INVALID_ARGUMENT") == 1

    talk(scenario, Snapshot)


def test_a_fault_of_ours_shows_no_traceback(capsys):
    def broken():
        raise RuntimeError("the cache is gone")

    async def scenario(talking):
        code, details = await refused(talking.call(f"{SERVICE}PostTranslateModify", b""))

        assert code is grpc.StatusCode.INTERNAL
        assert details == "the hook failed, see the log of the extension server"
        assert talking.count("extension_server_hooks_total", hook="PostTranslateModify", code="INTERNAL") == 1

    talk(scenario, broken)
    said = capsys.readouterr().out
    assert "the cache is gone" in said
    assert "Traceback" not in said


def test_what_is_not_known_yet_takes_nothing_away():
    def unknown():
        raise NotKnownYet("a moment")

    async def scenario(talking):
        code, details = await refused(talking.call(f"{SERVICE}PostTranslateModify", b""))

        assert (code, details) == (grpc.StatusCode.UNAVAILABLE, "a moment")
        assert talking.count("extension_server_hooks_total", hook="PostTranslateModify", code="UNAVAILABLE") == 1

    talk(scenario, unknown)


def test_what_is_not_served_is_logged_with_its_resource(known, capsys):
    request = eg.request(clusters=[eg.cluster(RULE, eg.locality(), eg.locality())])

    async def scenario(talking):
        await talking.call(f"{SERVICE}PostTranslateModify", encode(request))
        assert talking.count("extension_server_findings_total", hook="PostTranslateModify") == 1

    talk(scenario, lambda: known)
    assert f"resource='cluster httproute/{RULE}'" in capsys.readouterr().out


LIMITS = {"one that is too large": (1000, grpc.StatusCode.RESOURCE_EXHAUSTED), "no limit": (0, None)}


@pytest.mark.parametrize(("limit", "expected"), LIMITS.values(), ids=LIMITS)
def test_a_request_may_be_as_large_as_the_server_takes(limit, expected):
    body = encode(eg.request(secrets=[{"name": "x" * (5 << 20)}]))

    async def scenario(talking):
        call = talking.call(f"{SERVICE}PostTranslateModify", body)
        if expected is None:
            assert len(await call) == len(body)
        else:
            assert (await refused(call))[0] is expected

    talk(scenario, Snapshot, max_message=limit)


def test_health_is_told_in_each_way():
    async def scenario(talking):
        body = await talking.call(f"{HEALTH}Check", b"")
        assert health.HealthCheckResponse.FromString(body).status == health.HealthCheckResponse.SERVING

        body = await talking.call(f"{HEALTH}List", b"")
        statuses = health.HealthListResponse.FromString(body).statuses
        assert {name: status.status for name, status in statuses.items()} == {"envoy-gateway-extension-server": 1}

        watching = talking.channel.unary_stream(f"{HEALTH}Watch")(b"")
        assert await watching.read() == b"\x08\x01"
        await talking.server.stop(5)
        assert (await refused(watching.read()))[0] is grpc.StatusCode.UNAVAILABLE

    talk(scenario, Snapshot)


def test_health_says_when_it_changes():
    serving, not_serving = b"\x08\x01", b"\x08\x02"

    async def scenario(talking):
        watching = talking.channel.unary_stream(f"{HEALTH}Watch")(b"")
        assert await watching.read() == not_serving
        assert await talking.call(f"{HEALTH}Check", b"") == not_serving
        # Whoever asks all the same is answered.
        assert await talking.call(f"{SERVICE}PostTranslateModify", b"") == b""

        talking.server.set_serving(serving=True)
        assert await watching.read() == serving
        body = await talking.call(f"{HEALTH}List", b"")
        (status,) = health.HealthListResponse.FromString(body).statuses.values()
        assert status.status == health.HealthCheckResponse.SERVING

        talking.server.set_serving(serving=True)
        talking.server.set_serving(serving=False)
        assert await watching.read() == not_serving

    talk(scenario, Snapshot, serving=False)


def test_a_hook_in_progress_is_answered_before_the_end():
    async def scenario(talking):
        loop, entered = asyncio.get_running_loop(), asyncio.Event()
        go = asyncio.Event()

        def slow():
            loop.call_soon_threadsafe(entered.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
            return Snapshot()

        talking.server._knowledge = slow
        call = asyncio.ensure_future(talking.call(f"{SERVICE}PostTranslateModify", b""))
        await entered.wait()
        # Health answers while a hook is computed.
        assert await talking.call(f"{HEALTH}Check", b"") == b"\x08\x01"
        stopped = asyncio.Event()
        ending = asyncio.ensure_future(serve_end(talking.server, stopped))
        stopped.set()
        await asyncio.sleep(0)
        go.set()
        assert await call == b""
        await ending

    async def serve_end(server, stopped):
        await stopped.wait()
        await server.stop(10)

    talk(scenario, Snapshot)


def test_a_server_runs_until_it_is_told_to_stop():
    async def run():
        server = ExtensionServer(Snapshot)
        port = server.listen("127.0.0.1:0")
        stopped = asyncio.Event()
        running = asyncio.ensure_future(serve(server, stopped, grace=1))
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            assert await channel.unary_unary(f"{HEALTH}Check")(b"", timeout=10, wait_for_ready=True) == b"\x08\x01"
        stopped.set()
        await asyncio.wait_for(running, 10)

    asyncio.run(run())


def test_an_address_that_is_taken_is_named():
    async def run():
        first = ExtensionServer(Snapshot)
        port = first.listen("127.0.0.1:0")
        with pytest.raises(ListenFailed, match=f"listen 127.0.0.1:{port}"):
            ExtensionServer(Snapshot).listen(f"127.0.0.1:{port}")
        await first.stop(0)

    asyncio.run(run())

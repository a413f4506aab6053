"""Real workers behind one address: spread, joined, replaced, told of configs, and gone in the end."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys

import grpc
import pytest

from extproc.workers import seat as seats
from extproc.workers.fleet import Endurance, fewest_connections
from protos.health_pb2 import HealthCheckResponse
from tests.support.certificates import Authority
from tests.support.playbook import DEFAULT_HEADERS, openai_backend, request_headers
from tests.unit.workers.fleets import CONFIG, Client, credential, is_running, running, runtime_of, settings_for
from tests.unit.workers.waiting import until

BROKEN = {"version": "dev", "backends": [openai_backend("a/b", auth={"azureAPIKey": {"key": ""}})]}


def test_two_workers_serve_one_address_and_relay_to_each_other():
    async def story():
        async with running(2) as fleet, Client(fleet.address) as first, Client(fleet.address) as second:
            assert sorted(seat.open_connections for seat in fleet.fleet.seats) == [1, 1]
            router, attempt = first.stream(), second.stream()
            carried = await router.begin()
            owner = carried["x-ai-eg-internal-req-id"].rpartition("-")[2]
            assert owner in {seat.owner.name for seat in fleet.fleet.seats}
            # Once at the wrong worker, once at the right one: it makes no difference.
            assert credential(await attempt.attempt(carried)) == [b"Bearer sk-planted"]
            assert credential(await first.stream().attempt(carried)) == [b"Bearer sk-planted"]
            assert await fleet.count("extproc_relayed_attempts_total") == 1
            assert await fleet.count('extproc_streams{level="router"}') == 1
            assert await fleet.count('extproc_messages_total{level="upstream"') == 2
            assert await fleet.count("extproc_workers") == 2

            attempt.call.cancel()
            while await fleet.count('extproc_streams{level="upstream"}') != 1:
                pass
            assert await fleet.fleet.probe()() == "SERVING"
            pids = fleet.pids()
            await fleet.fleet.stop(0)
            assert not any(map(is_running, pids))

    asyncio.run(story())


def test_a_worker_that_dies_is_replaced_and_only_its_streams_end():
    async def story():
        async with running(2) as fleet, Client(fleet.address) as first, Client(fleet.address) as second:
            lost, kept = first.stream(), second.stream()
            carried = await lost.begin()
            await kept.begin()
            before = await fleet.count('extproc_messages_total{level="router",phase="request_body"}')
            number = int(carried["x-ai-eg-internal-req-id"].rpartition("-w")[2].partition(".")[0])
            dead = fleet.fleet.seats[number - 1]
            pid = dead.pid
            os.kill(pid, signal.SIGKILL)
            assert await lost.code() == "UNAVAILABLE"
            # What it knew died with it; its successor is not asked.
            stranger = second.stream()
            assert await stranger.attempt(carried) is None
            assert await stranger.code() == "UNAVAILABLE"
            assert credential(await second.stream().attempt(await second.stream().begin())) == [b"Bearer sk-planted"]

            await until(lambda: dead.digest == "first" and dead.pid != pid, "it is replaced")
            assert dead.owner.incarnation == 2
            async with Client(fleet.address) as third:
                assert dead.open_connections >= 1
                stream = third.stream()
                again = await stream.begin()
                assert credential(await second.stream().attempt(again)) == [b"Bearer sk-planted"]
            assert await fleet.count("extproc_worker_ends_total") == 1
            assert await fleet.count('extproc_messages_total{level="router",phase="request_body"}') == before + 2
            assert fleet.failures == []

    asyncio.run(story())


def test_connections_wait_while_there_is_no_worker(tmp_path):
    async def story():
        # Of a worker that had settled, no number of deaths is too many.
        patience = Endurance(first_pause=0.001, settled=0, deaths=2)
        async with running(1, address=f"unix://{tmp_path}/s", endurance=patience) as fleet:
            (only,) = fleet.fleet.seats
            for life in (2, 3):
                os.kill(only.pid, signal.SIGKILL)
                await until(lambda: not fleet.fleet.serving(), "its death is noticed")
                assert not fleet.fleet.serves
                async with Client(fleet.address) as client:
                    assert (await client.stream().begin())["x-ai-eg-internal-req-id"].endswith(f"-w1.{life}")
            assert fleet.failures == []

    asyncio.run(story())


def test_connections_come_back_to_a_worker_that_was_missing():
    async def story():
        async with running(2) as fleet:
            one, other = fleet.fleet.seats
            os.kill(one.pid, signal.SIGKILL)
            await until(lambda: not one.digest, "its death is noticed")
            clients = [Client(fleet.address) for _ in range(4)]
            for client in clients:
                await client.__aenter__()
            if not one.digest:
                assert other.open_connections == 4
            open_stream = clients[0].stream()
            carried = await open_stream.begin()
            await until(lambda: one.digest, "it is replaced")
            # Half of the connections are asked to go; a client that has something to say makes a new one.
            await until(lambda: other.open_connections <= 3, "idle ones have gone")
            for client in clients[1:]:
                await client.stream().begin()
            assert one.open_connections >= 1
            assert credential(await clients[1].stream().attempt(carried)) == [b"Bearer sk-planted"]
            for client in clients:
                await client.__aexit__()

    asyncio.run(story())


def test_a_config_reaches_every_worker_with_what_is_wrong_with_it():
    async def story():
        async with running(2, config=None) as fleet, Client(fleet.address) as client:
            assert not fleet.fleet.serves
            assert await fleet.fleet.probe()() == "NOT_SERVING"
            for digest, config in (("a", CONFIG), ("b", BROKEN), ("c", CONFIG)):
                fleet.fleet.runtime = runtime_of(config, digest)
                await until(lambda digest=digest: {seat.digest for seat in fleet.fleet.seats} == {digest}, digest)
                reply = await client.stream().attempt(await client.stream().begin(), "a/b")
                assert reply.immediate_response.status.code == 503
                assert (b"is disabled" in reply.immediate_response.body) == (config is BROKEN)
            assert fleet.fleet.serves
            assert [worker["hash"] for worker in fleet.fleet.describe()["workers"]] == ["c", "c"]

    asyncio.run(story())


def test_the_health_of_every_worker_can_be_watched():
    async def story():
        async with running(2, config=None) as fleet, Client(fleet.address) as first, Client(fleet.address) as second:
            watches = [first.watch(), second.watch()]
            told = [[(await watch.read()).status for watch in watches]]
            fleet.fleet.runtime = runtime_of()
            told.append([(await watch.read()).status for watch in watches])
            fleet.fleet.leave()
            told.append([(await watch.read()).status for watch in watches])
            not_serving, serving = HealthCheckResponse.NOT_SERVING, HealthCheckResponse.SERVING
            assert told == [[not_serving] * 2, [serving] * 2, [not_serving] * 2]
            # Who watches does not hold up the end.
            await fleet.fleet.stop(3600)
            assert [await watch.code() for watch in watches] == [grpc.StatusCode.UNAVAILABLE] * 2

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_drain_finishes_what_is_open():
    async def story():
        async with running(2) as fleet, Client(fleet.address) as first, Client(fleet.address) as second:
            router, other = first.stream(), second.stream()
            carried = await router.begin()
            await other.begin()
            fleet.fleet.leave()
            while await fleet.fleet.probe()() != "NOT_SERVING":
                pass
            fleet.fleet.close()
            assert fleet.fleet.requests_awaiting_response, "unsure until every worker has said"
            await until(lambda: all(seat.counts.closed for seat in fleet.fleet.seats), "both have followed")
            assert fleet.fleet.requests_awaiting_response == 2
            assert await second.stream().ask(request_headers(DEFAULT_HEADERS)) is None
            # An attempt at the wrong worker still finds its request.
            assert credential(await second.stream().attempt(carried)) == [b"Bearer sk-planted"]

            pids = fleet.pids()
            stopping = asyncio.create_task(fleet.fleet.stop(30))
            await other.call.done_writing()
            assert await other.code() == "OK"
            assert not stopping.done()
            await router.call.done_writing()
            assert await router.code() == "OK"
            await stopping
            assert not any(map(is_running, pids))
            assert await fleet.count("extproc_worker_ends_total") == 0
            # What the workers counted last is not lost.
            assert await fleet.count('extproc_messages_total{level="upstream"') == 1

    asyncio.run(story())


def test_workers_speak_tls_with_envoy_and_the_supervisor_needs_no_certificate(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    its_certificate, its_key = (path.read_bytes() for path in authority.issue("client"))
    settings = settings_for(2, tls_cert=str(certificate), tls_key=str(key), tls_client_ca=str(authority.ca))
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes(), its_key, its_certificate)

    async def story():
        async with running(settings=settings) as fleet:
            # Neither a handshake nor HTTP/2: it ends, and is counted as gone.
            host, _, port = fleet.address.rpartition(":")
            _, stranger = await asyncio.open_connection(host, int(port))
            stranger.write(b"GET / HTTP/1.1\r\n\r\n")
            async with Client(fleet.address, credentials) as first, Client(fleet.address, credentials) as second:
                carried = await first.stream().begin()
                for client in (first, second):
                    assert credential(await client.stream().attempt(carried)) == [b"Bearer sk-planted"]
                assert await fleet.fleet.probe()() == "SERVING"
                await until(lambda: sum(seat.open_connections for seat in fleet.fleet.seats) == 2, "only Envoy's")
                assert await fleet.count("extproc_relayed_attempts_total") == 1
            stranger.close()

    asyncio.run(story())


async def no_process(_control, _handing):
    raise OSError(errno.EAGAIN, "Resource temporarily unavailable")


def running_code(code):
    async def spawn(control, _handing):
        command = (sys.executable, "-I", "-S", "-c", code)
        return await asyncio.create_subprocess_exec(*command, pass_fds=[control.fileno()])

    return spawn


NO_WORKERS = {
    "they end": (running_code("raise SystemExit(3)"), "status 3"),
    "they hang": (running_code("import time; time.sleep(60)"), "signal SIGKILL"),
    "none can be started": (no_process, "no start: [Errno 11] Resource temporarily unavailable"),
}


@pytest.mark.parametrize("name", NO_WORKERS)
def test_workers_that_never_start_end_the_process(monkeypatch, name):
    spawn, reason = NO_WORKERS[name]
    monkeypatch.setattr(seats, "_spawn", spawn)

    async def story():
        failures = []
        async with running(2, endurance=Endurance(first_pause=0.001, start=0.2)) as fleet:
            failures += fleet.failures
        return failures

    (failure,) = asyncio.run(story())
    assert failure.endswith(f"died 3 times in a row, the last time with {reason}")


def test_a_worker_that_dies_over_and_over_ends_the_process():
    async def story():
        async with running(1, endurance=Endurance(first_pause=0.001, deaths=2)) as fleet:
            (only,) = fleet.fleet.seats
            for _ in range(2):
                pid = only.pid
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid: fleet.failures or (only.digest and only.pid != pid), "its end")
            failures, fleet.failures[:] = list(fleet.failures), []
            return failures

    assert asyncio.run(story()) == ["worker 1 died 2 times in a row, the last time with signal SIGKILL"]


class Placed:
    """What a policy reads of a seat."""

    def __init__(self, open_connections, given_at):
        self.open_connections = open_connections
        self.given_at = given_at


@pytest.mark.parametrize(
    ("places", "chosen"),
    {
        "the emptiest": ([(2, 5), (1, 9), (3, 1)], 1),
        "among equals the one that waited longest": ([(1, 3), (1, 2), (1, 4)], 1),
        "the first of new ones": ([(0, 0), (0, 0)], 0),
    }.values(),
    ids=["the emptiest", "among equals the one that waited longest", "the first of new ones"],
)
def test_a_connection_goes_to(places, chosen):
    among = [Placed(*place) for place in places]
    assert fewest_connections(None, among) is among[chosen]

"""The asyncio shell: timers, backpressure, hand-over of sockets, and the end of connections."""

from __future__ import annotations

import asyncio
import socket

import pytest
from structlog.testing import capture_logs

from extproc.transport.http2.connection import Connection
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.server import Http2Server
from protos.ext_proc_pb2 import ProcessingResponse
from tests.support import http2_peer as peer
from tests.support.served import LOOPS, Processor, Served


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a story on each loop."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, 30))


HELLO = peer.PREFACE + peer.settings()


class Client:
    """A connection of plain bytes."""

    def __init__(self, served):
        self._address = served.address

    async def __aenter__(self):
        host, port = self._address.split(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    async def frames_until(self, *kinds):
        """The types of the frames that come, up to the first of these."""
        seen = []
        while not seen or seen[-1] not in kinds:
            head = await self.reader.readexactly(9)
            await self.reader.readexactly(int.from_bytes(head[:3], "big"))
            seen.append(head[3])
        return seen

    async def closed(self):
        """Read to the end; whether there was one that was meant."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            return True
        return True


def test_a_client_that_says_nothing_is_turned_away(run):
    async def story():
        async with Served(Http2Server, limits=Limits(preface_seconds=0.05)) as served, Client(served) as client:
            assert peer.GOAWAY in await client.frames_until(peer.GOAWAY)
            assert await client.closed()

    run(story())


def test_a_client_of_another_protocol_is_turned_away_at_once(run):
    async def story():
        async with Served(Http2Server) as served, Client(served) as client:
            client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await client.closed()

    with capture_logs() as logs:
        run(story())
    assert logs == []


def test_a_client_that_gives_no_sign_of_life_is_given_up(run):
    async def story():
        limits = Limits(preface_seconds=0.05, keepalive_seconds=0.05, keepalive_timeout=0.05)
        async with Served(Http2Server, limits=limits) as served, Client(served) as client:
            client.writer.write(HELLO)
            seen = await client.frames_until(peer.GOAWAY)
            assert seen[-2:] == [peer.PING, peer.GOAWAY]
            assert await client.closed()

    run(story())


def test_a_deadline_ends_a_call_that_waits(run):
    """grpc-timeout: the end comes by itself, with nothing to read."""

    async def story():
        async with Served(Http2Server) as served, Client(served) as client:
            client.writer.write(HELLO + peer.headers(1, [*peer.REQUEST, (b"grpc-timeout", b"20m")]))
            await client.frames_until(peer.HEADERS)
            await served.all_closed()
            assert served.processor.closed == 1

    run(story())


def test_a_client_that_takes_no_output_is_not_read(run):
    """Slow reader: what waits for the socket is bounded, and what comes meanwhile stays in the kernel."""

    class Large:
        end = None
        fed = 0

        def open(self):
            return self

        def feed(self, _data):
            self.fed += 1
            reply = ProcessingResponse()
            reply.request_body.response.body_mutation.body = bytes(100_000)
            return reply

        def close(self):
            pass

    async def story():
        processor = Large()
        server = Http2Server(processor, is_serving=lambda: True)
        address = server.listen("127.0.0.1:0")
        await server.start()
        host, port = address.split(":")
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.settimeout(0)
            await loop.sock_connect(client, (host, int(port)))
            wide = peer.settings((peer.INITIAL_WINDOW_SIZE, peer.MAX_WINDOW))
            await loop.sock_sendall(client, peer.PREFACE + wide + peer.window_update(0, 2**30))
            await loop.sock_sendall(client, peer.headers(1))
            ask = peer.say(1, b"x")
            sent = 0
            # Until the kernel takes no more of it: nobody reads on the other side.
            while sent < 200 and not await _stuck(loop, client, ask * 4000):
                sent += 1
            assert sent < 200
            assert processor.fed < 1000
        await server.stop(0)

    run(story())


async def _stuck(loop, client, data):
    """Send, and say whether that does not come to an end."""
    try:
        await asyncio.wait_for(loop.sock_sendall(client, data), 0.3)
    except TimeoutError:
        return True
    return False


# A single octet would also be in what others happen to send, in the random ones of a ping for instance.
FAULT = b"\xee" * 16


def test_a_fault_of_the_engine_ends_one_connection(run, monkeypatch):
    receive = Connection.receive

    def faulty(self, data):
        if FAULT in data:
            raise KeyError("sk-secret")
        receive(self, data)

    monkeypatch.setattr(Connection, "receive", faulty)

    async def story():
        async with Served(Http2Server) as served, Client(served) as client:
            client.writer.write(HELLO + FAULT)
            assert await client.closed()
            assert (await served.exchange(b"one"))[0] == [b"one"]

    with capture_logs() as logs:
        run(story())
    assert [line["event"] for line in logs] == ["connection failed"]


def test_a_successor_takes_the_socket_file_over(run, tmp_path):
    """Contract, 1.5: while both run the new one gets the connections, and the old one leaves the file alone."""

    async def story():
        address = f"unix://{tmp_path}/run.sock"
        async with Served(Http2Server, address) as old, Served(Http2Server, address) as new:
            await old.server.stop(0)
            assert (tmp_path / "run.sock").exists()
            assert (await new.exchange(b"one"))[0] == [b"one"]
            assert (old.processor.opened, new.processor.opened) == (0, 1)
        assert not (tmp_path / "run.sock").exists()

    run(story())


def test_a_socket_that_somebody_else_has_bound(run):
    async def story():
        bound = socket.create_server(("127.0.0.1", 0))
        server = Http2Server(Processor(), is_serving=lambda: True)
        server.adopt(bound)
        await server.start()
        host, port = bound.getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HELLO)
        assert (await reader.readexactly(9))[3] == peer.SETTINGS
        writer.close()
        await server.stop(0)

    run(story())


def test_stopping_before_the_start(run):
    async def story():
        server = Http2Server(Processor(), is_serving=lambda: True)
        address = server.listen("127.0.0.1:0")
        await server.stop(1)
        host, port = address.split(":")
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(host, int(port))

    run(story())


def test_a_client_that_ignores_the_end_is_cut_off(run):
    """It does not answer the PING that separates the two GOAWAYs, and holds a stream."""

    async def story():
        async with Served(Http2Server) as served, Client(served) as client:
            client.writer.write(HELLO + peer.headers(1))
            await served.all_opened(1)
            await served.server.stop(0.05)
            assert await client.closed()
            assert served.processor.closed == 1

    run(story())


def test_an_idle_connection_does_not_hold_the_end_up(run):
    async def story():
        async with Served(Http2Server) as served:
            assert (await served.exchange(b"one"))[0] == [b"one"]
            # grpcio's client answers PING, so the grace is not used up.
            await asyncio.wait_for(served.server.stop(60), 10)

    run(story())


def test_a_client_that_is_cut_off_and_does_not_take_the_rest_is_closed_all_the_same(run):
    """Its socket is full, so the last bytes never go; the connection must not stay for that."""

    async def story():
        limits = Limits(preface_seconds=0.1, keepalive_seconds=0.1, keepalive_timeout=0.1)
        async with Served(Http2Server, limits=limits) as served:
            host, port = served.address.split(":")
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect((host, int(port)))
                wide = peer.settings((peer.INITIAL_WINDOW_SIZE, peer.MAX_WINDOW))
                client.sendall(peer.PREFACE + wide + peer.window_update(0, 2**30) + peer.headers(1))
                # More than the kernel holds, less than stops the reading.
                client.sendall(peer.say(1, *[b"x" * 30_000] * 20))
                await served.all_closed()
                while served.server._open:  # noqa: ASYNC110 - there is no event for that
                    await asyncio.sleep(0.01)

    run(story())

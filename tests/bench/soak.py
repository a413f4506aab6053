"""Does the HTTP/2 transport stay as small as it was, whatever its clients do for a long time?

A server on a loopback connection gets mixed traffic from a strict peer (``tests.support.http2_peer``): calls that are
answered and reset as Envoy does, calls that end properly, large messages, tiny windows, clients that go away at every
point, calls that are refused, and peers that misbehave until they are cut off. Its resident size is printed as time
passes. The exit status is 1 when it grew, when an answer was wrong, or when the server broke a rule.

    python -m tests.bench.soak --seconds 600
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import uvloop

from protos.ext_proc_pb2 import BodyResponse, ProcessingRequest, ProcessingResponse
from tests.support import http2_peer as http2
from tests.support.http2_peer import Peer

# What may come on top after the first half: the allocator's own coming and going, in KiB.
SLACK_KIB = 4096
# Streams after which a connection is replaced, for the peer remembers all that it saw.
LONG_LIFE = 2000


# --- the server -------------------------------------------------------------------------------------------------------


class Echo:
    """A stream of the core that echoes bodies; ``size:N`` asks for N octets."""

    end = None

    def feed(self, data: bytes) -> ProcessingResponse:
        body = ProcessingRequest.FromString(data).request_body.body
        reply = ProcessingResponse(request_body=BodyResponse())
        wanted = b"x" * int(body[5:]) if body.startswith(b"size:") else body
        reply.request_body.response.body_mutation.body = wanted
        return reply

    def close(self) -> None:
        pass


class EchoProcessor:
    def open(self) -> Echo:
        return Echo()


async def serve() -> None:
    from extproc.transport.http2.server import Http2Server

    server = Http2Server(EchoProcessor(), is_serving=lambda: True)
    address = server.listen("127.0.0.1:0")
    await server.start()
    print(address.rpartition(":")[2], flush=True)
    await asyncio.Event().wait()


# --- the client -------------------------------------------------------------------------------------------------------


class Wire:
    """A socket that a ``Peer`` takes for an engine: what it is given is sent, what came is whole frames."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._came = bytearray()
        self.closed = False

    def receive(self, data: bytes) -> None:
        """Send, and read meanwhile, so that neither side waits for the other."""
        left = memoryview(data)
        while left and not self.closed:
            readable, writable, _ = select.select([self._socket], [self._socket], [], 30)
            if readable:
                self._read()
            if writable:
                try:
                    left = left[self._socket.send(left) :]
                except OSError:
                    self.closed = True

    def data_to_send(self) -> bytes:
        end = 0
        while len(self._came) - end >= 9:
            size = 9 + int.from_bytes(self._came[end : end + 3], "big")
            if end + size > len(self._came):
                break
            end += size
        whole = bytes(self._came[:end])
        del self._came[:end]
        return whole

    def wait(self) -> None:
        """Wait for something to come."""
        ready, _, _ = select.select([self._socket], [], [], 30)
        if not ready:
            raise AssertionError("the server says nothing for 30 s")
        self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(2**18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._came += data
        self.closed = not data

    def close(self) -> None:
        self._socket.close()


class Client:
    """One connection, and what is done on it."""

    def __init__(self, port: int, chance: random.Random, window: int = http2.MAX_WINDOW) -> None:
        self.wire = Wire(port)
        self.peer = Peer(self.wire)
        self.chance = chance
        self.peer.send(http2.PREFACE + http2.settings((http2.INITIAL_WINDOW_SIZE, window)))
        self.until(lambda: bool(self.peer.settings))
        self.peer.acknowledge()
        self.peer.open_window()
        self.next = 1

    def until(self, done: Callable[[], bool]) -> None:
        """Read until it is so, or the server hangs up."""
        self.peer.collect()
        while not done() and not self.wire.closed:
            self.wire.wait()
            self.peer.collect()
            self.peer.acknowledge()

    def ids(self, count: int) -> range:
        first, self.next = self.next, self.next + 2 * count
        return range(first, self.next, 2)

    def replies_come(self, streams: range, bodies: list[bytes]) -> None:
        peer = self.peer
        self.until(lambda: all(len(peer.messages(stream)) >= len(bodies) for stream in streams))
        for stream in streams:
            assert peer.replies(stream) == bodies, f"stream {stream}: {peer.frames[-5:]}"
        if peer.granted[0] < 2**30:
            peer.open_window()

    def are_done(self, streams: range) -> None:
        self.until(lambda: all(stream in self.peer.ended for stream in streams))


def as_envoy(client: Client) -> None:
    """Many calls at once, two messages each, and a reset for each."""
    streams = client.ids(32)
    bodies = [client.chance.randbytes(client.chance.randrange(600)), b"second"]
    for body in bodies:
        client.peer.send(
            b"".join(
                (http2.headers(stream) if body is bodies[0] else b"") + http2.say(stream, body) for stream in streams
            )
        )
    client.replies_come(streams, bodies)
    client.peer.send(b"".join(map(http2.rst_stream, streams)))


def to_the_end(client: Client) -> None:
    """Calls that both sides end."""
    streams = client.ids(8)
    client.peer.send(b"".join(http2.call(stream, b"a", b"b") for stream in streams))
    client.replies_come(streams, [b"a", b"b"])
    client.are_done(streams)
    assert all(client.peer.status(stream) == (0, "") for stream in streams)


def large(client: Client) -> None:
    """A message of up to half a megabyte, both ways."""
    (stream,) = streams = client.ids(1)
    body = b"z" * client.chance.randrange(500_000)
    client.peer.send(http2.headers(stream))
    left = http2.message(body)
    while left := client.peer.upload(stream, left, padding=client.chance.choice([None, 0, 200])):
        client.wire.wait()
        client.peer.collect()
    client.replies_come(streams, [body])
    client.peer.send(http2.rst_stream(stream))


def goes_away_early(client: Client) -> None:
    """Resets before, within and after a message; fewer than would be taken for an attack."""
    streams = client.ids(4)
    message = http2.message(b"never mind")
    for stream in streams:
        cut = client.chance.randrange(len(message))
        client.peer.send(http2.headers(stream) + http2.data(stream, message[:cut]) + http2.rst_stream(stream))
    as_envoy(client)


def refused(client: Client) -> None:
    """Calls that cannot be served: another method, another protocol, malformed."""
    streams = client.ids(3)
    listed = (
        http2.fields(path=b"/none.Such/Method"),
        http2.fields(content_type=b"application/json"),
        http2.fields((b"Upper", b"1")),
    )
    client.peer.send(
        b"".join(http2.headers(stream, each, end=True) for stream, each in zip(streams, listed, strict=True))
    )
    client.are_done(streams)


def asks_for_health(client: Client) -> None:
    (stream,) = streams = client.ids(1)
    client.peer.send(
        http2.headers(stream, http2.fields(path=http2.CHECK)) + http2.data(stream, http2.prefixed(b""), end=True)
    )
    client.are_done(streams)
    assert client.peer.messages(stream) == [b"\x08\x01"]


def different_requests(client: Client) -> None:
    """Field blocks that never repeat, kept in the table and not."""
    streams = client.ids(8)
    for stream in streams:
        mark = (b"x-request-id", b"%032x" % client.chance.getrandbits(128))
        kind = client.chance.choice(["incremental", "without", "never"])
        encoded = http2.block(http2.fields(mark), kind=kind)
        client.peer.send(http2.headers(stream, encoded=encoded) + http2.say(stream, b"a", end=True))
    client.are_done(streams)


def talks_about_the_connection(client: Client) -> None:
    client.peer.send(
        http2.ping()
        + http2.settings((http2.INITIAL_WINDOW_SIZE, http2.MAX_WINDOW - client.chance.randrange(1000)))
        + http2.priority(client.next)
        + http2.frame(0xEE, 0, 0, b"unknown")
    )
    client.until(lambda: not client.peer.unacknowledged)


USUAL = {
    as_envoy: 20,
    to_the_end: 6,
    large: 2,
    goes_away_early: 3,
    refused: 1,
    asks_for_health: 2,
    different_requests: 4,
    talks_about_the_connection: 1,
}


def reads_slowly(port: int, chance: random.Random) -> Client:
    """A window of nothing; it opens a little, and then the client is gone or takes all of it."""
    client = Client(port, chance, window=0)
    streams = client.ids(8)
    client.peer.send(b"".join(http2.call(stream, b"size:30000", b"size:30000", end=False) for stream in streams))
    for stream in streams:
        client.peer.send(http2.window_update(stream, chance.randrange(1, 40_000)))
    if chance.random() < 0.5:
        client.peer.send(http2.settings((http2.INITIAL_WINDOW_SIZE, 1_000_000)))
        client.replies_come(streams, [b"x" * 30_000] * 2)
    return client


def hangs_up_anywhere(port: int, chance: random.Random) -> Client:
    """The connection is gone in the middle of a frame."""
    client = Client(port, chance)
    octets = b"".join(http2.call(stream, b"x" * 2000, end=False) for stream in client.ids(20))
    client.wire.receive(octets[: chance.randrange(len(octets))])
    return client


def floods(port: int, chance: random.Random) -> Client:
    """A peer that does not stop before it is cut off."""
    client = Client(port, chance)
    wave = chance.choice(
        [
            lambda stream: http2.ping(),
            lambda stream: http2.settings(),
            http2.priority,
            lambda stream: http2.headers(stream) + http2.rst_stream(stream),
            lambda stream: http2.headers(stream, [(b"X", b"")]),
        ]
    )
    for _ in range(400):
        if client.wire.closed:
            break
        client.wire.receive(b"".join(map(wave, client.ids(100))))
    assert client.wire.closed, "a flood was not stopped"
    return client


def is_no_http2(port: int, chance: random.Random) -> Client:
    client = Client(port, chance)
    client.wire.receive(chance.randbytes(3000))
    return client


UNUSUAL = {reads_slowly: 6, hangs_up_anywhere: 6, floods: 1, is_no_http2: 1}


# --- the measurement --------------------------------------------------------------------------------------------------


def resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def soak(port: int, pid: int, seconds: float, seed: int) -> tuple[list[tuple[float, int]], Counter[str]]:
    """Mixed traffic for so long; the resident size over time, and what was done how often."""
    chance = random.Random(seed)
    clients = [Client(port, chance) for _ in range(4)]
    points: list[tuple[float, int]] = []
    counts: Counter[str] = Counter()
    started = time.monotonic()
    step = seconds / 40
    while (elapsed := time.monotonic() - started) < seconds:
        place = chance.randrange(len(clients))
        (act,) = chance.choices([*USUAL], [*USUAL.values()])
        act(clients[place])
        counts[act.__name__] += 1
        if clients[place].next > 2 * LONG_LIFE or clients[place].wire.closed:
            assert clients[place].peer.goaway is None, clients[place].peer.goaway
            clients[place].wire.close()
            clients[place] = Client(port, chance)
        if chance.random() < 0.05:
            (other,) = chance.choices([*UNUSUAL], [*UNUSUAL.values()])
            other(port, chance).wire.close()
            counts[other.__name__] += 1
        if elapsed > len(points) * step:
            points.append((elapsed, resident_kib(pid)))
            print(f"{elapsed:7.0f} s  {points[-1][1]:8} KiB  {counts.total():8} acts", flush=True)
    for client in clients:
        client.wire.close()
    return points, counts


def grown(points: list[tuple[float, int]]) -> int:
    """How much larger it was at most in the last quarter than in the second one, in KiB."""
    quarter = len(points) // 4
    return max(size for _, size in points[-quarter:]) - max(size for _, size in points[quarter : 2 * quarter])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    command = [sys.executable, "-m", "tests.bench.soak", "--serve"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        try:
            port = int(server.stdout.readline())
            points, counts = soak(port, server.pid, options.seconds, options.seed)
        finally:
            server.kill()
    for name, count in counts.most_common():
        print(f"{count:8}  {name}")
    growth = grown(points)
    print(f"grew by {growth} KiB from the second quarter to the last")
    if growth > SLACK_KIB:
        sys.exit(1)


if __name__ == "__main__":
    main()

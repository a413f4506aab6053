"""The client of paced streams: opens many, and says how late each event is against the time that it carries.

The upstream stamps every event with the monotonic clock of this machine; lateness is what lies between that and the
moment at which the event is read here. It holds Envoy (twice), the processor and this client; the row without the
filter shows how much of it is not the processor's.
"""

from __future__ import annotations

import asyncio
import re
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.upstream import STREAM_HEADER

_STAMP: Final = re.compile(rb"@(\d{20})@")
# What of a stamp, or of the end of the answer, may still be cut at the end of a read.
_TAIL: Final = 22
_END: Final = b"\r\n0\r\n\r\n"
_CONNECTING: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a stream is written: so many events, ``gap`` seconds apart."""

    chunks: int
    gap: float

    @property
    def seconds(self) -> float:
        return self.chunks * self.gap


class Streams:
    """Streams through one Envoy, each on a connection of its own.

    Attributes:
        arrivals: when each event came, on the monotonic clock in nanoseconds.
        lateness: how long after its stamp, in nanoseconds; parallel to ``arrivals``.
        finished: streams that came to their end.
        failed: streams that did not.
    """

    def __init__(self, port: int, pace: Pace) -> None:
        self.arrivals = array("q")
        self.lateness = array("q")
        self.finished = 0
        self.failed = 0
        self._port = port
        self._request = _request(pace)
        self._open: set[_Connection] = set()
        self._begun = 0
        self._asked = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def open(self, count: int, *, spread: float) -> None:
        """Ask for further streams, evenly over ``spread`` seconds, or as fast as they can be connected."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        turns = asyncio.Semaphore(_CONNECTING)

        async def connect(number: int) -> None:
            await asyncio.sleep(started + spread * number / count - loop.time())
            async with turns:
                try:
                    await loop.create_connection(lambda: _Connection(self, self._request), "127.0.0.1", self._port)
                except OSError:
                    self.failed += 1

        self._asked += count
        await asyncio.gather(*map(connect, range(count)))

    async def all_begun(self, patience: float) -> bool:
        """Wait until each stream has had its first event; whether it has within ``patience`` seconds."""
        return await self._until(lambda: self._begun + self.failed >= self._asked, patience)

    async def all_ended(self, patience: float) -> bool:
        """Wait until each stream is at its end; whether it is within ``patience`` seconds."""
        return await self._until(lambda: self.finished + self.failed >= self._asked, patience)

    async def close(self) -> None:
        """Hang up on streams that are still open."""
        for connection in list(self._open):
            connection.hang_up()
        await asyncio.sleep(0)

    async def _until(self, holds: Callable[[], bool], patience: float) -> bool:
        if holds():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((holds, future))
        try:
            await asyncio.wait_for(future, patience)
        except TimeoutError:
            return False
        return True

    def _changed(self) -> None:
        for holds, future in self._waiting:
            if not future.done() and holds():
                future.set_result(None)

    # What connections report

    def connected(self, connection: _Connection) -> None:
        self._open.add(connection)

    def begun(self) -> None:
        self._begun += 1
        self._changed()

    def ended(self, connection: _Connection, *, complete: bool) -> None:
        self._open.discard(connection)
        if complete:
            self.finished += 1
        else:
            self.failed += 1
        self._changed()


class _Connection(asyncio.Protocol):
    def __init__(self, streams: Streams, request: bytes) -> None:
        self._streams = streams
        self._request = request
        self._tail = b""
        self._begun = self._ended = False
        self._transport: asyncio.Transport

    def connection_made(self, transport):
        self._transport = transport
        self._streams.connected(self)
        transport.write(self._request)

    def data_received(self, data):
        now = time.monotonic_ns()
        streams = self._streams
        data = self._tail + data
        end = 0
        for match in _STAMP.finditer(data):
            streams.arrivals.append(now)
            streams.lateness.append(now - int(match[1]))
            end = match.end()
        if not self._begun:
            if not (self._tail or data.startswith(b"HTTP/1.1 200")):
                self._end(complete=False)
                return
            if end:
                self._begun = True
                streams.begun()
        self._tail = data[max(end, len(data) - _TAIL) :]
        if self._tail.endswith(_END):
            self._end(complete=True)

    def hang_up(self):
        self._ended = True
        self._streams.ended(self, complete=False)
        self._transport.abort()

    def _end(self, *, complete):
        self._ended = True
        self._streams.ended(self, complete=complete)
        self._transport.close()

    def connection_lost(self, error):
        if not self._ended:
            self._ended = True
            self._streams.ended(self, complete=False)


def _request(pace: Pace) -> bytes:
    body = b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"' + b"x" * 400 + b'"}]}'
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"{STREAM_HEADER}: {pace.chunks};{pace.gap}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def percentile(values: Sequence[int], share: float) -> float:
    """The value below which ``share`` of the values lie; the largest for 1."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

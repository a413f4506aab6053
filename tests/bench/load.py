"""A load generator over keep-alive HTTP/1.1 connections, in this process."""

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run measured; times in seconds."""

    requests: int
    failures: int
    elapsed: float
    latencies: tuple[float, ...]

    @property
    def rate(self) -> float:
        return self.requests / self.elapsed

    def percentile(self, share: float) -> float:
        return sorted(self.latencies)[min(int(len(self.latencies) * share), len(self.latencies) - 1)]


class _Connection(asyncio.Protocol):
    def __init__(self, request: bytes, run: "_Run") -> None:
        self._request = request
        self._run = run
        self._started = 0.0
        self._received = bytearray()
        self._transport = None

    def connection_made(self, transport):
        self._transport = transport
        self._next()

    def _next(self):
        if not self._run.take():
            self._transport.close()
            return
        self._started = time.perf_counter()
        self._received.clear()
        self._transport.write(self._request)

    def data_received(self, data):
        self._received += data
        if self._complete():
            self._run.done(time.perf_counter() - self._started, ok=self._received.startswith(b"HTTP/1.1 200"))
            self._next()

    def _complete(self):
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return False
        start = self._received.find(b"content-length: ", 0, head)
        if start >= 0:
            length = int(self._received[start + 16 : self._received.index(b"\r\n", start)])
            return len(self._received) >= head + 4 + length
        return self._received.endswith(b"0\r\n\r\n")

    def connection_lost(self, _error):
        self._run.closed()


class _Run:
    def __init__(self, requests: int, connections: int) -> None:
        self._left = requests
        self._open = connections
        self.latencies = []
        self.failures = 0
        self.finished = asyncio.get_running_loop().create_future()

    def take(self):
        self._left -= 1
        return self._left >= 0

    def done(self, latency, *, ok):
        self.latencies.append(latency)
        self.failures += not ok

    def closed(self):
        self._open -= 1
        if not self._open and not self.finished.done():
            self.finished.set_result(None)


async def _run(port: int, request: bytes, requests: int, connections: int) -> LoadResult:
    run = _Run(requests, connections)
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(request, run), "127.0.0.1", port)
    await run.finished
    elapsed = time.perf_counter() - started
    return LoadResult(len(run.latencies), run.failures, elapsed, tuple(run.latencies))


def http_request(body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """A chat completions request as bytes."""
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"host: bench", b"content-type: application/json"]
    lines += [f"{name}: {value}".encode() for name, value in (headers or {}).items()]
    lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def load(port: int, request: bytes, *, requests: int, connections: int) -> LoadResult:
    """Send ``requests`` requests over ``connections`` connections, each with one in flight."""
    import uvloop

    return uvloop.run(_run(port, request, requests, connections))

"""A programmable HTTP/1.1 upstream that is as strict as the strictest provider.

It records requests byte for byte, and refuses one whose body has no ``content-length`` with a 400, as real providers
do. Replies are scripted: a queue first, then the standing one. It runs in a thread with its own event loop, so a test
may be synchronous.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.dataplane.harness.replies import Abort, Gate, Pause, Reply, json_reply

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_MAX_HEAD = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came over the wire; header names in the case in which they came."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The only value of a header; None without one. Two values are a fault."""
        values = self.all(name)
        if len(values) > 1:
            raise AssertionError(f"{name} came {len(values)} times: {values}")
        return values[0] if values else None

    def names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}

    def json(self) -> Any:
        return json.loads(self.body)


class StrictUpstream:
    """``port`` is bound from the constructor on. Scripts may be changed at any time. With ``tls`` it speaks TLS."""

    def __init__(self, name: str = "upstream", *, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        # Accepted sockets inherit it. asyncio sets it only where the socket was made for TCP by number; without it, a
        # body would wait 40 ms for the acknowledgement of its head.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        self._changed = threading.Condition()
        self._queue: deque[Reply] = deque()
        self._standing: Reply | Callable[[Received], Reply] = json_reply({"error": "no reply was scripted"}, status=599)
        self.requests: list[Received] = []
        self.refused: list[Received] = []
        self.aborted = 0
        """Replies that Envoy did not wait for to the end."""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def reply(self, *replies: Reply) -> None:
        """Answer the next requests with these, in order."""
        self._queue.extend(replies)

    def always(self, reply: Reply | Callable[[Received], Reply]) -> None:
        """Answer every request for which no reply is queued."""
        self._standing = reply

    def reset(self) -> None:
        """Forget requests and queued replies."""
        with self._changed:
            self._queue.clear()
            self.requests.clear()
            self.refused.clear()
            self.aborted = 0

    @property
    def last(self) -> Received:
        return self.requests[-1]

    def wait_for(self, condition: Callable[[StrictUpstream], bool], timeout: float = 10.0) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise TimeoutError(f"{self.name}: not as expected after {timeout:g} s, {len(self.requests)} requests")

    def wait_for_requests(self, count: int, timeout: float = 10.0) -> list[Received]:
        self.wait_for(lambda upstream: len(upstream.requests) >= count, timeout)
        return self.requests[:count]

    def stop(self) -> None:
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(5.0)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, sock=self._socket, limit=_MAX_HEAD, ssl=self._tls)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply; False when the connection is over."""
        received, strict = await _receive(reader)
        with self._changed:
            (self.requests if strict else self.refused).append(received)
            self._changed.notify_all()
        if not strict:
            reply = json_reply({"error": {"message": "content-length is required"}}, status=400)
        elif self._queue:
            reply = self._queue.popleft()
        else:
            reply = self._standing(received) if callable(self._standing) else self._standing
        try:
            return await _send(reply, writer, reader)
        except ConnectionError:
            with self._changed:
                self.aborted += 1
                self._changed.notify_all()
            raise


async def _receive(reader: asyncio.StreamReader) -> tuple[Received, bool]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head[:-4].split("\r\n")
    method, target, _ = request_line.split(" ")
    headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    lower = {name.lower(): value for name, value in headers}
    strict = True
    if "content-length" in lower:
        body = await reader.readexactly(int(lower["content-length"]))
    elif "chunked" in lower.get("transfer-encoding", ""):
        strict = False
        body = await _dechunk(reader)
    else:
        strict = method in {"GET", "HEAD", "DELETE"}
        body = b""
    return Received(method=method, target=target, headers=headers, body=body), strict


async def _dechunk(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return bytes(body)


async def _send(reply: Reply, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> bool:
    headers = list(reply.headers)
    match reply.framing:
        case "length":
            length = len(reply.body) if reply.content_length is None else reply.content_length
            headers.append(("content-length", str(length)))
        case "chunked":
            headers.append(("transfer-encoding", "chunked"))
        case "close":
            headers.append(("connection", "close"))
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers)]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    for piece in reply.pieces:
        match piece:
            case bytes():
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece)
                await writer.drain()
            case Pause(seconds=seconds):
                await _unless_gone(asyncio.sleep(seconds), reader)
            case Gate():
                await _unless_gone(piece.passed(), reader)
            case Abort():
                # An orderly close in the middle of the body: a reset could overtake the bytes before it.
                return False
    if reply.framing == "chunked":
        trailers = "".join(f"{name}: {value}\r\n" for name, value in reply.trailers)
        writer.write(b"0\r\n" + trailers.encode("latin-1") + b"\r\n")
    await writer.drain()
    return reply.framing != "close"


async def _unless_gone(waiting: Any, reader: asyncio.StreamReader) -> None:
    """Wait for something, but notice meanwhile that Envoy has closed the connection."""
    wait = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(reader.read(1))
    done, _ = await asyncio.wait({wait, gone}, return_when=asyncio.FIRST_COMPLETED)
    if gone in done:
        wait.cancel()
        if not gone.result():
            raise ConnectionResetError
        raise AssertionError("Envoy sent bytes before the reply was over")
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)

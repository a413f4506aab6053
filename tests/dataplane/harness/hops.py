"""What may stand between Envoy and an upstream: a unix socket, or an HTTP proxy. Both lead to a port of this host."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path


class _Hop:
    """A server in a thread of its own with its own event loop."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await self._open(accept)
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _open(self, accept) -> asyncio.Server:
        raise NotImplementedError

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class UnixSocket(_Hop):
    """A unix socket that leads to a port."""

    def __init__(self, path: Path, port: int) -> None:
        super().__init__()
        self._path = path
        self._port = port
        self.connections = 0

    async def _open(self, accept) -> asyncio.Server:
        return await asyncio.start_unix_server(accept, path=self._path)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await _join(reader, writer, self._port, b"")


class Proxy(_Hop):
    """An HTTP proxy that opens tunnels and forwards plain requests. To it every name is one of this machine.

    ``seen`` are the request lines as they came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.seen: list[str] = []

    async def _open(self, accept) -> asyncio.Server:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n", 1)[0].decode()
        self.seen.append(line)
        method, target, _ = line.split()
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await _join(reader, writer, int(target.rpartition(":")[2]), b"")
        else:
            url = urlsplit(target)
            await _join(reader, writer, url.port or 80, head.replace(target.encode(), url.path.encode(), 1))


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, first: bytes) -> None:
    """Carry bytes both ways until either side ends."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    back.write(first)
    ways = [asyncio.ensure_future(_carry(reader, back)), asyncio.ensure_future(_carry(there, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for side in (back, writer):
            side.close()
            with contextlib.suppress(ConnectionError):
                await side.wait_closed()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
        await sink.drain()

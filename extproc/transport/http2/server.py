"""The asyncio shell around the engine: sockets, timers and the end, and nothing that HTTP/2 or gRPC say.

For each read there is one pass through the engine and one write. While the socket does not take what was written,
nothing is read either.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, cast

import structlog

from extproc.loops import set_within
from extproc.transport.base import HEALTH_SECONDS, Processor, Relay
from extproc.transport.http2.connection import Connection
from extproc.transport.http2.grpc_calls import MAX_MESSAGE, GrpcCalls
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.probe import HealthProbe
from extproc.transport.listen import SocketFile, bind, parse_tcp

_log = structlog.get_logger(__name__)

_BACKLOG: Final = 1024
# Bytes that the transport may hold for a socket that takes none, before reading stops.
_WRITE_BUFFER: Final = 2**20
# Seconds that a connection has to take its last bytes.
_LINGER: Final = 1.0
_DEFAULT_LIMITS: Final = Limits()


class Http2Server:
    """Serves ``Process`` and health over HTTP/2. It is a ``transport.base.Server``.

    Args:
        processor: the core.
        is_serving: what health checks answer.
        max_message: largest message taken, in bytes; for 0, and above what gRPC can express, there is no limit.
        tls: certificate and key, see ``transport.tls``; None serves plain HTTP/2 with prior knowledge.
        limits: what one peer may do.
        relay: takes the calls that belong to other processes, where there are any.
    """

    def __init__(
        self,
        processor: Processor,
        *,
        is_serving: Callable[[], bool],
        max_message: int = MAX_MESSAGE,
        tls: ssl.SSLContext | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        relay: Relay | None = None,
    ) -> None:
        self._calls = GrpcCalls(processor, is_serving=is_serving, max_message=max_message, limits=limits, relay=relay)
        self._calls.watchers.on_first = self._look_at_health_later
        self._next_look: asyncio.TimerHandle | None = None
        self._limits = limits
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._file: SocketFile | None = None
        self._where: str | tuple[str, int] = ""
        self._listeners: list[asyncio.AbstractServer] = []
        self._open: set[_Shell] = set()
        self._stopping = False
        self._all_closed = asyncio.Event()

    def listen(self, address: str, *, socket_mode: int = 0o775) -> str:
        """See ``transport.base.Server``."""
        bound, self._file, target = bind(address, socket_mode=socket_mode)
        self._where = parse_tcp(target) if self._file is None else str(self._file.path)
        self.adopt(bound)
        return target

    def adopt(self, bound: socket.socket) -> None:
        """Serve on a socket that somebody else has bound; it is closed with the server."""
        bound.setblocking(False)  # noqa: FBT003 - the name of the method says it
        bound.listen(_BACKLOG)
        self._sockets.append(bound)

    async def start(self) -> None:
        """Begin to serve."""
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            create = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
            server = await create(self._connected, sock=bound, backlog=_BACKLOG, **self._secure())
            self._listeners.append(server)
        self._sockets.clear()

    async def stop(self, grace: float) -> None:
        """See ``transport.base.Server``."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for unused in self._sockets:
            unused.close()
        self._sockets.clear()
        self._calls.watchers.dismiss()
        for shell in list(self._open):
            shell.drain()
        if grace > 0:
            await self._closed_within(grace)
        for shell in list(self._open):
            shell.cut()
        if not await self._closed_within(_LINGER):
            for shell in list(self._open):
                shell.abort()
            await self._closed_within(_LINGER)
        if self._file is not None:
            self._file.remove()

    async def take(self, accepted: socket.socket, *, secure: bool = True) -> None:
        """Serve a connection that somebody else has accepted; without TLS in any case where it is not ``secure``.

        Raises:
            OSError: it is of no use, or its TLS handshake failed.
        """
        options = self._secure() if secure else {}
        await asyncio.get_running_loop().connect_accepted_socket(self._connected, accepted, **options)

    @property
    def waiting(self) -> int:
        """Bytes of output that wait for the peers, over all connections."""
        return sum(shell.waiting for shell in self._open)

    def flush(self) -> None:
        """Send what was answered at another time than while a connection was read."""
        for shell in list(self._open):
            shell.flush()

    def _look_at_health_later(self) -> None:
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(HEALTH_SECONDS, self._look_at_health)

    def _look_at_health(self) -> None:
        """Tell those who watch the health, and look again as long as there are any."""
        self._next_look = None
        watchers = self._calls.watchers
        if watchers.calls:
            watchers.tell()
            self.flush()
            self._look_at_health_later()

    def shed(self, count: int) -> None:
        """Have so many connections end when the streams that are open on them have."""
        for shell in list(self._open)[:count]:
            shell.drain()

    def _secure(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {"ssl": self._tls, "ssl_handshake_timeout": self._limits.preface_seconds}

    def probe(self) -> HealthProbe:
        """See ``transport.base.Server``."""
        return HealthProbe(self._connect if self._tls is None else self._connect_within)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._where, str):
            return await asyncio.open_unix_connection(self._where)
        return await asyncio.open_connection(*self._where)

    async def _connect_within(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection without TLS, past the listener: this process need not have a client's certificate."""
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(self._connected, theirs)
        return await asyncio.open_connection(sock=ours)

    async def _closed_within(self, seconds: float) -> bool:
        if self._open:
            self._all_closed.clear()
            await set_within(self._all_closed, seconds)
        return not self._open

    def _connected(self) -> _Shell:
        return _Shell(self, Connection(self._calls, limits=self._limits))

    # For the connections

    def opened(self, shell: _Shell) -> None:
        """A connection has begun."""
        self._open.add(shell)
        if self._stopping:
            shell.cut()

    def gone(self, shell: _Shell) -> None:
        """A connection has ended."""
        self._open.discard(shell)
        if not self._open:
            self._all_closed.set()


class _Shell(asyncio.Protocol):
    """One connection: what its socket says goes to the engine, what the engine says to the socket."""

    __slots__ = ("_alarm", "_connection", "_linger", "_loop", "_paused", "_server", "_timer", "_transport")

    def __init__(self, server: Http2Server, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._paused = False
        self._alarm = connection.alarm
        self._timer: asyncio.TimerHandle | None = None
        self._linger = False

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, for uvloop's transports are no subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        secure = transport.get_extra_info("ssl_object")
        self._server.opened(self)
        if secure is not None and secure.selected_alpn_protocol() != "h2":
            # RFC 9113, 3.2: over TLS the protocol is agreed by ALPN.
            self.abort()
            return
        self._set_timer()
        self._flush()

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        try:
            connection.receive(data)
            self._flush()
        except Exception:  # noqa: BLE001 - a fault of ours must end this connection, not the others
            _log.exception("connection failed")
            self.abort()
            return
        if connection.alarm < self._alarm:
            self._set_timer()

    def pause_writing(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The peer sends nothing more, so nothing more can come of its streams."""
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost()
        self._server.gone(self)

    # Called by the server

    @property
    def waiting(self) -> int:
        """Bytes of output that the peer has not taken."""
        return self._connection.waiting + self._transport.get_write_buffer_size()

    def flush(self) -> None:
        """Send what there is."""
        self._flush()

    def drain(self) -> None:
        """Finish what is open, then close."""
        self._connection.drain()
        self._flush()

    def cut(self) -> None:
        """Close as soon as the peer has been told."""
        self._connection.cut()
        self._flush()

    def abort(self) -> None:
        """Close at once."""
        self._connection.connection_lost()
        self._transport.abort()

    def _flush(self) -> None:
        connection, transport = self._connection, self._transport
        while not self._paused and (data := connection.data_to_send()):
            transport.write(data)
        if connection.closed and not self._paused:
            transport.close()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._alarm = self._connection.alarm
        self._timer = self._loop.call_later(max(0.0, self._alarm - time.monotonic()), self._tick)

    def _tick(self) -> None:
        self._connection.tick()
        self._flush()
        if not self._connection.closed:
            self._set_timer()
        elif self._linger:
            # It had its time to take the last bytes.
            self.abort()
        else:
            self._linger = True
            self._timer = self._loop.call_later(_LINGER, self._tick)

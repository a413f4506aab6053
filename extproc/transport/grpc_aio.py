"""The gRPC engine on grpcio's asyncio API.

Envoy ends nearly every ext_proc stream by resetting it. ``grpc.aio`` then cancels the handler; when a batch of
operations is in flight at that moment, and a read always is, it forgets the batch and leaks its native memory
(grpc issue 43360, 100 to 200 bytes a stream). So the messages of a stream are handled in a task of their own that is
never cancelled: after a reset its pending read ends as at the end of the stream, and the batch is freed as usual.
``tests/bench/leak.py`` measures it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

import grpc
import structlog
from grpc import aio

from extproc.errors import StreamFailure
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse

_log = structlog.get_logger(__name__)

UNIX: Final = "unix://"
MAX_INT32: Final = 2**31 - 1
MAX_PORT: Final = 65535
# What a socket address holds on Linux, without the closing zero byte.
MAX_SOCKET_PATH: Final = 107

_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


class Stream(Protocol):
    """One ext_proc stream of the core: a message in, a reply out."""

    end: StreamFailure | None

    def feed(self, request: ProcessingRequest) -> ProcessingResponse | None: ...
    def close(self) -> None: ...


class Processor(Protocol):
    """Opens streams of the core."""

    def open(self) -> Stream: ...


class ListenError(Exception):
    """The address cannot be listened on; the text says why."""


class HealthCheckError(Exception):
    """A health check got no answer; the text is that of the gRPC status."""


class GrpcServer:
    """Serves ``Process`` and health on one address.

    Args:
        processor: the core.
        is_serving: what health checks answer.
        max_message: largest message taken, in bytes; for 0, and above what gRPC can express, there is no limit.
    """

    def __init__(self, processor: Processor, *, is_serving: Callable[[], bool], max_message: int = MAX_INT32) -> None:
        self._processor = processor
        self._is_serving = is_serving
        # The socket file and its inode: only our own is removed at the end.
        self._socket: tuple[Path, int] | None = None
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", max_message if 0 < max_message < MAX_INT32 else -1),
                ("grpc.max_send_message_length", -1),
                # Two processes on one port would share its connections; the second has to fail instead.
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers((self._process_service(), self._health_service()))

    def listen(self, address: str, *, socket_mode: int = 0o775) -> str:
        """Bind ``host:port`` (port 0 takes a free one, no host means all) or ``unix://path``.

        Connections wait in the kernel until ``start``.

        Returns:
            The address as a client on this machine can reach it.

        Raises:
            ListenError: it cannot be bound, or the mode of the socket file cannot be set.
        """
        if address.startswith(UNIX):
            return self._listen_unix(Path(address.removeprefix(UNIX)), socket_mode)
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
            raise ListenError(f'listen tcp: address "{address}": expected "host:port" or "unix:///path"')
        _try_to_bind(host.strip("[]"), int(port), address)
        bound = self._bind(f"{host or '[::]'}:{port}", address)
        return f"{_reachable(host)}:{bound}"

    def _listen_unix(self, path: Path, mode: int) -> str:
        """Bind under a name of our own, then take the path over from whoever has it (contract, 1.5).

        A server removes the name that it was bound to when it stops. Bound to the path itself, an old process would
        remove the socket of its successor.
        """
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise ListenError(f"listen unix {path}: path too long, at most {MAX_SOCKET_PATH} bytes")
        own = path.with_name(f".{os.getpid()}")
        with suppress(OSError):
            own.unlink()
        _try_to_bind_unix(own, path)
        self._bind(f"unix:{own}", str(path))
        try:
            own.chmod(mode)
        except OSError as error:
            raise ListenError(f"failed to change UDS permission: {error}") from error
        try:
            own.replace(path)
        except OSError as error:
            raise ListenError(f"listen unix {path}: {error.strerror}") from error
        self._socket = (path, path.stat().st_ino)
        return f"unix:{path}"

    def _bind(self, target: str, address: str) -> int:
        try:
            port: int = self._server.add_insecure_port(target)
        except RuntimeError as error:
            raise ListenError(f"listen {address}: {error}") from error
        return port

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Take no more streams, give those in flight ``grace`` seconds, then cut them.

        May be called again with a shorter grace while it waits.
        """
        await self._server.stop(grace)
        if self._socket is not None:
            path, inode = self._socket
            with suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()

    def _process_service(self) -> grpc.GenericRpcHandler:
        process = grpc.stream_stream_rpc_method_handler(
            self._process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler("envoy.service.ext_proc.v3.ExternalProcessor", {"Process": process})

    def _health_service(self) -> grpc.GenericRpcHandler:
        check = grpc.unary_unary_rpc_method_handler(
            self._check, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
        )
        every = grpc.unary_unary_rpc_method_handler(
            self._list, HealthListRequest.FromString, HealthListResponse.SerializeToString
        )
        watch = grpc.unary_stream_rpc_method_handler(
            self._watch, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": check, "List": every, "Watch": watch}
        )

    async def _process(self, _requests: object, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
        exchange = asyncio.create_task(_exchange(self._processor.open(), context))
        try:
            failure = await asyncio.shield(exchange)
        except asyncio.CancelledError:
            # The read in flight ends now; the reset itself is the normal end of a stream (field report BR-30).
            await exchange
            raise
        if failure is not None:
            await context.abort(_CODES.get(failure.code, grpc.StatusCode.UNKNOWN), failure.message)

    def _status(self) -> HealthCheckResponse:
        serving = self._is_serving()
        return HealthCheckResponse(status=HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING)

    async def _check(self, _request: HealthCheckRequest, _context: object) -> HealthCheckResponse:
        return self._status()

    async def _list(self, _request: HealthListRequest, _context: object) -> HealthListResponse:
        return HealthListResponse(statuses={"extproc": self._status()})

    async def _watch(self, _request: HealthCheckRequest, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Watch is not implemented")


async def _exchange(stream: Stream, context: Any) -> StreamFailure | None:  # noqa: ANN401 - grpcio has no types
    """Feed every message of a stream to the core; return the status to end with, if it is not OK."""
    try:
        while (request := await context.read()) is not aio.EOF:
            reply = stream.feed(request)
            if reply is not None:
                await context.write(reply)
            if stream.end is not None:
                return stream.end
    except StreamFailure as failure:
        return failure
    except (aio.BaseError, grpc.RpcError):
        # Envoy reset the stream while a reply was on its way, or the server stopped under it.
        return None
    except Exception as error:  # noqa: BLE001 - one stream must not harm another, whatever the fault
        fault_id = str(uuid4())
        _log.error("stream failed", fault_id=fault_id, exc_info=error)
        return StreamFailure(StreamFailure.INTERNAL, f"internal error, id {fault_id}")
    finally:
        stream.close()
    return None


def _try_to_bind(host: str, port: int, address: str) -> None:
    """Raise ``ListenError`` with the system's reason; gRPC only says that it failed."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except (OSError, OverflowError) as error:
        raise ListenError(f"listen tcp {address}: {error}") from error


def _try_to_bind_unix(own: Path, path: Path) -> None:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(own))
        own.unlink()
    except OSError as error:
        raise ListenError(f"listen unix {path}: {error}") from error


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0") else "[::1]" if host == "[::]" else host


class HealthProbe:
    """Asks a server for its health as Envoy would, over its listener.

    Args:
        address: as returned by ``GrpcServer.listen``.
        timeout: seconds to wait for the answer.
    """

    def __init__(self, address: str, *, timeout: float = 1.0) -> None:
        self._timeout = timeout
        # A proxy from the environment must not stand between a process and itself.
        self._channel = aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._check = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )

    async def __call__(self) -> str:
        """Return the name of the status, ``SERVING`` for instance.

        Raises:
            HealthCheckError: there was no answer.
        """
        try:
            response: HealthCheckResponse = await self._check(HealthCheckRequest(), timeout=self._timeout)
        except aio.AioRpcError as error:
            name = "".join(word.capitalize() for word in error.code().name.split("_"))
            raise HealthCheckError(f"rpc error: code = {name} desc = {error.details()}") from error
        return HealthCheckResponse.ServingStatus.Name(response.status)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

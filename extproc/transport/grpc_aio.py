"""The gRPC engine on grpcio's asyncio API.

Envoy ends nearly every ext_proc stream by resetting it. ``grpc.aio`` then cancels the handler; when a batch of
operations is in flight at that moment, and a read always is, it forgets the batch and leaks its native memory
(grpc issue 43360, 100 to 200 bytes a stream). So the messages of a stream are handled in a task of their own that is
never cancelled: after a reset its pending read ends as at the end of the stream, and the batch is freed as usual.
``tests/bench/leak.py`` measures it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from grpc import aio

from extproc.errors import StreamFailure
from extproc.loops import set_within
from extproc.transport.base import HEALTH_SECONDS, Encodable, HealthCheckError, ListenError, Processor, Stream, fault
from extproc.transport.listen import UNIX, SocketFile, bind_tcp, reachable
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse

MAX_INT32: Final = 2**31 - 1

_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


def _encode(reply: Encodable) -> bytes:
    return reply.SerializeToString()


class GrpcServer:
    """Serves ``Process`` and health on one address. It is a ``transport.base.Server``.

    Args:
        processor: the core.
        is_serving: what health checks answer.
        max_message: largest message taken, in bytes; for 0, and above what gRPC can express, there is no limit.
    """

    def __init__(self, processor: Processor, *, is_serving: Callable[[], bool], max_message: int = MAX_INT32) -> None:
        self._processor = processor
        self._is_serving = is_serving
        self._file: SocketFile | None = None
        self._address = ""
        self._stopping = asyncio.Event()
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
        """See ``transport.base.Server``."""
        if address.startswith(UNIX):
            file = SocketFile(address)
            file.take_over(lambda path: self._bind_unix(path, address), socket_mode)
            self._file = file
            self._address = file.target
            return self._address
        # gRPC only says that it failed; the system says why.
        bind_tcp(address).close()
        host, _, port = address.rpartition(":")
        bound = self._bind(f"{host or '[::]'}:{port}", address)
        self._address = f"{reachable(host)}:{bound}"
        return self._address

    def _bind_unix(self, path: str, address: str) -> None:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        Path(path).unlink()
        self._bind(f"unix:{path}", address.removeprefix(UNIX))

    def _bind(self, target: str, address: str) -> int:
        try:
            port: int = self._server.add_insecure_port(target)
        except RuntimeError as error:
            raise ListenError(f"listen {address}: {error}") from error
        return port

    async def start(self) -> None:
        """See ``transport.base.Server``."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """See ``transport.base.Server``."""
        # Who watches the health would hold up the end.
        self._stopping.set()
        await self._server.stop(grace)
        if self._file is not None:
            self._file.remove()

    def probe(self) -> HealthProbe:
        """See ``transport.base.Server``."""
        return HealthProbe(self._address)

    def _process_service(self) -> grpc.GenericRpcHandler:
        # The core reads messages itself.
        process = grpc.stream_stream_rpc_method_handler(self._process, None, _encode)
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
        """Tell the health as it is, and again whenever it has changed."""
        told = None
        while True:
            # Asked before the status, which may change while the former one is written.
            last = self._stopping.is_set()
            status = self._status()
            if status != told:
                await context.write(status)
                told = status
            if last:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "server stops")
            await set_within(self._stopping, HEALTH_SECONDS)


async def _exchange(stream: Stream, context: Any) -> StreamFailure | None:  # noqa: ANN401 - grpcio has no types
    """Feed every message of a stream to the core; return the status to end with, if it is not OK."""
    try:
        while (data := await context.read()) is not aio.EOF:
            reply = stream.feed(data)
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
        return fault(error)
    finally:
        stream.close()
    return None


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

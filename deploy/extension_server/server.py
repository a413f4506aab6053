"""The extension server over gRPC: the hooks and health on one address.

A hook is computed in a thread, so that health is answered meanwhile. Hooks of several gateways wait for one another:
they would only share the interpreter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from grpc import aio
from prometheus_client import CollectorRegistry

from deploy.extension_server.findings import Findings
from deploy.extension_server.hooks import HOOKS, NOT_ANSWERED, SERVICE, Hook
from deploy.extension_server.knowledge import Knowledge, NotKnownYet
from deploy.extension_server.metrics import HookMetrics
from deploy.extension_server.options import Options
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse

DEFAULT_ADDRESS: Final = "[::]:1063"
DEFAULT_MAX_MESSAGE: Final = 4 << 20
"""Largest request in bytes; Envoy Gateway has a limit of the same size for what it sends and gets."""

_NAME: Final = "envoy-gateway-extension-server"
_SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.SERVING)
_NOT_SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
_log = structlog.get_logger(__name__)


class ListenFailed(OSError):
    """The server cannot have its address. The text says which, and why."""


class ExtensionServer:
    """Serves the hooks.

    Args:
        knowledge: gives the resources of the moment; called once for each hook, in a thread. Where it raises
            ``NotKnownYet`` the hook fails, and Envoy Gateway leaves alone what Envoys have.
        options: how gateways are served.
        registry: where the metrics go.
        max_message: largest request taken, in bytes; 0: no limit.
        serving: what health says to begin with.
    """

    def __init__(
        self,
        knowledge: Callable[[], Knowledge],
        options: Options | None = None,
        *,
        registry: CollectorRegistry | None = None,
        max_message: int = DEFAULT_MAX_MESSAGE,
        serving: bool = True,
    ) -> None:
        self._knowledge = knowledge
        self._options = options or Options()
        self._metrics = HookMetrics(registry if registry is not None else CollectorRegistry())
        self._turn = asyncio.Lock()
        self._health_now = _SERVING if serving else _NOT_SERVING
        self._health_moves = asyncio.Event()
        self._stopping = False
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", max_message or -1),
                # What was taken grows by what the hook adds.
                ("grpc.max_send_message_length", -1),
                # Two processes on one port would share its connections; the second has to fail instead.
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers((self._hooks(), self._health()))

    def listen(self, address: str = DEFAULT_ADDRESS) -> int:
        """Take an address, ``host:port``, with port 0 any that is free; gives the port.

        Raises:
            ListenFailed: somebody else has it, or it is none.
        """
        try:
            port: int = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ListenFailed(f"listen {address}: {error}") from error
        return port

    async def start(self) -> None:
        """Begin to answer."""
        await self._server.start()

    async def stop(self, grace: float = 5.0) -> None:
        """Take no more hooks, and wait for those in progress, ``grace`` seconds at most."""
        # Who watches the health would hold up the end.
        self._stopping = True
        self._move()
        await self._server.stop(grace)

    def set_serving(self, *, serving: bool) -> None:
        """What health says from now on. Hooks are answered in any case, for who has not heard of it yet."""
        now = _SERVING if serving else _NOT_SERVING
        if now != self._health_now:
            self._health_now = now
            self._move()

    def _move(self) -> None:
        moved, self._health_moves = self._health_moves, asyncio.Event()
        moved.set()

    # --- hooks ---

    def _hooks(self) -> grpc.GenericRpcHandler:
        handlers = {name: self._handler(name, hook) for name, hook in HOOKS.items()}
        handlers |= {name: grpc.unary_unary_rpc_method_handler(_refuse) for name in NOT_ANSWERED}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _handler(self, name: str, hook: Hook) -> grpc.RpcMethodHandler:
        async def answer(body: bytes, context: Any) -> bytes:  # noqa: ANN401 - grpcio has no types
            begin = time.perf_counter()
            code = grpc.StatusCode.INTERNAL
            try:
                async with self._turn:
                    reply, findings = await asyncio.to_thread(self._answer, hook, body)
                code = grpc.StatusCode.OK
            except DecodeError:
                code = grpc.StatusCode.INVALID_ARGUMENT
                message = f"the request is no {hook.request.DESCRIPTOR.name}"
            except NotKnownYet as error:
                code = grpc.StatusCode.UNAVAILABLE
                message = str(error)
            except Exception as error:  # noqa: BLE001 - whatever the fault, the client gets a status and no traceback
                _log.error("hook failed", hook=name, error=repr(error))
                message = "the hook failed, see the log of the extension server"
            finally:
                self._metrics.hooks.labels(name, code.name).inc()
                self._metrics.seconds.labels(name).observe(time.perf_counter() - begin)
            if code is not grpc.StatusCode.OK:
                await context.abort(code, message)
            self._tell(name, findings)
            return reply

        return grpc.unary_unary_rpc_method_handler(answer)

    def _answer(self, hook: Hook, body: bytes) -> tuple[bytes, Findings]:
        findings = Findings()
        reply = hook.answer(hook.request.FromString(body), self._knowledge(), self._options, findings)
        return encode(reply), findings

    def _tell(self, name: str, findings: Findings) -> None:
        found = findings.closed()
        self._metrics.findings.labels(name).inc(len(found))
        for finding in found:
            _log.warning("not served", hook=name, resource=finding.resource, reason=finding.message)

    # --- health ---

    def _health(self) -> grpc.GenericRpcHandler:
        handlers = {
            "Check": grpc.unary_unary_rpc_method_handler(
                self._check, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
            ),
            "List": grpc.unary_unary_rpc_method_handler(
                self._list, HealthListRequest.FromString, HealthListResponse.SerializeToString
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                self._watch, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers)

    async def _check(self, _request: HealthCheckRequest, _context: object) -> HealthCheckResponse:
        return self._health_now

    async def _list(self, _request: HealthListRequest, _context: object) -> HealthListResponse:
        return HealthListResponse(statuses={_NAME: self._health_now})

    async def _watch(self, _request: HealthCheckRequest, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
        told = None
        while not self._stopping:
            moves = self._health_moves
            if told is not self._health_now:
                told = self._health_now
                await context.write(told)
                continue
            await moves.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "server stops")


def encode(message: Message) -> bytes:
    """The bytes of an answer, which are the same for the same content."""
    return message.SerializeToString(deterministic=True)


async def _refuse(_body: bytes, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this hook is not answered; do not subscribe to it")


async def serve(server: ExtensionServer, stopped: asyncio.Event, *, grace: float = 5.0) -> None:
    """Run a server that listens until ``stopped`` is set, and end it in order."""
    await server.start()
    try:
        await stopped.wait()
    finally:
        await server.stop(grace)

"""The quotas over gRPC, as a rate limit service with ``CONFIG_TYPE=GRPC_XDS_SOTW`` asks for them.

Nobody is answered before the first :meth:`QuotaXdsServer.publish`, which comes when the whole cluster has been read: a
service that was given some of the quotas would let everybody else pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc import aio
from prometheus_client import CollectorRegistry

from deploy.quota_xds.metrics import QuotaXdsMetrics
from deploy.quota_xds.snapshot import Snapshot, snapshot
from deploy.quota_xds.subscription import Subscription, Verdict
from filter_config.sources.model import Gateway
from protos.discovery_pb2 import DiscoveryRequest, DiscoveryResponse

DEFAULT_ADDRESS: Final = "0.0.0.0:18002"
NODE_ID: Final = "envoy-ai-gateway-ratelimit"
"""What the rate limit service calls itself (``CONFIG_GRPC_XDS_NODE_ID``)."""

_SERVICE: Final = "envoy.service.discovery.v3.AggregatedDiscoveryService"
_GRACE: Final = 5.0
_TOLD: Final = 1000
"""Longest text of a client's that is logged, and how many strangers are remembered."""
# A client whose host is gone says no goodbye.
_KEEPALIVE: Final = (("grpc.keepalive_time_ms", 60_000), ("grpc.keepalive_timeout_ms", 20_000))
_log = structlog.get_logger(__name__)


class ListenFailed(OSError):
    """The server cannot have its address. The text says which, and why."""


class _Client:
    """A stream: what it is to get, and the sign that this may have changed."""

    def __init__(self, node_id: str) -> None:
        self.subscription = Subscription(node_id=node_id)
        self.wake = asyncio.Event()
        self.has_ended = False
        self.is_garbled = False


class QuotaXdsServer:
    """Serves the quotas. Make it, publish and run it in one event loop.

    Args:
        address: ``host:port``; with port 0 any that is free, which :meth:`listen` gives.
        node_id: of the clients that get an answer; all others get none, and are named in the log once.
        registry: where the metrics go.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        node_id: str = NODE_ID,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._address = address
        self._node_id = node_id
        self._metrics = QuotaXdsMetrics(registry if registry is not None else CollectorRegistry())
        self._snapshot: Snapshot | None = None
        self._clients: set[_Client] = set()
        self._strangers: dict[str, None] = {}
        self._stopping = False
        self._server: Any = None

    # --- what there is ---

    @property
    def version(self) -> str:
        """Of what there is; empty before the first :meth:`publish`."""
        return self._snapshot.version if self._snapshot is not None else ""

    def publish(self, gateways: Iterable[Gateway]) -> None:
        """Takes the models of all gateways; clients get the quotas if these differ from what they have."""
        made = snapshot(gateways)
        self._metrics.published.set(1)
        if made.version == self.version:
            return
        self._snapshot = made
        self._metrics.changes.inc()
        self._metrics.limits.set(made.limits)
        self._wake()

    def _wake(self) -> None:
        for client in self._clients:
            client.wake.set()

    # --- the server ---

    def listen(self) -> int:
        """Takes the address, and gives the port.

        Raises:
            ListenFailed: somebody else has it, or it is none.
        """
        # Two processes on one port would share its connections; the second has to fail instead.
        self._server = aio.server(options=[("grpc.so_reuseport", 0), *_KEEPALIVE])
        handlers = {
            "StreamAggregatedResources": grpc.stream_stream_rpc_method_handler(
                self._stream, response_serializer=DiscoveryResponse.SerializeToString
            ),
            "DeltaAggregatedResources": grpc.stream_stream_rpc_method_handler(_refuse_delta),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        try:
            port: int = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise ListenFailed(f"listen {self._address}: {error}") from error
        return port

    async def start(self) -> None:
        """Begins to answer.

        Raises:
            ListenFailed: see :meth:`listen`, for which it is not too late.
        """
        if self._server is None:
            self.listen()
        await self._server.start()

    async def stop(self, grace: float = _GRACE) -> None:
        """Ends all streams, so that clients turn to another replica; one that hinders has ``grace`` seconds."""
        self._stopping = True
        self._wake()
        if self._server is not None:
            await self._server.stop(grace)

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until ``stop`` is set.

        Raises:
            ListenFailed: see :meth:`listen`.
        """
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()

    # --- a stream ---

    async def _stream(self, _requests: object, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
        client = _Client(self._node_id)
        self._clients.add(client)
        reader = asyncio.create_task(self._read(client, context))
        try:
            while not (client.has_ended or self._stopping):
                answer = client.subscription.due(self._snapshot)
                if answer is not None:
                    self._metrics.responses.inc()
                    await context.write(answer)
                    self._count_clients()
                await client.wake.wait()
                client.wake.clear()
        finally:
            reader.cancel()
            self._clients.discard(client)
            self._count_clients()
        if client.is_garbled:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "what was sent is no DiscoveryRequest")

    async def _read(self, client: _Client, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
        try:
            while (body := await context.read()) is not aio.EOF:
                self._take(client, DiscoveryRequest.FromString(body))
                client.wake.set()
        except DecodeError:
            client.is_garbled = True
        except aio.BaseError as error:
            _log.info("connection of a rate limit service lost", error=str(error))
        finally:
            client.has_ended = True
            client.wake.set()

    def _take(self, client: _Client, request: DiscoveryRequest) -> None:
        verdict = client.subscription.take(request)
        self._metrics.requests.labels(verdict.value).inc()
        self._count_clients()
        match verdict:
            case Verdict.REFUSED:
                reason = request.error_detail.message[:_TOLD]
                _log.error("quotas refused by the rate limit service", version=self.version, reason=reason)
            case Verdict.STRANGER:
                self._tell_stranger(client.subscription.node[:_TOLD])

    def _tell_stranger(self, node: str) -> None:
        if node in self._strangers or len(self._strangers) >= _TOLD:
            return
        self._strangers[node] = None
        _log.warning("no quotas for a node that is not the rate limit service", node=node, expected=self._node_id)

    def _count_clients(self) -> None:
        known = [client.subscription for client in self._clients if client.subscription.node == self._node_id]
        self._metrics.clients.set(len(known))
        self._metrics.refusing.set(sum(subscription.has_refused for subscription in known))


async def _refuse_delta(_requests: object, context: Any) -> None:  # noqa: ANN401 - grpcio has no types
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "only state of the world: ask StreamAggregatedResources")

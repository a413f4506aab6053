"""The parts of the control plane in one process: what begins when, who is ready, and the order in which it ends.

Addresses are taken first, so that one that is taken ends the process at once. Nobody is answered before everything in
the cluster was seen and compiled: an extension server that knew half of it would take filters away, and a webhook would
let pods pass without a processor. On SIGTERM the process first says that it is not ready and goes on answering, then
ends what is under way, and gives up the Lease last.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deploy.controller import webhook_certificates
from deploy.controller.api import KubeApi
from deploy.controller.errors import ControllerError
from deploy.controller.kinds import Key
from deploy.controller.service import ControllerService, ServiceOptions
from deploy.controller.webhook_certificates import KeptCertificate, MountedCertificate, Registration
from deploy.extension_server.knowledge import NotKnownYet, Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import DEFAULT_MAX_MESSAGE, ExtensionServer
from deploy.injector.options import SidecarOptions
from deploy.injector.server import InjectorMetrics, Webhook, WebhookServer, build_app
from deploy.injector.tls import TlsFiles, server_context
from deploy.quota_xds.server import QuotaXdsServer
from filter_config.sources.model import Gateway

Address = tuple[str, int]
"""Host, empty for all interfaces, and port, 0 for any that is free."""

GRACE: Final = 5.0
"""Seconds that hooks in progress have to end in."""
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NOT_KNOWN: Final = "the state of the cluster is not known yet"
_STOPPING: Final = "the process ends"
_log = structlog.get_logger(__name__)


class ListenFailed(OSError):
    """An address cannot be had; the text says which, what for, and why."""


class NotListed(ControllerError):
    """The cluster was not seen in time; the text says what of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectorPart:
    """The webhook.

    Attributes:
        sidecar: what it injects.
        files: its certificate and key.
        bundle: a file with who issued them, if there is one.
        secret: name of the Secret in which the certificate is made and kept; empty: somebody else makes it.
    """

    sidecar: SidecarOptions
    address: Address
    files: TlsFiles
    bundle: Path
    secret: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPart:
    """The extension server, and the quotas beside it, which belong to the limits that it writes."""

    options: Options
    address: Address
    quota_address: Address
    max_message: int = DEFAULT_MAX_MESSAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What runs.

    Attributes:
        service: the controller, which sees the cluster also where it does not write.
        injector: None: it runs elsewhere.
        extension: likewise.
        pages: where ``/metrics``, ``/health`` and ``/ready`` are.
        sync_timeout: seconds that it may take to list everything.
        drain: seconds of answering on after the end was asked for.
    """

    service: ServiceOptions
    injector: InjectorPart | None = None
    extension: ExtensionPart | None = None
    pages: Address
    sync_timeout: float = 120.0
    drain: float = 0.0


class Known:
    """The knowledge of the extension server: the gateways of the controller, once it knows all of them."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    def take(self, gateways: Sequence[Gateway]) -> None:
        """These are all."""
        self._snapshot = Snapshot(gateways)

    def __call__(self) -> Snapshot:
        """What is known now.

        Raises:
            NotKnownYet: not all is.
        """
        if self._snapshot is None:
            raise NotKnownYet(_NOT_KNOWN)
        return self._snapshot


def listen(address: Address, what: str) -> socket.socket:
    """A listening socket, for both IPv4 and IPv6 where no host is given.

    Raises:
        ListenFailed: somebody else has the address, or it is none of this machine.
    """
    host, port = address
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=1024)
    except OSError as error:
        raise ListenFailed(f"{what} cannot listen on {_shown(address)}: {_reason(error)}") from error


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: OSError) -> str:
    # Python puts the address behind the system's text; of a name that there is not, the number is none of the system.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def taken(take: Callable[[], int], address: Address, what: str) -> int:
    """The port of a server of gRPC, which takes its address itself.

    Raises:
        ListenFailed: it cannot have it.
    """
    try:
        return take()
    except OSError as error:
        # gRPC does not say why; a socket of ours does.
        listen(address, what).close()
        raise ListenFailed(f"{what} cannot listen on {_shown(address)}") from error


def grpc_address(address: Address) -> str:
    """An address as gRPC wants it."""
    host, port = address
    return f"[{host or '::'}]:{port}" if ":" in host or not host else f"{host}:{port}"


@dataclass(slots=True)
class Together:
    """The parts, which have their addresses already.

    Args:
        api: the API server; closed at the end.
        parts: what runs.

    Raises:
        ListenFailed: an address cannot be had.
        TlsError: the webhook's certificate is mounted, and cannot be used.
    """

    api: KubeApi
    parts: Parts
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    ports: dict[str, int] = field(default_factory=dict)
    """The ports that were taken, by what for."""
    service: ControllerService = field(init=False)
    _known: Known = field(default_factory=Known)
    _sockets: dict[str, socket.socket] = field(default_factory=dict)
    _extension: ExtensionServer | None = None
    _quotas: QuotaXdsServer | None = None
    _certificate: KeptCertificate | MountedCertificate | None = None
    _webhook: WebhookServer | None = None
    _stopping: bool = False
    _alive: list[asyncio.Task[None]] = field(default_factory=list)

    # --- what is made ---

    @asynccontextmanager
    async def _made(self) -> AsyncIterator[None]:
        """Everything made, with its addresses; given back in the end."""
        try:
            self.service = ControllerService(
                self.api, self.parts.service, registry=self.registry, gateways=self._publish
            )
            self._listen("metrics", self.parts.pages)
            if self.parts.injector is not None:
                self._make_injector(self.parts.injector)
            if self.parts.extension is not None:
                self._make_extension(self.parts.extension)
            for part, port in self.ports.items():
                _log.info("listening", part=part, port=port)
            yield
        finally:
            for bound in self._sockets.values():
                bound.close()
            for server in (self._extension, self._quotas):
                if server is not None:
                    await server.stop(0)
            await self.api.close()

    def _listen(self, what: str, address: Address) -> None:
        self._sockets[what] = listen(address, what)
        self.ports[what] = self._sockets[what].getsockname()[1]

    def _make_injector(self, part: InjectorPart) -> None:
        self._listen("webhook", part.address)
        namespace = self.parts.service.namespace
        registration = Registration(self.api, namespace)
        if part.secret:
            secret = Key("Secret", namespace, part.secret)
            watch = webhook_certificates.watching(self.api, secret, self.service.controller.metrics)
            self._certificate = KeptCertificate(self.api, watch, secret, registration, part.files)
        else:
            # Told now, and not when the cluster was seen.
            server_context(part.files)
            self._certificate = MountedCertificate(registration, part.bundle)

    def _make_extension(self, part: ExtensionPart) -> None:
        self._extension = ExtensionServer(
            self._known, part.options, registry=self.registry, max_message=part.max_message, serving=False
        )
        address = grpc_address(part.address)
        take = partial(self._extension.listen, address)
        self.ports["extension server"] = taken(take, part.address, "extension server")
        self._quotas = QuotaXdsServer(grpc_address(part.quota_address), registry=self.registry)
        self.ports["quotas"] = taken(self._quotas.listen, part.quota_address, "quotas")

    def _publish(self, gateways: Sequence[Gateway]) -> None:
        self._known.take(gateways)
        if self._quotas is not None:
            self._quotas.publish(gateways)

    # --- how it is ---

    def readiness(self) -> str:
        """Why not all of it can be used; empty when it can."""
        if self._stopping:
            return _STOPPING
        if missing := self.service.readiness():
            return missing
        if self._certificate is not None and not self._certificate.ready.is_set():
            return f"no certificate for the webhook: {self._certificate.problem}"
        return ""

    @property
    def is_alive(self) -> bool:
        """Whether all of it is still at work."""
        return self._stopping or (self.service.is_alive and not any(task.done() for task in self._alive))

    # --- how it runs ---

    async def run(self, stop: asyncio.Event) -> None:
        """Works until ``stop`` is set, and ends in order.

        Raises:
            ExceptionGroup: a part failed; all of it has ended then.
            ListenFailed: see the class.
            TlsError: likewise.
        """
        async with self._made(), asyncio.TaskGroup() as group:
            pages = WebhookServer(_pages(self), self._sockets["metrics"], None)
            stop_service = asyncio.Event()
            ends = [group.create_task(pages.run_until_stopped())]
            controlling = group.create_task(self.service.run(stop_service))
            ending = group.create_task(stop.wait())
            working = [
                group.create_task(each)
                for each in (self._run_certificate(), self._run_webhook(), self._become_ready(stop))
            ]
            self._alive = [*ends, controlling, working[0]]
            for server in (self._extension, self._quotas):
                if server is not None:
                    await server.start()
            await ending
            await self._drain()
            await self._end_serving(working)
            stop_service.set()
            await controlling
            pages.stop()

    async def _run_certificate(self) -> None:
        if self._certificate is None:
            await asyncio.Event().wait()
        else:
            await self._certificate.run()

    async def _run_webhook(self) -> None:
        part, certificate = self.parts.injector, self._certificate
        if part is None or certificate is None:
            return
        if part.secret:
            await certificate.ready.wait()
        hook = Webhook(
            facts=self.service.controller.facts,
            options=lambda: part.sidecar,
            metrics=InjectorMetrics(self.registry),
            ready=self.service.controller.ready.is_set,
        )
        self._webhook = WebhookServer(build_app(hook), self._sockets["webhook"], server_context(part.files))
        await self._webhook.run_until_stopped()

    async def _become_ready(self, stop: asyncio.Event) -> None:
        """Says that it is ready when it is; ends the process when the cluster is not seen in time."""
        try:
            async with asyncio.timeout(self.parts.sync_timeout):
                await self.service.listed()
        except TimeoutError:
            if stop.is_set():
                return
            kinds = ", ".join(self.service.missing())
            seconds = f"{self.parts.sync_timeout:g} s"
            raise NotListed(f"not listed within {seconds}: {kinds}; the log says why") from None
        await self.service.controller.ready.wait()
        if self._certificate is not None:
            await self._certificate.ready.wait()
        if not self._stopping and self._extension is not None:
            self._extension.set_serving(serving=True)
        _log.info("ready", parts=sorted(self.ports))

    # --- how it ends ---

    async def _drain(self) -> None:
        # Who was never told that it is ready is asked nothing.
        seconds = 0.0 if self.readiness() else self.parts.drain
        _log.info("ending", drain=seconds)
        self._stopping = True
        if self._extension is not None:
            self._extension.set_serving(serving=False)
        await asyncio.sleep(seconds)

    async def _end_serving(self, working: Sequence[asyncio.Task[None]]) -> None:
        certificate, webhook, readiness = working
        certificate.cancel()
        readiness.cancel()
        if self._webhook is not None:
            self._webhook.stop()
        else:
            webhook.cancel()
        servers = [server for server in (self._extension, self._quotas) if server is not None]
        await asyncio.gather(*(server.stop(GRACE) for server in servers))
        await asyncio.wait(working)


def _pages(together: Together) -> Starlette:
    """``/health``, ``/ready`` and ``/metrics`` of all parts."""

    async def health(_: Request) -> Response:
        return _text("OK") if together.is_alive else _text("a part of the process has ended", 503)

    async def ready(_: Request) -> Response:
        missing = together.readiness()
        return _text(missing, 503) if missing else _text("OK")

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(together.registry), headers={"Content-Type": _METRICS_TYPE})

    return Starlette(routes=[Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)])


def _text(line: str, status: int = 200) -> Response:
    return Response(f"{line}\n", status, media_type="text/plain")

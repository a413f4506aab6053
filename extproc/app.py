"""One processor process, from its settings to its last flush.

Sockets are bound before anything else can fail slowly, so that early connections wait in the kernel rather than being
refused (contract, start-up order 1.6). The only task group of the process is here. A first SIGTERM turns readiness off
and lets the process go on serving, so that Envoy's last requests still find it; then streams in flight get a bounded
time (contract, shutdown 1.7, and field report BR-107). A second one ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import structlog

import extproc
from extproc.admin.console import Console
from extproc.admin.pages import HealthUnknown, Pages, build_app
from extproc.admin.server import AdminListenError, AdminServer, listen
from extproc.admin.status import config_page, config_summary, readiness
from extproc.credentials import CredentialKeeper
from extproc.decoder import Decoder
from extproc.exchange.stream import Processor
from extproc.loops import runner, set_within
from extproc.options import endpoint_table, exchange_options
from extproc.reload import ConfigError, ConfigManager, Source, VersionRule
from extproc.settings import Settings
from extproc.telemetry.ledger import Ledger
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.otel import exports
from extproc.telemetry.otel import start as otel
from extproc.transport.base import HealthCheckError, ListenError, Probe, Server
from extproc.transport.engines import ENGINES
from extproc.transport.tls import TlsError, server_context
from filter_config.watch import BundleSource, FileSource

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from extproc.telemetry.otel.push import Pusher
    from extproc.telemetry.otel.traces import Tracing
    from extproc.workers.fleet import Fleet

_log = structlog.get_logger(__name__)

READY_LINE: Final = "AI Gateway External Processor is ready\n"
# Seconds between two looks at the requests in flight, and for how long their attempts are waited for.
_LOOK_AGAIN: Final = 0.02
_LAST_ATTEMPTS: Final = 5.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StartupError(Exception):
    """The process cannot start, or has to give up; the text is one for people, in the peer's words."""


class App:
    """The parts of a process and their order.

    Args:
        settings: every knob.
        environ: environment variables that are not settings, ``OTEL_*``.
        ready_to: where the readiness line goes.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, ready_to: TextIO | None = None) -> None:
        self._settings = settings
        self._environ = environ
        self._ready_to = ready_to or sys.stderr
        self._started_at = time.time()
        self._serving = False
        self._draining = False
        self._drain = asyncio.Event()
        self._hurry = asyncio.Event()
        self.metrics = Metrics(environ)
        self.ledger = Ledger() if settings.console else None
        self._endpoints = endpoint_table(settings)
        self._failure = ""
        self._fleet: Fleet | None = None
        # Of this process; workers keep their own.
        self._credentials: CredentialKeeper | None = None
        self._tracing: Tracing | None = None
        self.processor: Processor | Fleet
        self._grpc: Server
        try:
            self._build_server()
            self._pusher: Pusher | None = otel.pusher(environ, settings.metric_attributes, registry=self._registry)
        except TlsError as error:
            raise StartupError(f"failed to set up TLS: {error}") from error
        except exports.ExportError as error:
            raise StartupError(f"failed to set up telemetry: {error}") from error
        self._decoder = Decoder()
        self._configs = ConfigManager(
            config_source(settings),
            processor=self.processor,
            metrics=self.metrics,
            version=VersionRule(own=settings.version_string, relaxed=settings.relax_version_check),
            decoder=self._decoder,
            credentials=self._credentials,
            poll_interval=settings.config_poll_interval,
        )

    def _build_server(self) -> None:
        """The core and its server: in this process, or in workers."""
        settings = self._settings
        if settings.workers == 1:
            self._credentials = CredentialKeeper(self.metrics)
            self._tracing = otel.tracing(self._environ, settings.span_attributes)
            self.processor = Processor(
                metrics=self.metrics,
                options=exchange_options(settings, self._endpoints),
                ledger=self.ledger,
                tracer=None if self._tracing is None else self._tracing.tracer,
            )
            self._grpc = ENGINES[settings.transport](
                self.processor, is_serving=self.is_serving, max_message=settings.max_recv_msg_size, tls=settings.tls
            )
            return
        from extproc.workers.fleet import Fleet  # noqa: PLC0415 - one process needs none of it

        if settings.tls is not None:
            # Workers load it; what is wrong with it is better said before there are any.
            server_context(settings.tls)
        # Likewise.
        otel.check_tracing(self._environ, settings.span_attributes)
        self.processor = self._grpc = self._fleet = Fleet(
            settings, metrics=self.metrics, environ=self._environ, on_failure=self._give_up, ledger=self.ledger
        )

    def is_serving(self) -> bool:
        """What gRPC health says: a config is live and the process is not on its way out."""
        return self.processor.runtime is not None and not self._draining

    def is_ready(self) -> bool:
        """Whether traffic should be sent here: as ``is_serving``, and the listener accepts."""
        return self._serving and self.is_serving() and (self._fleet is None or self._fleet.serves)

    async def run(self) -> None:
        """Serve until a signal, then drain.

        Raises:
            StartupError: an address or the first config cannot be used.
        """
        settings = self._settings
        _announce(settings, self._environ)
        address, admin_socket = self._listen()
        asked = settings.ext_proc_addr
        _log.info("listening", address=address if asked.endswith(":0") else asked)
        with admin_socket:
            for path in self._endpoints.paths():
                _log.info("Registering processor", path=path)
            try:
                self._configs.load_first()
            except ConfigError as error:
                raise StartupError(f"failed to start config watcher: {error}") from error
            probe = self._grpc.probe()
            admin = AdminServer(build_app(self._pages(probe)), admin_socket)
            _log.info("starting admin server", address=_shown_address(admin_socket))
            try:
                await self._serve(admin)
            finally:
                await probe.close()
        if self._failure:
            raise StartupError(self._failure)

    def signalled(self) -> None:
        """A signal came: the first one drains, the second ends at once."""
        if self._draining:
            _log.warning("second signal, stopping now")
            self._hurry.set()
            return
        _log.info("signal received, shutting down...")
        self._start_draining()

    def _start_draining(self) -> None:
        self._draining = True
        self._drain.set()
        if self._fleet is not None:
            self._fleet.leave()

    def _give_up(self, failure: str) -> None:
        """Workers cannot be kept alive: whoever started this process has to hear of it."""
        self._failure = failure
        self._hurry.set()
        self._start_draining()

    def _listen(self) -> tuple[str, socket.socket]:
        settings = self._settings
        try:
            address = self._grpc.listen(settings.ext_proc_addr, socket_mode=settings.uds_mode)
        except ListenError as error:
            raise StartupError(f"failed to listen for external processor: {error}") from error
        try:
            return address, listen(settings.admin_host, settings.admin_port)
        except AdminListenError as error:
            raise StartupError(f"failed to listen for admin server: {error}") from error

    async def _serve(self, admin: AdminServer) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.signalled)
        # A terminal that closes, or an operator who means "reload": neither may cut streams.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        stop_watching = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(admin.run_until_stopped())
                await self._grpc.start()
                self._serving = not self._failure
                # What lives for good need not be walked by every collection.
                gc.collect()
                gc.freeze()
                if self._serving and not self._draining:
                    self._ready_to.write(READY_LINE)
                    self._ready_to.flush()
                passing = [tasks.create_task(self._decoder.warm_up())]
                if self._credentials is not None:
                    passing.append(tasks.create_task(self._credentials.run()))
                if self._pusher is not None:
                    passing.append(tasks.create_task(self._pusher.run(self._refresh)))
                tasks.create_task(self._configs.follow(stop_watching))
                await self._drain.wait()
                await self._shut_down()
                for task in passing:
                    task.cancel()
                await self._flush()
                stop_watching.set()
                admin.stop()
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            await self._decoder.close()

    async def _shut_down(self) -> None:
        """Go on serving for a while, then finish the requests in flight; a second signal cuts either short."""
        settings = self._settings
        await set_within(self._hurry, settings.drain_seconds)
        _log.info("shutting down the server now", requests_in_flight=self.processor.requests_in_flight)
        self.processor.close()
        # A request without response headers may open a stream for another attempt, so the listener stays until they are
        # here. Not for long: the requests that are turned away meanwhile wait for a successor.
        deadline = time.monotonic() + min(_LAST_ATTEMPTS, settings.shutdown_timeout)
        while self.processor.requests_awaiting_response and time.monotonic() < deadline:
            if await set_within(self._hurry, _LOOK_AGAIN):
                break
        await self._stop_grpc(0 if self._hurry.is_set() else settings.shutdown_timeout)
        self._serving = False

    async def _flush(self) -> None:
        """Export what is left, within a bound of its own; a second signal loses it."""
        flushing = asyncio.create_task(self._close_exports())
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({flushing, hurry}, return_when=asyncio.FIRST_COMPLETED)
        flushing.cancel()
        hurry.cancel()

    async def _close_exports(self) -> None:
        await asyncio.gather(*(part.close() for part in (self._tracing, self._pusher) if part is not None))

    async def _refresh(self) -> None:
        """Have metrics as of now."""
        if self._fleet is not None:
            await self._fleet.refresh()

    def _registry(self) -> CollectorRegistry:
        """What ``/metrics`` shows, and what is pushed."""
        return self.metrics.registry if self._fleet is None else self._fleet.registry

    async def _stop_grpc(self, grace: float) -> None:
        """Stop within ``grace`` seconds, or at once when a second signal comes.

        Never twice without grace: grpc.aio then touches a server that the other call has destroyed, and crashes.
        """
        if not grace:
            await self._grpc.stop(0)
            return
        finishing = asyncio.create_task(self._grpc.stop(grace))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({finishing, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not finishing.done():
            await self._grpc.stop(0)
        hurry.cancel()
        await finishing

    def _pages(self, probe: Probe) -> Pages:
        async def health() -> str:
            try:
                return await probe()
            except HealthCheckError as error:
                raise HealthUnknown(str(error)) from error

        fleet = self._fleet
        return Pages(
            registry=self._registry(),
            health=health,
            is_ready=self.is_ready,
            readiness=lambda: {
                **readiness(self._configs.status, draining=self._draining),
                **({} if fleet is None else fleet.readiness()),
            },
            config=lambda: {
                **config_page(
                    self._configs.status,
                    claimed=self._settings.version_string,
                    started_at=self._started_at,
                    now=time.time(),
                    credentials=None if self._credentials is None else self._credentials.states(),
                ),
                **({} if fleet is None else fleet.describe()),
            },
            refresh=None if fleet is None else fleet.refresh,
            console=None if self.ledger is None else self._console(self.ledger),
        )

    def _console(self, ledger: Ledger) -> Console:
        fleet = self._fleet
        return Console(
            ledger=ledger,
            peers=self._settings.console_peers,
            process=lambda: {
                "version": extproc.__version__,
                "claimed": self._settings.version_string,
                "started_at": round(self._started_at, 3),
                "ready": self.is_ready(),
                "draining": self._draining,
                "requests_in_flight": self.processor.requests_in_flight,
                "workers": None if fleet is None else fleet.describe()["workers"],
            },
            config=lambda: config_summary(
                self._configs.status,
                now=time.time(),
                credentials=None if self._credentials is None else self._credentials.states(),
            ),
        )


def config_source(settings: Settings) -> Source:
    """Where the settings say that the filter config is; a bundle goes before a single file."""
    if settings.config_bundle_path:
        return BundleSource(Path(settings.config_bundle_path))
    return FileSource(Path(settings.config_path))


def run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Run a process to its end, on uvloop where it is installed.

    Raises:
        StartupError: it cannot start.
    """

    async def serve() -> None:
        await App(settings, environ).run()

    with runner() as loop:
        loop.run(serve())


def _shown_address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announce(settings: Settings, environ: Mapping[str, str]) -> None:
    _log.info(
        "starting external processor",
        version=settings.version_string,
        address=settings.ext_proc_addr,
        configPath=settings.config_path,
        configBundlePath=settings.config_bundle_path,
    )
    if settings.ignored:
        _log.warning("arguments are not read, the first of them is no flag", arguments=" ".join(settings.ignored))
    without_effect = (*settings.pending, *exports.without_effect(environ))
    if without_effect:
        _log.warning("settings without effect in this version", settings=",".join(without_effect))

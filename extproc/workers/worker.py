"""A worker: a core and an HTTP/2 server on the connections that the supervisor hands over.

It does what it is told on its channel, and ends when the channel does, for then the supervisor is gone. A config is
built in a thread, so that streams do not notice. SIGTERM and the like are the supervisor's: whoever stops a whole group
of processes must not cut what the supervisor lets finish.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from extproc.credentials import CredentialKeeper
from extproc.errors import ExtProcError
from extproc.exchange.stream import Processor
from extproc.options import endpoint_table, exchange_options
from extproc.runtime import Runtime, build_runtime
from extproc.telemetry import logs
from extproc.telemetry.ledger import Ledger
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.otel import start as otel
from extproc.telemetry.snapshot import EMPTY
from extproc.transport.http2.server import Http2Server
from extproc.transport.tls import server_context
from extproc.workers.handing import Handed, Lost, Taker, Use
from extproc.workers.links import Links
from extproc.workers.messages import (
    ORDERS,
    Answer,
    Ask,
    Channel,
    Close,
    Configure,
    Configured,
    Counts,
    Leave,
    Ready,
    Refused,
    Report,
    Shed,
    Start,
    Stop,
)
from filter_config.load import Problem
from filter_config.model import Config

_log = structlog.get_logger(__name__)

REPORT_SECONDS: Final = 1.0
"""Seconds between two reports nobody asked for: what a worker counts after the last one is lost when it is killed."""
_SHARE: Final = 100
"""Reports are at most so frequent that they take one part in so many of the time."""
_PART: Final = 100
"""Histograms in one part of a report. Streams have their turn between two parts: a few thousand take 50 ms."""
_CLOSING_SECONDS: Final = 0.02
_AT_ONCE: Final = 64


class _Server(Http2Server):
    """Says when a connection has ended."""

    def __init__(self, processor: Processor, *, on_gone: Callable[[], None], **options: Any) -> None:  # noqa: ANN401
        super().__init__(processor, **options)
        self._on_gone = on_gone

    def gone(self, shell: Any) -> None:  # noqa: ANN401 - as its base
        super().gone(shell)
        self._on_gone()


class Worker:
    """The parts of a worker.

    Args:
        start: what the supervisor said first.
        environ: environment variables that are not settings.
        taker: where connections and links come from.
        tell: says something to the supervisor.
        build: makes a runtime of a config; by default one that keeps the credentials that are known.
    """

    def __init__(
        self,
        start: Start,
        environ: Mapping[str, str],
        *,
        taker: Taker,
        tell: Callable[[Answer], None],
        build: Callable[..., Runtime] | None = None,
    ) -> None:
        settings = start.settings
        self._taker = taker
        self._tell = tell
        self._build = build or self._build_runtime
        self._leaving = False
        self._closed = False
        self._gone = 0
        self._told_of_gone = False
        self._wanted: Configure | None = None
        self._building: asyncio.Task[None] | None = None
        self._stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stopped = asyncio.Event()
        # The order to stop was said again: what is left to be exported is lost.
        self._hurry = asyncio.Event()
        self.metrics = Metrics(environ)
        self.credentials = CredentialKeeper(self.metrics)
        self.ledger = Ledger() if settings.console else None
        self._tracing = otel.tracing(environ, settings.span_attributes)
        self.processor = Processor(
            metrics=self.metrics,
            options=exchange_options(settings, endpoint_table(settings)),
            ledger=self.ledger,
            owner=start.owner,
            tracer=None if self._tracing is None else self._tracing.tracer,
        )
        self.links = Links(
            self.processor,
            lambda: self.server,
            look=self.take,
            counted=self.metrics.relayed,
        )
        self.server = _Server(
            self.processor,
            is_serving=self.is_serving,
            max_message=settings.max_recv_msg_size,
            tls=None if settings.tls is None else server_context(settings.tls),
            relay=self.links,
            on_gone=self._count_gone,
        )

    def is_serving(self) -> bool:
        """What gRPC health says."""
        return self.processor.runtime is not None and not self._leaving

    def obey(self, order: object) -> None:
        """Do what the supervisor wants."""
        match order:
            case Configure():
                self._wanted = order
                if self._building is None:
                    self._building = self._spawn(self._take_configs())
            case Ask(number=number):
                self._spawn(self.report(number))
            case Leave():
                self._leaving = True
            case Close():
                self._close()
            case Shed(connections=connections):
                self.server.shed(connections)
            case Stop(grace=grace):
                self._stop(grace)
            case _:
                raise AssertionError(f"no order: {order!r}")

    # Connections and links

    def take(self) -> None:
        """Take what was handed over."""
        try:
            for _ in range(_AT_ONCE):
                handed = self._taker.take()
                if handed is None:
                    return
                self._take(handed)
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._taker)

    def _take(self, handed: Handed | Lost) -> None:
        match handed:
            case Lost(use=use):
                _log.error("too many files are open, a socket was lost", use=use.name)
                if use in (Use.CONNECTION, Use.PROBE):
                    self._count_gone()
            case Handed(use=Use.TO_OWNER):
                self.links.to_owner(handed.socket, handed.worker, handed.incarnation)
            case Handed(use=Use.FROM_STRANGER):
                self.links.from_stranger(handed.socket)
            case Handed():
                self._spawn(self._serve(handed))

    async def _serve(self, handed: Handed) -> None:
        try:
            await self.server.take(handed.socket, secure=handed.use is Use.CONNECTION)
        except (OSError, EOFError) as error:
            # No handshake, or a peer that has left meanwhile; the server has not seen the connection.
            _log.debug("connection failed", error=str(error))
            handed.socket.close()
            self._count_gone()

    def _count_gone(self) -> None:
        self._gone += 1
        if not self._told_of_gone:
            # Connections often end together.
            self._told_of_gone = True
            asyncio.get_running_loop().call_soon(self._tell_of_gone)

    def _tell_of_gone(self) -> None:
        self._told_of_gone = False
        self._tell(self._counts())

    # Configs

    async def _take_configs(self) -> None:
        """Build the newest config that is wanted, and again if there is another by then."""
        while (wanted := self._wanted) is not None:
            self._wanted = None
            try:
                runtime = await asyncio.to_thread(
                    self._build, wanted.config, digest=wanted.digest, problems=wanted.problems
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, the live config goes on serving
                reason = str(error) if isinstance(error, ExtProcError) else f"internal error: {type(error).__name__}"
                _log.error("config refused by a worker", digest=wanted.digest, error=reason, exc_info=error)
                self._tell(Refused(digest=wanted.digest, reason=reason))
                continue
            first = self.processor.runtime is None
            self.processor.runtime = runtime
            self.credentials.keep(runtime.cells)
            if first:
                # What lives for good need not be walked by every collection.
                gc.collect()
                gc.freeze()
            self._tell(Configured(digest=wanted.digest))
        self._building = None

    def _build_runtime(self, config: Config, *, digest: str, problems: Sequence[Problem]) -> Runtime:
        return build_runtime(config, digest=digest, problems=problems, known=self.credentials.known)

    # Reports

    async def report(self, number: int = 0) -> float:
        """Tell the supervisor everything that is counted here; gives the seconds that it took."""
        spent = 0.0
        self._tell(self._counts())
        started = time.perf_counter()
        for part in self.metrics.parts(_PART):
            self._tell(Report(metrics=part, number=number))
            spent += time.perf_counter() - started
            await asyncio.sleep(0)
            started = time.perf_counter()
        ended = [] if self.ledger is None else self.ledger.take()
        self._tell(Report(metrics=EMPTY, ended=ended, number=number, more=False))
        return spent

    async def report_regularly(self) -> None:
        """Report for as long as the worker lives."""
        while True:
            spent = await self.report()
            await asyncio.sleep(max(REPORT_SECONDS, _SHARE * spent))

    def _counts(self) -> Counts:
        processor = self.processor
        return Counts(
            gone=self._gone,
            in_flight=processor.requests_in_flight,
            awaiting_response=processor.requests_awaiting_response,
            closed=self._closed,
        )

    # The end

    def _close(self) -> None:
        self.processor.close()
        if not self._closed:
            self._closed = True
            self._spawn(self._count_often())

    async def _count_often(self) -> None:
        while not self.stopped.is_set():
            self._tell(self._counts())
            await asyncio.sleep(_CLOSING_SECONDS)

    def _stop(self, grace: float) -> None:
        if self._stopping:
            self._hurry.set()
        self._stopping = True
        self.take()
        self._spawn(self._stop_within(grace))

    async def _stop_within(self, grace: float) -> None:
        await self.server.stop(grace)
        self.stopped.set()

    async def flush(self) -> None:
        """Export the spans that are left, within a bound; see ``app``."""
        if self._tracing is None:
            return
        flushing = asyncio.create_task(self._tracing.close())
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({flushing, hurry}, return_when=asyncio.FIRST_COMPLETED)
        flushing.cancel()
        hurry.cancel()

    def _spawn(self, work: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("fault in a worker", exc_info=error)


async def work(control: socket.socket, handing: socket.socket, environ: Mapping[str, str]) -> None:
    """Serve until the supervisor says stop, or is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel = await Channel.on(control, ORDERS)
    start = await channel.receive()
    if start is None:
        return
    assert isinstance(start, Start), "the first message says what to be"
    structlog.contextvars.bind_contextvars(worker=start.owner.name)
    logs.configure(start.settings.log_level, start.settings.log_format)
    taker = Taker(handing)
    worker = Worker(start, environ, taker=taker, tell=channel.send)
    loop = asyncio.get_running_loop()
    loop.add_reader(taker, worker.take)
    channel.send(Ready())
    reporting = asyncio.create_task(worker.report_regularly())
    keeping = asyncio.create_task(worker.credentials.run())
    orders = asyncio.create_task(_follow(channel, worker))
    stopped = asyncio.create_task(worker.stopped.wait())
    await asyncio.wait({orders, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not stopped.done():
        # The supervisor is gone, or a fault ended its orders: nobody can drain, and no orphan may stay.
        await worker.server.stop(0)
    loop.remove_reader(taker)
    await worker.flush()
    await worker.report()
    await channel.close()
    helping = {reporting, keeping, orders, stopped}
    for task in helping:
        task.cancel()
    await asyncio.wait(helping)
    worker.links.close()
    if orders.done() and not orders.cancelled():
        orders.result()


async def _follow(channel: Channel, worker: Worker) -> None:
    while (order := await channel.receive()) is not None:
        worker.obey(order)

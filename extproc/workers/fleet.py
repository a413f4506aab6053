"""The supervisor's side: workers started, fed, replaced and stopped; together they look like one server and one core.

The process (``extproc.app``) assigns a runtime to it, listens through it, and stops it, as it does with a processor and
a server of its own. A worker that dies is replaced after a pause that grows while it keeps dying; only its own streams
are lost, and its counts are kept.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from extproc.loops import set_within
from extproc.runtime import Runtime
from extproc.settings import Settings
from extproc.telemetry.ledger import Ledger
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.snapshot import Snapshot
from extproc.workers.door import Door
from extproc.workers.handing import Use
from extproc.workers.health import FleetProbe
from extproc.workers.messages import (
    Ask,
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
    framed,
)
from extproc.workers.seat import Refused as RefusedConfig
from extproc.workers.seat import Seat, State
from filter_config.load import Problem

_log = structlog.get_logger(__name__)

_FRESH: Final = 1.0
"""Seconds that a page of metrics waits for a worker; of one that does not answer the last report counts."""
_LINGER: Final = 5.0
"""Seconds that a worker may take to end, over what it was given."""

Policy: TypeAlias = Callable[[socket.socket, Sequence[Seat]], Seat]
"""Chooses the worker that gets a connection among those that serve."""


def fewest_connections(_connection: socket.socket, seats: Sequence[Seat]) -> Seat:
    """The worker with the fewest open connections; among equals the one that has waited longest for one."""
    return min(seats, key=lambda seat: (seat.open_connections, seat.given_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endurance:
    """How deaths of workers are taken.

    Attributes:
        first_pause: seconds before a worker that died is replaced; doubled with each further death in a row.
        last_pause: what the pauses do not exceed.
        settled: seconds after which a worker's death does not count as one in a row.
        deaths: so many in a row of one worker end the process.
        first_deaths: the same before all have served for the first time.
        start: seconds that a worker has to start.
    """

    first_pause: float = 0.1
    last_pause: float = 5.0
    settled: float = 60.0
    deaths: int = 10
    first_deaths: int = 3
    start: float = 60.0


_ENDURANCE: Final = Endurance()


class Fleet:
    """Several workers behind one address. It is a ``transport.base.Server``, and what a reload and a drain act on.

    Args:
        settings: every knob; workers get them as they are.
        metrics: what the supervisor itself counts.
        environ: environment variables that are not settings.
        on_failure: called with a text for people when workers die over and over.
        ledger: takes what ends in the workers; None where nobody looks at it.
        policy: chooses the worker for a connection.
        endurance: see there.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        metrics: Metrics,
        environ: Mapping[str, str],
        on_failure: Callable[[str], None],
        ledger: Ledger | None = None,
        policy: Policy = fewest_connections,
        endurance: Endurance = _ENDURANCE,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._environ = environ
        self._on_failure = on_failure
        self._ledger = ledger
        self._policy = policy
        self._endurance = endurance
        group = secrets.token_hex(4)
        self.seats = [Seat(number, group) for number in range(1, settings.workers + 1)]
        self._door = Door(self._give)
        # What was on its way to a worker that died, while there is no other.
        self._homeless: list[socket.socket] = []
        self._runtime: Runtime | None = None
        self._config: bytes | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._started = self._closing = self._leaving = self._failed = False
        self._stopping = asyncio.Event()
        self._given = count(1)
        self._questions = count(1)
        self._awaited: dict[int, set[Seat]] = {}
        # What workers that are no more have counted.
        self._ended = Metrics(environ)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Merged(self))
        metrics.workers(0)

    # As a core

    @property
    def runtime(self) -> Runtime | None:
        """The config of all workers. Each builds its own of what is assigned, and may refuse to."""
        return self._runtime

    @runtime.setter
    def runtime(self, runtime: Runtime | None) -> None:
        assert runtime is not None, "a config is replaced, never taken away"
        self._runtime = runtime
        # The backends that are disabled, and why; that is all that a runtime is made of beside its config.
        faults = tuple(
            Problem(severity="fault", path="", message=reason, backend=name) for name, reason in runtime.faults.items()
        )
        self._config = framed(Configure(digest=runtime.digest, config=runtime.config, problems=faults))
        for seat in self.seats:
            seat.order_framed(self._config)

    @property
    def requests_in_flight(self) -> int:
        """Client requests whose router-level stream is open, as of the last reports."""
        return sum(seat.counts.in_flight for seat in self.seats)

    @property
    def requests_awaiting_response(self) -> int:
        """Those of them that may see another attempt; more than none while a worker has not yet followed ``close``."""
        unsure = self._closing and any(not seat.counts.closed for seat in self.serving())
        return sum(seat.counts.awaiting_response for seat in self.seats) + unsure

    def leave(self) -> None:
        """Let health checks know that the process is on its way out."""
        self._leaving = True
        self._changed.set()
        self._tell_all(Leave())

    def close(self) -> None:
        """Take no further client requests; see ``exchange.stream.Processor.close``."""
        self._closing = True
        self._tell_all(Close())

    # As a server

    def listen(self, address: str, *, socket_mode: int = 0o775) -> str:
        """See ``transport.base.Server``."""
        return self._door.listen(address, socket_mode=socket_mode)

    async def start(self) -> None:
        """Start the workers; returns when all serve, or when there is no point in waiting for it."""
        self._keepers = [asyncio.create_task(self._keep_or_fail(seat)) for seat in self.seats]
        while not (self._failed or self._leaving or len(self.serving()) == len(self.seats)):
            self._changed.clear()
            await self._changed.wait()
        self._started = True
        self._turn_door()

    async def stop(self, grace: float) -> None:
        """See ``transport.base.Server``."""
        self._stopping.set()
        self._changed.set()
        self._door.close()
        for seat in self.seats:
            if seat.ready:
                seat.order(Stop(grace=grace))
            else:
                seat.kill()
        if self._keepers:
            _, late = await asyncio.wait(self._keepers, timeout=grace + _LINGER)
            for seat in self.seats if late else ():
                seat.kill()
            await asyncio.wait(self._keepers)
        for connection in self._homeless:
            connection.close()
        self._door.remove()

    def probe(self) -> FleetProbe:
        """See ``transport.base.Server``."""
        return FleetProbe(self.serving)

    # For pages

    @property
    def serves(self) -> bool:
        """Whether there is a worker with a config: enough to serve."""
        return any(seat.digest for seat in self.serving())

    def serving(self) -> list[Seat]:
        """The workers that take connections."""
        return [seat for seat in self.seats if seat.state is State.SERVING]

    async def refresh(self) -> None:
        """Have every worker report, so that metrics are as of now."""
        number = next(self._questions)
        asked = self._awaited[number] = {seat for seat in self._alive() if seat.ready}
        for seat in asked:
            seat.order(Ask(number=number))
        deadline = time.monotonic() + _FRESH
        while asked and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            if not await set_within(self._changed, left):
                break
        del self._awaited[number]

    def readiness(self) -> dict[str, Any]:
        """For ``/ready``: how many workers serve, of how many, and how many of them with another config."""
        serving = self.serving()
        live = self._runtime.digest if self._runtime is not None else ""
        return {
            "workers": {
                "wanted": len(self.seats),
                "serving": len(serving),
                "with_another_config": sum(seat.digest != live for seat in serving),
            }
        }

    def describe(self) -> dict[str, Any]:
        """For ``/config``: each worker, and which config it has."""
        workers = [
            {
                "worker": seat.owner.name,
                "state": str(seat.state),
                "pid": seat.pid if seat.state is not State.ENDED else None,
                "hash": seat.digest or None,
                "refused": {"hash": seat.refused.digest, "reason": seat.refused.reason} if seat.refused else None,
                "connections": seat.open_connections if seat.state is not State.ENDED else 0,
                "requests_in_flight": seat.counts.in_flight,
                "deaths": seat.deaths,
            }
            for seat in self.seats
        ]
        return {"workers": workers}

    def merged(self) -> Metrics:
        """One set of metrics over the supervisor, all workers, and those that are no more."""
        whole = Metrics(self._environ)
        for part in (self._metrics.snapshot(), *(seat.snapshot for seat in self.seats)):
            whole.absorb(part)
        whole.absorb(self._ended.snapshot(), ended=True)
        return whole

    # Connections

    def _give(self, connection: socket.socket) -> None:
        seat = self._policy(connection, self.serving())
        seat.given_at = next(self._given)
        seat.give(Use.CONNECTION, connection)

    def _turn_door(self) -> None:
        """Accept while anybody serves; what comes meanwhile waits in the kernel."""
        self._metrics.workers(len(self.serving()))
        while self._homeless and self.serving():
            self._give(self._homeless.pop(0))
        if self._started and self.serving() and not self._stopping.is_set():
            self._door.open()
        else:
            self._door.shut()
        self._changed.set()

    def _link(self, seat: Seat) -> None:
        """Join a worker that has started with all others, for both directions of asking."""
        for other in self._alive():
            if other is seat or not other.ready:
                continue
            for stranger, owner in ((seat, other), (other, seat)):
                asks, answers = socket.socketpair()
                owner.give(Use.FROM_STRANGER, answers, stranger.owner)
                stranger.give(Use.TO_OWNER, asks, owner.owner)

    def _balance(self) -> None:
        """Have connections come back that went to others while a worker was missing."""
        seats = self.serving()
        fair = -(-sum(seat.open_connections for seat in seats) // len(seats))
        for seat in seats:
            if seat.open_connections > fair:
                seat.order(Shed(connections=seat.open_connections - fair))

    # Workers

    def _alive(self) -> list[Seat]:
        return [seat for seat in self.seats if seat.state is not State.ENDED]

    def _tell_all(self, order: Leave | Close) -> None:
        message = framed(order)
        for seat in self._alive():
            seat.order_framed(message)

    async def _keep_or_fail(self, seat: Seat) -> None:
        try:
            await self._keep(seat)
        except Exception as error:  # noqa: BLE001 - whatever it is, a seat must not stay empty without a word
            _log.exception("fault in the supervisor", worker=seat.owner.name)
            seat.kill()
            self._fail(f"internal error: {type(error).__name__}")

    async def _keep(self, seat: Seat) -> None:
        """Have a worker in a seat, until the fleet stops or it is clear that none can be had."""
        in_a_row = 0
        while not self._stopping.is_set():
            reason = await self._one_life(seat)
            if self._stopping.is_set():
                return
            lived = time.monotonic() - seat.started_at
            in_a_row = in_a_row + 1 if lived < self._endurance.settled else 1
            seat.deaths += 1
            self._metrics.worker_ended()
            bound = self._endurance.deaths if self._started else self._endurance.first_deaths
            pause = min(self._endurance.first_pause * 2 ** (in_a_row - 1), self._endurance.last_pause)
            _log.error(
                "worker died",
                worker=seat.owner.name,
                reason=reason,
                lived=round(lived, 3),
                in_a_row=in_a_row,
                pause=pause,
            )
            if in_a_row >= bound:
                self._fail(f"worker {seat.number} died {in_a_row} times in a row, the last time with {reason}")
                return
            await set_within(self._stopping, pause)

    async def _one_life(self, seat: Seat) -> str:
        """Start a process, listen to it until it ends, and bury it; how it ended."""
        try:
            await seat.start()
        except OSError as error:
            return f"no start: {error}"
        timer = asyncio.get_running_loop().call_later(self._endurance.start, seat.kill)
        refused = ""
        try:
            seat.order(Start(settings=self._settings, owner=seat.owner))
            if self._config is not None:
                seat.order_framed(self._config)
            for said, order in ((self._leaving, Leave()), (self._closing, Close())):
                if said:
                    seat.order(order)
            if self._stopping.is_set():
                seat.kill()
            while (answer := await seat.answer()) is not None:
                if isinstance(answer, Refused) and seat.state is State.STARTING:
                    refused = answer.reason
                self._hear(seat, answer)
                if seat.state is State.SERVING:
                    timer.cancel()
        finally:
            timer.cancel()
            status = await self._bury(seat)
        return f"no config: {refused}" if refused else _how(status)

    async def _bury(self, seat: Seat) -> int:
        seat.state = State.ENDED
        self._homeless += seat.left_over()
        self._turn_door()
        self._ended.absorb(seat.snapshot, ended=True)
        seat.forget()
        for asked in self._awaited.values():
            asked.discard(seat)
        return await seat.ended(_LINGER)

    def _hear(self, seat: Seat, answer: object) -> None:
        match answer:
            case Ready():
                seat.ready = True
                self._link(seat)
                if self._config is None:
                    self._let_serve(seat)
            case Configured(digest=digest):
                seat.digest = digest
                seat.refused = None
                if seat.state is State.STARTING:
                    self._let_serve(seat)
            case Refused(digest=digest, reason=reason):
                seat.refused = RefusedConfig(digest=digest, reason=reason)
                self._metrics.config_reload("refused_by_worker")
                if seat.state is State.STARTING:
                    # It has no older config to serve with.
                    seat.kill()
            case Counts():
                seat.counts = answer
            case Report():
                self._note(seat, answer)
            case _:
                raise AssertionError(f"no answer: {answer!r}")

    def _let_serve(self, seat: Seat) -> None:
        seat.state = State.SERVING
        _log.info("worker serves", worker=seat.owner.name, pid=seat.pid)
        self._turn_door()
        if self._started:
            self._balance()

    def _note(self, seat: Seat, report: Report) -> None:
        if self._ledger is not None:
            self._ledger.absorb(report.ended)
        seat.parts.setdefault(report.number, []).append(report.metrics)
        if report.more:
            return
        seat.snapshot = Snapshot.whole(seat.parts.pop(report.number))
        asked = self._awaited.get(report.number)
        if asked is not None:
            asked.discard(seat)
            self._changed.set()

    def _fail(self, text: str) -> None:
        if not self._failed:
            self._failed = True
            self._changed.set()
            self._on_failure(text)


class _Merged(Collector):
    """The metrics of a fleet, as one process would have them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        yield from self._fleet.merged().registry.collect()


def _how(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"

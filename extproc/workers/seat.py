"""The place of one worker: the process that holds it now, and what is known of it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from extproc.exchange.owners import Owner
from extproc.telemetry.snapshot import EMPTY, Snapshot
from extproc.workers.handing import Giver, Handed, Use
from extproc.workers.messages import ANSWERS, Answer, Channel, Counts, Order, framed

_ROOT: Final = str(Path(__file__).resolve().parents[2])


class State(StrEnum):
    """What a worker can do now."""

    STARTING = "starting"
    SERVING = "serving"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The config that a worker could not use, and why."""

    digest: str
    reason: str


class Seat:
    """A worker's place.

    Attributes:
        number: of the worker, from 1.
        owner: who the present process is.
        state: what it can do.
        handed: connections that it was given.
        given_at: the count of all connections when it got its last one; for a fair order.
        counts: what it said last.
        snapshot: its metrics, as last seen.
        parts: of reports that are still coming, by number.
        digest: content hash of the config that it serves with; empty for none.
        refused: the last config that it could not use, if it serves with an older one.
        started_at: when its process was started, by a monotonic clock.
        deaths: how many of its processes have died.
    """

    def __init__(self, number: int, group: str) -> None:
        self.number = number
        self.owner = Owner(group=group, worker=number, incarnation=0)
        self.state = State.ENDED
        self.ready = False
        self.handed = 0
        self.given_at = 0
        self.counts = Counts()
        self.snapshot: Snapshot = EMPTY
        self.parts: dict[int, list[Snapshot]] = {}
        self.digest = ""
        self.refused: Refused | None = None
        self.started_at = 0.0
        self.deaths = 0
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._giver: Giver | None = None

    @property
    def open_connections(self) -> int:
        """Connections that it was given and that are not closed."""
        return self.handed - self.counts.gone

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the next process.

        Raises:
            OSError: it cannot be started.
        """
        self.owner = Owner(group=self.owner.group, worker=self.number, incarnation=self.owner.incarnation + 1)
        self.forget()
        self.started_at = time.monotonic()
        control, its_control = socket.socketpair()
        handing, its_handing = socket.socketpair()
        try:
            self._process = await _spawn(its_control, its_handing)
        except BaseException:
            control.close()
            handing.close()
            raise
        finally:
            its_control.close()
            its_handing.close()
        self.state = State.STARTING
        self._giver = Giver(handing)
        self._channel = await Channel.on(control, ANSWERS)

    def forget(self) -> None:
        """Forget what was known of a process that is no more."""
        self.ready = False
        self.handed = self.given_at = 0
        self.counts = Counts()
        self.snapshot = EMPTY
        self.parts.clear()
        self.digest = ""
        self.refused = None

    def order(self, order: Order) -> None:
        """Tell it to do something; without effect when it has ended."""
        self.order_framed(framed(order))

    def order_framed(self, order: bytes) -> None:
        """The same with what several are told."""
        if self._channel is not None and self.state is not State.ENDED:
            self._channel.send_framed(order)

    async def answer(self) -> Answer | None:
        """What it says next; None when it has ended."""
        assert self._channel is not None
        said: Any = await self._channel.receive()
        answer: Answer | None = said
        return answer

    def give(self, use: Use, given: socket.socket, owner: Owner | None = None) -> None:
        """Hand it a socket, which then is not ours any more."""
        if self._giver is None or self.state is State.ENDED:
            given.close()
            return
        if use in (Use.CONNECTION, Use.PROBE):
            self.handed += 1
        worker, incarnation = (owner.worker, owner.incarnation) if owner is not None else (0, 0)
        self._giver.give(Handed(use, given, worker, incarnation))

    async def ended(self, patience: float) -> int:
        """Wait for the end of the process, whose channel has ended, and clean up; the exit status.

        Args:
            patience: seconds after which it is killed.
        """
        assert self._process is not None
        self.state = State.ENDED
        try:
            async with asyncio.timeout(patience):
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            status = await self._process.wait()
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        return status

    def left_over(self) -> list[socket.socket]:
        """The connections that it was to get and has not, to be given to others."""
        left = self._giver.close() if self._giver is not None else []
        self._giver = None
        for handed in left:
            if handed.use is not Use.CONNECTION:
                handed.socket.close()
        return [handed.socket for handed in left if handed.use is Use.CONNECTION]

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()


async def _spawn(control: socket.socket, handing: socket.socket) -> Process:
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "extproc.workers",
        str(control.fileno()),
        str(handing.fileno()),
        pass_fds=(control.fileno(), handing.fileno()),
        stdin=DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        # A Ctrl-C in the terminal is for the supervisor.
        start_new_session=True,
    )

"""Leader election by a Lease: a state machine of what was read and a clock, and the loop around it.

Clocks of replicas differ, so nothing in a Lease is compared with one: a Lease is expired when it has not changed for
its duration while it was being looked at. Who leads stops doing so well before anybody else may think that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

import structlog

from deploy.controller.errors import ApiFailed, ControllerError
from deploy.controller.kinds import LEASE, Key, Kind, Object

DURATION: Final = 15.0
"""Seconds after which others may take over from a leader that is not heard of."""
DEADLINE: Final = 10.0
"""Seconds after which a leader that could not renew stops to lead."""
RETRY: Final = 2.0
"""Seconds between two looks at the Lease."""
_log = structlog.get_logger(__name__)


class LeaseServer(Protocol):
    """The requests that an election takes."""

    async def get(self, kind: Kind, key: Key) -> Object: ...
    async def create(self, kind: Kind, value: Object) -> Object: ...
    async def replace(self, kind: Kind, key: Key, value: Object) -> Object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do with the Lease: leave it, make it, or put this in its place."""

    act: Literal["wait", "create", "replace"]
    value: Object = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Election:
    """One candidate.

    Args:
        key: of the Lease.
        identity: of the candidate, unique.
    """

    key: Key
    identity: str
    duration: float = DURATION
    deadline: float = DEADLINE
    _seen: Object | None = None
    _changed_at: float = 0.0
    _renewed_at: float | None = None

    def is_leading(self, now: float) -> bool:
        """Whether this candidate leads, at a moment of a clock that never goes back."""
        return self._renewed_at is not None and now - self._renewed_at < self.deadline

    def step(self, lease: Object | None, now: float, wall: datetime) -> Step:
        """What to do about a Lease as it was just read; None when there is none.

        Args:
            lease: as the API server has it.
            now: of a clock that never goes back.
            wall: the time of day, for people who read the Lease.
        """
        told = wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if lease is None:
            metadata = {"name": self.key.name, "namespace": self.key.namespace}
            spec = self._spec(told, acquired=told, transitions=0)
            value = {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": metadata, "spec": spec}
            return Step(act="create", value=value)
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._changed_at = spec, now
        holder = spec.get("holderIdentity") or ""
        if holder == self.identity:
            return self._replaced(lease, told, acquired=spec.get("acquireTime") or told, turn=0)
        self._renewed_at = None
        if holder and now - self._changed_at < float(spec.get("leaseDurationSeconds") or self.duration):
            return Step(act="wait")
        return self._replaced(lease, told, acquired=told, turn=1)

    def written(self, lease: Object, asked_at: float) -> None:
        """The API server took what :meth:`step` said, which it was sent at this moment."""
        self._seen = lease.get("spec") or {}
        self._changed_at = self._renewed_at = asked_at

    def released(self, lease: Object) -> Object:
        """The Lease without this leader, so that nobody has to wait; it leads no more."""
        self._renewed_at = None
        spec = {**(lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        return {**lease, "spec": spec}

    def _replaced(self, lease: Object, told: str, *, acquired: str, turn: int) -> Step:
        transitions = int((lease.get("spec") or {}).get("leaseTransitions") or 0) + turn
        spec = {**(lease.get("spec") or {}), **self._spec(told, acquired=acquired, transitions=transitions)}
        return Step(act="replace", value={**lease, "spec": spec})

    def _spec(self, told: str, *, acquired: str, transitions: int) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self.duration),
            "acquireTime": acquired,
            "renewTime": told,
            "leaseTransitions": transitions,
        }


class Elector:
    """Takes part in an election.

    Args:
        server: the API server.
        election: the candidate.
        moved: called whenever this candidate may have begun or ceased to lead.
    """

    def __init__(
        self,
        server: LeaseServer,
        election: Election,
        moved: Callable[[], None],
        *,
        retry: float = RETRY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._election = election
        self._moved = moved
        self._retry = retry
        self._clock = clock
        self._leads = False
        self._retired = False
        self._turns = asyncio.Lock()

    @property
    def is_leading(self) -> bool:
        """Whether this candidate leads now."""
        return self._election.is_leading(self._clock())

    async def run(self) -> None:
        """Takes part until it is cancelled, or retires."""
        while not self._retired:
            try:
                # A server that does not answer must not keep a leader from noticing that its time is over.
                async with asyncio.timeout(self._election.deadline / 2):
                    await self._turn()
            except ControllerError as error:
                _log.warning("lease not renewed", lease=str(self._election.key), error=str(error))
            except TimeoutError:
                _log.warning("lease not renewed", lease=str(self._election.key), error="no answer in time")
            self._tell()
            await asyncio.sleep(self._retry)

    async def retire(self) -> None:
        """Takes part no more, and lets others lead at once if this candidate does."""
        self._retired = True
        async with self._turns:
            await self._release()
        self._tell()

    async def _release(self) -> None:
        if not self.is_leading:
            return
        try:
            lease = await self._server.get(LEASE, self._election.key)
            if (lease.get("spec") or {}).get("holderIdentity") == self._election.identity:
                await self._server.replace(LEASE, self._election.key, self._election.released(lease))
        except ControllerError as error:
            # It runs out by itself.
            _log.warning("lease not released", lease=str(self._election.key), error=str(error))

    async def _turn(self) -> None:
        async with self._turns:
            if not self._retired:
                await self._take_part()

    async def _take_part(self) -> None:
        try:
            lease: Object | None = await self._server.get(LEASE, self._election.key)
        except ApiFailed as error:
            if error.status != 404:
                raise
            lease = None
        asked_at = self._clock()
        step = self._election.step(lease, asked_at, datetime.now(tz=UTC))
        match step.act:
            case "create":
                self._written(await self._server.create(LEASE, step.value), asked_at)
            case "replace":
                self._written(await self._server.replace(LEASE, self._election.key, step.value), asked_at)
            case "wait":
                pass

    def _written(self, lease: Object, asked_at: float) -> None:
        # First, as its time may have been over meanwhile: who leads again has to know that it did not.
        self._tell()
        self._election.written(lease, asked_at)

    def _tell(self) -> None:
        leads = self.is_leading
        if leads != self._leads:
            self._leads = leads
            _log.info("leading" if leads else "not leading", lease=str(self._election.key))
            self._moved()

"""Plans to the API server: writes in their order, and what becomes of those that fail.

What will fail again is told to the owner's status and tried again late. Everything else, from a conflict to a server
that does not answer, ends the owner's writes for now, as a later one may rely on an earlier one; the owner is planned
again from what is then there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from deploy.controller.backoff import Backoff
from deploy.controller.errors import ApiFailed, ControllerError
from deploy.controller.kinds import KINDS, Key, Kind, Object
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.writes import Apply, Delete, Patch, Plan, Write

CONCURRENCY: Final = 16
"""Owners that are written for at the same time."""
REFUSED_SECONDS: Final = 300.0
"""After how long a write that was refused is tried again."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403
_log = structlog.get_logger(__name__)


class Server(Protocol):
    """The requests that writing takes."""

    async def apply(self, kind: Kind, value: Object) -> Object: ...
    async def patch(self, kind: Kind, key: Key, patch: Object, *, subresource: str = "") -> Object: ...
    async def delete(self, kind: Kind, key: Key, *, uid: str = "") -> None: ...


class Seen(Protocol):
    """Takes what answers say is there, which the watch will say later."""

    def put(self, value: Object) -> None: ...
    def gone(self, key: Key, uid: str = "") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a plan.

    Attributes:
        refusal: why a write will never succeed as it is; empty when none was refused.
        retry_after: seconds until the owner should be planned again; None when all is written.
    """

    owner: Key
    refusal: str = ""
    retry_after: float | None = None


class Writer:
    """Writes plans."""

    def __init__(
        self,
        server: Server,
        seen: Seen,
        metrics: ControllerMetrics,
        *,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._seen = seen
        self._metrics = metrics
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._failures: dict[Key, int] = {}
        self._slots = asyncio.Semaphore(CONCURRENCY)

    async def write(self, plan: Plan) -> Result:
        """Writes a plan. Never raises what the API server may say."""
        async with self._slots:
            begin = self._clock()
            try:
                return await self._write(plan)
            finally:
                self._metrics.settled.observe(self._clock() - begin)

    async def _write(self, plan: Plan) -> Result:
        refusal = ""
        for write in plan.writes:
            if refusal and not _is_status(write):
                continue
            try:
                await self._do(write)
            except ApiFailed as error:
                if not (error.is_final or error.status == _FORBIDDEN):
                    return self._failed(plan.owner, write, error)
                refusal = refusal or f"{write.key}: {error}"
                _log.error("write refused", owner=str(plan.owner), object=str(write.key), error=str(error))
            except ControllerError as error:
                return self._failed(plan.owner, write, error)
        self._failures.pop(plan.owner, None)
        return Result(owner=plan.owner, refusal=refusal, retry_after=REFUSED_SECONDS if refusal else None)

    async def _do(self, write: Write) -> None:
        verb, act = _ACTS[type(write)]
        code = 0
        try:
            answer = await act(self._server, KINDS[write.key.kind], write)
            code = 200
        except ApiFailed as error:
            code = error.status
            if error.status == _NOT_FOUND and not isinstance(write, Apply):
                # Somebody was faster.
                self._seen.gone(write.key)
                return
            if error.status == _CONFLICT and isinstance(write, Delete):
                # Another object has the name now.
                return
            raise
        finally:
            self._metrics.writes.labels(write.key.kind, verb, str(code)).inc()
        if answer is not None:
            self._seen.put({**answer, "kind": write.key.kind})

    def _failed(self, owner: Key, write: Write, error: ControllerError) -> Result:
        """A conflict needs no other answer than the rest: what is there now is told by the watch."""
        failures = self._failures[owner] = self._failures.get(owner, 0) + 1
        asked = error.retry_after if isinstance(error, ApiFailed) else None
        _log.warning("write failed", owner=str(owner), object=str(write.key), error=str(error), failures=failures)
        return Result(owner=owner, retry_after=max(self._backoff.seconds(failures), asked or 0.0))


def _is_status(write: Write) -> bool:
    return isinstance(write, Patch) and write.subresource == "status"


async def _apply(server: Server, kind: Kind, write: Write) -> Object | None:
    assert isinstance(write, Apply)
    return await server.apply(kind, write.value)


async def _patch(server: Server, kind: Kind, write: Write) -> Object | None:
    assert isinstance(write, Patch)
    return await server.patch(kind, write.key, write.patch, subresource=write.subresource)


async def _delete(server: Server, kind: Kind, write: Write) -> Object | None:
    assert isinstance(write, Delete)
    await server.delete(kind, write.key, uid=write.uid)
    return None


_ACTS: Final[Mapping[type[Write], tuple[str, Callable[[Server, Kind, Write], Awaitable[Object | None]]]]] = {
    Apply: ("apply", _apply),
    Patch: ("patch", _patch),
    Delete: ("delete", _delete),
}
"""By the type of a write: its verb in metrics, and how it is done."""

"""Keeps the credentials of the live configs fresh: who asks their sources, when, and in which thread.

A request reads what is there and never waits; a source is asked by one thread at a time, ahead of need, and the event
loop goes on meanwhile (field report BR-100). A keeper belongs to one process and its event loop; workers have one each.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import structlog

from extproc.auth.sources import CellState, Fetched, RefreshedCell, Source, SourceError, digests
from extproc.loops import set_within
from extproc.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at watched files, and between two looks at the clock, which may have been set."""
PATIENCE: Final = 60.0
"""Seconds after which a source that does not answer counts as failing; it is still waited for, not asked twice."""
MAX_THREADS: Final = 8

_Result = TypeVar("_Result")


class Blocking(Protocol):
    """Runs something that blocks, without blocking the event loop."""

    async def __call__(self, work: Callable[[], _Result], /) -> _Result: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What came of asking: a credential, or why there is none; and the state of the watched files before."""

    seen: Mapping[Path, str]
    fetched: Fetched[Any] | None = None
    reason: str = ""


class CredentialKeeper:
    """Owns the refreshing of all cells in use.

    Args:
        metrics: where refreshes are counted.
        clock: seconds since the epoch; the one that cells read.
        blocking: where sources are asked and files are read.
    """

    def __init__(
        self, metrics: Metrics, *, clock: Callable[[], float] = time.time, blocking: Blocking | None = None
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._blocking = blocking or in_daemon_thread
        self._cells: Mapping[Hashable, RefreshedCell[Any]] = MappingProxyType({})
        self._under_way: set[Hashable] = set()
        self._looking = False
        self._threads = asyncio.Semaphore(MAX_THREADS)
        self._wake = asyncio.Event()

    @property
    def known(self) -> Mapping[Hashable, RefreshedCell[Any]]:
        """The cells in use, for building the next runtime, also in another thread: the mapping never changes."""
        return self._cells

    def keep(self, cells: Iterable[RefreshedCell[Any]]) -> None:
        """These cells are in use from now on, and no others.

        A stream with an older config may still read a cell that is dropped here; it does so for as long as its
        credential lasts.
        """
        self._cells = MappingProxyType({cell.source.key: cell for cell in cells})
        self._publish()
        self._wake.set()

    def states(self) -> list[CellState]:
        """What may be shown of the cells in use, by name."""
        return sorted((cell.state() for cell in self._cells.values()), key=lambda state: state.name)

    async def run(self) -> None:
        """Ask each source when it is due, until cancelled. What a thread still waits for then is left alone.

        A fault of the keeper itself only costs a pause.
        """
        while True:
            try:
                await self._run()
            except Exception:  # noqa: BLE001 - whatever it is, the credentials in use are to be kept
                _log.exception("the credential keeper failed; starting it again")
                self._under_way.clear()
                self._looking = False
                await asyncio.sleep(LOOK_SECONDS)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                pause = self._ask_those_due(tasks)
                if self._cells and not self._looking:
                    self._looking = True
                    tasks.create_task(self._look(self._cells))
                self._publish()
                await set_within(self._wake, pause if self._cells else None)

    # --- asking ---

    def _ask_those_due(self, tasks: asyncio.TaskGroup) -> float:
        """Begin to ask; gives the seconds until the next one is due, or until the next look at files."""
        now, pause = self._clock(), LOOK_SECONDS
        for key, cell in self._cells.items():
            if cell.due is None or key in self._under_way:
                continue
            if cell.due <= now:
                self._under_way.add(key)
                tasks.create_task(self._refresh(key, cell))
            else:
                pause = min(pause, cell.due - now)
        return pause

    async def _refresh(self, key: Hashable, cell: RefreshedCell[Any]) -> None:
        try:
            async with self._threads:
                answer = await self._answer(cell)
            if answer.fetched is None:
                self._failed(cell, answer.reason, answer.seen)
            elif cell.succeeded(answer.fetched, answer.seen):
                self._succeeded(cell)
            else:
                self._report_failure(cell)
        finally:
            self._under_way.discard(key)
            self._wake.set()

    async def _answer(self, cell: RefreshedCell[Any]) -> _Answer:
        asking = asyncio.ensure_future(self._blocking(partial(_ask, cell.source)))
        try:
            await asyncio.wait({asking}, timeout=PATIENCE)
            if not asking.done():
                self._failed(cell, f"no answer within {PATIENCE:.0f} seconds", cell.seen)
            return await asking
        except Exception as error:  # noqa: BLE001 - no thread left, say; the others go on
            return _Answer(seen=cell.seen, reason=f"internal error: {type(error).__name__}")
        finally:
            asking.cancel()

    def _succeeded(self, cell: RefreshedCell[Any]) -> None:
        state = cell.state()
        lasts = None if state.expires_at is None else round(state.expires_at - self._clock())
        _log.info("credential fetched", source=state.name, lasts_seconds=lasts)
        self._metrics.credential_refresh(state.name, "ok")

    def _failed(self, cell: RefreshedCell[Any], reason: str, seen: Mapping[Path, str]) -> None:
        cell.failed(reason, seen)
        self._report_failure(cell)

    def _report_failure(self, cell: RefreshedCell[Any]) -> None:
        state = cell.state()
        if state.usable:
            _log.warning("credential not renewed, the old one is used", source=state.name, error=state.error)
        else:
            _log.error("credential cannot be had, requests that need it fail", source=state.name, error=state.error)
        self._metrics.credential_refresh(state.name, "failed")

    # --- watching ---

    async def _look(self, cells: Mapping[Hashable, RefreshedCell[Any]]) -> None:
        """See which watched files have another content than when their source was asked."""
        before = {key: cell.seen for key, cell in cells.items()}
        try:
            now = await self._blocking(partial(_watched, [cell.source for cell in cells.values()]))
        except Exception as error:  # noqa: BLE001 - the next look is a second away
            _log.warning("credential files cannot be watched", error=type(error).__name__)
        else:
            for (key, cell), seen in zip(cells.items(), now, strict=True):
                # While it is asked, or if it has been asked meanwhile, the next look decides.
                asked = key in self._under_way or cell.due == 0 or cell.seen is not before[key]
                if not asked and seen is not None and seen != cell.seen:
                    _log.info("credential file changed", source=cell.source.name)
                    cell.outdated()
                    self._wake.set()
        finally:
            self._looking = False

    def _publish(self) -> None:
        self._metrics.credentials(cell.state() for cell in self._cells.values())
        for cell in self._cells.values():
            if cell.unserved:
                self._metrics.credential_unavailable(cell.source.name, cell.unserved)
                cell.unserved = 0


def _ask(source: Source[Any]) -> _Answer:
    """Ask a source; in a thread. What it raises without saying so is named but not quoted: it could hold a secret."""
    seen: Mapping[Path, str] = {}
    try:
        before = digests(source.watches)
        seen = before
        fetched = source.fetch()
        # A file that changes while it is asked shows at the next look; one that nobody knew of before is as it is.
        paths = source.watches
        seen = digests(path for path in paths if path not in before) | {
            path: before[path] for path in paths if path in before
        }
    except SourceError as error:
        return _Answer(seen=seen, reason=str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, only this credential suffers
        return _Answer(seen=seen, reason=f"internal error: {type(error).__name__} in {_place(error)}")
    return _Answer(seen=seen, fetched=fetched)


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "an unknown place" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _watched(sources: Iterable[Source[Any]]) -> list[Mapping[Path, str] | None]:
    return [_watched_by(source) for source in sources]


def _watched_by(source: Source[Any]) -> Mapping[Path, str] | None:
    try:
        return digests(source.watches)
    except Exception:  # noqa: BLE001 - the same is said when the source is asked
        return None


async def in_daemon_thread(work: Callable[[], _Result], /) -> _Result:
    """Run ``work`` in a thread of its own, which the process does not wait for when it ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        with suppress(RuntimeError):  # the event loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    return await done

"""What is recorded later, some of it at a time.

Between two requests a core of the machine does other things, and what recording takes is no longer at hand in its
caches. Done for many requests at once it takes less of a core (``docs/topics/performance.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

_BATCH: Final = 32

_EndedT = TypeVar("_EndedT")


class Waiting(Generic[_EndedT]):
    """What waits of one kind, in its order."""

    __slots__ = ("_ended", "_record")

    def __init__(self, record: Callable[[list[_EndedT]], None]) -> None:
        self._record = record
        self._ended: list[_EndedT] = []

    def add(self, ended: _EndedT) -> None:
        """Have something recorded: when enough has come together, or somebody wants to read."""
        self._ended.append(ended)
        if len(self._ended) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Record all that waits. A fault in that is logged."""
        ended, self._ended = self._ended, []
        if not ended:
            return
        try:
            self._record(ended)
        except Exception:  # noqa: BLE001 - it concerns requests that are over, and not the one that is here now
            _log.exception("fault while recording what has ended", count=len(ended))


class Backlog:
    """What waits to be recorded. Whoever reads what it goes into calls ``settle`` before."""

    def __init__(self) -> None:
        self._kinds: list[Waiting[Any]] = []

    def kind(self, record: Callable[[list[_EndedT]], None]) -> Waiting[_EndedT]:
        """A kind of things that wait; ``record`` records those that have come since the last time."""
        waiting = Waiting(record)
        self._kinds.append(waiting)
        return waiting

    def settle(self) -> None:
        """Record all that waits."""
        for waiting in self._kinds:
            waiting.settle()

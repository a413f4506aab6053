"""What is recorded later, some of it at a time.

Between two requests a core of the machine does other things, and what recording takes is no longer at hand in its
caches. Done for many requests at once it takes less of a core (``docs/topics/performance.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_BATCH: Final = 32


class Backlog:
    """Recordings that wait. Whoever reads what they go into calls ``settle`` before."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def add(self, recording: Callable[[], None]) -> None:
        """Have something recorded: when enough has come together, or somebody wants to read."""
        self._waiting.append(recording)
        if len(self._waiting) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Record all that waits. What fails is logged and harms nothing else."""
        waiting, self._waiting = self._waiting, []
        for recording in waiting:
            try:
                recording()
            except Exception:  # noqa: BLE001 - it concerns a request that is over, and not the one that is here now
                _log.exception("fault while recording what has ended")

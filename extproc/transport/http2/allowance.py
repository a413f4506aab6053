"""How often a peer may do what brings nothing (see ``limits``)."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """So many events in a window of time, and as many more as the peer has earned.

    Args:
        size: events that are allowed at once.
        window: seconds after which all of them are allowed again.
        clock: a monotonic clock, in seconds; read only when the allowance has run out.
    """

    __slots__ = ("_clock", "_left", "_seen", "_since", "_size", "_window")

    def __init__(self, size: int, window: float, clock: Callable[[], float]) -> None:
        self._size = self._left = size
        self._window = window
        self._clock = clock
        self._since = clock()
        self._seen = 0

    def spend(self, earned: int, cost: int = 1) -> bool:
        """Take ``cost`` events away; whether they were allowed.

        Args:
            earned: all that the peer has ever earned. What came since the last call is given back, but never so
                that more than ``size`` are allowed at once.
            cost: at most ``size`` counts.
        """
        left = min(self._size, self._left + earned - self._seen) - min(cost, self._size)
        self._seen = earned
        if left < 0:
            now = self._clock()
            if now - self._since < self._window:
                return False
            self._since = now
            left = self._size - min(cost, self._size)
        self._left = left
        return True

"""Streams that want to be told when a time is over."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator

# So many entries of streams that are over are always tolerated.
_SPARE = 64


class Deadlines:
    """Times and stream ids, the earliest first. Entries of streams that are over are left until they are in the way.

    Args:
        clock: a monotonic clock, in seconds.
    """

    __slots__ = ("_clock", "_heap")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def first(self) -> float:
        """The earliest time; there has to be one."""
        return self._heap[0][0]

    def add(self, seconds: float, stream_id: int) -> None:
        """Note that the time of a stream is over in so many seconds."""
        heapq.heappush(self._heap, (self._clock() + seconds, stream_id))

    def due(self, now: float) -> Iterator[int]:
        """Take out those whose time is over."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[1]

    def thin_out(self, streams: Container[int], count: int) -> None:
        """Forget entries of other streams than these, when most are; ``count`` is how many streams there are."""
        if len(self._heap) > 2 * count + _SPARE:
            self._heap[:] = [entry for entry in self._heap if entry[1] in streams]
            heapq.heapify(self._heap)

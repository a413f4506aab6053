"""Streams that ended a short while ago.

What is still on its way for a stream that we ended is no error (RFC 9113, 5.1). Nobody can say how long it may be on
its way, so it is a number of streams that is remembered, not a time.
"""

from __future__ import annotations


class RecentStreams:
    """The last streams that were added: at least ``size``, at most twice as many."""

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._new: set[int] = set()
        self._old: set[int] = set()

    def add(self, stream_id: int) -> None:
        """Remember one, and perhaps forget older ones."""
        if len(self._new) >= self._size:
            self._old = self._new
            self._new = set()
        self._new.add(stream_id)

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._new or stream_id in self._old

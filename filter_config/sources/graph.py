"""Which results have to be made again: each remembers what was read for it, and a change of that makes it due.

What is read and not there is remembered as well, so that its coming makes the result due. Nothing is guessed from kinds
of objects: a result that reads more is due for more, by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

Mark = tuple[str, ...]
"""Something that can change: its first word says what it is."""


class Graph:
    """Results, here called units, with what they were made of."""

    def __init__(self) -> None:
        self._reads: dict[Hashable, frozenset[Mark]] = {}
        self._readers: dict[Mark, set[Hashable]] = {}
        self._due: dict[Hashable, None] = {}

    def touch(self, marks: Iterable[Mark]) -> None:
        """Something changed."""
        for mark in marks:
            self._due.update(dict.fromkeys(self._readers.get(mark, ())))

    def want(self, unit: Hashable) -> None:
        """Makes a unit due, known or not."""
        self._due[unit] = None

    def made(self, unit: Hashable, reads: Iterable[Mark]) -> None:
        """A unit was made of this."""
        now, before = frozenset(reads), self._reads.get(unit, frozenset())
        for mark in now - before:
            self._readers.setdefault(mark, set()).add(unit)
        self._release(unit, before - now)
        self._reads[unit] = now
        self._due.pop(unit, None)

    def forget(self, unit: Hashable) -> None:
        """A unit is no more."""
        self._release(unit, self._reads.pop(unit, frozenset()))
        self._due.pop(unit, None)

    def due(self) -> list[Hashable]:
        """The units that have to be made again, in the order in which they became due."""
        return list(self._due)

    def _release(self, unit: Hashable, marks: Iterable[Mark]) -> None:
        for mark in marks:
            readers = self._readers[mark]
            readers.discard(unit)
            if not readers:
                del self._readers[mark]

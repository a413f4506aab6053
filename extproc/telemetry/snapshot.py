"""The metrics of one process as a value that can be sent to another and added to others there.

Several processes that serve one address show one set of metrics. Counters and histograms add up; a gauge adds up too,
or the highest value counts, by what it measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Every series of a process.

    Attributes:
        scalars: name of a counter or gauge → labels and value of each series.
        histograms: name → labels, counts of the buckets (not cumulated) and sum of each series.
    """

    scalars: dict[str, list[tuple[Labels, float]]] = {}
    histograms: dict[str, list[tuple[Labels, tuple[int, ...], float]]] = {}

    @classmethod
    def whole(cls, parts: Iterable[Snapshot]) -> Snapshot:
        """Parts that have different series, as one."""
        made = cls(scalars={}, histograms={})
        for part in parts:
            for name, values in part.scalars.items():
                made.scalars.setdefault(name, []).extend(values)
            for name, series in part.histograms.items():
                made.histograms.setdefault(name, []).extend(series)
        return made


EMPTY: Final = Snapshot()

"""Counters, gauges and histograms that cost a fraction of a microsecond to record.

A request records some twenty values. ``prometheus_client``'s own instruments take a lock and walk the buckets, 1 to
2.3 µs each; these belong to one event loop, need no lock and find the bucket by bisection, 0.2 µs. They are ordinary
collectors of a ``prometheus_client`` registry, so everything that reads a registry can read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal

from prometheus_client import Metric
from prometheus_client.registry import Collector

from extproc.golang import format_float

Labels = tuple[tuple[str, str], ...]
"""Label names and values, sorted by name."""


class Value:
    """One series of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount


class Distribution:
    """One series of a histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        # A value on a boundary belongs to the bucket that ends there.
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class Scalars(Collector):
    """A counter or gauge with its series. The name of a counter goes without ``_total``, which is added when read."""

    def __init__(self, kind: Literal["counter", "gauge"], name: str, description: str) -> None:
        self.name = name
        self._kind = kind
        self._description = description
        self._series: dict[Labels, Value] = {}

    def series(self, **labels: str) -> Value:
        """The series with these labels, made at its first use."""
        return self._series.setdefault(tuple(sorted(labels.items())), Value())

    def clear(self) -> None:
        """Forget every series."""
        self._series.clear()

    def collect(self) -> Iterator[Metric]:
        if not self._series:
            return
        metric = Metric(self.name, self._description, self._kind)
        suffix = "_total" if self._kind == "counter" else ""
        for labels, series in self._series.items():
            metric.add_sample(self.name + suffix, dict(labels), series.value)
        yield metric


class Histogram(Collector):
    """A histogram with its series."""

    def __init__(self, name: str, description: str, bounds: Sequence[float]) -> None:
        self.name = name
        self._description = description
        self._bounds = tuple(bounds)
        self._edges = (*map(format_float, bounds), "+Inf")
        self._series: dict[Labels, Distribution] = {}

    def series(self, labels: Labels) -> Distribution:
        """The series with these labels, made at its first use."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Distribution(self._bounds)
        return series

    def counts(self) -> Iterator[tuple[Labels, int]]:
        """How many values each series has."""
        return ((labels, series.count) for labels, series in self._series.items())

    def collect(self) -> Iterator[Metric]:
        if not self._series:
            return
        metric = Metric(self.name, self._description, "histogram")
        for labels, series in self._series.items():
            reached = 0
            for edge, count in zip(self._edges, series.counts, strict=True):
                reached += count
                metric.add_sample(f"{self.name}_bucket", dict(labels) | {"le": edge}, reached)
            metric.add_sample(f"{self.name}_sum", dict(labels), series.total)
            metric.add_sample(f"{self.name}_count", dict(labels), reached)
        yield metric

"""The metrics of ``/metrics`` as the SDK's data: the peer's under their OpenTelemetry names, ours under the same.

What was counted is read off the registry, where it stands under the names of Prometheus. Attribute names are had back
by a table, since there a dot and an underscore look alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

import extproc
from extproc.telemetry.metrics import label_name

SCOPE: Final = "envoyproxy/ai-gateway"
OWN_SCOPE: Final = "envoy-llm-extproc"

_PEERS: Final = {
    "gen_ai_client_token_usage": ("gen_ai.client.token.usage", "token"),
    "gen_ai_server_request_duration_seconds": ("gen_ai.server.request.duration", "s"),
    "gen_ai_server_time_to_first_token_seconds": ("gen_ai.server.time_to_first_token", "s"),
    "gen_ai_server_time_per_output_token_seconds": ("gen_ai.server.time_per_output_token", "s"),
}
_ATTRIBUTES: Final = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.original.model",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.token.type",
    "error.type",
)
# What the resource and the scope say.
_ELSEWHERE: Final = frozenset({"otel_scope_name", "otel_scope_version", "otel_scope_schema_url", "le"})
_TARGET: Final = "target_info"

Key = tuple[str, tuple[tuple[str, str], ...]]


class Point(Struct, frozen=True):
    """One series at one moment.

    Attributes:
        value: of a counter or gauge; of a histogram, its sum.
        counts: of a histogram's buckets, not cumulated; empty for others.
    """

    value: float
    counts: tuple[int, ...] = ()

    def since(self, before: Point | None) -> Point:
        """What was added after ``before``; all of it where the series began anew.

        Whether a histogram did, its counts tell: the last digit of a sum depends on the order in which it was made.
        """
        if before is None or len(before.counts) != len(self.counts):
            return self
        if not self.counts:
            return self if before.value > self.value else Point(self.value - before.value)
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        if any(count < 0 for count in counts):
            return self
        return Point(max(self.value - before.value, 0.0) if any(counts) else 0.0, counts)

    @property
    def idle(self) -> bool:
        return not self.value and not any(self.counts)


class Reading(NamedTuple):
    """A family of series at one moment."""

    name: str
    description: str
    kind: str
    bounds: tuple[float, ...]
    points: dict[tuple[tuple[str, str], ...], Point]


class Points:
    """Makes one export after the other.

    Args:
        resource: whose metrics they are.
        started: nanoseconds since the epoch at which everything was zero.
        delta: see ``exports.Push``.
        attributes: mapped headers, as (header, attribute).
    """

    def __init__(
        self,
        resource: Resource,
        *,
        started: int,
        delta: bool,
        attributes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._resource = resource
        self._started = started
        self._delta = delta
        self._names = {label_name(name): name for name in (*_ATTRIBUTES, *(name for _, name in attributes))}
        # What was delivered last, and when.
        self._before: dict[Key, Point] = {}
        self._at = started

    def export(self, families: Iterable[Family], now: int) -> tuple[MetricsData | None, Delivery]:
        """What is to be sent, ``None`` for nothing, and what to do when it was delivered.

        Only then do deltas start anew, so that a collector that was away misses nothing.
        """
        readings = [_read(family) for family in families if family.name != _TARGET]
        scopes: dict[bool, list[Metric]] = {True: [], False: []}
        for reading in readings:
            metric = self._metric(reading, now)
            if metric is not None:
                scopes[reading.name in _PEERS].append(metric)
        seen = {(reading.name, labels): point for reading in readings for labels, point in reading.points.items()}
        delivery = Delivery(self, seen, now)
        made = [ScopeMetrics(_scope(peers=peers), metrics, "") for peers, metrics in scopes.items() if metrics]
        if not made:
            return None, delivery
        return MetricsData([ResourceMetrics(self._resource, made, "")]), delivery

    def delivered(self, seen: dict[Key, Point], at: int) -> None:
        if self._delta:
            self._before, self._at = seen, at

    def _metric(self, reading: Reading, now: int) -> Metric | None:
        name, unit = _PEERS.get(reading.name, (reading.name, "s" if reading.name.endswith("_seconds") else ""))
        data = self._gauge(reading, now) if reading.kind == "gauge" else self._counted(reading, now)
        return None if data is None else Metric(name, reading.description, unit, data)

    def _gauge(self, reading: Reading, now: int) -> Gauge:
        return Gauge(
            [
                NumberDataPoint(self._attributes(labels), self._started, now, float(point.value))
                for labels, point in reading.points.items()
            ]
        )

    def _counted(self, reading: Reading, now: int) -> Sum | Histogram | None:
        points = [
            (self._attributes(labels), point.since(self._before.get((reading.name, labels))))
            for labels, point in reading.points.items()
        ]
        if self._delta:
            points = [(attributes, point) for attributes, point in points if not point.idle]
        if not points:
            return None
        temporality = AggregationTemporality.DELTA if self._delta else AggregationTemporality.CUMULATIVE
        start = self._at
        if reading.kind == "counter":
            return Sum(
                [NumberDataPoint(attributes, start, now, float(point.value)) for attributes, point in points],
                temporality,
                is_monotonic=True,
            )
        return Histogram([_distribution(*at, reading.bounds, start, now) for at in points], temporality)

    def _attributes(self, labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
        return {self._names.get(name, name): value for name, value in labels}


class Delivery(NamedTuple):
    """An export that is on its way."""

    points: Points
    seen: dict[Key, Point]
    at: int

    def done(self) -> None:
        """It has arrived."""
        self.points.delivered(self.seen, self.at)


def _scope(*, peers: bool) -> InstrumentationScope:
    return InstrumentationScope(SCOPE) if peers else InstrumentationScope(OWN_SCOPE, extproc.__version__)


def _distribution(
    attributes: dict[str, str], point: Point, bounds: tuple[float, ...], start: int, now: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start,
        time_unix_nano=now,
        count=sum(point.counts),
        sum=point.value,
        bucket_counts=point.counts,
        explicit_bounds=bounds,
        # Not kept, and not wanted on the wire, where they are optional; the SDK's type does not know that.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _read(family: Family) -> Reading:
    if family.type != "histogram":
        points = {_labels(sample): Point(sample.value) for sample in family.samples}
        return Reading(family.name, family.documentation, family.type, (), points)
    bounds: dict[float, None] = {}
    reached: dict[tuple[tuple[str, str], ...], list[int]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = _labels(sample)
        if "le" in sample.labels:
            bounds[float(sample.labels["le"])] = None
            reached.setdefault(labels, []).append(int(sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = {labels: Point(sums[labels], tuple(_single(counts))) for labels, counts in reached.items()}
    return Reading(family.name, family.documentation, family.type, tuple(bounds)[:-1], points)


def _single(reached: Iterable[int]) -> Iterator[int]:
    """The counts of single buckets, from those that include the ones before."""
    before = 0
    for count in reached:
        yield count - before
        before = count


def _labels(sample: Sample) -> tuple[tuple[str, str], ...]:
    labels: Mapping[str, str] = sample.labels
    return tuple(item for item in labels.items() if item[0] not in _ELSEWHERE)

"""The figures of the console: slots of the ledger made into series, rows and percentiles. Their JSON is the page's.

Gathering goes slot by slot and row by row, so that whoever serves traffic on the same loop has its turn in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from msgspec import Struct

from extproc.telemetry.ledger import (
    OTHER,
    SLOT_SECONDS,
    SLOWEST,
    Distribution,
    Entry,
    Slot,
    Tally,
    percentile,
    slowness,
)

MAX_ROWS: Final = 12
"""Rows of a table; those with the fewest attempts become ``other``."""

_NOTHING: Final = Tally()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time up to now, in points that are multiples of slots, so that a chart's points do not move."""

    points: int
    slots_per_point: int

    @property
    def step(self) -> int:
        """Seconds of a point."""
        return self.slots_per_point * SLOT_SECONDS

    @property
    def seconds(self) -> int:
        return self.points * self.step


WINDOWS: Final = {
    "5m": Window(points=20, slots_per_point=1),
    "15m": Window(points=60, slots_per_point=1),
    "1h": Window(points=60, slots_per_point=4),
}
DEFAULT_WINDOW: Final = "15m"


class Percentiles(Struct, frozen=True, kw_only=True):
    """In seconds, right within 5 %. ``count`` is how many values there are."""

    count: int
    p50: float
    p90: float
    p99: float


class Lines(Struct, frozen=True, kw_only=True):
    """Percentiles point by point; null where there is no value."""

    p50: list[float | None]
    p90: list[float | None]
    p99: list[float | None]


class Tokens(Struct, frozen=True, kw_only=True):
    """As in ``extproc.usage``: ``cached`` is part of ``input``, ``reasoning`` of ``output``."""

    input: int
    cached: int
    output: int
    reasoning: int


class Series(Struct, frozen=True, kw_only=True):
    """Counts point by point, oldest first; see ``Row``."""

    attempts: list[int]
    succeeded: list[int]
    errors: list[int]
    retried: list[int]
    cancelled: list[int]
    input: list[int]
    output: list[int]
    costs: dict[str, list[int]]


class Row(Struct, frozen=True, kw_only=True):
    """What one model, backend or route, or all of them, had to do with.

    Attributes:
        attempts: attempts at backends that ended, and requests that were answered before one: ``succeeded``,
            ``errors``, ``retried`` and ``cancelled`` together.
        errors: those that failed for good, or that were refused.
        refused: those of them that were refused: by the processor, or by Envoy before it asked a backend.
        retried: those that Envoy gave up for another attempt.
        cancelled: those that the client left.
        costs: by metadata key.
        latency: of those that succeeded; null without any.
        first_token: of the streamed ones among these.
    """

    name: str
    attempts: int
    succeeded: int
    errors: int
    refused: int
    retried: int
    cancelled: int
    tokens: Tokens
    costs: dict[str, int]
    latency: Percentiles | None
    first_token: Percentiles | None
    series: Series


class Phases(Struct, frozen=True, kw_only=True):
    """Where the time of an attempt went, in seconds; null for what it did not come to.

    Attributes:
        processor: until its request was ready: translation, mutations, credentials.
        headers: then until the backend's response headers.
        first_byte: then until the first piece of the body.
        streaming: then until its end.
    """

    processor: float | None
    headers: float | None
    first_byte: float | None
    streaming: float | None


class Slow(Struct, frozen=True, kw_only=True):
    """One of the slowest; see ``telemetry.ledger.Entry``."""

    at: float
    seconds: float
    request_id: str
    model: str
    asked: str
    backend: str
    route: str
    operation: str
    outcome: str
    status: int
    streamed: bool
    tokens: Tokens
    costs: dict[str, int]
    phases: Phases


class Traffic(Struct, frozen=True, kw_only=True):
    """Everything in a window.

    Attributes:
        window: its name.
        step: seconds of a point.
        first: start of the first point, in seconds since 1970. The last point is not over yet.
        overall: all attempts.
        latency: percentiles of all that succeeded.
        first_token: of the streamed ones among these.
        by: the rows for each ``model``, ``backend`` and ``route``, most attempts first.
        slowest: slowest first.
    """

    window: str
    step: int
    first: int
    points: int
    overall: Row
    latency: Lines
    first_token: Lines
    by: dict[str, list[Row]]
    slowest: list[Slow]


class _Group:
    """The points of one name."""

    __slots__ = ("points",)

    def __init__(self) -> None:
        self.points: dict[int, Tally] = {}

    def add(self, point: int, tally: Tally) -> None:
        known = self.points.get(point)
        if known is None:
            known = self.points[point] = Tally()
        known.merge(tally)

    def total(self) -> Tally:
        whole = Tally()
        for tally in self.points.values():
            whole.merge(tally)
        return whole


class Gathering:
    """Takes in slots and gives what a page shows of them.

    Args:
        window: name of the window.
        now: seconds since 1970.
    """

    def __init__(self, window: str, now: float) -> None:
        self._name = window
        self._window = WINDOWS[window]
        self._first = int(now) // self._window.step - self._window.points + 1
        self._overall = _Group()
        self._by: dict[str, dict[str, _Group]] = {"model": {}, "backend": {}, "route": {}}
        self._slowest: list[Entry] = []
        self._made: dict[str, list[Row]] = {}

    @property
    def slots(self) -> tuple[int, int]:
        """The numbers of the first and the last slot that belong here."""
        per_point = self._window.slots_per_point
        return self._first * per_point, (self._first + self._window.points) * per_point - 1

    def add(self, slot: Slot) -> None:
        """Take in one slot."""
        point = slot.number // self._window.slots_per_point - self._first
        for key, tally in slot.tallies.items():
            self._overall.add(point, tally)
            for groups, name in zip(self._by.values(), key, strict=True):
                groups.setdefault(name, _Group()).add(point, tally)
        self._slowest += slot.slowest

    def rows(self) -> Iterator[Row]:
        """Make the rows; whoever does not take them one by one gets them with ``result`` all the same."""
        for kind, groups in self._by.items():
            self._made[kind] = []
            for name, group in _ranked(groups):
                row = self._row(name, group)
                self._made[kind].append(row)
                yield row

    def result(self) -> Traffic:
        """What was taken in."""
        if not self._made:
            list(self.rows())
        points = [self._overall.points.get(point, _NOTHING) for point in range(self._window.points)]
        return Traffic(
            window=self._name,
            step=self._window.step,
            first=self._first * self._window.step,
            points=self._window.points,
            overall=self._row("", self._overall),
            latency=_lines([tally.latency for tally in points]),
            first_token=_lines([tally.first_token for tally in points]),
            by=self._made,
            slowest=[_slow(entry) for entry in sorted(self._slowest, key=slowness, reverse=True)[:SLOWEST]],
        )

    def _row(self, name: str, group: _Group) -> Row:
        total = group.total()
        points = [group.points.get(point, _NOTHING) for point in range(self._window.points)]
        return Row(
            name=name,
            attempts=total.attempts,
            succeeded=total.succeeded,
            errors=_errors(total),
            refused=total.others.get("refused", 0),
            retried=_retried(total),
            cancelled=_cancelled(total),
            tokens=Tokens(input=total.input, cached=total.cached, output=total.output, reasoning=total.reasoning),
            costs=total.costs,
            latency=_percentiles(total.latency),
            first_token=_percentiles(total.first_token),
            series=Series(
                attempts=[tally.attempts for tally in points],
                succeeded=[tally.succeeded for tally in points],
                errors=list(map(_errors, points)),
                retried=list(map(_retried, points)),
                cancelled=list(map(_cancelled, points)),
                input=[tally.input for tally in points],
                output=[tally.output for tally in points],
                costs={key: [tally.costs.get(key, 0) for tally in points] for key in sorted(total.costs)},
            ),
        )


def _ranked(groups: dict[str, _Group]) -> Iterator[tuple[str, _Group]]:
    """The groups by attempts; those that are too many are one, and it is the last."""
    others = groups.get(OTHER)
    named = [(name, group) for name, group in groups.items() if group is not others]
    named.sort(key=lambda pair: (-sum(tally.attempts for tally in pair[1].points.values()), pair[0]))
    yield from named[:MAX_ROWS]
    rest = [group for _, group in named[MAX_ROWS:]]
    if rest or others is not None:
        yield OTHER, _together(rest if others is None else [*rest, others])


def _together(groups: Iterable[_Group]) -> _Group:
    whole = _Group()
    for group in groups:
        for point, tally in group.points.items():
            whole.add(point, tally)
    return whole


def _errors(tally: Tally) -> int:
    return tally.others.get("failed", 0) + tally.others.get("refused", 0)


def _retried(tally: Tally) -> int:
    return tally.others.get("retried", 0)


def _cancelled(tally: Tally) -> int:
    return tally.others.get("client_cancelled", 0)


def _percentiles(distribution: Distribution) -> Percentiles | None:
    p50, p90, p99 = (percentile(distribution, share) for share in (0.5, 0.9, 0.99))
    if p50 is None or p90 is None or p99 is None:
        return None
    return Percentiles(count=sum(distribution.values()), p50=_rounded(p50), p90=_rounded(p90), p99=_rounded(p99))


def _lines(distributions: list[Distribution]) -> Lines:
    found = [_percentiles(distribution) for distribution in distributions]
    return Lines(
        p50=[None if each is None else each.p50 for each in found],
        p90=[None if each is None else each.p90 for each in found],
        p99=[None if each is None else each.p99 for each in found],
    )


def _slow(entry: Entry) -> Slow:
    marks = (0.0, entry.prepared, entry.headers, entry.first_byte, entry.seconds)
    spans = [
        None if until is None or since is None else _rounded(max(until - since, 0.0))
        for since, until in pairwise(marks)
    ]
    return Slow(
        at=round(entry.at, 3),
        seconds=_rounded(entry.seconds),
        request_id=entry.request_id,
        model=entry.model,
        asked=entry.asked,
        backend=entry.backend,
        route=entry.route,
        operation=entry.operation,
        outcome=entry.outcome,
        status=entry.status,
        streamed=entry.streamed,
        tokens=Tokens(input=entry.input, cached=entry.cached, output=entry.output, reasoning=entry.reasoning),
        costs=dict(entry.costs),
        phases=Phases(processor=spans[0], headers=spans[1], first_byte=spans[2], streaming=spans[3]),
    )


def _rounded(seconds: float) -> float:
    return round(seconds, 6)

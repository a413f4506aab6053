"""The figures that were promised, and whether a report reaches them.

They compare rows of one report, or bound what a row costs on a machine of the kind that the report describes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.bench.results import Figures, ratio

Reading = Callable[[Figures], float | None]

_CHUNK_COLUMNS: Final = ("stream-16", "stream-200", "stream-1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure that may be at most ``limit``."""

    name: str
    limit: float
    unit: str
    read: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target beside what was measured; ``measured`` is None where a row or a column is missing."""

    name: str
    limit: float
    unit: str
    measured: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when it was not measured."""
        return None if self.measured is None else self.measured <= self.limit

    @property
    def word(self) -> str:
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


def _figure(row: str, column: str, name: str) -> Reading:
    return lambda figures: figures.median(row, column, name)


def _over(column: str, name: str, row: str, base: str) -> Reading:
    return lambda figures: ratio(figures.median(row, column, name), figures.median(base, column, name))


def _longer(column: str, name: str, base: str, row: str) -> Reading:
    def read(figures: Figures) -> float | None:
        after, before = figures.median(row, column, name), figures.median(row, column, base)
        return None if after is None or before is None else after - before

    return read


def _targets() -> tuple[Target, ...]:
    request, cpu = "body-0.6k", "cpu_us"
    # 30 µs where the echo takes 14: how fast the machine is says nothing of us.
    per_chunk = [
        Target(
            name=f"CPU per chunk, {column.partition('-')[2]} streams, http2/echo-http2",
            limit=2.2,
            unit="",
            read=_over(column, cpu, "http2", "echo-http2"),
        )
        for column in _CHUNK_COLUMNS
    ]
    return (
        Target(name="CPU per request, http2/grpcio", limit=0.30, unit="", read=_over(request, cpu, "http2", "grpcio")),
        Target(
            name="CPU per request, http2/echo-http2",
            limit=2.0,
            unit="",
            read=_over(request, cpu, "http2", "echo-http2"),
        ),
        *per_chunk,
        Target(name="CPU of a 1 MB request", limit=4000.0, unit="µs", read=_figure("http2", "body-1m", cpu)),
        Target(
            name="lateness of chunks, 1,000 streams, p99",
            limit=50.0,
            unit="ms",
            read=_figure("http2", "stream-1000", "late_p99_ms"),
        ),
        Target(
            name="resident memory, 1,000 paced streams",
            limit=400.0,
            unit="MB",
            read=_figure("http2", "stream-1000", "resident_mb"),
        ),
        Target(
            name="longer wait during a reload, p99",
            limit=20.0,
            unit="ms",
            read=_longer("reload", "reload_p99_ms", "steady_p99_ms", "http2"),
        ),
    )


TARGETS: Final = _targets()


def verdicts(figures: Figures, targets: tuple[Target, ...] = TARGETS) -> list[Verdict]:
    return [
        Verdict(name=target.name, limit=target.limit, unit=target.unit, measured=target.read(figures))
        for target in targets
    ]


def regressions(now: Figures, before: Figures, *, row: str = "grpcio", tolerance: float = 1.1) -> list[Verdict]:
    """CPU figures of a row against those of an earlier report of the same machine."""
    columns = ("body-0.6k", "body-100k", "body-1m", *_CHUNK_COLUMNS)
    return [
        Verdict(
            name=f"CPU of {row}, {column}, now/before",
            limit=tolerance,
            unit="",
            measured=ratio(now.median(row, column, "cpu_us"), before.median(row, column, "cpu_us")),
        )
        for column in columns
    ]

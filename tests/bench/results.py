"""Figures: every single measurement as it was taken, and what is made of them.

The JSON keeps samples, never medians alone, so that a table can be made anew and noise be judged later.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.bench.machine import Machine
from tests.bench.rows import CONTROL


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one row in one column.

    Attributes:
        turn: which of the alternating runs of the row in this column, from 0.
        figures: name of the figure → value, in the unit that its name ends in.
    """

    row: str
    column: str
    turn: int
    figures: dict[str, float]


class RowState(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the report; ``missing`` says why this build does not have it."""

    name: str
    meaning: str
    missing: str = ""


class Report(msgspec.Struct, kw_only=True):
    """Everything that a run of the benchmark has found.

    Attributes:
        seconds: how long it took.
        quick: the runs were short, so that the figures are rough.
        faults: (row, column) and what went wrong there, as text for people.
        concurrency: worker threads of each Envoy.
        translators: schemas of backends whose translation was measured.
        skipped: columns, or rounds of them, for which there was no time left.
    """

    machine: Machine
    started: str
    seconds: float = 0.0
    quick: bool = False
    concurrency: int
    rows: list[RowState]
    translators: list[RowState] = msgspec.field(default_factory=list)
    samples: list[Sample] = msgspec.field(default_factory=list)
    faults: list[str] = msgspec.field(default_factory=list)
    skipped: list[str] = msgspec.field(default_factory=list)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A median and its spread over the rounds."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        taken = sorted(values)
        return cls(median=statistics.median(taken), low=taken[0], high=taken[-1], count=len(taken))


class Figures:
    """The figures of a report, by row, column and name."""

    def __init__(self, report: Report) -> None:
        values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for sample in [*report.samples, *added_latencies(report.samples)]:
            for name, value in sample.figures.items():
                values[sample.row, sample.column, name].append(value)
        self._figures = {key: Figure.of(taken) for key, taken in values.items()}

    def get(self, row: str, column: str, name: str) -> Figure | None:
        return self._figures.get((row, column, name))

    def median(self, row: str, column: str, name: str) -> float | None:
        figure = self.get(row, column, name)
        return None if figure is None else figure.median


def added_latencies(samples: Iterable[Sample]) -> list[Sample]:
    """What a row adds to the latency of Envoy alone, round by round."""
    taken = list(samples)
    alone = {(sample.column, sample.turn): sample.figures for sample in taken if sample.row == CONTROL}
    added = []
    for sample in taken:
        base = alone.get((sample.column, sample.turn))
        if base is None or sample.row == CONTROL:
            continue
        more = {
            f"added_{name}": value - base[name]
            for name, value in sample.figures.items()
            if name in ("p50_ms", "p99_ms") and name in base
        }
        if more:
            added.append(Sample(row=sample.row, column=sample.column, turn=sample.turn, figures=more))
    return added


def ratio(over: float | None, under: float | None) -> float | None:
    """``over / under``, where both were measured."""
    return None if over is None or not under else over / under


def write(report: Report, path: Path) -> None:
    """Write the JSON, one sample a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = msgspec.to_builtins(report)
    samples = head.pop("samples")
    text = msgspec.json.format(msgspec.json.encode(head), indent=2).decode()
    lines = ",\n    ".join(msgspec.json.encode(sample).decode() for sample in samples)
    path.write_text(f'{text[:-2]},\n  "samples": [\n    {lines}\n  ]\n}}\n', encoding="utf-8")


def read(path: Path) -> Report:
    """Read what ``write`` has written.

    Raises:
        msgspec.DecodeError: it is not a report.
    """
    return msgspec.json.decode(path.read_bytes(), type=Report)

"""Visits every column and row, round by round, within the time that there is.

A round measures each column, and in it each row in turn, there and back, so that a slow spell of the machine meets all
of them.
What goes wrong with one row ends neither the others nor the report.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from deploy.local.children import ChildFailed
from tests.bench.columns import Column, Tools
from tests.bench.loads import LoadFailed
from tests.bench.results import Report, Sample
from tests.bench.rows import Row
from tests.bench.stage import Side, Stage
from tests.bench.tools import ToolMissing

# After so many failed runs on end a row is left alone.
_GIVE_UP: Final = 2
# How many more times a pass goes there and back through the rows that are compared most closely.
_MORE: Final = 2
# What a row takes, in seconds, in a column that was not measured yet.
_GUESS: Final = 2.5
_FAULTS: Final = (LoadFailed, ToolMissing, ChildFailed, OSError)


class Runner:
    """Measures into a report.

    Args:
        deadline: on the monotonic clock; no column is begun that would probably end after it.
        say: takes a line on the progress.
    """

    def __init__(self, report: Report, tools: Tools, *, deadline: float, say: Callable[[str], None]) -> None:
        self._report = report
        self._tools = tools
        self._deadline = deadline
        self._say = say
        self._took: dict[str, float] = {}
        self._failures: Counter[str] = Counter()

    def run(self, stage: Stage, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """Start the rows that stand, and measure."""
        with ExitStack() as standing:
            sides = {}
            if not all(column.fresh for column in columns):
                for row in rows:
                    with self._forgiven(row.name, "start"):
                        sides[row.name] = standing.enter_context(stage.side(row))
                for side in sides.values():
                    side.settle()
            for turn in range(max((column.rounds for column in columns), default=0)):
                for column in columns:
                    if turn < column.rounds and self._has_time(column, turn, len(rows)):
                        self._column(stage, rows, sides, column, turn)

    def _has_time(self, column: Column, turn: int, rows: int) -> bool:
        left = self._deadline - time.monotonic()
        if left > self._took.get(column.name, rows * _GUESS):
            return True
        self._report.skipped.append(f"{column.name}, round {turn + 1} of {column.rounds}")
        return False

    def _column(self, stage: Stage, rows: Sequence[Row], sides: dict[str, Side], column: Column, turn: int) -> None:
        self._say(f"{column.title}, round {turn + 1} of {column.rounds}")
        started = time.monotonic()
        for number in range(turn * column.passes, (turn + 1) * column.passes):
            self._pass(stage, rows if number % 2 == 0 else rows[::-1], sides, column, number)
        self._took[column.name] = time.monotonic() - started

    def _pass(self, stage: Stage, rows: Sequence[Row], sides: dict[str, Side], column: Column, number: int) -> None:
        for row in (*rows, *_close(rows, column)):
            if row.kind not in column.kinds or self._failures[row.name] >= _GIVE_UP:
                continue
            with self._forgiven(row.name, column.name):
                if column.fresh:
                    with stage.side(row, backends=column.backends) as side:
                        side.settle()
                        self._measure(side, column, number)
                elif row.name in sides:
                    self._measure(sides[row.name], column, number)

    def _measure(self, side: Side, column: Column, number: int) -> None:
        figures = column.measure(side, self._tools)
        self._report.samples.append(
            Sample(
                row=side.row.name,
                column=column.name,
                turn=number,
                figures={name: round(value, 4) for name, value in figures.items()},
            )
        )

    @contextmanager
    def _forgiven(self, row: str, where: str) -> Iterator[None]:
        try:
            yield
            self._failures[row] = 0
        except _FAULTS as error:
            self._failures[row] += 1
            fault = f"{row}, {where}: {error}"
            self._report.faults.append(fault)
            self._say(fault)


def _close(rows: Sequence[Row], column: Column) -> list[Row]:
    """What a pass visits after all rows, of which it has seen the last one last."""
    near = [row for row in rows if row.name in column.close]
    return [*near[::-1], *near] * _MORE

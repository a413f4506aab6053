"""The table of a report: a line for each figure, a column for each row of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.results import Figure, Figures, Report, RowState
from tests.bench.rows import CONTROL
from tests.bench.targets import Verdict

NOT_IN_BUILD: Final = "not in this build"
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of one column; ``control`` is what Envoy without the filter shows instead, as it is."""

    label: str
    column: str
    figure: str
    control: str = ""
    digits: int = 0


def _lines() -> tuple[Line, ...]:
    lines = []
    for connections in ("1", "16", "256"):
        column = f"latency-{connections}"
        lines += [
            Line(
                label=f"added latency {share}, {connections} in flight, ms",
                column=column,
                figure=f"added_{share}_ms",
                control=f"{share}_ms",
                digits=2,
            )
            for share in ("p50", "p99")
        ]
    lines += [
        Line(
            label=f"requests/s, {connections} in flight", column=f"latency-{connections}", figure="rate", control="rate"
        )
        for connections in ("1", "16", "256")
    ]
    sizes = {"0.6k": "0.6 KB", "100k": "100 KB", "1m": "1 MB"}
    lines += [
        Line(label=f"CPU per request, {size}, µs", column=f"body-{name}", figure="cpu_us")
        for name, size in sizes.items()
    ]
    lines += [
        Line(label=f"CPU per request, {sizes[name]}, renamed, µs", column=f"renamed-{name}", figure="cpu_us")
        for name in ("0.6k", "1m")
    ]
    counts = ("16", "200", "1000")
    for figure, label, digits in (
        ("cpu_us", "CPU per chunk, {} streams, µs", 1),
        ("chunks_per_event", "chunks per event, {} streams", 2),
        ("late_p99_ms", "chunk lateness p99, {} streams, ms", 1),
        ("late_opening_p99_ms", "lateness p99 while {} streams are opened, ms", 1),
        ("unfinished", "streams unfinished of {}", 0),
    ):
        lines += [
            Line(
                label=label.format(count),
                column=f"stream-{count}",
                figure=figure,
                control=figure if figure in ("late_p99_ms", "late_opening_p99_ms", "unfinished") else "",
                digits=digits,
            )
            for count in counts
        ]
    lines.append(Line(label="resident, 1000 paced streams, MB", column="stream-1000", figure="resident_mb"))
    lines += [
        Line(label=label, column="memory", figure=figure)
        for label, figure in (
            ("resident, idle, MB", "idle_mb"),
            ("resident, 1000 open streams, MB", "at_1000_mb"),
            ("resident, 5000 open streams, MB", "at_5000_mb"),
            ("resident, after, MB", "after_mb"),
        )
    ]
    lines += [
        Line(label=label, column="reload", figure=figure, digits=1)
        for label, figure in (
            ("chunk lateness p99, no reload, ms", "steady_p99_ms"),
            ("chunk lateness p99, reload, ms", "reload_p99_ms"),
            ("worst chunk, no reload, ms", "steady_max_ms"),
            ("worst chunk, reload, ms", "reload_max_ms"),
            ("config live after, ms", "live_after_ms"),
        )
    ]
    return tuple(lines)


LINES: Final = _lines()


def grid(report: Report, figures: Figures) -> list[list[str]]:
    """The table as text cells; the first row and the first column are headings. Lines without a figure are left out."""
    table = [["median (low..high)", *(row.name for row in report.rows)]]
    if any(row.missing for row in report.rows):
        table.append(["", *(NOT_IN_BUILD if row.missing else "" for row in report.rows)])
    for line in LINES:
        cells = [_cell(row, line, figures) for row in report.rows]
        if any(cell != _NOTHING for cell in cells):
            table.append([line.label, *cells])
    return table


def _cell(row: RowState, line: Line, figures: Figures) -> str:
    if row.name == CONTROL:
        found = figures.get(row.name, line.column, line.control) if line.control else None
        prefix = "= " if line.control != line.figure else ""
        return _NOTHING if found is None else prefix + shown(found, line.digits)
    found = figures.get(row.name, line.column, line.figure)
    return _NOTHING if found is None else shown(found, line.digits)


def shown(figure: Figure, digits: int) -> str:
    """``median (low..high)``; the median alone where there was one run."""
    median = f"{figure.median:.{digits}f}"
    if figure.count == 1:
        return median
    return f"{median} ({figure.low:.{digits}f}..{figure.high:.{digits}f})"


def translator_grid(translators: Sequence[RowState], figures: Figures) -> list[list[str]]:
    """CPU of the core alone, by schema of the backend."""
    table = [["backend schema", "CPU per request, µs", "CPU per chunk, µs"]]
    for schema in translators:
        if schema.missing:
            table.append([schema.name, NOT_IN_BUILD, NOT_IN_BUILD])
            continue
        cells = [figures.get(schema.name, "translators", name) for name in ("request_us", "chunk_us")]
        table.append([schema.name, *(_NOTHING if cell is None else shown(cell, 1) for cell in cells)])
    return table


def verdict_grid(found: Sequence[Verdict]) -> list[list[str]]:
    table = [["target", "at most", "measured", ""]]
    for verdict in found:
        unit = f" {verdict.unit}" if verdict.unit else ""
        measured = _NOTHING if verdict.measured is None else f"{_number(verdict.measured)}{unit}"
        table.append([verdict.name, f"{_number(verdict.limit)}{unit}", measured, verdict.word])
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def text(table: Sequence[Sequence[str]]) -> str:
    """The table for a terminal."""
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    lines = []
    for number, row in enumerate(table):
        first, *others = row
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
        if not number:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table for a page."""
    head, *rows = table
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)

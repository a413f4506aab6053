"""What a request, a chunk, a stream and a reload cost: ``make bench``.

Prints one table and the promised figures, and writes every sample as JSON. Single figures of a shared machine mean
little: compare the columns of one table.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from deploy.local.children import ChildFailed
from deploy.local.envoy_process import binary
from tests.bench import page, results, rows, table, tools, translators
from tests.bench.columns import FULL, QUICK, Column, Scale, Tools, columns
from tests.bench.machine import describe, envoy_version
from tests.bench.results import Figures, Report, RowState
from tests.bench.rows import ROWS, Row
from tests.bench.runner import Runner
from tests.bench.stage import Stage
from tests.bench.targets import regressions, verdicts

_ROOT: Final = Path(__file__).resolve().parents[2]
DEFAULT_JSON: Final = _ROOT / ".cache" / "bench" / "latest.json"


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, under two minutes: rough figures")
    parser.add_argument("--rows", metavar="A,B", help=f"only these rows, of {', '.join(row.name for row in ROWS)}")
    names = [column.name for column in columns(FULL)]
    parser.add_argument(
        "--columns",
        metavar="A,B",
        help=f"only these columns, of {', '.join(names)}, {translators.COLUMN}; `latency` names all that begin so",
    )
    parser.add_argument("--translators", action="store_true", help="only the cost of translators, in process")
    parser.add_argument("--concurrency", type=int, default=2, help="worker threads of each Envoy (default 2)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds for all of it (default 860, quick 105)")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="FILE", help="where the samples go")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="measure nothing, show a report that was written before"
    )
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="an earlier report: has grpcio got worse since?")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/reference/benchmarks.md and the JSON beside it"
    )
    return parser


def chosen(wanted: str | None, names: Sequence[str]) -> list[str]:
    """The names that a filter asks for: whole ones, or all that begin with it and a dash.

    Raises:
        ValueError: a part of the filter names nothing.
    """
    if wanted is None:
        return list(names)
    found: set[str] = set()
    for part in wanted.split(","):
        named = {name for name in names if name == part} or {name for name in names if name.startswith(f"{part}-")}
        if not named:
            raise ValueError(f"{part!r} is none of {', '.join(names)}")
        found |= named
    return [name for name in names if name in found]


def _new_report(options: argparse.Namespace, asked: Sequence[Row]) -> Report:
    known = rows.known_settings()
    return Report(
        machine=describe(envoy_version(binary())),
        started=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        quick=options.quick,
        concurrency=options.concurrency,
        rows=[RowState(name=row.name, meaning=row.meaning, missing=rows.missing(row, known=known)) for row in asked],
    )


def _measure(options: argparse.Namespace, asked: Sequence[Row], taken: Sequence[Column], scale: Scale) -> Report:
    """Measure what is asked for.

    Raises:
        ToolMissing: wrk or h2load cannot be had.
        ChildFailed: there is no Envoy.
    """
    started = time.monotonic()
    report = _new_report(options, asked)
    if options.with_translators:
        _say(f"CPU of translators, {5 if scale.rounds > 1 else 1} rounds")
        report.translators = translators.states()
        report.samples += translators.measure(
            [schema.name for schema in report.translators if not schema.missing],
            requests=300,
            chunks=200,
            turns=min(scale.rounds, 5),
            failed=report.faults.append,
        )
    here = [row for row, state in zip(asked, report.rows, strict=True) if not state.missing]
    if taken and here:
        with Stage(concurrency=options.concurrency) as stage:
            load = Tools(wrk=tools.tool("wrk"), h2load=tools.tool("h2load"), directory=stage.directory)
            limit = options.time_limit or scale.limit
            runner = Runner(report, load, deadline=started + limit, say=_say)
            try:
                runner.run(stage, here, taken)
            except KeyboardInterrupt:
                report.faults.append("interrupted: the rest was not measured")
    report.seconds = round(time.monotonic() - started, 1)
    return report


def show(report: Report, baseline: Report | None) -> None:
    """Print everything that a report says."""
    figures = Figures(report)
    machine = report.machine
    print(f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {machine.python}, Envoy {machine.envoy}")
    print(f"{report.started}, {report.seconds:.0f} s, load average {machine.load:g} at the start\n")
    grid = table.grid(report, figures)
    if len(grid) > 1:
        print(table.text(grid))
    if report.translators:
        print(table.text(table.translator_grid(report.translators, figures)))
    found = verdicts(figures)
    if baseline is not None:
        found += regressions(figures, Figures(baseline))
    if any(verdict.measured is not None for verdict in found):
        print(table.text(table.verdict_grid(found)))
    if report.quick:
        print("short runs: the figures are rough")
    for fault in report.faults:
        print(f"failed: {fault}")
    for skipped in report.skipped:
        print(f"no time left for {skipped}")


def _plan(options: argparse.Namespace) -> tuple[list[Row], list[Column], Scale]:
    scale = QUICK if options.quick else FULL
    every = columns(scale)
    names = chosen(options.columns, [*(column.name for column in every), translators.COLUMN])
    if options.translators:
        names = [translators.COLUMN]
    options.with_translators = translators.COLUMN in names
    row_names = chosen(options.rows, [row.name for row in ROWS])
    return (
        [row for row in ROWS if row.name in row_names],
        [column for column in every if column.name in names],
        scale,
    )


def _allow_many_connections() -> None:
    # Each stream is two connections of Envoy's. Children inherit it.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        baseline = results.read(options.baseline) if options.baseline else None
        if options.show:
            report = results.read(options.show)
        else:
            asked, taken, scale = _plan(options)
            _allow_many_connections()
            report = _measure(options, asked, taken, scale)
            results.write(report, options.json)
    except (ValueError, OSError, msgspec.DecodeError) as error:
        parser.error(str(error))
    except (tools.ToolMissing, ChildFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show(report, baseline)
    if not options.show:
        print(f"samples: {options.json}")
    if options.write_docs:
        print(f"page: {page.write_docs(report)}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""The page with the results, ``docs/reference/benchmarks.md``, and the JSON that it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.bench import table
from tests.bench.results import Figures, Report, write
from tests.bench.targets import verdicts

DOCS: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE: Final = "benchmarks.md"
DATA: Final = "benchmarks.json"

_INTRODUCTION: Final = """\
# Benchmarks

<!-- Written by `make bench ARGS=--write-docs` from benchmarks.json; do not edit. -->

What a request, a chunk, a stream and a reload cost, for the processor on each transport and for a server that answers
the same messages with constants (`echo`). `make bench` measures this on your machine and prints the same table; all
samples of the run below are in [benchmarks.json](benchmarks.json). Figures of one machine say little about another:
compare the columns of one table.
"""

_METHOD: Final = """\
## How it is measured

- Every column of the table has an Envoy of its own, all with the same configuration but for the filter, in front of one
  stand-in upstream, all on one machine. Runs alternate between the columns, there and back; a cell is the median of
  the runs, with the lowest and the highest. Small requests are run most often, and more often by themselves on `http2`
  and its echo, of which a ratio is asked that is closer than single runs are.
- **CPU** is that of the processor with all its children, as the kernel counts it (`/proc`), divided by the requests or
  chunks of the run. Chunks are counted from when all streams are open, and as Envoy hands them over: where it lags
  behind, it merges events. The pass-through backend has an API key, the config one CEL cost rule; both filters are on,
  which makes five messages a request. *Renamed* means that the backend has a model name of its own, so the body is
  edited.
- **Added latency** is the latency less that of Envoy without the filter in the same round; the column of the latter
  shows its own, marked `=`. Load comes from wrk (latency, rates) and h2load (CPU per request, 16 in flight).
- **Chunk lateness** is the time between the stamp that the upstream writes into an event and its arrival at the
  client, so it includes Envoy and both ends; the column without the filter shows what is left without the processor.
  It counts from when all streams are open. They are opened within two seconds, and what is late by then is shown for
  itself: that is the cost of so many connections and requests, not of streams.
- **Resident memory** is summed over the processes of the processor, among them the one that decodes configs; pages
  that they share count in each.
- **Reload**: 100 streams with an event each 50 ms, while every one of 5,000 backends gets another key.
"""

_TRANSLATORS: Final = """\
## Translators

CPU of the synchronous core alone, without transport, by API of the backend: one chat request of 2 KB with its five
messages, and one event of a streamed answer.
"""


def render(report: Report) -> str:
    """The page."""
    figures = Figures(report)
    machine = report.machine
    facts = [
        ("measured", f"{report.started}, in {report.seconds:.0f} s, commit {machine.commit or 'unknown'}"),
        ("CPU", f"{machine.cpu}, {machine.cores} cores, load average {machine.load:g} at the start"),
        ("memory", f"{machine.memory_gib:g} GiB"),
        ("kernel", machine.kernel),
        ("Python", machine.python),
        ("Envoy", f"{machine.envoy}, {report.concurrency} worker threads"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
    ]
    parts = [
        _INTRODUCTION,
        "**The runs of this page were short (`--quick`); its figures are rough.**\n" if report.quick else "",
        "## Machine\n\n" + table.markdown([["", ""], *map(list, facts)]).replace("---:", "---"),
        "## Targets\n\n" + table.markdown(table.verdict_grid(verdicts(figures))),
        "## Results\n\n" + table.markdown(table.grid(report, figures)),
        "\n".join(f"- `{row.name}`: {row.meaning}{_absence(row.missing)}" for row in report.rows) + "\n",
        _TRANSLATORS + "\n" + table.markdown(table.translator_grid(report.translators, figures))
        if report.translators
        else "",
        _incidents(report),
        _METHOD,
    ]
    return "\n".join(part for part in parts if part)


def _absence(reason: str) -> str:
    return f" ({table.NOT_IN_BUILD}: {reason})" if reason else ""


def _incidents(report: Report) -> str:
    notes = [f"- {fault}\n" for fault in report.faults]
    notes += [f"- no time left for {skipped}\n" for skipped in report.skipped]
    return "## What went wrong in this run\n\n" + "".join(notes) if notes else ""


def write_docs(report: Report, folder: Path = DOCS) -> Path:
    """Write page and data; gives the page."""
    write(report, folder / DATA)
    page = folder / PAGE
    page.write_text(render(report), encoding="utf-8")
    return page

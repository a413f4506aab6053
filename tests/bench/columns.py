"""The columns of the benchmark: each puts one kind of load on one row, and gives the figures of that run.

A column runs on rows that stand for the whole benchmark and are visited in turn, or (``fresh``) on a row started just
for it, because what it leaves behind would show in the others: memory, and a large filter config.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from tests.bench import reload
from tests.bench.loads import LoadFailed, chat_body, run_h2load, run_wrk
from tests.bench.rows import Kind
from tests.bench.stage import RENAMED_MODEL, Side
from tests.bench.streams import Pace, Streams, percentile
from tests.bench.tools import Tool

KB: Final = 1000
MEBIBYTE: Final = 1 << 20
SIZES: Final = {"0.6k": 600, "100k": 100 * KB, "1m": 1000 * KB}
_IN_FLIGHT: Final = 16
EVERY: Final[frozenset[Kind]] = frozenset(("control", "processor", "echo"))
WITH_FILTER: Final[frozenset[Kind]] = frozenset(("processor", "echo"))
PROCESSORS: Final[frozenset[Kind]] = frozenset(("processor",))
_CLOSE: Final = frozenset(("http2", "echo-http2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything is done; ``rounds`` bounds the rounds of every column.

    Attributes:
        limit: seconds for all of it.
        passes: how often a round goes through the rows with small requests.
        load: seconds of a run of wrk.
        requests: requests of a run of h2load, by size of the body.
        paces: streams → how they are written.
        open: numbers of open streams at which memory is read.
        reloads: config changes during one run.
        backends: how many the config has that is reloaded.
    """

    limit: float
    rounds: int
    passes: int
    load: float
    requests: Mapping[str, int]
    paces: Mapping[int, Pace]
    open: tuple[int, ...]
    reloads: int
    steady: float
    backends: int = 5000


# With more streams each is slower, as those of a busy model are; 1,000 of them make 10,000 events a second.
FULL: Final = Scale(
    limit=860.0,
    rounds=5,
    passes=3,
    load=2.0,
    requests={"0.6k": 500, "100k": 300, "1m": 60},
    paces={16: Pace(chunks=200, gap=0.02), 200: Pace(chunks=200, gap=0.04), 1000: Pace(chunks=200, gap=0.1)},
    open=(1000, 5000),
    reloads=3,
    steady=3.0,
)
QUICK: Final = Scale(
    limit=105.0,
    rounds=1,
    passes=1,
    load=1.0,
    requests={"0.6k": 200, "100k": 60, "1m": 16},
    paces={16: Pace(chunks=40, gap=0.02), 200: Pace(chunks=40, gap=0.04), 1000: Pace(chunks=15, gap=0.2)},
    open=(1000,),
    reloads=1,
    steady=1.5,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What load is made with: the two programs, and a directory for bodies."""

    wrk: Tool
    h2load: Tool
    directory: Path

    def body(self, size: int, model: str = "bench") -> Path:
        path = self.directory / f"body-{size}-{model}.json"
        if not path.exists():
            path.write_bytes(chat_body(size, model))
        return path


Measure = Callable[[Side, Tools], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One kind of load.

    Attributes:
        kinds: kinds of rows that it makes sense for.
        rounds: how many rounds measure it.
        passes: how often each of them goes through the rows: there and back in turn, so that a machine that becomes
            slower or faster meanwhile favours none.
        close: names of rows that are compared most closely: each pass measures them some more times by themselves.
        fresh: the row is started for it, with a config of ``backends`` backends (0: just those in use).
    """

    name: str
    title: str
    measure: Measure
    rounds: int
    passes: int = 1
    close: frozenset[str] = frozenset()
    kinds: frozenset[Kind] = EVERY
    fresh: bool = False
    backends: int = 0


def columns(scale: Scale) -> tuple[Column, ...]:
    """All of them, in the order in which a round visits them."""

    def bounded(rounds: int) -> int:
        return min(rounds, scale.rounds)

    return (
        *(
            Column(
                name=f"latency-{connections}",
                title=f"latency and rate, {connections} in flight, 0.6 KB",
                measure=partial(latency, connections=connections, seconds=scale.load),
                rounds=bounded(3),
            )
            for connections in (1, 16, 256)
        ),
        *(
            Column(
                name=f"body-{size}",
                title=f"CPU per request, {SIZES[size]:,} bytes",
                measure=partial(bodies, size=SIZES[size], requests=count),
                rounds=bounded(3),
                # Single runs differ by more than what is asked of the median.
                passes=scale.passes if size == "0.6k" else 1,
                close=_CLOSE if size == "0.6k" else frozenset(),
            )
            for size, count in scale.requests.items()
        ),
        *(
            Column(
                name=f"renamed-{size}",
                title=f"CPU per request, {SIZES[size]:,} bytes, model renamed",
                measure=partial(bodies, size=SIZES[size], requests=scale.requests[size], model=RENAMED_MODEL),
                rounds=bounded(2),
                kinds=PROCESSORS,
            )
            for size in ("0.6k", "1m")
        ),
        *(
            Column(
                name=f"stream-{count}",
                title=f"{count} paced streams, {pace.chunks} chunks each, {pace.gap * 1000:.0f} ms apart",
                measure=partial(paced, count=count, pace=pace),
                rounds=bounded(3 if count < 1000 else 2),
            )
            for count, pace in scale.paces.items()
        ),
        Column(
            name="memory",
            title=f"resident memory with {' and '.join(f'{count:,}' for count in scale.open)} open streams",
            measure=partial(memory, counts=scale.open),
            rounds=1,
            kinds=WITH_FILTER,
            fresh=True,
        ),
        Column(
            name="reload",
            title=f"lateness of chunks while {scale.backends:,} backends are reloaded",
            measure=partial(reloads, scale=scale),
            rounds=bounded(2),
            kinds=PROCESSORS,
            fresh=True,
            backends=scale.backends,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Meter:
    """What a side has used so far."""

    server: float
    envoy: float
    messages: int

    @classmethod
    def read(cls, side: Side) -> _Meter:
        return cls(side.server_cpu(), side.envoy_cpu(), side.messages())

    def since(self, before: _Meter, count: int) -> dict[str, float]:
        """Cost of each of ``count`` units since then."""
        figures = {"envoy_cpu_us": (self.envoy - before.envoy) / count * 1e6}
        if self.server:
            figures["cpu_us"] = (self.server - before.server) / count * 1e6
            figures["messages"] = (self.messages - before.messages) / count
        return figures


def latency(side: Side, tools: Tools, *, connections: int, seconds: float) -> dict[str, float]:
    before = _Meter.read(side)
    load = run_wrk(tools.wrk, side.port, tools.body(SIZES["0.6k"]), connections=connections, seconds=seconds)
    used = _Meter.read(side).since(before, load.requests)
    # What was in flight at the end is still being dropped.
    side.settle()
    return {
        "p50_ms": load.p50 * 1e3,
        "p99_ms": load.p99 * 1e3,
        "longest_ms": load.longest * 1e3,
        "rate": load.rate,
        **used,
    }


def bodies(side: Side, tools: Tools, *, size: int, requests: int, model: str = "bench") -> dict[str, float]:
    before = _Meter.read(side)
    load = run_h2load(
        tools.h2load,
        side.port,
        tools.body(size, model),
        connections=_IN_FLIGHT,
        requests=requests,
        timeout=40.0,
    )
    return {"rate": load.rate, **_Meter.read(side).since(before, load.requests)}


def paced(side: Side, _: Tools, *, count: int, pace: Pace) -> dict[str, float]:
    figures = uvloop.run(_paced(side, count, pace))
    side.settle()
    return figures


async def _paced(side: Side, count: int, pace: Pace) -> dict[str, float]:
    streams = Streams(side.port, pace)
    deadline = time.monotonic() + pace.seconds * 1.6 + 5.0
    await streams.open(count, spread=min(pace.seconds / 4, 2.0))
    await streams.all_begun(deadline - time.monotonic())
    # From here on there are chunks, and no requests.
    seen = len(streams.lateness)
    before = _Meter.read(side)
    resident = side.resident()
    await streams.all_ended(deadline - time.monotonic())
    after = _Meter.read(side)
    events = len(streams.lateness) - seen
    # A chunk is a piece as Envoy hands it over: where it lags behind, it merges events.
    chunks = after.messages - before.messages or events
    finished = streams.finished
    await streams.close()
    if not (seen and events):
        raise LoadFailed("no event came through once all streams were open")
    opening, late = streams.lateness[:seen], streams.lateness[seen:]
    return {
        "late_opening_p99_ms": percentile(opening, 0.99) / 1e6,
        "late_p50_ms": percentile(late, 0.5) / 1e6,
        "late_p99_ms": percentile(late, 0.99) / 1e6,
        "late_max_ms": percentile(late, 1.0) / 1e6,
        "unfinished": count - finished,
        "events": len(streams.lateness),
        "chunks_per_event": chunks / events,
        "resident_mb": resident / MEBIBYTE,
        **after.since(before, chunks),
    }


def memory(side: Side, _: Tools, *, counts: tuple[int, ...]) -> dict[str, float]:
    figures = {"idle_mb": side.resident() / MEBIBYTE}
    figures |= uvloop.run(_memory(side, counts))
    side.settle()
    figures["after_mb"] = side.resident() / MEBIBYTE
    return figures


async def _memory(side: Side, counts: tuple[int, ...]) -> dict[str, float]:
    # Slow enough that nothing but the number of streams counts, and for longer than this takes.
    streams = Streams(side.port, Pace(chunks=1000, gap=5.0))
    figures = {}
    there = 0
    for count in counts:
        await streams.open(count - there, spread=(count - there) / 500)
        there = count
        if not await streams.all_begun(60.0) or streams.failed:
            await streams.close()
            raise LoadFailed(f"{count} streams could not be opened: {streams.failed} failed")
        figures[f"at_{count}_mb"] = side.resident() / MEBIBYTE
    await streams.close()
    return figures


def reloads(side: Side, _: Tools, *, scale: Scale) -> dict[str, float]:
    return reload.measure(side, backends=scale.backends, reloads=scale.reloads, steady=scale.steady)

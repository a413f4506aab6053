"""What streams notice of a reload: how late their events are while a large filter config is taken over.

Each event is one message of the processor, so lateness here is how long messages wait. A config counts as live when
the admin page says so; the moments after that still belong to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

import uvloop

from tests.bench.loads import LoadFailed
from tests.bench.stage import Side
from tests.bench.streams import Pace, Streams, percentile

_STREAMS: Final = 100
_GAP: Final = 0.05
_POLL: Final = 0.05
_AFTER: Final = 0.5
_PATIENCE: Final = 30.0

Window = tuple[int, int]
"""From when to when, on the monotonic clock in nanoseconds."""


def measure(side: Side, *, backends: int, reloads: int, steady: float) -> dict[str, float]:
    """Stream for ``steady`` seconds, then change the config ``reloads`` times.

    Raises:
        LoadFailed: streams failed, or a config did not become live.
    """
    # Written beforehand: making a large text would hold up the client that measures.
    prepared = [side.prepare(backends=backends, generation=generation + 1) for generation in range(reloads)]
    return uvloop.run(_measure(side, prepared, steady))


async def _measure(side: Side, prepared: Sequence[tuple[str, str]], steady: float) -> dict[str, float]:
    streams = Streams(side.port, Pace(chunks=1_000_000, gap=_GAP))
    try:
        await streams.open(_STREAMS, spread=0.5)
        if not await streams.all_begun(_PATIENCE) or streams.failed:
            raise LoadFailed(f"{streams.failed} of {_STREAMS} streams failed")
        await asyncio.sleep(0.5)
        quiet = await _quietly(side, steady)
        busy = []
        for digest, path in prepared:
            busy.append(await _reload(side, digest, path))
            await asyncio.sleep(_AFTER)
        if streams.failed:
            raise LoadFailed(f"{streams.failed} streams were cut by a reload")
    finally:
        await streams.close()
    before = within(streams.arrivals, streams.lateness, [quiet])
    during = within(streams.arrivals, streams.lateness, [(start, end + int(_AFTER * 1e9)) for start, end in busy])
    return {
        "steady_p99_ms": percentile(before, 0.99) / 1e6,
        "reload_p99_ms": percentile(during, 0.99) / 1e6,
        "steady_max_ms": percentile(before, 1.0) / 1e6,
        "reload_max_ms": percentile(during, 1.0) / 1e6,
        "live_after_ms": sum(end - start for start, end in busy) / len(busy) / 1e6,
    }


async def _quietly(side: Side, seconds: float) -> Window:
    """Time without a change, in which the admin page is asked as often as during one."""
    start = time.monotonic_ns()
    while time.monotonic_ns() < start + seconds * 1e9:
        await asyncio.to_thread(side.live_digest)
        await asyncio.sleep(_POLL)
    return start, time.monotonic_ns()


async def _reload(side: Side, digest: str, path: str) -> Window:
    start = time.monotonic_ns()
    side.publish(path)
    while await asyncio.to_thread(side.live_digest) != digest:
        if time.monotonic_ns() > start + _PATIENCE * 1e9:
            raise LoadFailed(f"config {digest[:12]} was not live after {_PATIENCE:g} s")
        await asyncio.sleep(_POLL)
    return start, time.monotonic_ns()


def within(arrivals: Sequence[int], values: Sequence[int], windows: Iterable[Window]) -> list[int]:
    """Those values that arrived within one of the windows."""
    spans = list(windows)
    return [
        value
        for arrival, value in zip(arrivals, values, strict=True)
        if any(start <= arrival <= end for start, end in spans)
    ]

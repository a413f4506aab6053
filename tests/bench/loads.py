"""Runs of wrk and h2load: what is sent, and what they say about it.

wrk keeps a number of requests in flight for a time, and tells latencies to the microsecond through ``wrk.lua``; h2load
sends an exact number of requests, which is what a figure per request wants when a request is large.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.tools import Tool

PATH: Final = "/v1/chat/completions"
_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_RESULT: Final = re.compile(r"^RESULT (\{.*\})$", re.MULTILINE)
_FINISHED: Final = re.compile(r"^finished in ([\d.]+)(us|ms|s|m|h),", re.MULTILINE)
_REQUESTS: Final = re.compile(r"^requests: .* (\d+) done, .* (\d+) failed, (\d+) errored, (\d+) timeout", re.MULTILINE)
_GOOD: Final = re.compile(r"^status codes: (\d+) 2xx", re.MULTILINE)
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class LoadFailed(RuntimeError):
    """A run is worth nothing: requests failed, or there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a run did; latencies in seconds, 0 where the tool does not tell them."""

    requests: int
    seconds: float
    p50: float = 0.0
    p99: float = 0.0
    longest: float = 0.0

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def chat_body(size: int, model: str = "bench") -> bytes:
    """A chat request of exactly ``size`` bytes."""
    start = b'{"model":"%s","temperature":0.2,"messages":[{"role":"user","content":"' % model.encode()
    end = b'"}]}'
    words = b"the quick brown fox jumps over the lazy dog "
    room = size - len(start) - len(end)
    return start + (words * (room // len(words) + 1))[:room] + end


def run_wrk(tool: Tool, port: int, body: Path, *, connections: int, seconds: float) -> Load:
    """Keep ``connections`` requests in flight for so many (whole) seconds.

    Raises:
        LoadFailed: a request failed, or none was answered.
        ToolMissing: wrk itself failed.
    """
    output = tool.run(
        *("--threads", "1", "--connections", str(connections), "--duration", f"{seconds:.0f}s", "--timeout", "10s"),
        *("--script", str(_SCRIPT), f"http://127.0.0.1:{port}{PATH}", "--", str(body)),
        timeout=seconds + 30,
    )
    return parse_wrk(output)


def parse_wrk(output: str) -> Load:
    """Read what ``wrk.lua`` printed.

    Raises:
        LoadFailed: as for a run.
    """
    found = _RESULT.search(output)
    if found is None:
        raise LoadFailed(f"wrk printed no result: {output.strip()[-200:]}")
    result = json.loads(found[1])
    if result["failures"] or not result["requests"]:
        raise LoadFailed(f"{result['failures']} failures, {result['requests']} requests answered")
    return Load(
        requests=result["requests"],
        seconds=result["seconds"],
        p50=result["p50_us"] / 1e6,
        p99=result["p99_us"] / 1e6,
        longest=result["max_us"] / 1e6,
    )


def run_h2load(tool: Tool, port: int, body: Path, *, connections: int, requests: int, timeout: float) -> Load:
    """Send so many requests over HTTP/1.1.

    Raises:
        LoadFailed: a request failed.
        ToolMissing: h2load itself failed, or took longer than ``timeout`` seconds.
    """
    output = tool.run(
        *("--h1", "-n", str(requests), "-c", str(connections), "-t", "1", "-d", str(body)),
        *("-H", "content-type: application/json"),
        f"http://127.0.0.1:{port}{PATH}",
        timeout=timeout,
    )
    return parse_h2load(output)


def parse_h2load(output: str) -> Load:
    """Read h2load's report.

    Raises:
        LoadFailed: as for a run.
    """
    finished, requests, good = (pattern.search(output) for pattern in (_FINISHED, _REQUESTS, _GOOD))
    if finished is None or requests is None or good is None:
        raise LoadFailed(f"h2load printed no result: {output.strip()[-200:]}")
    done = int(requests[1])
    if not done or int(good[1]) != done or any(int(requests[group]) for group in (2, 3, 4)):
        raise LoadFailed(f"of {done} requests {good[1]} were answered well")
    return Load(requests=done, seconds=float(finished[1]) * _UNITS[finished[2]])

"""What ``/ready`` and ``/config`` say of the filter config."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import extproc
from extproc.reload import ConfigStatus, LiveConfig, Refusal
from filter_config.load import Problem
from filter_config.redact import redacted


def readiness(status: ConfigStatus, *, draining: bool) -> dict[str, Any]:
    """The details of ``/ready``: which config is live since when, and what is wrong with the newest, if anything."""
    live = status.live
    return {
        "draining": draining,
        "config": {"hash": live.digest, "since": _timestamp(live.since)} if live else None,
        "last_error": status.refused.reason if status.refused and status.failing else None,
    }


def config_page(status: ConfigStatus, *, claimed: str, started_at: float, now: float) -> dict[str, Any]:
    """The details of ``/config``: the live config without its secrets, and the last one that was refused."""
    return {
        "version": {"program": extproc.__version__, "claimed": claimed},
        "uptime_seconds": round(now - started_at, 3),
        "loads": status.loads,
        "refusals": status.refusals,
        "live": _live(status.live, now) if status.live else None,
        "last_refused": _refused(status.refused, now, current=status.failing) if status.refused else None,
    }


def _live(live: LiveConfig, now: float) -> dict[str, Any]:
    return {
        "hash": live.digest,
        "since": _timestamp(live.since),
        "age_seconds": round(now - live.since, 3),
        "disabled_backends": dict(live.runtime.faults),
        "problems": list(map(_problem, live.problems)),
        "config": redacted(live.runtime.config),
    }


def _refused(refused: Refusal, now: float, *, current: bool) -> dict[str, Any]:
    return {
        "hash": refused.digest,
        "at": _timestamp(refused.at),
        "age_seconds": round(now - refused.at, 3),
        "current": current,
        "reason": refused.reason,
        "problems": list(map(_problem, refused.problems)),
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {"severity": problem.severity, "path": problem.path, "message": problem.message}


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""What ``/ready`` and ``/config`` say of the filter config."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import extproc
from extproc.auth.sources import CellState
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


def config_page(
    status: ConfigStatus, *, claimed: str, started_at: float, now: float, credentials: Iterable[CellState] | None = None
) -> dict[str, Any]:
    """The details of ``/config``: the live config without its secrets, and the last one that was refused.

    Args:
        status: what is known of the filter config.
        claimed: the version that this process claims to be.
        started_at: in seconds since the epoch, as is ``now``.
        now: the time.
        credentials: the state of those that are fetched from elsewhere; None where this process fetches none.
    """
    return {
        "version": {"program": extproc.__version__, "claimed": claimed},
        "uptime_seconds": round(now - started_at, 3),
        "loads": status.loads,
        "refusals": status.refusals,
        "live": _live(status.live, now) if status.live else None,
        "credentials": None if credentials is None else [_credential(state, now) for state in credentials],
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


def _credential(state: CellState, now: float) -> dict[str, Any]:
    return {
        "source": state.name,
        "usable": state.usable,
        "refreshed": None if state.refreshed_at is None else _timestamp(state.refreshed_at),
        "expires_in_seconds": None if state.expires_at is None else round(state.expires_at - now, 3),
        "last_error": state.error,
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

"""What ``/ready``, ``/config`` and the console say of the filter config."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import extproc
from extproc.auth.sources import CellState
from extproc.reload import ConfigStatus, LiveConfig, Refusal
from filter_config.load import Problem
from filter_config.redact import redacted

MAX_SHOWN: Final = 20
"""Problems, backends and credentials of which the console shows details."""


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


def config_summary(
    status: ConfigStatus, *, now: float, credentials: Iterable[CellState] | None = None
) -> dict[str, Any]:
    """The same for the console, which asks often: without the config itself, and with what is wrong, as far as it fits.

    Args:
        status: what is known of the filter config.
        now: the time, in seconds since the epoch.
        credentials: see ``config_page``; those that are usable are only counted.
    """
    live = status.live
    states = None if credentials is None else list(credentials)
    return {
        "loads": status.loads,
        "refusals": status.refusals,
        "live": _live_summary(live, now) if live else None,
        "last_refused": _shortened(_refused(status.refused, now, current=status.failing)) if status.refused else None,
        "credentials": None
        if states is None
        else {
            "fetched": len(states),
            "unusable": [_credential(state, now) for state in states if not state.usable][:MAX_SHOWN],
        },
    }


def _live_summary(live: LiveConfig, now: float) -> dict[str, Any]:
    faults = live.runtime.faults
    summary = {
        "hash": live.digest,
        "since": _timestamp(live.since),
        "age_seconds": round(now - live.since, 3),
        "backends": len(live.runtime.backends),
        "disabled": len(faults),
        "disabled_backends": dict(sorted(faults.items())[:MAX_SHOWN]),
        "problems": list(map(_problem, live.problems)),
    }
    return _shortened(summary)


def _shortened(page: dict[str, Any]) -> dict[str, Any]:
    problems = page["problems"]
    return {**page, "problems": problems[:MAX_SHOWN], "problem_count": len(problems)}


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

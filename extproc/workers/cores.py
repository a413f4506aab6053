"""How many workers ``auto`` means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")


def available_cores(groups: Path = _GROUPS) -> int:
    """Cores that this process may use: its affinity, and no more than the CPU quota of its container, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(groups)
    return cores if quota is None else max(1, min(cores, quota))


def _quota(groups: Path) -> int | None:
    """The quota in cores, where there is one (cgroup version 2, else 1)."""
    try:
        quota, period = (groups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (groups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (groups / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (quota.isdigit() and period.isdigit() and int(period)):
        # "max", and -1 in version 1: none is set.
        return None
    return -(-int(quota) // int(period))

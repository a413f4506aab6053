"""What the kernel says that processes have used: CPU time and resident memory, summed over a process and its children.

CPU comes from ``/proc/PID/task/TID/schedstat``, in nanoseconds, where the kernel keeps it, else from ``/proc/PID/stat``
in ticks of 10 ms: a paced run of a few streams costs less than ten ticks.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# What reading of a process that has just ended raises.
_GONE: Final = (FileNotFoundError, ProcessLookupError)


def tree(pid: int, *, proc: Path = PROC) -> list[int]:
    """A process and all that descend from it."""
    children = defaultdict(list)
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(*_GONE):
                children[int(_stat_fields(entry)[1])].append(int(entry.name))
    found = [pid]
    for parent in found:
        found.extend(children[parent])
    return found


def cpu_seconds(pid: int, *, proc: Path = PROC) -> float:
    """User and system time of the tree below ``pid``; a process that ends takes its own time with it."""
    return sum(_process_cpu(proc / str(member)) for member in tree(pid, proc=proc))


def resident_bytes(pid: int, *, proc: Path = PROC) -> int:
    """Resident memory of the tree; pages that its processes share are counted in each of them."""
    total = 0
    for member in tree(pid, proc=proc):
        with suppress(*_GONE):
            total += int((proc / str(member) / "statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return total


def settle(pid: int, *, timeout: float = 20.0) -> None:
    """Wait until the tree uses hardly any CPU: until what is done at the start, in the background, is done."""
    deadline = time.monotonic() + timeout
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now = cpu_seconds(pid)
        if now - before < 0.005:
            return
        before = now


def _process_cpu(process: Path) -> float:
    try:
        tasks = list((process / "task").iterdir())
    except _GONE:
        return 0.0
    total = 0
    for task in tasks:
        try:
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except _GONE:
            if process.exists() and not (tasks[0] / "schedstat").exists():
                return _ticks(process)
    return total / 1e9


def _ticks(process: Path) -> float:
    with suppress(*_GONE):
        fields = _stat_fields(process)
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _stat_fields(process: Path) -> list[str]:
    """The fields behind the name, which may itself hold spaces and brackets: state, parent, and more."""
    return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()

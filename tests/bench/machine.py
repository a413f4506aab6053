"""The machine and the versions that a report is true of."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

_PACKAGES: Final = ("grpcio", "hpack", "protobuf", "uvloop", "msgspec", "cel-expr-python")
_ROOT: Final = Path(__file__).resolve().parents[2]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """``load`` is the load average of the last minute when the run began: 0 on a machine with nothing else to do."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    envoy: str
    packages: dict[str, str]
    commit: str
    load: float


def describe(envoy: str) -> Machine:
    """This machine, now.

    Args:
        envoy: what Envoy says of its version.
    """
    memory = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return Machine(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(memory[1]) / 2**20, 1) if memory else 0.0,
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        envoy=envoy,
        packages=versions(_PACKAGES),
        commit=_commit(),
        load=round(os.getloadavg()[0], 2),
    )


def cpu_model(cpuinfo: str) -> str:
    """The name of the processor; the architecture where ``/proc/cpuinfo`` has no name."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def envoy_version(binary: str) -> str:
    """The version in what ``envoy --version`` prints."""
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    found = re.search(r"version: [0-9a-f]+/([^/\s]+)", output)
    return found[1] if found else output.strip()


def _commit() -> str:
    """The commit that was measured, with a mark when files differ from it; empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip()

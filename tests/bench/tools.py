"""wrk, h2load and Chromium, from Debian's packages, without root, in ``.tools/``.

``python -m tests.bench.tools`` fetches what benchmarks need, or the programs that are named. What is on the ``PATH``
already is taken as it is. Else the packages and those libraries that the system lacks are downloaded by apt and
unpacked, not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[2] / ".tools"
LOAD: Final = ("wrk", "h2load", "nghttp")
PACKAGES: Final = {"wrk": "wrk", "h2load": "nghttp2-client", "nghttp": "nghttp2-client", "chromium": "chromium"}
# Where a program is, if not in usr/bin: there Chromium has a script that only works where it is installed.
_PLACES: Final = {"chromium": "usr/lib/chromium/chromium"}
_PROBE: Final = {"wrk": ("-v",)}
_TIMEOUT: Final = 300.0
_FONTS: Final = Path("/etc/fonts/fonts.conf")
_OWN_FONTS: Final = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>{home}/usr/share/fonts</dir><cachedir>{home}/cache/fonts</cachedir></fontconfig>
"""


class ToolMissing(RuntimeError):
    """A tool is not here and cannot be fetched; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program that was seen to run, and the environment it needs."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, timeout: float) -> str:
        """Standard output and error of a run.

        Raises:
            ToolMissing: it failed, or ran for longer than ``timeout`` seconds.
        """
        try:
            done = subprocess.run(
                [self.path, *arguments],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolMissing(f"{self.path.name}: {error}") from error
        output = done.stdout + done.stderr
        # wrk answers its only harmless question, -v, with its usage and status 1.
        if done.returncode and not output.startswith("wrk "):
            raise ToolMissing(f"{self.path.name} ended with status {done.returncode}: {output.strip()[-300:]}")
        return output


def tool(name: str, *, home: Path = HOME) -> Tool:
    """A tool that runs: unpacked here, from the ``PATH``, or fetched now.

    Raises:
        ToolMissing: there is none.
    """
    found = at_hand(name, home=home)
    if found is None:
        fetch([PACKAGES[name]], home)
        found = at_hand(name, home=home)
    if found is None:
        raise ToolMissing(f"package {PACKAGES[name]} has no program {name}")
    found.run(*_PROBE.get(name, ("--version",)), timeout=30.0)
    return found


def at_hand(name: str, *, home: Path = HOME) -> Tool | None:
    """A tool that is here, unpacked or on the ``PATH``; nothing is fetched, nor tried."""
    return _unpacked(name, home) or _installed(name)


def _unpacked(name: str, home: Path) -> Tool | None:
    path = home / _PLACES.get(name, f"usr/bin/{name}")
    if not path.is_file():
        return None
    # Some packages keep libraries that only they use in folders of their own.
    folders = list((home / "usr" / "lib").glob("*-linux-gnu*"))
    folders += {file.parent for folder in folders for file in folder.glob("*/lib*.so*")}
    environment = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, sorted(folders)))}
    if not _FONTS.exists():
        (home / "fonts.conf").write_text(_OWN_FONTS.format(home=home), encoding="utf-8")
        environment["FONTCONFIG_FILE"] = str(home / "fonts.conf")
    return Tool(path=path, environment=environment)


def _installed(name: str) -> Tool | None:
    path = shutil.which(name)
    return None if path is None else Tool(path=Path(path))


def fetch(packages: Sequence[str], home: Path = HOME) -> None:
    """Download and unpack packages.

    Raises:
        ToolMissing: there is no apt here, or it cannot download.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ToolMissing(f"no {program} here: install {' and '.join(packages)} yourself")
    archives = home / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    (home / ".gitignore").write_text("*\n", encoding="ascii")
    _apt(["download", *_wanted(packages, home)], home, where=archives)
    for archive in sorted(archives.glob("*.deb")):
        _call(["dpkg-deb", "-x", str(archive), str(home)])
        archive.unlink()


def _wanted(packages: Sequence[str], home: Path) -> list[str]:
    """The packages and the libraries that the system lacks."""
    asked = ["install", "--simulate", "--no-install-recommends", *packages]
    try:
        plan = _apt(asked, home)
    except ToolMissing:
        # No package lists, or old ones: get lists of our own.
        (home / "lists").mkdir(exist_ok=True)
        _apt(["update"], home)
        plan = _apt(asked, home)
    return packages_of(plan) or list(packages)


def packages_of(plan: str) -> list[str]:
    """The names in apt's simulation of an installation."""
    return re.findall(r"^Inst (\S+)", plan, re.MULTILINE)


def _apt(arguments: Sequence[str], home: Path, *, where: Path | None = None) -> str:
    own = [f"Dir::State::lists={home / 'lists'}", f"Dir::Cache={home / 'cache'}"] if (home / "lists").exists() else []
    options = [part for option in ("Debug::NoLocking=1", *own) for part in ("-o", option)]
    return _call(["apt-get", *options, *arguments], where)


def _call(command: Sequence[str], where: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=where,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolMissing(f"{command[0]} took longer than {_TIMEOUT:g} s") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [""]
        raise ToolMissing(f"{command[0]} {command[-1]}: {last[0]}")
    return done.stdout


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in PACKAGES]
    if unknown:
        print(f"tools: no such program: {', '.join(unknown)}; there are {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    try:
        for name in names or LOAD:
            print(f"{name}: {tool(name).path}")
    except ToolMissing as missing:
        print(f"tools: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

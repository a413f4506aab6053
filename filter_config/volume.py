"""Reading files of a mounted volume: bounded, regular files only, never outside the volume.

A Kubernetes volume is a tree of symbolic links that is swapped as a whole: ``config.yaml`` → ``..data/config.yaml``,
with ``..data`` → ``..2026_01_02_…``. So links are followed, as long as they end inside the volume where that is asked
for.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import Final, final

MAX_CONFIG_BYTES: Final = 64 * 1024 * 1024
"""Largest config that is read. Eight parts of a bundle, the most that a control plane writes, are 5.7 MB."""

# As many links as Linux follows in one path.
_MAX_LINKS: Final = 40


@final
class Reason(StrEnum):
    """Why there is no config to read."""

    MISSING = "missing"
    """There is no such file."""
    UNREADABLE = "unreadable"
    """It cannot be read, is not a regular file, is too large, or leaves the volume."""
    INDEX = "index"
    """A bundle's index is not one."""
    PART_MISSING = "part_missing"
    """A bundle names a part that is not there."""
    CHECKSUM = "checksum"
    """A bundle's parts are not those that its index was written for."""


class ConfigUnavailable(Exception):
    """There is no config to read at present; the text says why."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def transient(self) -> bool:
        """Whether it passes by itself: index and parts of a bundle arrive separately (contract, filter config 2.9)."""
        return self.reason in (Reason.PART_MISSING, Reason.CHECKSUM)

    def __reduce__(self) -> tuple[type[ConfigUnavailable], tuple[str, Reason]]:
        return (type(self), (str(self), self.reason))


def read_file(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be read, is no regular file, or is larger than the limit.
    """
    # A pipe in the place of the file would block the open for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"not a regular file: {path}")
        file = os.fdopen(descriptor, "rb", closefd=False)
        data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise OSError(f"larger than {limit} bytes: {path}")
    return data


def inside(directory: Path, relative: str) -> Path | None:
    """The path of a file in a volume by its relative name, or None when name or links lead out of the volume."""
    parts = relative.split("/")
    if not relative or "\0" in relative or relative.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return None
    path = directory.joinpath(*parts)
    root = os.path.realpath(directory)
    return path if Path(os.path.realpath(path)).is_relative_to(root) else None


def link_directories(path: Path) -> tuple[Path, ...]:
    """The directories in which a change can make the path lead to something else.

    That of the file, and that of each symbolic link on the way to it. Where the way breaks off, the deepest directory
    that exists stands for the rest, since what is missing has to appear there first.
    """
    found: dict[str, None] = {}
    todo = _steps(os.path.abspath(path))  # noqa: PTH100 - resolves no links
    at, links = os.sep, 0
    while todo:
        step = os.path.join(at, todo.pop())  # noqa: PTH118 - one text per step, hundreds of steps
        try:
            mode = os.lstat(step).st_mode
        except OSError:
            break
        if stat.S_ISLNK(mode):
            found[at] = None
            links += 1
            if links > _MAX_LINKS:
                break
            target = os.path.normpath(os.path.join(at, os.readlink(step)))  # noqa: PTH115, PTH118
            todo.extend(_steps(target))
            at = os.sep
        elif stat.S_ISDIR(mode):
            at = step
    found[at] = None
    return tuple(map(Path, found))


def _steps(path: str) -> list[str]:
    """The names of an absolute path, the first one last."""
    return list(Path(path).parts[:0:-1])

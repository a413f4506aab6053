"""Watching a config file or bundle: what it is now, and again whenever it is something else.

Kubernetes swaps a link in the directory, so the file's own events never come, and a modification time may stand still
or go back. So directories are watched, whatever happens in them only says "look", and the hash of the content decides.
A slow poll looks as well, for file systems whose changes nobody reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from watchfiles import awatch

from filter_config.bundle import INDEX_NAME, PARTS_NAME, parse_index, read_bundle
from filter_config.volume import ConfigUnavailable, Reason, link_directories, read_file

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from watchfiles.main import FileChange

__all__ = ["BundleSource", "ConfigUnavailable", "FileSource", "Reason", "Snapshot", "Source", "watch"]

_log = structlog.get_logger(__name__)

# A swap is a handful of events within a millisecond: look when a step passes without one, or after the debounce.
_STEP_MS: Final = 20
_DEBOUNCE_MS: Final = 100
# How often to look where the system reports no changes at all.
_UNREPORTED_INTERVAL: Final = 1.0
# How many times in a row a directory may vanish under our hands before we stop hurrying.
_VANISH_LIMIT: Final = 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a source at one moment."""

    data: bytes = field(repr=False)
    digest: str
    """Hex SHA-256 of the data."""


class Source(Protocol):
    """Where a config is read from."""

    def read(self) -> Snapshot:
        """The content now.

        Raises:
            ConfigUnavailable: there is none.
        """

    def directories(self) -> tuple[Path, ...]:
        """The directories whose changes can change the content; they change themselves as links are swapped."""


class FileSource:
    """A config in a single file, such as a key of a mounted Secret.

    NB: a ``subPath`` mount never sees an update of its Secret; Kubernetes does not deliver one.
    """

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Snapshot:
        """See :class:`Source`."""
        try:
            data = read_file(self.path)
        except FileNotFoundError as error:
            raise ConfigUnavailable(f"config file does not exist: {self.path}", Reason.MISSING) from error
        except OSError as error:
            raise ConfigUnavailable(f"failed to read config file: {error}", Reason.UNREADABLE) from error
        return Snapshot(data, hashlib.sha256(data).hexdigest())

    def directories(self) -> tuple[Path, ...]:
        """See :class:`Source`."""
        return link_directories(self.path)


class BundleSource:
    """A config in pieces, in a mounted directory."""

    __slots__ = ("directory",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> Snapshot:
        """See :class:`Source`."""
        bundle = read_bundle(self.directory)
        return Snapshot(bundle.data, bundle.digest)

    def directories(self) -> tuple[Path, ...]:
        """See :class:`Source`. Parts that the index names may be anywhere in the volume."""
        index = self.directory / INDEX_NAME
        names = [f"{PARTS_NAME}/000"]
        with contextlib.suppress(ConfigUnavailable, OSError):
            names = [part.path for part in parse_index(read_file(index)).parts]
        # One name per directory will do.
        folders = {name.rpartition("/")[0]: name for name in names}
        found = dict.fromkeys(link_directories(index))
        for name in folders.values():
            found.update(dict.fromkeys(link_directories(self.directory / name)))
        return tuple(found)


async def watch(
    source: Source,
    *,
    poll_interval: float = 5.0,
    stop: asyncio.Event,
) -> AsyncIterator[Snapshot | ConfigUnavailable]:
    """What the source holds: at once, and then each time that it is another content, or is gone, or is back.

    A content that comes back after an error is given again even if it is the last one known, so that the receiver can
    clear the error. Contents are not judged: a half-written file is a content like any other.

    Args:
        source: what to watch.
        poll_interval: seconds between two looks when nothing is reported.
        stop: ends the iteration, within some 20 ms, when it is set.
    """
    last: str | None = None
    async with contextlib.aclosing(_looks(source, poll_interval, stop)) as looks:
        async for _ in looks:
            state = await asyncio.to_thread(_read, source)
            seen = state.digest if isinstance(state, Snapshot) else f"unavailable: {state}"
            if seen != last:
                last = seen
                yield state


def _read(source: Source) -> Snapshot | ConfigUnavailable:
    try:
        return source.read()
    except ConfigUnavailable as unavailable:
        return unavailable.with_traceback(None)


class _EndOfWatch:
    """The stop event of one watch: set by whoever stops the iteration, or by us to watch other directories.

    NB: ``awatch`` sets its stop event when it is cancelled, which must not stop anything else.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._ended = False

    def is_set(self) -> bool:
        return self._ended or self._stop.is_set()

    def set(self) -> None:
        self._ended = True


_Watched = tuple[tuple[str, int, int], ...]


def _watched(source: Source) -> _Watched:
    """The directories to watch, with what tells a directory from another one that took its name."""
    found = []
    for directory in source.directories():
        with contextlib.suppress(OSError):
            status = directory.stat()
            # Without the right to list a directory it cannot be watched; the poll has to do.
            if os.access(directory, os.R_OK):
                found.append((str(directory), status.st_dev, status.st_ino))
    return tuple(found)


async def _looks(source: Source, poll_interval: float, stop: asyncio.Event) -> AsyncGenerator[None]:
    """Yields when it is time to look at the source: whenever a watch has begun, then on changes and polls."""
    reported = True
    vanished = 0
    while not stop.is_set():
        watched = await asyncio.to_thread(_watched, source)
        try:
            async with contextlib.aclosing(_changes(watched, poll_interval, stop)) as changes:
                async for intact in changes:
                    reported = True
                    vanished = 0
                    yield
                    if not intact or watched != await asyncio.to_thread(_watched, source):
                        break
        except FileNotFoundError:
            # A directory went between listing and watching it, as in a burst of swaps: list them anew.
            vanished += 1
            if vanished % _VANISH_LIMIT == 0:
                await asyncio.sleep(_UNREPORTED_INTERVAL)
        except (OSError, RuntimeError) as error:
            # No inotify left, or none there: the checksum still tells.
            if reported:
                _log.warning("config_changes_not_reported", reason=str(error), poll_seconds=_UNREPORTED_INTERVAL)
            reported = False
            yield
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(poll_interval, _UNREPORTED_INTERVAL)):
                    await stop.wait()


async def _changes(watched: _Watched, poll_interval: float, stop: asyncio.Event) -> AsyncGenerator[bool]:
    """Yields once the directories are being watched, then on each change in them and each time a poll is due.

    False says that a directory itself was removed or renamed, so that its watch is dead. Its successor may well have
    the same name and the same inode.
    """
    end = _EndOfWatch(stop)
    changes = awatch(
        *(path for path, _, _ in watched),
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        stop_event=end,
        rust_timeout=max(round(poll_interval * 1000), 1),
        yield_on_timeout=True,
        recursive=False,
        # NB: True would hide a missing directory as well.
        ignore_permission_denied=False,
    )

    roots = {path for path, _, _ in watched}

    async def wait() -> set[FileChange] | None:
        return await anext(changes, None)

    pending = asyncio.create_task(wait())
    try:
        # NB: awatch begins to watch before it waits for the first time, so what is read from here on cannot be missed.
        await asyncio.sleep(0)
        if not pending.done():
            yield True
        while True:
            # Not awaited itself: if this task is cancelled, the watching thread is to be ended first.
            await asyncio.wait((pending,))
            changed = pending.result()
            if changed is None:
                return
            pending = asyncio.create_task(wait())
            yield all(path not in roots for _, path in changed)
    finally:
        end.set()
        await asyncio.gather(pending, return_exceptions=True)
        await changes.aclose()

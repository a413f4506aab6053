"""Credentials that somebody else gives out for a while: where they come from, and the cell that holds the newest.

Nothing here waits or runs by itself. A *source* knows how to ask; a *cell* knows what was answered, when to ask again
and what to tell a request meanwhile; ``extproc.credentials``, which has threads, brings the two together. An old
credential serves as long as it is valid, however often its renewal fails (field reports BR-99 and BR-100).
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Protocol

from extproc.auth.base import CredentialT
from extproc.errors import BackendUnavailable, ExtProcError
from filter_config.volume import read_file

EARLIEST: Final = 300.0
"""Seconds before its end that a long-lived credential is renewed; the peer's window (contract, rotation 8.2)."""
_SHARE: Final = 0.2  # of the lifetime, for shorter ones: a window of five minutes would renew them for ever
_LEAST: Final = 10.0  # seconds, and at most half the lifetime: what a renewal may take on a busy machine
_SPREAD: Final = 0.2  # so that many processes do not ask at once
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
_LAST_RETRY_WITHOUT: Final = 10.0  # while requests fail for want of the credential
MAX_WATCHED_BYTES: Final = 1 << 20
_MAX_REASON: Final = 500


class SourceError(ExtProcError):
    """A source gave no credential; the text says why, and shows nothing secret."""


@dataclass(frozen=True, slots=True)
class Fetched(Generic[CredentialT]):
    """What a source answered.

    Attributes:
        credential: hidden from ``repr``, whatever its type.
        expires_at: in seconds since the epoch; ``None`` for one that lasts until its source changes.
    """

    credential: CredentialT = field(repr=False)
    expires_at: float | None = None


class Source(Protocol[CredentialT]):
    """One place that gives out a credential."""

    @property
    def name(self) -> str:
        """Whose credential it is, for logs, metrics and pages: short, nothing secret in it.

        Sources of one name differ at most in how they prove who asks. After a change of that, the old credential is
        used until the new proof has brought one.
        """
        ...

    @property
    def key(self) -> Hashable:
        """Identity: sources with equal keys share one cell, also across reloads. May hold a ``Secret``; never shown."""
        ...

    @property
    def watches(self) -> tuple[Path, ...]:
        """Files whose content decides on the credential; a change is a reason to ask again at once.

        Asked for again after each fetch, so it may depend on what was found. A file need not exist.
        """
        ...

    def fetch(self) -> Fetched[CredentialT]:
        """Ask for a credential, a fresh one. Runs in a thread, never twice at a time; must end within about 30 s.

        Raises:
            SourceError: there is none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CellState:
    """What may be shown of a cell.

    Attributes:
        name: that of the source.
        expires_at: of the credential in use, in seconds since the epoch; ``None`` without one, and for one that lasts.
        usable: whether requests get a credential.
        refreshed_at: when the credential came.
        error: why the newest attempt to renew it failed, if it did.
    """

    name: str
    expires_at: float | None
    usable: bool
    refreshed_at: float | None
    error: str | None


class RefreshedCell(Generic[CredentialT]):
    """Holds the newest credential of a source, and knows when the next one is due.

    Read by requests, told by the keeper; both on one thread.

    Args:
        source: where the credential comes from.
        clock: seconds since the epoch.
        jitter: a number from 0 to 1, each time another.
    """

    __slots__ = ("_clock", "_error", "_held", "_jitter", "_pause", "_refreshed_at", "due", "seen", "source", "unserved")

    def __init__(
        self,
        source: Source[CredentialT],
        *,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.source: Final = source
        self.due: float | None = 0.0
        """When to ask the source, in seconds since the epoch; ``None`` when only a changed file is a reason to."""
        self.seen: Mapping[Path, str] = {}
        """The digests of the watched files that the newest answer, or failure, goes back to."""
        self.unserved = 0
        """Requests that got no credential, since somebody last counted."""
        self._clock = clock
        self._jitter = jitter
        self._held: Fetched[CredentialT] | None = None
        self._refreshed_at: float | None = None
        self._error: str | None = None
        self._pause = FIRST_RETRY

    def inherit(self, other: RefreshedCell[CredentialT]) -> None:
        """Use the credential of a predecessor until there is one of its own."""
        self._held = other._held
        self._refreshed_at = other._refreshed_at

    def read(self) -> CredentialT:
        """The credential in use, whether or not its renewal is under way or has failed.

        Raises:
            BackendUnavailable: none came so far, or the last one has expired. What the source said is not for clients;
                it is in the log and on the page.
        """
        held = self._held
        if held is None:
            self.unserved += 1
            what = "cannot be had" if self._error else "has not been fetched yet"
            raise BackendUnavailable(f"the credential of the backend {what} ({self.source.name})")
        if held.expires_at is not None and held.expires_at <= self._clock():
            self.unserved += 1
            raise BackendUnavailable(f"the credential of the backend has expired ({self.source.name})")
        return held.credential

    def succeeded(self, fetched: Fetched[CredentialT], seen: Mapping[Path, str]) -> bool:
        """Take what the source answered; False, and a failure, when it has expired already."""
        now = self._clock()
        if fetched.expires_at is not None and fetched.expires_at <= now:
            self.failed("the source gave a credential that has expired; is the clock of this machine right?", seen)
            return False
        self._held = fetched
        self._refreshed_at = now
        self._error = None
        self._pause = FIRST_RETRY
        self.seen = seen
        self.due = None if fetched.expires_at is None else self._renewal(now, fetched.expires_at)
        return True

    def failed(self, reason: str, seen: Mapping[Path, str]) -> None:
        """Note that the source gave nothing, and ask again after a pause, longer each time."""
        self._error = " ".join(reason.split())[:_MAX_REASON]
        self.seen = seen
        self.due = self._clock() + self._pause * (1 + _SPREAD * self._jitter())
        self._pause = min(self._pause * 2, LAST_RETRY if self._is_usable() else _LAST_RETRY_WITHOUT)

    def outdated(self) -> None:
        """A watched file has changed: ask at once."""
        self.due = 0.0
        self._pause = FIRST_RETRY

    def state(self) -> CellState:
        """What may be shown."""
        held = self._held
        return CellState(
            name=self.source.name,
            expires_at=held.expires_at if held is not None else None,
            usable=self._is_usable(),
            refreshed_at=self._refreshed_at,
            error=self._error,
        )

    def _is_usable(self) -> bool:
        held = self._held
        return held is not None and (held.expires_at is None or held.expires_at > self._clock())

    def _renewal(self, now: float, end: float) -> float:
        lifetime = end - now
        lead = min(EARLIEST, max(_SHARE * lifetime, min(_LEAST, lifetime / 2)))
        # A source may give the same credential again until shortly before its end, as metadata servers do.
        return max(end - lead * (1 + _SPREAD * self._jitter()), now + FIRST_RETRY)

    def __repr__(self) -> str:
        return f"RefreshedCell({self.source.name})"


class Cells:
    """The cells of a runtime in the making: known sources keep theirs, others get a new one.

    Args:
        known: the cells of the live runtimes, by the keys of their sources.
        make: makes a cell.
    """

    def __init__(
        self,
        known: Mapping[Hashable, RefreshedCell[Any]] | None = None,
        make: Callable[[Source[Any]], RefreshedCell[Any]] = RefreshedCell,
    ) -> None:
        self._known = known or {}
        self._make = make
        self._used: dict[Hashable, RefreshedCell[Any]] = {}

    def of(self, source: Source[CredentialT]) -> RefreshedCell[CredentialT]:
        """The one cell of a source."""
        key = source.key
        cell = self._used.get(key)
        if cell is None:
            cell = self._used[key] = self._known.get(key) or self._new(source)
        return cell

    def _new(self, source: Source[CredentialT]) -> RefreshedCell[CredentialT]:
        cell = self._make(source)
        for known in self._known.values():
            if known.source.name == source.name:
                cell.inherit(known)
        return cell

    @property
    def used(self) -> tuple[RefreshedCell[Any], ...]:
        """Those that were asked for."""
        return tuple(self._used.values())


def digests(paths: Iterable[Path]) -> dict[Path, str]:
    """The hex SHA-256 of each file; empty for one that cannot be read. A modification time tells too little."""
    return {path: _digest(path) for path in paths}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_file(path, limit=MAX_WATCHED_BYTES)).hexdigest()
    except OSError:
        return ""

"""What attempts do to the headers of their request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from extproc.exchange.headers import HeaderDict
from extproc.exchange.replies import EncodedMutation, MutationForm
from extproc.telemetry.redaction import is_sensitive_header

CONTENT_LENGTH = "content-length"


class HeaderChanges:
    """Header changes of one attempt, while they are put together.

    Attributes:
        sets: by lower-case name, the name as it is written and the value, in the order in which they are sent.
        removes: lower-case names.
    """

    __slots__ = ("_length", "removes", "sets")

    def __init__(self) -> None:
        self.sets: dict[str, tuple[str, str]] = {}
        self.removes: list[str] = []
        self._length: tuple[str, str] | None = None

    @property
    def sized(self) -> bool:
        """Whether the length of the body is told: a mutation may have put something else in its place."""
        return self._length is not None and self.sets[CONTENT_LENGTH] is self._length

    def set_length(self, length: str) -> None:
        """Tell the length of the body."""
        self.set(CONTENT_LENGTH, length)
        self._length = self.sets[CONTENT_LENGTH]

    def set(self, name: str, value: str) -> None:
        """Set a header, in place of what was set under its name before."""
        key = name.lower()
        if key in self.sets:
            del self.sets[key]
        self.sets[key] = (name, value)


class ChangeKey(NamedTuple):
    """Whatever the changes depend on of an attempt, beside its plan, if it is the first and its credential constant.

    Attributes:
        path: the path at the backend.
        sets: headers that the translation sets.
        removes: those headers of the request that it removes.
        configured_removes: those that the configuration removes.
        strips: those that must not reach the backend.
        accept_encoding: the codings that the client takes.
        replaces: the body is replaced.
    """

    path: str
    sets: tuple[tuple[str, str], ...]
    removes: tuple[str, ...]
    configured_removes: tuple[str, ...]
    strips: tuple[str, ...]
    accept_encoding: str
    replaces: bool


class HeaderChange:
    """Changes ready to be sent, by any number of attempts: all is encoded but the length of the body.

    Args:
        changes: what is set and removed; it is not changed any more.
        shown: those that are set and may be seen by logs and metrics.
        also_removes: a header of ours that goes in any case, and of which no later attempt has to know.

    Attributes:
        names: lower-case names of what is set or removed.
        secrets: values that are set and may not be shown.
    """

    # Nothing here is shown when it is printed: some of it are credentials.
    __slots__ = ("_mutation", "_shown", "_sized", "names", "secrets")

    def __init__(self, changes: HeaderChanges, shown: Mapping[str, str], *, also_removes: str) -> None:
        sets = changes.sets
        self._sized = changes.sized
        self._shown = {name: value for name, value in shown.items() if name != CONTENT_LENGTH or not self._sized}
        self._mutation = MutationForm(
            sets.values(), (*changes.removes, also_removes), CONTENT_LENGTH if self._sized else ""
        )
        self.names = frozenset((*sets, *changes.removes))
        self.secrets = [value for name, value in sets.values() if is_sensitive_header(name)]

    def show(self, headers: HeaderDict, length: str) -> None:
        """Put into a request's headers what may be seen of the changes."""
        headers.update(self._shown)
        if self._sized:
            headers[CONTENT_LENGTH] = length

    def encoded(self, length: str) -> EncodedMutation:
        """The changes for a body of this length."""
        return self._mutation.fill(length)

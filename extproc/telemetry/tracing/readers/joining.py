"""Joins the pieces of a value that comes in a stream: texts are put behind each other, all else takes its place.

The rules are those of the API's own clients: elements of an array that have an ``index`` are pieces of the one with
that index, and other elements are appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from extproc.telemetry.tracing.readers.answers import ENTRY, Budget, Text
from extproc.telemetry.tracing.readers.lenient import JSONObject, as_raw

# Texts that come whole, and from some backends again in each piece.
_WHOLE: Final = frozenset({"finish_reason", "format", "id", "name", "native_finish_reason", "role", "type"})

# Deltas are not nested deeper; what is, is kept as it came last.
_MAX_DEPTH: Final = 6

# Members that mean nothing: padding against those who watch the length of encrypted pieces.
_PADDING: Final = frozenset({"obfuscation"})


class _Elements(dict[int, "Joined"]):
    """Elements of an array by their ``index``."""


class Joined:
    """An object that comes in pieces."""

    __slots__ = ("_budget", "_depth", "_members")

    def __init__(self, budget: Budget, depth: int = 0) -> None:
        self._budget = budget
        self._depth = depth
        self._members: dict[str, object] = {}

    def add(self, piece: Mapping[str, object]) -> None:
        members = self._members
        for name, new in piece.items():
            known = members.get(name)
            if isinstance(known, Text) and isinstance(new, str):
                # Almost every piece.
                known.add(new)
                continue
            if name in _PADDING or (new is None and name in members):
                continue
            match new:
                case str() if name not in _WHOLE:
                    self._add_text(name, new)
                case dict() if self._depth < _MAX_DEPTH:
                    self._add_object(name, new)
                case list() if self._depth < _MAX_DEPTH and new:
                    self._add_elements(name, new)
                case _:
                    self._put(name, new)

    def value(self) -> JSONObject:
        """All of it, to be encoded."""
        return {name: _settled(value) for name, value in self._members.items()}

    def _add_text(self, name: str, piece: str) -> None:
        if self._budget.take(ENTRY):
            text = self._members[name] = Text(self._budget)
            text.add(piece)

    def _add_object(self, name: str, piece: JSONObject) -> None:
        whole = self._members.get(name)
        if not isinstance(whole, Joined):
            if not self._budget.take(ENTRY):
                return
            whole = self._members[name] = Joined(self._budget, self._depth + 1)
        whole.add(piece)

    def _add_elements(self, name: str, piece: list[object]) -> None:
        whole = self._members.get(name)
        if isinstance(whole, _Elements):
            self._join(whole, piece)
        elif isinstance(whole, list):
            whole += [spelled for each in piece if (spelled := self._spelled(each)) is not None]
        elif self._budget.take(ENTRY):
            indexed = all(_index(each) is not None for each in piece)
            self._members[name] = _Elements() if indexed else []
            self._add_elements(name, piece)

    def _join(self, whole: _Elements, piece: list[object]) -> None:
        for each in piece:
            if not isinstance(each, dict) or (index := _index(each)) is None:
                continue
            if index not in whole:
                if not self._budget.take(ENTRY):
                    return
                whole[index] = Joined(self._budget, self._depth + 1)
            whole[index].add({name: value for name, value in each.items() if name != "index"})

    def _put(self, name: str, value: object) -> None:
        old = self._members.get(name)
        # Some backends repeat a name or an id as an empty text, and arrays that hold nothing new.
        if value == "" or (old is not None and value in (old, [])):
            return
        if isinstance(value, dict | list):
            value = self._spelled(value)
            if value is None:
                return
        elif not self._budget.take((0 if name in self._members else ENTRY) + _size(value)):
            return
        self._members[name] = value

    def _spelled(self, value: object) -> Raw | None:
        """A value that does not change any more."""
        spelled = as_raw(value)
        fits = spelled is not None and self._budget.take(ENTRY + len(bytes(spelled)))
        return spelled if fits else None


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _index(value: object) -> int | None:
    index = value.get("index") if isinstance(value, dict) else None
    return index if type(index) is int else None


def _settled(value: object) -> object:
    match value:
        case Text():
            return str(value)
        case Joined():
            return value.value()
        case _Elements():
            return [value[index].value() for index in sorted(value)]
    return value

"""Bytes of a config document to plain builtins, by the peer's reading of YAML 1.1 (contract, filter config 2.1).

JSON, which is YAML, takes a short way. Everything else is built straight from libyaml's events in one pass: resolving
and constructing nodes is where a generic loader spends three quarters of its time, and this way a document can be
bounded while it is read. Only the first document of a stream is looked at.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from filter_config.scalars import Scalar, resolve_plain, scalar_text

MAX_ALIASED_NODES: Final = 400_000
"""How many nodes a document may repeat through aliases. A few lines of nested aliases stand for billions."""

_TAG: Final = "tag:yaml.org,2002:"
_MERGE_KEY: Final = "<<"
# The C loader is in every wheel of PyYAML; a build from source without libyaml still works, slowly.
_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(ValueError):
    """The bytes are no document. The text says where and why, and never quotes the document, which holds secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document read: its value, and the repeated keys as ``(line, key)``, of which the last one was taken."""

    value: object
    repeated_keys: tuple[tuple[int, str], ...] = ()


def read_document(data: bytes) -> Document:
    """The first document in the bytes; an empty stream is null.

    Raises:
        DocumentError: the bytes are neither JSON nor YAML, or repeat themselves without bound.
    """
    if data.lstrip(b" \t\r\n").startswith(b"{"):
        try:
            return Document(value=msgspec.json.decode(data))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            # A flow mapping of YAML, or broken JSON: the other reader says which.
            pass
    try:
        parser = _PARSER(data)
        try:
            return _Builder(parser).build()
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        raise DocumentError(_reason(error)) from None


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable as YAML"
    context = getattr(error, "context", None)
    # NB: str(error) quotes the document around the fault.
    text = f"{context}: {what}" if context else str(what)
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}" if mark is not None else text


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not been read."""

    value: dict[str, object] | list[object]
    anchor: str | None
    first_node: int
    key: str | None = None
    merging: bool = False
    merged: dict[str, object] | None = None


class _Builder:
    """Builds values from events with a stack of its own, so that nesting costs memory and not recursion."""

    def __init__(self, parser: Any) -> None:  # noqa: ANN401 - PyYAML's two loaders share no type with get_event
        self._next = parser.get_event
        self._anchors: dict[str, tuple[object, int]] = {}
        self._stack: list[_Open] = []
        self._nodes = 0
        self._aliased = 0
        self._repeated: list[tuple[int, str]] = []

    def build(self) -> Document:
        value: object
        while True:
            event = self._next()
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                self._nodes += 1
                value = _scalar(event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1)
            elif kind is yaml.MappingStartEvent:
                self._open({}, event)
                continue
            elif kind is yaml.SequenceStartEvent:
                self._open([], event)
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                value = self._close()
            elif kind is yaml.AliasEvent:
                value = self._alias(event)
            elif kind is yaml.StreamEndEvent:
                return Document(value=None)
            else:
                # Starts of stream and document say nothing; a document's end comes after its root was returned.
                continue
            if not self._stack:
                return Document(value=value, repeated_keys=tuple(self._repeated))
            self._add(value, event)

    def _open(self, value: dict[str, object] | list[object], event: yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            # Redefined from here on, and not usable before its end.
            self._anchors.pop(event.anchor, None)
        self._stack.append(_Open(value, event.anchor, self._nodes))
        self._nodes += 1

    def _close(self) -> object:
        frame = self._stack.pop()
        value = frame.value
        if frame.merged is not None and isinstance(value, dict):
            # YAML merge key: what a mapping says itself wins over what it merges, wherever "<<" stands.
            value = {**frame.merged, **value}
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (value, self._nodes - frame.first_node)
        return value

    def _alias(self, event: yaml.AliasEvent) -> object:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            if any(frame.anchor == event.anchor for frame in self._stack):
                raise _error(event, "an anchor's value contains its own alias")
            raise _error(event, "found undefined alias")
        value, nodes = found
        self._nodes += nodes
        self._aliased += nodes
        if self._aliased > MAX_ALIASED_NODES:
            raise _error(event, "document contains excessive aliasing")
        return value

    def _add(self, value: object, event: yaml.NodeEvent) -> None:
        frame = self._stack[-1]
        target = frame.value
        if isinstance(target, list):
            target.append(value)
        elif frame.merging:
            frame.merging = False
            frame.merged = {**(frame.merged or {}), **_merge(value, event)}
        elif frame.key is not None:
            target[frame.key] = value
            frame.key = None
        elif value == _MERGE_KEY and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            frame.merging = True
        else:
            frame.key = key = value if value.__class__ is str else _key(value, event)
            if key in target:
                self._repeated.append((_line(event), key))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _error(event: yaml.Event, reason: str) -> DocumentError:
    column = event.start_mark.column + 1 if event.start_mark is not None else 0
    return DocumentError(f"line {_line(event)}, column {column}: {reason}")


def _key(value: object, event: yaml.Event) -> str:
    if isinstance(value, bool | int | float):
        return scalar_text(value)
    kind = "null" if value is None else "a list" if isinstance(value, list) else "a mapping"
    raise _error(event, f"a mapping's key is {kind}")


def _merge(value: object, event: yaml.Event) -> dict[str, object]:
    sources = value if isinstance(value, list) else [value]
    merged: dict[str, object] = {}
    for source in reversed(sources):  # earlier ones win
        if not isinstance(source, dict):
            raise _error(event, "map merge requires a mapping or a list of mappings as the value")
        merged.update(source)
    return merged


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    if event.implicit[0]:
        return resolve_plain(event.value)
    tag = event.tag
    if tag is None or not tag.startswith(_TAG):
        return str(event.value)
    return _tagged(tag.removeprefix(_TAG), event)


def _tagged(tag: str, event: yaml.ScalarEvent) -> Scalar:
    """A scalar with an explicit core tag; any other tag is that of a text."""
    text = str(event.value)
    if tag == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except ValueError:
            raise _error(event, "!!binary value is no base64 of a text") from None
    if tag not in ("int", "float", "bool", "null"):
        return text
    value = resolve_plain(text)
    if tag == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}[tag]
    if value.__class__ is not wanted:
        raise _error(event, f"value does not fit its tag !!{tag}")
    return value

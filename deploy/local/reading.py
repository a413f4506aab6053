"""Documents of texts, each parsed once, and what the rules said of them, asked once for each that there is.

Parsing and validating is most of the work of a first look, and an edit changes a document or two of many. So documents
are remembered by their bytes, and what is known of them by the identity of their values, as long as they are there.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from filter_config.sources.envoy_ai_gateway.documents import Document, Text, documents
from filter_config.sources.envoy_ai_gateway.load import Judged, judge, load
from filter_config.sources.envoy_ai_gateway.marks import Key, key_of, marks_of
from filter_config.sources.envoy_ai_gateway.substitution import FILE, VARIABLE
from filter_config.sources.faults import Faults
from filter_config.sources.graph import Mark

_MARK: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)

_CONTEXT: Final = len(b"---\n")
"""A mark and what has to follow it."""

_Documents: TypeAlias = tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A part of a text that ends before a document mark, or with the text.

    Attributes:
        start: where it begins.
        before: lines before it.
        documents: None when something is wrong with them.
    """

    start: int
    before: int
    data: bytes
    documents: _Documents | None

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Reader:
    """Documents of texts. Of a text that was read before, only what has changed is looked at."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[bytes, Sequence[_Piece]]] = {}
        self._used: dict[str, tuple[bytes, Sequence[_Piece]]] = {}
        # For what was elsewhere; filled when it is first asked for.
        self._by_data: dict[bytes, _Piece] = {}

    def documents(self, text: Text, faults: Faults) -> list[Document]:
        """The documents of a text. What is there unchanged has the same value as the last time."""
        pieces = self._pieces(text)
        self._used[text.name] = (text.data, pieces)
        found: list[Document] = []
        for piece in pieces:
            if piece.documents is None:
                # Its messages name lines of the piece; those of the file are wanted.
                found += documents(Text(name=text.name, data=b"\n" * piece.before + piece.data), faults)
            else:
                found += piece.documents
        return found

    def forget_unused(self) -> None:
        """Forgets the texts that were not asked for since the last time."""
        self._texts, self._used = self._used, {}
        self._by_data = {}

    def _pieces(self, text: Text) -> Sequence[_Piece]:
        data, name = text.data, text.name
        was, known = self._texts.get(name, (b"", ()))
        if was == data:
            return known
        same = _same_start(was, data)
        # The mark after a piece, and what follows it, must have been there as well.
        head = known[: bisect_right(known, same - _CONTEXT, key=_end)]
        start, before = (head[-1].end, head[-1].before + head[-1].data.count(b"\n")) if head else (0, 0)
        moved = len(data) - len(was)
        least = len(was) - min(_same_end(was, data), len(was) - start, len(data) - start)
        tail = known[bisect_left(known, least + 1, key=_start) :]
        end = tail[0].start + moved if tail else len(data)
        middle = [self._piece(name, *place) for place in _cut(data, start, end, before)]
        lines = data.count(b"\n", start, end) + before - tail[0].before if tail else 0
        return [*head, *middle, *(_moved(piece, moved, lines) for piece in tail)]

    def _piece(self, name: str, start: int, before: int, data: bytes) -> _Piece:
        if not self._by_data:
            self._by_data = {piece.data: piece for _, there in self._texts.values() for piece in there}
        known = self._by_data.get(data)
        if known is not None and known.documents is not None:
            there: _Documents | None = _placed(known.documents, before - known.before, name)
        else:
            faults = Faults()
            parsed = tuple(documents(Text(name=name, data=data), faults))
            there = None if faults.closed() else _placed(parsed, before, name)
        piece = self._by_data[data] = _Piece(start=start, before=before, data=data, documents=there)
        return piece


def _cut(data: bytes, start: int, end: int, before: int) -> Iterator[tuple[int, int, bytes]]:
    """A part of a text cut before each document mark: where each piece begins, and the lines before it."""
    for mark in (*_MARK.finditer(data, start, end), None):
        until = mark.start() if mark is not None else end
        if until > start:
            piece = data[start:until]
            yield start, before, piece
            before += piece.count(b"\n")
        start = until


def _placed(there: _Documents, lines: int, name: str | None = None) -> _Documents:
    return tuple(
        replace(document, file=document.file if name is None else name, line=document.line + lines)
        for document in there
    )


def _moved(piece: _Piece, offset: int, lines: int) -> _Piece:
    if not offset and not lines:
        return piece
    there = piece.documents if piece.documents is None or not lines else _placed(piece.documents, lines)
    return _Piece(start=piece.start + offset, before=piece.before + lines, data=piece.data, documents=there)


def _start(piece: _Piece) -> int:
    return piece.start


def _end(piece: _Piece) -> int:
    return piece.end


def _same_start(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _same_end(one: bytes, other: bytes) -> int:
    """How many bytes both end with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a document, wherever it stands.

    Attributes:
        value: the document's; held, so that no other one can come to have its identity.
        key: None when it does not say what it is.
        judged: None when the kind is somebody else's.
        quiet: whether nothing is wrong with it in itself.
        substituted: whether it is a Secret with values from outside.
        marks: by which it is found, besides its key.
    """

    value: object
    key: Key | None
    judged: Judged | None
    quiet: bool
    substituted: bool
    marks: frozenset[Mark]

    @property
    def resource(self) -> msgspec.Struct | None:
        """The document as far as it can be read, valid or not."""
        return self.judged.value if self.judged is not None else None


class Judging:
    """Facts of documents, found out once."""

    def __init__(self) -> None:
        self._known: dict[int, Facts] = {}
        self._used: dict[int, Facts] = {}

    def facts(self, document: Document) -> Facts:
        """The facts of a document."""
        value = document.value
        known = self._used.get(id(value))
        if known is None:
            known = self._used[id(value)] = self._known.get(id(value)) or _facts(document)
        return known

    def judge(self, struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
        """See :data:`filter_config.sources.envoy_ai_gateway.load.Judge`."""
        known = self._used.get(id(value))
        return known.judged if known is not None and known.judged is not None else judge(struct, kind, value)

    def forget_unused(self) -> None:
        """Forgets what was not asked for since the last time."""
        self._known, self._used = self._used, {}


def _facts(document: Document) -> Facts:
    said: list[Judged] = []

    def remembered(struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
        said.append(judge(struct, kind, value))
        return said[0]

    faults = Faults()
    load((document,), faults, judge=remembered)
    key, judged = key_of(document.value), said[0] if said else None
    return Facts(
        value=document.value,
        key=key,
        judged=judged,
        quiet=not faults.closed(),
        substituted=judged is not None and _is_substituted(document.value),
        marks=frozenset(marks_of(key, document.value)) if key is not None else frozenset(),
    )


def _is_substituted(value: object) -> bool:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and any(str(name).startswith((VARIABLE, FILE)) for name in annotations)

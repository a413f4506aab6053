"""Files of resources to plain builtins: YAML or JSON, any number of documents in each, lists unrolled.

A file that cannot be read, or a document in it, is a fault and stops nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from filter_config.decode import shown
from filter_config.document import DocumentError, read_document
from filter_config.sources.faults import Faults, Origin

STDIN: Final = "-"
"""The path that stands for the standard input."""

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
# At the start of a line nothing but a document's mark can look like one, in block scalars neither (YAML 1.2, 9.1.2).
_MARK: Final = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A file's content under the name that messages have for it."""

    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of a file, or an item of a list in it."""

    file: str
    line: int
    """Where the document begins, from 1."""
    value: object = field(repr=False)
    path: str = ""
    """Of an item of a list, its path in the list."""


def read_files(paths: Iterable[Path | str], faults: Faults, *, stdin: BinaryIO | None = None) -> list[Text]:
    """The files; of a directory those that end in .yaml, .yml or .json, and ``-`` is the standard input."""
    texts = []
    for path in paths:
        if str(path) == STDIN:
            if stdin is None:
                faults.error(Origin(file=STDIN), "there is no standard input here", "name a file")
            else:
                texts.append(Text(name=STDIN, data=stdin.read()))
            continue
        texts += [text for file in _expand(Path(path), faults) if (text := _read(file, faults)) is not None]
    return texts


def _expand(path: Path, faults: Faults) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    except OSError as error:
        faults.error(Origin(file=str(path)), f"cannot be read: {error.strerror}", "name a file of resources")
        return []
    if not found:
        fix = f"put files there that end in {', '.join(sorted(_SUFFIXES))}"
        faults.warning(Origin(file=str(path)), "has no file of resources", fix)
    return found


def _read(path: Path, faults: Faults) -> Text | None:
    try:
        return Text(name=str(path), data=path.read_bytes())
    except OSError as error:
        faults.error(Origin(file=str(path)), f"cannot be read: {error.strerror}", "name a file of resources")
        return None


def documents(text: Text, faults: Faults) -> Iterator[Document]:
    """The documents of a file that are not empty."""
    for first, line, chunk in _chunks(text.data):
        try:
            document = read_document(chunk)
        except DocumentError:
            faults.error(Origin(file=text.name, line=line), _reason(chunk, first), "write YAML or JSON")
            continue
        for repeated, key in document.repeated_keys:
            where = Origin(file=text.name, line=first + repeated - 1)
            faults.warning(where, f"key {shown(key)} is given twice in one mapping; the last one is used", "keep one")
        yield from _unrolled(Document(file=text.name, line=line, value=document.value))


def _chunks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The documents' texts, with their first lines and the lines on which their content begins."""
    line = 1
    start = 0
    for mark in (*_MARK.finditer(data), None):
        end = mark.start() if mark is not None else len(data)
        chunk = data[start:end]
        content = _content(chunk)
        if content is not None:
            yield line, line + chunk.count(b"\n", 0, content), chunk
        line += chunk.count(b"\n")
        # What follows "---" on its line belongs to the document.
        start = mark.end() if mark is not None else end


def _content(chunk: bytes) -> int | None:
    """Where something stands in a document that is neither blank nor a comment nor a directive."""
    offset = 0
    for line in chunk.splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith((b"#", b"%")):
            return offset
        offset += len(line)
    return None


def _reason(chunk: bytes, first: int) -> str:
    """Why a document cannot be read, with the line of the file."""
    try:
        read_document(b"\n" * (first - 1) + chunk)
    except DocumentError as error:
        return str(error)
    raise AssertionError  # blank lines do not mend a document


def _unrolled(document: Document) -> Iterator[Document]:
    value = document.value
    if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List"):
        if value is not None:
            yield document
        return
    items = value.get("items")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield Document(file=document.file, line=document.line, value=item, path=f"items[{index}]")

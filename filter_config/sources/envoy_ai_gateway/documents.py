"""Files of resources to plain builtins: YAML or JSON, any number of documents in each, lists unrolled.

A file that cannot be read, or a document in it, is a fault and stops nothing else.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import yaml

from filter_config.decode import shown
from filter_config.document import DocumentError, read_document
from filter_config.sources.faults import Faults, Origin

STDIN: Final = "-"
"""The path that stands for the standard input."""

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
# At the start of a line nothing but a document's mark can look like one, in block scalars neither (YAML 1.2, 9.1.2).
# A brace there begins another value in a stream of JSON values, if a brace comes before it.
_MARK: Final = re.compile(rb"^(?:(?:---|\.\.\.)(?=[ \t\r\n]|\Z)|(?=\{))", re.MULTILINE)
_BLANKS: Final = 256
"""Space between two JSON values that is looked through."""
# Files that were put together keep the marks of the parts.
_INNER_BOM: Final = re.compile(rb"^\xef\xbb\xbf(?=---)", re.MULTILINE)
_OF_LISTS: Final = frozenset({"apiVersion", "kind", "metadata", "items"})
_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
                texts.append(text_of(STDIN, stdin.read()))
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
        return text_of(str(path), path.read_bytes())
    except OSError as error:
        faults.error(Origin(file=str(path)), f"cannot be read: {error.strerror}", "name a file of resources")
        return None


def text_of(name: str, data: bytes) -> Text:
    """The text of a file in UTF-8, whatever Unicode it was written in, as shells of Windows do."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # Of what is broken the reader of YAML says where.
        with suppress(UnicodeDecodeError):
            data = data.decode("utf-16").encode()
    return Text(name=name, data=_INNER_BOM.sub(b"", data) if codecs.BOM_UTF8 in data else data)


def documents(text: Text, faults: Faults) -> Iterator[Document]:
    """The documents of a file that are not empty."""
    for first, line, chunk in _chunks(text.data):
        at = Origin(file=text.name, line=line)
        try:
            document = read_document(chunk)
        except DocumentError:
            faults.error(at, _reason(chunk, first), "write YAML or JSON")
            continue
        if not _is_whole(chunk):
            fix = "put --- between documents, and write all lines of one with the same indentation"
            faults.error(at, "something follows the end of the document", fix)
            continue
        for repeated, key in document.repeated_keys:
            where = Origin(file=text.name, line=first + repeated - 1)
            faults.warning(where, f"key {shown(key)} is given twice in one mapping; the last one is used", "keep one")
        yield from _unrolled(Document(file=text.name, line=line, value=document.value), faults)


def _chunks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The documents' texts, with their first lines and the lines on which their content begins."""
    line = 1
    start = 0
    for mark in (*_MARK.finditer(data), None):
        if mark is not None and not mark[0] and not _after_brace(data, start, mark.start()):
            continue
        end = mark.start() if mark is not None else len(data)
        chunk = data[start:end]
        content = _content(chunk)
        if content is not None:
            yield line, line + chunk.count(b"\n", 0, content), chunk
        line += chunk.count(b"\n")
        # What follows "---" on its line belongs to the document.
        start = mark.end() if mark is not None else end


def _after_brace(data: bytes, start: int, end: int) -> bool:
    return data[max(start, end - _BLANKS) : end].rstrip().endswith(b"}")


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


def _is_whole(chunk: bytes) -> bool:
    """Whether the document that was read is all there is: no line at its margin can be left over, others can."""
    if chunk.lstrip().startswith(b"{"):
        try:
            msgspec.json.decode(chunk, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return _is_alone(chunk)
        return True
    offset = _content(chunk)
    return offset is None or chunk[offset : offset + 1] not in (b" ", b"[") or _is_alone(chunk)


def _is_alone(chunk: bytes) -> bool:
    parser = _PARSER(chunk)
    try:
        while parser.check_event():
            if isinstance(parser.get_event(), yaml.DocumentEndEvent):
                return isinstance(parser.get_event(), yaml.StreamEndEvent)
    except yaml.YAMLError:
        return False
    finally:
        parser.dispose()
    return False


def _unrolled(document: Document, faults: Faults) -> Iterator[Document]:
    """The document, or the items of a list, and those of lists in it."""
    waiting = [document] if document.value is not None else []
    while waiting:
        document = waiting.pop()
        value = document.value
        if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List"):
            yield document
            continue
        items = value.get("items")
        path = f"{document.path}.items".lstrip(".")
        if isinstance(items, list):
            waiting += (
                replace(document, value=items[index], path=f"{path}[{index}]") for index in reversed(range(len(items)))
            )
        elif value["kind"] == "List" and (items is not None or value.keys() - _OF_LISTS):
            at = Origin(file=document.file, line=document.line, kind="List", path=path)
            faults.error(at, "is no list of resources", "write one")

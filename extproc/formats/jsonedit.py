"""Edits of JSON text as byte ranges: a body is never rebuilt, and bytes outside of an edit stay as they came.

Rules, byte for byte: contract, model override 3.2, forced usage 3.9.2, body mutator 3.11. Text that is no valid JSON
is edited as well as can be; the only exception raised is `JSONEditError`. Time is linear in the text (`jsonscan`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from extproc.formats import jsonscan
from filter_config.checks import is_raw_json

if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple[str | int, ...]
"""The way to a value. A ``str`` is an object's key. An ``int`` is an array's index (-1: behind the last element when
setting, the last element when deleting); where an object stands in place of the array, its digits are the key."""

_Edit = tuple[int, int, bytes]

# A configured index must not fill memory with `null`.
_MAX_PADDING: Final = 65536
# No honest client repeats a key so often, and each one costs an edit.
_MAX_DUPLICATES: Final = 1024


class JSONEditError(ValueError):
    """An edit that cannot be made: a path that says nothing here, or a value that is no JSON."""


def parse_path(text: str) -> Path:
    r"""Read the path of a body mutation (contract, body mutator 3.11).

    ``.`` separates segments and ``\`` takes the next character as it is. Digits, and ``-1``, are an index; a leading
    ``:`` makes them a key.

    Raises:
        JSONEditError: the path is empty, ends in an escape, or has an unescaped ``*?#@|``.
    """
    if not text:
        raise JSONEditError("empty path")
    segments: list[str | int] = []
    current, raw_start, position = "", 0, 0
    while position < len(text):
        character = text[position]
        if character == ".":
            segments.append(_segment(current, forced=text.startswith(":", raw_start)))
            current, raw_start = "", position + 1
        elif character == "\\":
            position += 1
            if position == len(text):
                raise JSONEditError(f"path ends in an escape: {text}")
            current += text[position]
        elif character in "*?#@|":
            raise JSONEditError(f"cannot set or delete a value at a complex path: {text}")
        else:
            current += character
        position += 1
    segments.append(_segment(current, forced=text.startswith(":", raw_start)))
    return tuple(segments)


def _segment(text: str, *, forced: bool) -> str | int:
    if forced:
        return text[1:]
    # An index with a leading zero could not be told from its value, and nobody counts that way: it is a key.
    if text == "-1" or (text.isdecimal() and text.isascii() and (text == "0" or text[0] != "0")):
        return int(text) if len(text) < 10 else text
    return text


def set_value(data: bytes, path: Path, raw: bytes, *, every: bool = False) -> bytes:
    """The text with ``raw`` (JSON, taken as it is) at ``path``.

    A value that is there is replaced in place. A missing key is appended as its object's last member; an object or
    array that is missing, or ``null``, or no container, is created on the way. Text after the document is dropped
    when a member is appended to it. Of duplicate keys the first is meant, or each one with ``every``.

    Raises:
        JSONEditError: the path is empty, names a key in an array, or an index far beyond an array's end.
    """
    if not path:
        raise JSONEditError("empty path")
    start = jsonscan.top(data)
    if not _is_container(data, start):
        return _build(path, raw)
    edits: list[_Edit] = []
    openings = [start]
    for depth, segment in enumerate(path):
        rest = path[depth + 1 :]
        deeper: list[int] = []
        for opening in openings:
            values, closing, padding = _targets(data, opening, segment, every=every)
            if not values:
                text = _name(data, opening, segment) + b"null," * padding + _build(rest, raw)
                edits.append(_addition(data, opening, closing, text, document=opening == start))
            for value in values:
                if rest and _is_container(data, value.start):
                    deeper.append(value.start)
                else:
                    edits.append((value.start, value.end, _build(rest, raw)))
        openings = deeper
    return _splice(data, edits)


def delete(data: bytes, path: Path) -> bytes:
    """The text without what is at ``path`` (of duplicate keys the first), and without the comma that it leaves over.

    Unchanged when nothing is there.

    Raises:
        JSONEditError: the path is empty.
    """
    if not path:
        raise JSONEditError("empty path")
    opening = jsonscan.top(data)
    *parents, last = path
    for segment in parents:
        parent = _target(data, opening, segment)
        if parent is None:
            return data
        opening = parent.start
    target = _target(data, opening, last)
    return data if target is None else _splice(data, [_cut(data, opening, target)])


def encode_string(text: str) -> bytes:
    """The text as a JSON string; only what JSON demands is escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, but an escape
        return json.dumps(text).encode()


def raw_value(text: str) -> bytes:
    """The JSON that a configured value text means: itself when it looks like JSON, else a string.

    Raises:
        JSONEditError: the text looks like JSON and is none.
    """
    if not is_raw_json(text):
        return encode_string(text)
    try:
        raw = text.encode()
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise JSONEditError(f"the value looks like JSON, but is not valid: {error}") from error
    return raw


def find(data: bytes, key: str) -> bytes | None:
    """The raw value of a top-level member; of duplicates the last, as decoders have it. ``None`` when missing."""
    found = _top_members(data, key)
    return data[found[-1].start : found[-1].end] if found else None


def duplicate_keys(data: bytes, key: str) -> int:
    """How many top-level members have this key, in whatever spelling."""
    return len(_top_members(data, key))


def _top_members(data: bytes, key: str) -> list[jsonscan.Member]:
    start = jsonscan.top(data)
    return jsonscan.members(data, start, key)[0] if data[start : start + 1] == b"{" else []


def _targets(
    data: bytes, opening: int, segment: str | int, *, every: bool
) -> tuple[Sequence[jsonscan.Member | jsonscan.Element], int, int]:
    """What to set: the values there, or else where the container's closing bracket is and how many `null` to pad."""
    if _is_object(data, opening):
        limit = _MAX_DUPLICATES + 1 if every else 1
        found, closing = jsonscan.members(data, opening, str(segment), limit=limit)
        if len(found) > _MAX_DUPLICATES:
            raise JSONEditError(f"more than {_MAX_DUPLICATES} members named {segment!r}")
        return found, closing, 0
    if isinstance(segment, str) or segment < -1:
        raise JSONEditError(f"an array has no element {segment!r}")
    padding = 0
    if segment >= 0:
        element, count = jsonscan.element(data, opening, segment)
        if element:
            return [element], -1, 0
        padding = _padding(segment - count)
    end = jsonscan.container_end(data, opening)
    closed = end - 1 > opening and data[end - 1] in b"}]"
    return [], end - closed, padding


def _target(data: bytes, opening: int, segment: str | int) -> jsonscan.Member | jsonscan.Element | None:
    """What to delete, or where to go on; ``None`` also when no container is at ``opening``."""
    if not _is_container(data, opening):
        return None
    if _is_object(data, opening):
        found, _ = jsonscan.members(data, opening, str(segment), limit=1)
        return found[0] if found else None
    if isinstance(segment, str) or segment < -1:
        return None
    return jsonscan.element(data, opening, segment)[0]


def _addition(data: bytes, opening: int, closing: int, text: bytes, *, document: bool) -> _Edit:
    """Append to a container; the document's own loses the text behind it, one that was never closed is closed."""
    last = _before(data, closing)
    comma = b"" if last == opening or data[last] == ord(",") else b","
    if document or closing == len(data):
        return closing, len(data), comma + text + (b"}" if _is_object(data, opening) else b"]")
    return closing, closing, comma + text


def _cut(data: bytes, opening: int, target: jsonscan.Member | jsonscan.Element) -> _Edit:
    start = target[0]
    last = _before(data, start)
    if data[last] == ord(","):
        return last, target.end, b""
    if _is_object(data, opening):
        start = last + 1
    return start, jsonscan.after_comma(data, target.end), b""


def _before(data: bytes, position: int) -> int:
    """Where the last byte that is not blank stands before ``position``; an opening bracket does, at the latest."""
    position -= 1
    while data[position] <= ord(" "):
        position -= 1
    return position


def _build(path: Path, raw: bytes) -> bytes:
    """``raw`` inside of the containers that ``path`` makes."""
    head, tail = [], []
    for segment in path:
        if isinstance(segment, str):
            head.append(b"{" + encode_string(segment) + b":")
            tail.append(b"}")
        else:
            head.append(b"[" + b"null," * _padding(max(segment, 0)))
            tail.append(b"]")
    return b"".join((*head, raw, *reversed(tail)))


def _padding(count: int) -> int:
    if count > _MAX_PADDING:
        raise JSONEditError(f"an index {count} elements beyond the end of its array")
    return count


def _name(data: bytes, opening: int, segment: str | int) -> bytes:
    return encode_string(str(segment)) + b":" if _is_object(data, opening) else b""


def _is_object(data: bytes, position: int) -> bool:
    return data[position] == ord("{")


def _is_container(data: bytes, position: int) -> bool:
    return data[position : position + 1] in (b"{", b"[")


def _splice(data: bytes, edits: list[_Edit]) -> bytes:
    """Apply edits that do not overlap; each untouched range is copied once."""
    view = memoryview(data)
    parts: list[bytes | memoryview] = []
    position = 0
    for start, end, text in sorted(edits):
        parts += (view[position:start], text)
        position = end
    parts.append(view[position:])
    return b"".join(parts)

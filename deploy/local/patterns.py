"""Messages of protobuf with places for names: made once for each shape, and filled in as often as it is needed.

A text that grows makes all messages longer that it lies in, so a pattern knows what lies in what. It is told by the
bytes alone: a field that begins with a mark is a text, and any other that has one in it is a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_WIDTHS: Final = {_FIXED64: 8, _FIXED32: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The place of a name."""

    name: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """A field with marks in it."""

    tag: bytes
    pieces: tuple[_Piece, ...]


_Piece: TypeAlias = bytes | _Mark | _Field


class Pattern:
    """A message.

    Args:
        message: its bytes, with marks in the places of names.
        marks: what is a mark. Every text that has one begins with one.

    Raises:
        ValueError: these bytes are no message.
    """

    __slots__ = ("_pieces",)

    def __init__(self, message: bytes, marks: re.Pattern[bytes]) -> None:
        self._pieces = tuple(_fields(message, marks))

    def filled(self, names: Mapping[bytes, bytes]) -> bytes:
        """The message with names in the places of the marks."""
        return _filled(self._pieces, names)


def field(number: int, payload: bytes) -> bytes:
    """A text, or a message, as a field of another."""
    return _varint(number << 3 | _LENGTH) + _varint(len(payload)) + payload


def _filled(pieces: tuple[_Piece, ...], names: Mapping[bytes, bytes]) -> bytes:
    made = []
    for piece in pieces:
        match piece:
            case bytes():
                made.append(piece)
            case _Mark(name=name):
                made.append(names[name])
            case _Field(tag=tag, pieces=inner):
                payload = _filled(inner, names)
                made += (tag, _varint(len(payload)), payload)
    return b"".join(made)


def _fields(message: bytes, marks: re.Pattern[bytes]) -> Iterator[_Piece]:
    position = plain = 0
    while position < len(message):
        start = position
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _read_varint(message, position)
        elif kind in _WIDTHS:
            position += _WIDTHS[kind]
        elif kind == _LENGTH:
            head = message[start:position]
            length, position = _read_varint(message, position)
            payload = message[position : position + length]
            position += length
            if marks.search(payload):
                yield message[plain:start]
                yield _Field(tag=head, pieces=tuple((_text if marks.match(payload) else _fields)(payload, marks)))
                plain = position
        else:
            raise ValueError(f"no field of a message is of wire type {kind}")
    if position > len(message):
        raise ValueError("the message is cut off")
    yield message[plain:]


def _text(payload: bytes, marks: re.Pattern[bytes]) -> Iterator[_Piece]:
    position = 0
    for found in marks.finditer(payload):
        yield payload[position : found.start()]
        yield _Mark(name=found[0])
        position = found.end()
    yield payload[position:]


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """A number and the position after it."""
    number = shift = 0
    while position < len(message):
        byte = message[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise ValueError("the message is cut off")

"""JSON of strangers, read member by member: what cannot be read is absent, and costs nothing else.

Members stay as they are spelled until somebody asks for them, so a number keeps its spelling, and one that no double
can hold spoils only its own member.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

JSONObject = dict[str, object]
Members = Mapping[str, Raw]
"""An object's members by name, each as it is spelled. Of duplicates the last one counts."""

T = TypeVar("T")

# What decoding bytes of a stranger may raise: no JSON, no text, nested too deep, a number of absurd length.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

MAX_INTEGER: Final = 2**63 - 1
"""Attributes of spans hold integers of 64 bits."""

encode = msgspec.json.Encoder().encode

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_VALUE: Final = msgspec.json.Decoder()

# An escape in a string: a surrogate pair, a surrogate alone, or another one.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def read(decoder: msgspec.json.Decoder[T], text: bytes | Raw) -> T | None:
    """What the decoder makes of the text, or ``None``.

    Other readers forgive octets that are not UTF-8 and surrogates without their other half; here U+FFFD stands for
    them, as no text of a span can hold them.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        return None
    except UNREADABLE:
        repaired = _repaired(bytes(text))
    if repaired is None:
        return None
    try:
        return decoder.decode(repaired)
    except UNREADABLE:
        return None


def _repaired(text: bytes) -> bytes | None:
    """The text without what is no Unicode; ``None`` where nothing is wrong with it in that."""
    repaired = text.decode(errors="replace").encode()
    repaired = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], repaired)
    return None if repaired == text else repaired


# --- structure ---


def members_of(text: bytes | Raw | None) -> Members:
    """The members of an object; none of anything else."""
    return (None if text is None else read(_OBJECT, text)) or {}


def elements_of(text: bytes | Raw | None) -> list[Raw]:
    """The elements of an array; none of anything else."""
    return (None if text is None else read(_ARRAY, text)) or []


def value_of(text: bytes | Raw | None) -> object:
    """Any value; ``None`` where there is none."""
    return None if text is None else read(_VALUE, text)


def object_of(text: bytes | Raw | None) -> JSONObject:
    """An object with all that is in it; an empty one for anything else."""
    return as_object(value_of(text))


def objects_of(text: bytes | Raw | None) -> Iterator[JSONObject]:
    """Those elements of an array that are objects."""
    return (each for element in elements_of(text) if isinstance(each := value_of(element), dict))


def as_object(value: object) -> JSONObject:
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[JSONObject]:
    """The objects among the elements of a value that may be an array."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- values ---


def as_text(value: object) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def as_texts(value: object) -> tuple[str, ...]:
    """A string, or those of an array."""
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def as_number(value: object) -> float | None:
    """A finite number, which fields of forms and some clients have as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_integer(value: object) -> int | None:
    """A whole number that an attribute can hold, however it is spelled."""
    if type(value) is int:
        return value if abs(value) <= MAX_INTEGER else None
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() and abs(number) < MAX_INTEGER else None


def as_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def length_of(value: object) -> int | None:
    """The length of an array."""
    return len(value) if isinstance(value, list) else None


# --- text of JSON ---


def decoded(text: bytes | Raw) -> str:
    """Octets as text; what is not UTF-8 becomes U+FFFD."""
    return str(memoryview(text), "utf-8", "replace")


def spelled(text: Raw) -> str:
    """A value as it is spelled, without white space."""
    try:
        return decoded(msgspec.json.format(text, indent=-1))
    except UNREADABLE:
        return decoded(text)


def encoded(value: object) -> str:
    """A value that has been decoded, as JSON; a string stands for itself."""
    if isinstance(value, str):
        return value
    try:
        return encode(value).decode()
    except UNREADABLE:
        return ""


def as_raw(value: object) -> Raw | None:
    """A value that has been decoded, as JSON, which takes least room; ``None`` where it is nested too deep."""
    try:
        return Raw(encode(value))
    except UNREADABLE:
        return None


def without(members: Members, names: frozenset[str]) -> str:
    """An object without some of its members, in its order and without white space."""
    kept = (f"{encode(name).decode()}:{spelled(value)}" for name, value in members.items() if name not in names)
    return "{" + ",".join(kept) + "}"

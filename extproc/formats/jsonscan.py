r"""Finds the members and elements of JSON text as byte ranges, without decoding it.

Bodies may be tens of megabytes and come from strangers, so the scanner never recurses, takes time linear in the text
whatever the text is, and leaves the inner loops to ``re``, ``bytes.find`` and ``itertools``. It does not validate:
on broken text it gives a best effort and never raises. Like the decoders behind us it compares keys by their meaning,
so ``"mod\u0065l"`` is ``model``.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from itertools import accumulate, islice
from typing import Final, NamedTuple

# Every repetition of a group is inside an atomic group and bounded: the regular expression engine then neither
# backtracks nor keeps state for millions of repetitions. A bound only ends a step of the loop that uses the pattern.
_BLANK: Final = rb"[\x00-\x20]*+"
_PLAIN: Final = rb'[^"{}\[\]]++'
# A string short enough to be looked at twice, whose first quote ends it. `_string_end` takes the others.
_SHORT: Final = rb'"[^"]{0,128}+(?<!\\)"'
_LEAF: Final = rb"[{\[](?>(?:" + _PLAIN + rb"|" + _SHORT + rb"){0,1024})[}\]]"
_SMALL: Final = rb"[{\[](?>(?:" + _PLAIN + rb"|" + _SHORT + rb"|" + _LEAF + rb"){0,1024})[}\]]"

_TOKENS: Final = re.compile(rb"(?>(?:[^\"]++|" + _SHORT + rb"){0,4096})", re.DOTALL)
_STRINGS: Final = re.compile(rb'"[^"]*+"')
_NEAR: Final = re.compile(_SHORT + rb'|([{\[])|([}\]])|(")', re.DOTALL)
_OPENING_BRACKET, _OTHER_STRING = 1, 3
_ESCAPES: Final = re.compile(rb'(?>(?:[^"\\]{0,256}+\\.){1,64})', re.DOTALL)
_SCALAR: Final = re.compile(rb'[^\x00-\x20,{}\[\]"]*+')
_SPACE: Final = re.compile(_BLANK)
_LEAD: Final = re.compile(rb"(?:\xef\xbb\xbf)?+" + _BLANK)
_COMMA: Final = re.compile(_BLANK + rb",")

_ELEMENT: Final = rb'(?>(?:[^",{}\[\]]++|' + _SHORT + rb"|" + _SMALL + rb"){1,1024}),"
_ELEMENTS_AT_ONCE: Final = 256
_ELEMENTS: Final = re.compile(rb"(?>(?:%b){%d})" % (_ELEMENT, _ELEMENTS_AT_ONCE), re.DOTALL)
_TO_COMMA: Final = re.compile(rb'[^",{}\[\]]*+')

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)
_STEP: Final = tuple(1 if byte in _OPENING else -1 for byte in range(256))
_NEAR_BRACKETS: Final = 32
_SMALL_WINDOW: Final = 256
_LARGE_WINDOW: Final = 65536

# The character that a two-character escape stands for, and the escape's second character.
_SHORT_ESCAPES: Final = {'"': b'"', "\\": b"\\", "/": b"/", "\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}


class Member(NamedTuple):
    """Where one member of an object stands: its key's opening quote, and its value."""

    key: int
    start: int
    end: int


class Element(NamedTuple):
    """Where one element of an array stands."""

    start: int
    end: int


def top(data: bytes) -> int:
    """Where the document's value begins, after whitespace and a byte order mark; ``len(data)`` when there is none."""
    return _end(_LEAD, data, 0)


def after_space(data: bytes, position: int) -> int:
    return _end(_SPACE, data, position)


def after_comma(data: bytes, position: int) -> int:
    """Just after the comma that follows (blanks between), else ``position``."""
    return _end(_COMMA, data, position)


def value_end(data: bytes, position: int) -> int:
    """Where the value that begins at ``position`` ends; text that is no value ends at the next delimiter."""
    first = data[position : position + 1]
    if first == b'"':
        return _string_end(data, position + 1)
    if first == b"{" or first == b"[":  # noqa: PLR1714 - a slice may be empty, which `in` would accept
        return container_end(data, position)
    return _end(_SCALAR, data, position)


def members(data: bytes, opening: int, key: str, *, limit: int = sys.maxsize) -> tuple[list[Member], int]:
    """The members named ``key`` of the object that opens at ``opening``, and where its closing bracket stands.

    After ``limit`` of them the search ends, and the second result is then -1. The closing bracket of an object that
    the text does not close stands at ``len(data)``.
    """
    skip, name = _patterns(key)
    found: list[Member] = []
    position, size = opening + 1, len(data)
    while (position := _end(skip, data, position)) < size:
        byte = data[position]
        if byte == _QUOTE:
            if match := name.match(data, position):
                key_start, start = position, match.end()
                position = value_end(data, start)
                found.append(Member(key_start, start, position))
                if len(found) == limit:
                    return found, -1
            else:
                position = _string_end(data, position + 1)
        elif byte in _OPENING:
            position = container_end(data, position)
        elif byte in _CLOSING:
            return found, position
    return found, size


def element(data: bytes, opening: int, index: int) -> tuple[Element | None, int]:
    """The element at ``index`` (-1: the last one) of the array that opens at ``opening``, and how many were passed.

    When there is no such element, the second result is the number of elements in the array.
    """
    position, passed = opening + 1, 0
    last: Element | None = None
    while index < 0 or index - passed >= _ELEMENTS_AT_ONCE:
        if not (match := _ELEMENTS.match(data, position)):
            break
        position, passed, last = match.end(), passed + _ELEMENTS_AT_ONCE, None
    while (start := after_space(data, position)) < len(data) and data[start] not in _CLOSING:
        last = Element(start, value_end(data, start))
        if passed == index:
            return last, passed
        passed += 1
        position = after_comma(data, _end(_TO_COMMA, data, last.end))
    return (last if index < 0 else None), passed


def container_end(data: bytes, opening: int) -> int:
    """Just after the bracket that closes the container opened at ``opening``; ``len(data)`` when nothing does.

    Brackets of both kinds count alike. Small containers are walked bracket by bracket; the text of larger ones is
    taken in windows: the strings go, then all that is no bracket, and the running sum over what is left tells whether
    the container closes in this window.
    """
    position, depth = _walk(data, opening, 0, _NEAR_BRACKETS)
    window, growth = _SMALL_WINDOW, 4
    while depth and position < len(data):
        stop = _end(_TOKENS, data, position, position + window)
        if stop == position:
            position = _string_end(data, position + 1)
            continue
        text = data[position:stop]
        brackets = (_STRINGS.sub(b"", text) if _QUOTE in text else text).translate(None, _NOT_BRACKETS)
        closing = brackets.count(b"}") + brackets.count(b"]")
        change = len(brackets) - 2 * closing
        if closing >= depth and 0 in accumulate(map(_STEP.__getitem__, brackets), initial=depth):
            if window == _SMALL_WINDOW:
                return _walk(data, position, depth, sys.maxsize)[0]
            window, growth = window // 4, 1  # it ends in here: come nearer with smaller windows
            continue
        depth += change
        position = stop
        window = min(window * growth, _LARGE_WINDOW)
    return position


def _walk(data: bytes, position: int, depth: int, limit: int) -> tuple[int, int]:
    """Pass at most ``limit`` brackets and short strings, until the depth is 0 or another string comes in the way."""
    for match in islice(_NEAR.finditer(data, position), limit):
        if match.lastindex:
            kind = match.lastindex
            if kind == _OTHER_STRING:
                return match.start(), depth
            depth += 1 if kind == _OPENING_BRACKET else -1
            if not depth:
                return match.end(), 0
        position = match.end()
    return position, depth


def _string_end(data: bytes, position: int) -> int:
    """Just after the quote that closes the string whose text begins at ``position``."""
    while (quote := data.find(b'"', position)) >= 0:
        if data[quote - 1] != _BACKSLASH:
            return quote + 1
        before = quote - 2
        while data[before] == _BACKSLASH:
            before -= 1
        if (quote - before) % 2:
            return quote + 1
        # One escaped quote is seldom alone: JSON or code inside a string has one every few bytes.
        position = _end(_ESCAPES, data, quote + 1)
    return len(data)


def _end(pattern: re.Pattern[bytes], data: bytes, position: int, limit: int = sys.maxsize) -> int:
    """Where ``pattern`` ends when it matches at ``position``, else ``position``."""
    match = pattern.match(data, position, limit)
    return match.end() if match else position


@lru_cache(maxsize=512)
def _patterns(key: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """For the inside of an object: what may be skipped, for it cannot be the key; and the key with its colon."""
    spelled = b"".join(map(_spellings, key))
    other = rb'"(?!%b")[^"]{0,128}+(?<!\\)"' % spelled
    skip = rb"(?>(?:%b|%b|%b){0,1024})" % (_PLAIN, other, _SMALL)
    name = rb'"%b"%b:%b' % (spelled, _BLANK, _BLANK)
    return re.compile(skip, re.DOTALL), re.compile(name, re.DOTALL)


def _spellings(character: str) -> bytes:
    """A pattern of all the ways in which JSON may write one character of a string."""
    code = ord(character)
    units = [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
    ways = [b"".join(rb"\\u" + b"".join(map(_digit, f"{unit:04x}")) for unit in units)]
    if character in _SHORT_ESCAPES:
        ways.append(rb"\\" + re.escape(_SHORT_ESCAPES[character]))
    # A lone surrogate has no UTF-8 form.
    if character not in '"\\' and not 0xD800 <= code < 0xE000:
        ways.append(re.escape(character.encode()))
    return b"(?:" + b"|".join(ways) + b")"


def _digit(digit: str) -> bytes:
    return f"[{digit}{digit.upper()}]".encode() if digit.isalpha() else digit.encode()

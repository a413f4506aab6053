"""Go's textual conventions, as far as operators of the peer see them: quoting, numbers, durations.

Flags, log lines and the metrics page must read the same as the peer's, down to the byte, and the peer prints and
parses all of them with Go's standard library.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

MAX_INT64: Final = 2**63 - 1

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})

_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<x>(?:_?[0-9a-fA-F])+)|0[bB](?P<b>(?:_?[01])+)|0[oO](?P<o>(?:_?[0-7])+)"
    r"|0(?P<z>(?:_?[0-7])*)|(?P<d>[1-9](?:_?[0-9])*))",
    re.ASCII,
)
_BASES: Final = {"x": 16, "b": 2, "o": 8, "z": 8, "d": 10}

_DURATION = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    """``text`` in double quotes, with Go's escapes for what cannot be printed."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    escape = _ESCAPES.get(char)
    if escape is not None:
        return escape
    if char == " " or (char.isprintable() and not char.isspace()):
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_bool(text: str) -> bool:
    """Raise ``ValueError`` for anything but Go's spellings of a boolean."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("parse error")


def parse_int(text: str) -> int:
    """A 64-bit integer with an optional base prefix and underscores between digits.

    Raises:
        ValueError: with the reason that Go's flag package gives.
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("parse error")
    kind = match.lastgroup or "z"
    value = int((match[kind] or "0").replace("_", ""), _BASES[kind])
    value = -value if match["sign"] == "-" else value
    if not -MAX_INT64 - 1 <= value <= MAX_INT64:
        raise ValueError("value out of range")
    return value


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1m30s``; only ``0`` may go without a unit.

    Raises:
        ValueError: ``text`` is not a duration.
    """
    if text.lstrip("+-") == "0" and len(text) <= len("-0"):
        return 0.0
    if _DURATION.fullmatch(text) is None:
        raise ValueError("parse error")
    total = sum(Decimal(number) * _NANOSECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    if total > MAX_INT64:
        raise ValueError("parse error")
    seconds = float(total / 10**9)
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: ``5s``, ``1m30s``, ``250ms``."""
    if seconds == 0:
        return "0s"
    if abs(seconds) < 1:
        return _subsecond(seconds)
    sign = "-" if seconds < 0 else ""
    minutes, rest = divmod(abs(Decimal(repr(float(seconds)))), 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{rest.normalize():f}s"
    if hours:
        return f"{sign}{hours:f}h{minutes:f}m{shown}"
    return f"{sign}{minutes:f}m{shown}" if minutes else f"{sign}{shown}"


def _subsecond(seconds: float) -> str:
    amount = Decimal(repr(float(seconds)))
    for unit, scale in (("ms", 10**3), ("µs", 10**6)):
        if abs(amount * scale) >= 1:
            return f"{(amount * scale).normalize():f}{unit}"
    return f"{(amount * 10**9).to_integral_value():f}ns"


@lru_cache(maxsize=4096)
def format_float(value: float) -> str:
    """The shortest text that reads back the same, with an exponent from a million on; as on a metrics page."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - the test for NaN
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(value)]
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    if not isinstance(exponent, int) or digits == (0,):
        return "0"
    point = len(digits) + exponent - 1
    if -4 <= point < 6:
        return f"{Decimal(repr(float(value))).normalize():f}"
    mantissa = "".join(map(str, digits))
    mantissa = f"{mantissa[0]}.{mantissa[1:]}" if len(mantissa) > 1 else mantissa
    return f"{'-' if sign else ''}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"

"""Scalars of a YAML 1.1 document as the peer's reader sees them, and their text (contract, filter config 2.1).

The rules are those of the Go reader, not of the YAML specification: ``y`` and ``on`` are booleans, ``010`` is eight, a
date and ``12:30:45`` are text, and a number that lands in a text field is written as Go writes a 32-bit float.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# What a plain scalar other than text can start with: decides most scalars by one look.
_NUMERIC_START: Final = frozenset("+-.0123456789")
_WORD_START: Final = frozenset("yYnNtTfFoO~.+-")

_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_OCTAL: Final = re.compile(r"([-+]?)0[oO]?([0-7]+)\Z")
_HEXADECIMAL: Final = re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)\Z")
_BINARY: Final = re.compile(r"([-+]?)0[bB]([01]+)\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_BASES: Final = ((_OCTAL, 8), (_HEXADECIMAL, 16), (_BINARY, 2))

_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1
# More digits than any 64-bit number has in any base: such text is a float or no number at all.
_MAX_DIGITS: Final = 80

# Go writes a float with an exponent when it is below -4 or from 6 upwards (strconv's shortest 'g').
_MIN_FIXED_EXPONENT: Final = -4
_MAX_FIXED_EXPONENT: Final = 6
_FLOAT32_DIGITS: Final = 9


def resolve_plain(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar."""
    first = text[:1]
    if not first or first in _WORD_START:
        word = _WORDS.get(text, text)
        if word is not text:
            return word
    if first in _NUMERIC_START:
        return _number(text)
    return text


def _number(text: str) -> Scalar:
    # Go reads what begins with a point as a plain float, in which "_" has no place.
    digits = text if text.startswith(".") else text.replace("_", "")
    value = _integer(digits)
    if value is not None:
        return value
    if _FLOAT.match(digits):
        number = float(digits)
        # Go refuses what does not fit a 64-bit float, and so it stays text.
        return text if math.isinf(number) else number
    return text


def _integer(digits: str) -> int | None:
    if len(digits) > _MAX_DIGITS:
        return None
    value: int | None = None
    if _DECIMAL.match(digits):
        value = int(digits)
    else:
        for pattern, base in _BASES:
            match = pattern.match(digits)
            if match:
                value = int(match[1] + match[2], base)
                break
    return value if value is not None and _INT_MIN <= value <= _INT_MAX else None


def scalar_text(value: float) -> str:
    """The text of a number or boolean where text is wanted: ``1.0`` → ``1``, ``0x10`` → ``16``, ``yes`` → ``true``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # JSON numbers beyond 64 bits reach Go as floats, as YAML ones do.
        return str(value) if _INT_MIN <= value <= _INT_MAX else float_text(float(value))
    return float_text(value)


def float_text(value: float) -> str:
    """A number as Go's shortest 'g' format of 32 bits writes it: ``1.10`` → ``1.1``, 23 digits → ``1.2345679e+22``."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    return _shortest_g(single, _shortest_single) if math.isfinite(single) else _non_finite(single)


def double_text(value: float) -> str:
    """A number as Go's shortest 'g' format of 64 bits writes it: ``1000000.0`` → ``1e+06``."""
    return _shortest_g(value, _shortest_double) if math.isfinite(value) else _non_finite(value)


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _shortest_g(value: float, shortest: Callable[[float], tuple[str, int]]) -> str:
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0"
    digits, exponent = shortest(abs(value))
    if _MIN_FIXED_EXPONENT <= exponent < _MAX_FIXED_EXPONENT:
        return sign + _fixed(digits, exponent)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{exponent:+03d}"


def _shortest_single(single: float) -> tuple[str, int]:
    """The fewest significant digits that read back as the same 32-bit float, and the exponent of the first one."""
    packed = struct.pack("<f", single)
    for precision in range(_FLOAT32_DIGITS):
        text = f"{single:.{precision}e}"
        try:
            if struct.pack("<f", float(text)) == packed:
                break
        except OverflowError:
            # Rounded up beyond the largest 32-bit float: more digits are needed.
            continue
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", ""), int(exponent)


def _shortest_double(value: float) -> tuple[str, int]:
    """The same for 64 bits, of which Python's ``repr`` knows the digits."""
    number = Decimal(repr(value)).normalize()
    return "".join(map(str, number.as_tuple().digits)), number.adjusted()


def _fixed(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole

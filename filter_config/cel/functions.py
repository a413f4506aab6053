"""Operators and functions of CEL that a cost expression may use: their static types, and what they compute.

The one rule behind the arithmetic: a number that overflows 64 bits is an error, never a wrapped or a negative value.
Since types are static, a plain Python ``int`` stands for both ``int`` and ``uint``.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2  # type: ignore[import-untyped]

from filter_config.cel.engine import CELError
from filter_config.cel.types import BOOL, DOUBLE, INT, STRING, UINT, Type
from filter_config.scalars import double_text

if TYPE_CHECKING:
    from collections.abc import Callable

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+\Z")
_UNSIGNED: Final = re.compile(r"[0-9]+\Z")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z|[+-]?(?:inf|infinity|nan)\Z", re.IGNORECASE
)
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}
_MAX_DIGITS: Final = 400


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of an operator or function."""

    arguments: tuple[Type, ...]
    result: Type
    implementation: Callable[..., Any]


def checked_int(value: int) -> int:
    """The value, if it is an ``int``."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CELError("integer overflow")


def checked_uint(value: int) -> int:
    """The value, if it is a ``uint``."""
    if 0 <= value <= UINT_MAX:
        return value
    raise CELError("unsigned integer overflow")


def _quotient(left: int, right: int) -> int:
    """Towards zero, as in C and Go."""
    if right == 0:
        raise CELError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """With the sign of the dividend."""
    if right == 0:
        raise CELError("modulus by zero")
    if right == -1 and left == INT_MIN:
        raise CELError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _divide(left: float, right: float) -> float:
    """IEEE 754: a division by zero is infinite or no number."""
    if right:
        return left / right
    if math.isnan(left) or left == 0:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _double_to_int(value: float) -> int:
    if math.isfinite(value) and INT_MIN < value < INT_MAX:
        return int(value)
    raise CELError("integer overflow")


def _double_to_uint(value: float) -> int:
    if math.isfinite(value) and 0 <= value < UINT_MAX:
        return int(value)
    raise CELError("unsigned integer overflow")


def _parse(text: str, pattern: re.Pattern[str], kind: str, low: int, high: int) -> int:
    if len(text) <= _MAX_DIGITS and pattern.match(text):
        value = int(text)
        if low <= value <= high:
            return value
    raise CELError(f"cannot convert string to {kind}")


def _parse_int(text: str) -> int:
    return _parse(text, _DECIMAL, "int", INT_MIN, INT_MAX)


def _parse_uint(text: str) -> int:
    return _parse(text, _UNSIGNED, "uint", 0, UINT_MAX)


def _parse_double(text: str) -> float:
    if _DOUBLE.match(text):
        return float(text)
    raise CELError("cannot convert string to double")


def _parse_bool(text: str) -> bool:
    try:
        return _TRUTH[text]
    except KeyError:
        raise CELError("cannot convert string to bool") from None


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Any:  # noqa: ANN401 - re2 ships no types
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise CELError("invalid regular expression") from error


def _identity(value: object) -> object:
    return value


def _bool_text(value: bool) -> str:  # noqa: FBT001 - a CEL conversion has one argument
    return "true" if value else "false"


def _arithmetic(name: str) -> tuple[Overload, ...]:
    function = {"_+_": operator.add, "_-_": operator.sub, "_*_": operator.mul}[name]
    return (
        Overload((INT, INT), INT, lambda left, right: checked_int(function(left, right))),
        Overload((UINT, UINT), UINT, lambda left, right: checked_uint(function(left, right))),
        Overload((DOUBLE, DOUBLE), DOUBLE, function),
    )


def _comparison(function: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    return tuple(Overload((kind, kind), BOOL, function) for kind in (INT, UINT, DOUBLE, STRING, BOOL))


OPERATORS_AND_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "_+_": (*_arithmetic("_+_"), Overload((STRING, STRING), STRING, operator.add)),
    "_-_": _arithmetic("_-_"),
    "_*_": _arithmetic("_*_"),
    "_/_": (
        Overload((INT, INT), INT, lambda left, right: checked_int(_quotient(left, right))),
        Overload((UINT, UINT), UINT, _quotient),
        Overload((DOUBLE, DOUBLE), DOUBLE, _divide),
    ),
    "_%_": (Overload((INT, INT), INT, _remainder), Overload((UINT, UINT), UINT, _remainder)),
    "-_": (
        Overload((INT,), INT, lambda value: checked_int(-value)),
        Overload((DOUBLE,), DOUBLE, operator.neg),
    ),
    "!_": (Overload((BOOL,), BOOL, operator.not_),),
    "_<_": _comparison(operator.lt),
    "_<=_": _comparison(operator.le),
    "_>_": _comparison(operator.gt),
    "_>=_": _comparison(operator.ge),
    "size": (Overload((STRING,), INT, len),),
    "matches": (Overload((STRING, STRING), BOOL, _matches),),
    "int": (
        Overload((INT,), INT, _identity),
        Overload((UINT,), INT, checked_int),
        Overload((DOUBLE,), INT, _double_to_int),
        Overload((STRING,), INT, _parse_int),
    ),
    "uint": (
        Overload((UINT,), UINT, _identity),
        Overload((INT,), UINT, checked_uint),
        Overload((DOUBLE,), UINT, _double_to_uint),
        Overload((STRING,), UINT, _parse_uint),
    ),
    "double": (
        Overload((DOUBLE,), DOUBLE, _identity),
        Overload((INT,), DOUBLE, float),
        Overload((UINT,), DOUBLE, float),
        Overload((STRING,), DOUBLE, _parse_double),
    ),
    "string": (
        Overload((STRING,), STRING, _identity),
        Overload((INT,), STRING, str),
        Overload((UINT,), STRING, str),
        Overload((DOUBLE,), STRING, double_text),
        Overload((BOOL,), STRING, _bool_text),
    ),
    "bool": (Overload((BOOL,), BOOL, _identity), Overload((STRING,), BOOL, _parse_bool)),
}
"""What is written ``a + b`` or ``f(a)``."""

METHODS: Final[dict[str, tuple[Overload, ...]]] = {
    "size": (Overload((STRING,), INT, len),),
    "contains": (Overload((STRING, STRING), BOOL, operator.contains),),
    "startsWith": (Overload((STRING, STRING), BOOL, str.startswith),),
    "endsWith": (Overload((STRING, STRING), BOOL, str.endswith),),
    "matches": (Overload((STRING, STRING), BOOL, _matches),),
}
"""What is written ``a.f(b)``; the target is the first argument."""

UNSUPPORTED: Final = frozenset(("dyn", "type", "bytes", "duration", "timestamp"))
"""Functions of the language that this engine does not have: they need dynamic types, bytes or times."""

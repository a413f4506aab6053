"""Plain sums and products of token counters, evaluated without an engine.

Most cost expressions are no more than ``input_tokens + output_tokens * 3u``, and an engine takes several microseconds
to enter and leave. What is read here is a small part of CEL, on unsigned integers alone; for anything else, and for
any evaluation that would leave their range, an engine decides, so that there is one place that says what an error is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from filter_config.cel.engine import COUNTERS

if TYPE_CHECKING:
    from filter_config.cel.engine import CostVariables

_MAX: Final = 2**64 - 1
# Deeper expressions are left to the engines, which bound their depth themselves.
_MAX_TOKENS: Final = 64

Term = Callable[["CostVariables"], int]
"""A value of an expression. Raises ``OutOfRangeError`` where it is no unsigned integer of 64 bits."""

# A literal, a converted literal (of an int, which has 63 bits: 18 digits are within), a name, an operator.
_TOKEN: Final = re.compile(r"\s*(?:([0-9]+)u|uint\(\s*([0-9]{1,18})\s*\)|([a-z_]+)|([-+*/%()]))")


class OutOfRangeError(Exception):
    """An operation has no result within the range; an engine says why."""


class _NotArithmeticError(Exception):
    pass


def compile_arithmetic(expression: str) -> Term | None:
    """The value of an expression that is plain arithmetic on counters, ``None`` for any other."""
    try:
        tokens = _tokens(expression)
        term, rest = _sum(tokens)
    except (_NotArithmeticError, IndexError):
        return None
    return None if rest else term


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    position, end = 0, len(expression.rstrip())
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None or len(tokens) == _MAX_TOKENS:
            raise _NotArithmeticError
        tokens.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    return tokens


# Each reads the longest expression of its kind at the beginning of the tokens, and gives what is left of them.


def _sum(tokens: list[str]) -> tuple[Term, list[str]]:
    left, rest = _product(tokens)
    while rest and rest[0] in "+-":
        right, after = _product(rest[1:])
        left, rest = _OPERATIONS[rest[0]](left, right), after
    return left, rest


def _product(tokens: list[str]) -> tuple[Term, list[str]]:
    left, rest = _operand(tokens)
    while rest and rest[0] in "*/%":
        right, after = _operand(rest[1:])
        left, rest = _OPERATIONS[rest[0]](left, right), after
    return left, rest


def _operand(tokens: list[str]) -> tuple[Term, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first in COUNTERS:
        return _counter(first), rest
    if first == "(":
        inner, after = _sum(rest)
        if after[0] != ")":
            raise _NotArithmeticError
        return inner, after[1:]
    if not first.isdecimal() or int(first) > _MAX:
        raise _NotArithmeticError
    value = int(first)
    return lambda _variables: value, rest


def _counter(name: str) -> Term:
    read = attrgetter(name)

    def run(variables: CostVariables) -> int:
        value: int = read(variables)
        if not 0 <= value <= _MAX:
            raise OutOfRangeError
        return value

    return run


def _add(left: Term, right: Term) -> Term:
    def run(variables: CostVariables) -> int:
        result = left(variables) + right(variables)
        if result > _MAX:
            raise OutOfRangeError
        return result

    return run


def _subtract(left: Term, right: Term) -> Term:
    def run(variables: CostVariables) -> int:
        result = left(variables) - right(variables)
        if result < 0:
            raise OutOfRangeError
        return result

    return run


def _multiply(left: Term, right: Term) -> Term:
    def run(variables: CostVariables) -> int:
        result = left(variables) * right(variables)
        if result > _MAX:
            raise OutOfRangeError
        return result

    return run


def _divide(left: Term, right: Term) -> Term:
    def run(variables: CostVariables) -> int:
        divisor = right(variables)
        if not divisor:
            raise OutOfRangeError
        return left(variables) // divisor

    return run


def _modulo(left: Term, right: Term) -> Term:
    def run(variables: CostVariables) -> int:
        divisor = right(variables)
        if not divisor:
            raise OutOfRangeError
        return left(variables) % divisor

    return run


_OPERATIONS: Final = {"+": _add, "-": _subtract, "*": _multiply, "/": _divide, "%": _modulo}

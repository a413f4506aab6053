"""Plain sums and products of token counters, evaluated without an engine.

Most cost expressions are no more than ``input_tokens + output_tokens * 3u``, and an engine takes several microseconds
to enter and leave. What is read here is a small part of CEL, on unsigned integers alone; for anything else, and for
any evaluation that would leave their range, an engine decides, so that there is one place that says what an error is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from filter_config.cel.engine import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class _Weighted:
    """A sum of counters with weights, which most expressions are: it takes one call, and not one for each operation.

    No part of such a sum exceeds the whole, so where the whole is within the range, every step to it is.
    """

    def __init__(self, constant: int, weights: Mapping[str, int]) -> None:
        self.constant = constant
        self.weights = weights
        self._terms = [(attrgetter(name), weight) for name, weight in weights.items()]

    def total(self, variables: CostVariables) -> int:
        total = self.constant
        for read, weight in self._terms:
            count: int = read(variables)
            if not 0 <= count <= _MAX:
                raise OutOfRangeError
            total += count * weight
        if total > _MAX:
            raise OutOfRangeError
        return total

    def plus(self, other: _Weighted) -> _Weighted:
        names = {**self.weights, **other.weights}
        weights = {name: self.weights.get(name, 0) + other.weights.get(name, 0) for name in names}
        return _Weighted(self.constant + other.constant, weights)

    def times(self, factor: int) -> _Weighted:
        return _Weighted(self.constant * factor, {name: weight * factor for name, weight in self.weights.items()})


def compile_arithmetic(expression: str) -> Term | None:
    """The value of an expression that is plain arithmetic on counters, ``None`` for any other."""
    try:
        tokens = _tokens(expression)
        term, rest = _sum(tokens)
    except (_NotArithmeticError, IndexError):
        return None
    return None if rest else _term(term)


_Part: TypeAlias = _Weighted | Term


def _term(part: _Part) -> Term:
    return part.total if isinstance(part, _Weighted) else part


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


def _sum(tokens: list[str]) -> tuple[_Part, list[str]]:
    left, rest = _product(tokens)
    while rest and rest[0] in "+-":
        right, after = _product(rest[1:])
        left, rest = _OPERATIONS[rest[0]](left, right), after
    return left, rest


def _product(tokens: list[str]) -> tuple[_Part, list[str]]:
    left, rest = _operand(tokens)
    while rest and rest[0] in "*/%":
        right, after = _operand(rest[1:])
        left, rest = _OPERATIONS[rest[0]](left, right), after
    return left, rest


def _operand(tokens: list[str]) -> tuple[_Part, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first in COUNTERS:
        return _Weighted(0, {first: 1}), rest
    if first == "(":
        inner, after = _sum(rest)
        if after[0] != ")":
            raise _NotArithmeticError
        return inner, after[1:]
    if not first.isdecimal() or int(first) > _MAX:
        raise _NotArithmeticError
    return _Weighted(int(first), {}), rest


def _add(left: _Part, right: _Part) -> _Part:
    if isinstance(left, _Weighted) and isinstance(right, _Weighted):
        return left.plus(right)

    first, second = _term(left), _term(right)

    def run(variables: CostVariables) -> int:
        result = first(variables) + second(variables)
        if result > _MAX:
            raise OutOfRangeError
        return result

    return run


def _subtract(left: _Part, right: _Part) -> Term:
    first, second = _term(left), _term(right)

    def run(variables: CostVariables) -> int:
        result = first(variables) - second(variables)
        if result < 0:
            raise OutOfRangeError
        return result

    return run


def _multiply(left: _Part, right: _Part) -> _Part:
    for one, other in ((left, right), (right, left)):
        if not (isinstance(one, _Weighted) and isinstance(other, _Weighted)) or one.weights:
            continue
        # A factor out of range is an error even if there is nothing to multiply, and nothing times what is out of range
        # is one as well.
        if 0 < one.constant <= _MAX:
            return other.times(one.constant)

    first, second = _term(left), _term(right)

    def run(variables: CostVariables) -> int:
        result = first(variables) * second(variables)
        if result > _MAX:
            raise OutOfRangeError
        return result

    return run


def _divide(left: _Part, right: _Part) -> Term:
    first, second = _term(left), _term(right)

    def run(variables: CostVariables) -> int:
        divisor = second(variables)
        if not divisor:
            raise OutOfRangeError
        return first(variables) // divisor

    return run


def _modulo(left: _Part, right: _Part) -> Term:
    first, second = _term(left), _term(right)

    def run(variables: CostVariables) -> int:
        divisor = second(variables)
        if not divisor:
            raise OutOfRangeError
        return first(variables) % divisor

    return run


_OPERATIONS: Final = {"+": _add, "-": _subtract, "*": _multiply, "/": _divide, "%": _modulo}

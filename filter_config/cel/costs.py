"""Cost expressions: compiled once, tried at load, evaluated to a Python integer (contract, filter config 3.16)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from filter_config.cel.arithmetic import OutOfRangeError, compile_arithmetic
from filter_config.cel.engine import CELError, CostVariables, Engine, TooDeepError, compiler, engines

if TYPE_CHECKING:
    from filter_config.cel.engine import Compiled

CACHE_SIZE: Final = 1024
"""How many compiled expressions are kept, by text."""

MAX_EXPRESSION: Final = 32 * 1024
"""Longest expression in characters. A price table of a thousand models is shorter."""

# The load-time evaluation of the contract: it alone decides whether an expression is accepted.
_DRY_RUN: Final = CostVariables(model="dummy", backend="dummy", route_name="dummy")

# What else is tried: an expression that fails here is accepted, as the peer does, and reported.
_SAMPLES: Final = {
    "an ordinary request": CostVariables(
        model="dummy",
        backend="dummy",
        route_name="dummy",
        input_tokens=1000,
        cached_input_tokens=200,
        cache_creation_input_tokens=100,
        output_tokens=500,
        total_tokens=1500,
        reasoning_tokens=50,
    ),
    "more cached_input_tokens than input_tokens": CostVariables(
        model="dummy",
        backend="dummy",
        route_name="dummy",
        input_tokens=10,
        cached_input_tokens=30,
        cache_creation_input_tokens=20,
        output_tokens=10,
        total_tokens=20,
    ),
    "a billion tokens of each kind": CostVariables(
        model="dummy",
        backend="dummy",
        route_name="dummy",
        input_tokens=10**9,
        cached_input_tokens=10**9,
        cache_creation_input_tokens=10**9,
        output_tokens=10**9,
        total_tokens=10**9,
        reasoning_tokens=10**9,
    ),
}


class CostProgram(Protocol):
    """A compiled cost expression, shared by all streams."""

    @property
    def expression(self) -> str:
        """The text it was compiled from."""

    def evaluate(self, variables: CostVariables) -> int:
        """The cost, never negative.

        Raises:
            CELError: the evaluation fails, or its result is negative or no integer.
        """


class _Program:
    __slots__ = ("_arithmetic", "_compiled", "expression")

    def __init__(self, expression: str, compiled: Compiled) -> None:
        self.expression = expression
        self._compiled = compiled
        self._arithmetic = compile_arithmetic(expression)

    def __repr__(self) -> str:
        return f"CostProgram({self.expression!r})"

    def evaluate(self, variables: CostVariables) -> int:
        if self._arithmetic is not None:
            try:
                return self._arithmetic(variables)
            except OutOfRangeError:
                pass  # the engine says what is wrong
        try:
            kind, value = self._compiled.evaluate(variables)
        except CELError as error:
            raise CELError(f"failed to evaluate CEL expression: {error}") from error
        if kind not in ("int", "uint") or not isinstance(value, int):
            raise CELError(f"CEL expression result is not an integer, got {kind}")
        if value < 0:
            raise CELError(f"CEL expression result is negative ({value})")
        return value


def compile_cost(expression: str, *, engine: Engine | None = None) -> CostProgram:
    """Compiles a cost expression and tries it once with strings ``dummy`` and counters 0.

    Args:
        expression: the CEL text.
        engine: which engine; by default the first that is installed.

    Raises:
        CELError: it does not compile, its result is no integer, or the trial fails or is negative.
    """
    if len(expression) > MAX_EXPRESSION:
        raise CELError(f"cannot compile CEL expression: longer than {MAX_EXPRESSION} characters")
    return _compile_cost(expression, engine)


@lru_cache(maxsize=CACHE_SIZE)
def _compile_cost(expression: str, engine: Engine | None) -> CostProgram:
    program = _Program(expression, _compile(expression, engine))
    try:
        program.evaluate(_DRY_RUN)
    except CELError as error:
        raise CELError(f"failed to evaluate CEL expression: {error}") from error
    return program


def _compile(expression: str, engine: Engine | None) -> Compiled:
    candidates = engines() if engine is None else (engine,)
    if not candidates:
        raise CELError("cannot compile CEL expression: no CEL engine is installed")
    for candidate in candidates:
        try:
            return compiler(candidate)(expression)
        except TooDeepError as error:
            # The C++ engine stops at 32 levels, the peer's at 250: a table of prices by model is deeper than 32.
            if candidate is candidates[-1]:
                raise CELError(f"cannot compile CEL expression: {error}") from error
        except CELError as error:
            raise CELError(f"cannot compile CEL expression: {error}") from error
    raise AssertionError  # the last candidate returns or raises


def cost_warnings(expression: str, *, engine: Engine | None = None) -> tuple[str, ...]:
    """What an accepted expression does badly with more samples: each text names the sample and the failure.

    Raises:
        CELError: the expression is not accepted at all.
    """
    program = compile_cost(expression, engine=engine)
    warnings = []
    for name, sample in _SAMPLES.items():
        try:
            program.evaluate(sample)
        except CELError as error:
            warnings.append(f"the expression fails for {name}: {error}")
    return tuple(warnings)

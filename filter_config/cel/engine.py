"""The seam between cost rules and the engines: what goes in, what comes out, which engines there are."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol, final

from msgspec import Struct
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Mapping

STRING_VARIABLES: Final = ("model", "backend", "route_name")
"""Variables of type string (contract, filter config 3.16)."""

COUNTERS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "total_tokens",
    "reasoning_tokens",
)
"""Variables of type uint."""

VARIABLES: Final = STRING_VARIABLES + COUNTERS


class CELError(ValueError):
    """An expression does not compile, fails, or gives what is no cost. The text says why and holds no secret."""


class TooDeepError(CELError):
    """An expression is nested deeper than the engine can read, which says nothing about its worth."""


class CostVariables(Struct, kw_only=True):
    """What a cost expression can see. Counters are numbers of tokens, 0 when the provider gave none."""

    model: str = ""
    """The effective model: the override of the backend, or else the requested model."""
    backend: str = ""
    """The full name of the backend."""
    route_name: str = ""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reasoning_tokens: int = 0

    def mapping(self) -> Mapping[str, str | int]:
        """The variables by name."""
        variables: dict[str, str | int] = asdict(self)
        return variables


class Compiled(Protocol):
    """An expression that an engine has compiled. It is immutable and may be evaluated by several threads."""

    @property
    def result_type(self) -> str:
        """CEL name of the static type of the result, such as ``uint``; ``dyn`` when only an evaluation tells."""

    def evaluate(self, variables: CostVariables) -> tuple[str, object]:
        """CEL name of the type of the result, and the result if it is an integer.

        Raises:
            CELError: with the bare reason, such as ``unsigned integer overflow``.
        """


class Compiler(Protocol):
    """The one function of an engine."""

    def __call__(self, expression: str) -> Compiled:
        """Parses and type-checks an expression.

        Raises:
            TooDeepError: it is nested too deeply for this engine.
            CELError: it is no expression, or its types do not agree.
        """


@final
class Engine(StrEnum):
    """The engines by the name of their distribution, the preferred one first."""

    CEL_EXPR_PYTHON = "cel-expr-python"
    CEL_PYTHON = "cel-python"


_MODULES: Final = {Engine.CEL_EXPR_PYTHON: "cel_expr_python", Engine.CEL_PYTHON: "celpy"}
_COMPILERS: Final = {Engine.CEL_EXPR_PYTHON: "google", Engine.CEL_PYTHON: "checker"}


@cache
def engines() -> tuple[Engine, ...]:
    """The installed engines, the default first. Only what is installed decides, never the environment."""
    return tuple(engine for engine in Engine if find_spec(_MODULES[engine]) is not None)


@cache
def compiler(engine: Engine) -> Compiler:
    """The engine's compiler. Imported at first use: each engine takes a good part of a second to import."""
    module = import_module(f"filter_config.cel.{_COMPILERS[engine]}")
    compile_expression: Compiler = module.compile_expression
    return compile_expression

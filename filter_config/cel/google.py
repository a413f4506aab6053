"""Google's C++ engine behind the seam.

It already has what the peer's engine has: static types, true ``uint``, overflow errors. Three things differ. A failed
evaluation is a *value* of type ERROR, not an exception. Texts carry a status code and, at times, other words. And
reading the value of a null result gives back a reference to None that was never taken, which in the end aborts an
interpreter without immortal objects; so only the values of integers and errors are read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from cel_expr_python import cel

from filter_config.cel.engine import COUNTERS, STRING_VARIABLES, CELError, TooDeepError

if TYPE_CHECKING:
    from filter_config.cel.engine import CostVariables

_ENVIRONMENT: Final = cel.NewEnv(
    variables={
        **dict.fromkeys(STRING_VARIABLES, cel.Type.STRING),
        **dict.fromkeys(COUNTERS, cel.Type.UINT),
    },
)

# "INVALID_ARGUMENT: ERROR: <input>:1:4: …" and "… [INVALID_ARGUMENT]": the status adds nothing to the reason.
_STATUS_PREFIX: Final = re.compile(r"\A[A-Z_]+: (?=\S)")
_STATUS_SUFFIX: Final = re.compile(r"\s*\[[A-Z_]+\]\Z")
_RECURSION: Final = re.compile(r"recursion (limit exceeded|depth of)")

# The peer's words where this engine has others, so that logs read alike.
_REASONS: Final = {
    "divide by zero": "division by zero",
    "int64 out of uint64 range": "unsigned integer overflow",
    "double out of uint64 range": "unsigned integer overflow",
    "double out of int64 range": "integer overflow",
    "uint64 out of int64 range": "integer overflow",
}

_INTEGERS: Final = ("int", "uint")
_TYPE_NAMES: Final = {
    "NULL": "null_type",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DURATION": "google.protobuf.Duration",
}


def compile_expression(expression: str) -> Expression:
    """See :class:`filter_config.cel.engine.Compiler`."""
    try:
        return Expression(_ENVIRONMENT.compile(expression))
    except RuntimeError as error:
        reason = _STATUS_SUFFIX.sub("", _STATUS_PREFIX.sub("", str(error)))
        if _RECURSION.search(reason):
            raise TooDeepError("expression recursion limit exceeded") from None
        raise CELError("; ".join(_messages(reason))) from None


def _messages(reason: str) -> list[str]:
    """The lines that say something; the others draw the expression with a caret under it."""
    lines = [line for line in reason.splitlines() if line.strip() and not line.lstrip().startswith("|")]
    return lines or ["unknown error"]


class Expression:
    """An expression compiled by the C++ engine."""

    __slots__ = ("_expression", "_integer", "result_type")

    def __init__(self, expression: cel.Expression) -> None:
        self._expression = expression
        self.result_type = _type_name(expression.return_type())
        self._integer = self.result_type in _INTEGERS

    def evaluate(self, variables: CostVariables) -> tuple[str, object]:
        """See :class:`filter_config.cel.engine.Compiled`."""
        try:
            result = self._expression.eval(data=variables.mapping())
            if self._integer:
                # An integer or an error, which the value alone tells: spares two calls into the engine.
                value = result.value()
                if value.__class__ is int:
                    return self.result_type, value
                raise CELError(_reason(value))
            kind = result.type()
            if kind == cel.Type.ERROR:
                raise CELError(_reason(result.value()))
            name = _type_name(kind)
            return name, result.value() if name in _INTEGERS else None
        except RuntimeError as error:
            raise CELError(_reason(str(error))) from None


def _reason(text: str) -> str:
    bare = _STATUS_SUFFIX.sub("", _STATUS_PREFIX.sub("", text))
    return _REASONS.get(bare, bare)


def _type_name(kind: cel.Type) -> str:
    """The CEL name of a type: ``LIST<INT>`` is ``list``."""
    name: str = kind.name().partition("<")[0]
    return _TYPE_NAMES.get(name, name.lower())

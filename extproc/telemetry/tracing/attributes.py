"""What both conventions need to make attributes: absent things stay away, and so does what cannot be exported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import Attributes, Value
from extproc.telemetry.tracing.views import AnswerView, RequestView
from extproc.usage import TokenUsage

Pairs = Iterable[tuple[str, Value | None]]

_INT64: Final = range(-(2**63), 2**63)
_COUNTED_INPUT: Final = frozenset({Operation.COUNT_TOKENS, Operation.RESPONSES_INPUT_TOKENS})


def collect(*groups: Pairs) -> Attributes:
    """The pairs that say something: no ``None``, no empty text or list, no integer that OTLP has no room for."""
    return {key: value for group in groups for key, value in group if value is not None and _says_something(value)}


def _says_something(value: Value) -> bool:
    if isinstance(value, bool | float):
        return True
    if isinstance(value, int):
        return value in _INT64
    return len(value) > 0


def error_text(status: int, detail: str) -> str:
    """The sentence for an error with this status, 0 for one without; ``detail`` is what may be told of it, or empty."""
    head = f"Error code: {status}" if status else "The answer is not complete"
    return f"{head} - {detail}" if detail else head


def input_tokens(request: RequestView, answer: AnswerView, usage: TokenUsage) -> int | None:
    """Input tokens: those used or, where the request asks how many there would be, the answer to that."""
    if usage.input is None and request.operation in _COUNTED_INPUT:
        return answer.token_count
    return usage.input

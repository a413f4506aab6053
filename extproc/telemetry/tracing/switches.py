"""Which convention spans follow, and what they say, by the environment (contract 1.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from extproc.golang import quote
from extproc.telemetry.tracing.base import Convention
from extproc.telemetry.tracing.gen_ai import GenAI
from extproc.telemetry.tracing.openinference import OpenInference
from extproc.telemetry.tracing.openinference_hiding import TraceConfig, switch

_CONVENTION: Final = "AI_GATEWAY_TRACING_SEMCONV"
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def _openinference(environ: Mapping[str, str]) -> Convention:
    return OpenInference(TraceConfig.read(environ))


def _gen_ai(environ: Mapping[str, str]) -> Convention:
    return GenAI(content=switch(environ.get(_CONTENT, "")))


_CONVENTIONS: Final[dict[str, Callable[[Mapping[str, str]], Convention]]] = {
    "openinference": _openinference,
    "gen_ai": _gen_ai,
}


def conventions(environ: Mapping[str, str]) -> Convention:
    """The convention that the environment asks for, with the switches that it has.

    Raises:
        ValueError: it asks for one that there is not.
    """
    name = environ.get(_CONVENTION, "") or "openinference"
    convention = _CONVENTIONS.get(name)
    if convention is None:
        raise ValueError(f"invalid {_CONVENTION} {quote(name)}: must be one of {', '.join(_CONVENTIONS)}")
    return convention(environ)

"""The propagators that ``OTEL_PROPAGATORS`` names: how a trace is passed from a request to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Final

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from extproc.golang import quote
from extproc.telemetry.otel.exports import ExportError

_OURS: Final = {"tracecontext": TraceContextTextMapPropagator, "baggage": W3CBaggagePropagator}
_DEFAULT: Final = "tracecontext,baggage"
_PACKAGES: Final = {
    "b3": "opentelemetry-propagator-b3",
    "b3multi": "opentelemetry-propagator-b3",
    "jaeger": "opentelemetry-propagator-jaeger",
    "ottrace": "opentelemetry-propagator-ot-trace",
    "xray": "opentelemetry-propagator-aws-xray",
}


def propagator(environ: Mapping[str, str]) -> TextMapPropagator:
    """All propagators that are wanted, as one.

    Raises:
        ExportError: one is unknown, or its package is not installed.
    """
    names = [name.strip() for name in (environ.get("OTEL_PROPAGATORS") or _DEFAULT).split(",")]
    if "none" in names:
        return CompositePropagator([])
    return CompositePropagator([_named(name) for name in dict.fromkeys(names)])


def _named(name: str) -> TextMapPropagator:
    if (ours := _OURS.get(name)) is not None:
        return ours()
    for entry in entry_points(group="opentelemetry_propagator", name=name):
        made: TextMapPropagator = entry.load()()
        return made
    if (package := _PACKAGES.get(name)) is not None:
        raise ExportError(f"OTEL_PROPAGATORS: {quote(name)} needs the package {package}, which is not installed")
    raise ExportError(
        f"OTEL_PROPAGATORS: unknown propagator {quote(name)}, must be of {', '.join((*_OURS, *_PACKAGES))}, none"
    )

"""Tracing as the environment wants it: a tracer for the exchange, and what is behind it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple, TextIO

import structlog
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
)

from extproc.telemetry.otel.backlog import BoundedBatches
from extproc.telemetry.otel.ending import FLUSH_SECONDS, Aside
from extproc.telemetry.otel.exports import Export
from extproc.telemetry.otel.propagators import propagator
from extproc.telemetry.otel.resource import resource
from extproc.telemetry.tracing.base import Convention, Reader
from extproc.telemetry.tracing.recorder import SpanTracer

_log = structlog.get_logger(__name__)

SCOPE: Final = "envoyproxy/ai-gateway"
"""The name that the peer's spans are recorded under."""

_LIMITS: Final = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")


class Tracing(NamedTuple):
    """A tracer, and how it ends."""

    tracer: SpanTracer
    provider: TracerProvider

    async def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Export what has not been yet, within a bound; then no more."""
        ending = Aside(self.provider.shutdown, name="last traces")
        try:
            await ending.within(seconds)
        except TimeoutError:
            _log.warning("traces could not be exported in time, some are lost", seconds=seconds)
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the process is to end in order
            _log.error("traces could not be exported", error=f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """End a tracer of which nothing was recorded."""
        self.provider.shutdown()


def build(
    export: Export,
    environ: Mapping[str, str],
    *,
    convention: Convention,
    readers: Mapping[str, Reader],
    attributes: tuple[tuple[str, str], ...],
    out: TextIO | None = None,
) -> Tracing:
    """What the environment describes.

    Samplers, and the variables of processors and exporters, are read by the SDK, from that of the process.

    Raises:
        ValueError: something in the environment cannot be used.
        ImportError: a package is missing.
    """
    passing = propagator(environ)
    provider = TracerProvider(
        resource=resource(environ), span_limits=_limits(environ, convention), shutdown_on_exit=False
    )
    # Whether tracing is off has been decided: the SDK takes more than "true" for it (contract 1.4).
    provider._disabled = False  # noqa: SLF001 - there is no other way to say it
    provider.add_span_processor(_processor(export, environ, out or sys.stdout))
    tracer = SpanTracer(
        provider.get_tracer(SCOPE),
        propagator=passing,
        convention=convention,
        readers=readers,
        attributes=attributes,
    )
    return Tracing(tracer, provider)


def _limits(environ: Mapping[str, str], convention: Convention) -> SpanLimits:
    if convention.unlimited and not any(environ.get(name) for name in _LIMITS):
        return SpanLimits(max_span_attributes=SpanLimits.UNSET)
    return SpanLimits()


def _processor(export: Export, environ: Mapping[str, str], out: TextIO) -> SpanProcessor:
    if export.kind == "console":
        return SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=_line))
    return BoundedBatches(_otlp(export), environ)


def _otlp(export: Export) -> SpanExporter:
    if export.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - needed for this alone
            OTLPSpanExporter as OverGrpc,
        )

        return OverGrpc(timeout=export.timeout)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - likewise
        OTLPSpanExporter as OverHttp,
    )

    return OverHttp(timeout=export.timeout)


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"

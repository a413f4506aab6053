"""Which exports the environment asks for (contract, environment variables 1.4 and tracing switch-on 7.6).

This decides, and knows nothing of the SDK: a process that exports nothing never imports it. What an exporter itself
understands, such as its endpoint, headers and certificates, the SDK reads from the environment of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

from msgspec import Struct

from extproc.golang import parse_bool, quote

INSTALL: Final = 'install the extra "otel": pip install "envoy-llm-extproc[otel]"'

Signal: TypeAlias = Literal["TRACES", "METRICS"]
Protocol: TypeAlias = Literal["http/protobuf", "grpc"]

# Of milliseconds, which is more than eleven days.
_DIGITS: Final = 9
_SWITCHES: Final = ("OPENINFERENCE_HIDE_", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
_PROTOCOLS: Final = ("grpc", "http/protobuf")


class ExportError(ValueError):
    """An export that is asked for cannot be had; the text is one line for people."""


class Export(Struct, frozen=True, kw_only=True):
    """Where a signal goes.

    Attributes:
        kind: ``console`` is the standard output of the process.
        protocol: how OTLP is spoken.
        timeout: seconds that one export may take.
    """

    kind: Literal["console", "otlp"]
    protocol: Protocol = "http/protobuf"
    timeout: float = 10.0


class Push(Struct, frozen=True, kw_only=True):
    """How metrics are pushed.

    Attributes:
        export: where to.
        interval: seconds between two pushes.
        delta: whether each tells what was added since the last, not since the start.
    """

    export: Export
    interval: float
    delta: bool


def traces(environ: Mapping[str, str]) -> Export | None:
    """Where traces go; ``None`` while tracing is off.

    Raises:
        ExportError: the environment asks for what there is not.
    """
    wanted = environ.get("OTEL_TRACES_EXPORTER", "")
    if _disabled(environ) or wanted == "none" or (not wanted and not _has_endpoint(environ, "TRACES")):
        return None
    if wanted == "console":
        return Export(kind="console")
    if wanted not in ("", "otlp"):
        raise ExportError(f"unknown OTEL_TRACES_EXPORTER: {quote(wanted)}, must be one of otlp, console, none")
    return _otlp(environ, "TRACES")


def metrics(environ: Mapping[str, str]) -> Push | None:
    """How metrics are pushed; ``None`` while they are only served at ``/metrics``.

    Raises:
        ExportError: the environment asks for what there is not.
    """
    if not pushes_metrics(environ):
        return None
    wanted = environ.get("OTEL_METRICS_EXPORTER", "")
    interval = _seconds(environ, "OTEL_METRIC_EXPORT_INTERVAL", default=60.0)
    timeout = _seconds(environ, "OTEL_METRIC_EXPORT_TIMEOUT", default=30.0)
    preference = environ.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "").strip().lower()
    if wanted == "console":
        if preference not in ("", "cumulative", "delta"):
            raise ExportError(
                f"invalid OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: {quote(preference)}, "
                "must be cumulative or delta"
            )
        export = Export(kind="console", timeout=timeout)
    elif wanted in ("", "otlp"):
        export = _otlp(environ, "METRICS", at_most=timeout)
    else:
        raise ExportError(
            f"unknown OTEL_METRICS_EXPORTER: {quote(wanted)}, must be one of otlp, console, prometheus, none"
        )
    # What is counted here is what the SDK calls counters and histograms, which "low memory" treats as "delta" does.
    return Push(export=export, interval=interval, delta=preference in ("delta", "lowmemory"))


def pushes_metrics(environ: Mapping[str, str]) -> bool:
    """Whether metrics are pushed. An exporter of OTLP without an endpoint is not one (contract 1.4)."""
    wanted = environ.get("OTEL_METRICS_EXPORTER", "")
    if _disabled(environ) or wanted in ("none", "prometheus"):
        return False
    return wanted == "console" or _has_endpoint(environ, "METRICS")


def without_effect(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that ask for something and get nothing: because others are missing, or as they are no boolean."""
    if _disabled(environ):
        return ()
    wanted = environ.get("OTEL_METRICS_EXPORTER", "")
    idle = wanted in ("", "none", "prometheus") or pushes_metrics(environ)
    vain = () if idle else ("OTEL_METRICS_EXPORTER",)
    # The contract has such a switch be off (1.4). Who has hidden something so should know that it is not.
    return (*vain, *(name for name, text in environ.items() if name.startswith(_SWITCHES) and not _is_switch(text)))


def _is_switch(text: str) -> bool:
    try:
        parse_bool(text)
    except ValueError:
        return not text
    return True


def _disabled(environ: Mapping[str, str]) -> bool:
    return environ.get("OTEL_SDK_DISABLED") == "true"


def _has_endpoint(environ: Mapping[str, str], signal: Signal) -> bool:
    return bool(environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def _otlp(environ: Mapping[str, str], signal: Signal, *, at_most: float | None = None) -> Export:
    # The specification counts timeouts in milliseconds; the SDK takes the variables for seconds, so it is told.
    general = _seconds(environ, "OTEL_EXPORTER_OTLP_TIMEOUT", default=10.0)
    timeout = _seconds(environ, f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT", default=general)
    return Export(
        kind="otlp",
        protocol=_protocol(environ, signal),
        timeout=timeout if at_most is None else min(timeout, at_most),
    )


def _protocol(environ: Mapping[str, str], signal: Signal) -> Protocol:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(name):
            if protocol not in _PROTOCOLS:
                raise ExportError(f"invalid {name}: {quote(protocol)}, must be grpc or http/protobuf")
            return cast("Protocol", protocol)
    return "http/protobuf"


def _seconds(environ: Mapping[str, str], name: str, *, default: float) -> float:
    """A variable that is in whole milliseconds."""
    text = environ.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text)):
        raise ExportError(f"invalid {name}: {quote(text)}, must be a number of milliseconds above 0")
    return int(text) / 1000

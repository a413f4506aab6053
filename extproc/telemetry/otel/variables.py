"""Variables that the SDK would take with a warning and its default, or find wrong only when it exports.

Of an export that is asked for and does not come, operators hear best at the start. What is looked at here are those of
the documented variables that neither ``exports`` nor the SDK refuses. Values are not quoted where they may hold a
credential.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final
from urllib.parse import SplitResult, urlsplit

from extproc.golang import quote
from extproc.telemetry.otel.exports import Export, ExportError, Signal

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_SHARES: Final = ("traceidratio", "parentbased_traceidratio")
_SAMPLERS: Final = ("always_on", "always_off", "parentbased_always_on", "parentbased_always_off", *_SHARES)
_QUEUE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_BATCH: Final = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
# With the SDK's defaults.
_BATCHES: Final = {_QUEUE: 2048, _BATCH: 512, "OTEL_BSP_SCHEDULE_DELAY": 5000, "OTEL_BSP_EXPORT_TIMEOUT": 30_000}
_TEMPORALITY: Final = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_COMPRESSIONS: Final = ("gzip", "deflate", "none")
# RFC 9110, 5.6.2: a name is a token.
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[^,]*")
_AUTHORITY: Final = re.compile(r"[^/\s]+:[0-9]{1,5}")


def check_traces(environ: Mapping[str, str], export: Export) -> None:
    """Raises ``ExportError`` for a variable of traces that cannot be used."""
    _check_sampler(environ)
    if export.kind == "otlp":
        _check_batches(environ)
        _check_exporter(environ, "TRACES", export)


def check_metrics(environ: Mapping[str, str], export: Export) -> None:
    """Raises ``ExportError`` for a variable of pushed metrics that cannot be used."""
    if export.kind == "otlp":
        preference = environ.get(_TEMPORALITY, "").strip()
        if preference.lower() not in ("", "cumulative", "delta", "lowmemory"):
            raise ExportError(f"invalid {_TEMPORALITY}: {quote(preference)}, must be cumulative, delta or lowmemory")
        _check_exporter(environ, "METRICS", export)


def _check_batches(environ: Mapping[str, str]) -> None:
    numbers = {name: _number(environ, name, default) for name, default in _BATCHES.items()}
    if numbers[_BATCH] > numbers[_QUEUE]:
        raise ExportError(f"{_BATCH} ({numbers[_BATCH]}) must not be larger than {_QUEUE} ({numbers[_QUEUE]})")


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    if not (re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) and int(text)):
        raise ExportError(f"invalid {name}: {quote(text)}, must be a whole number above 0")
    return int(text)


def _check_sampler(environ: Mapping[str, str]) -> None:
    name = environ.get(_SAMPLER, "").strip().lower()
    if not name:
        return
    if name not in _SAMPLERS and not entry_points(group="opentelemetry_traces_sampler", name=name):
        raise ExportError(f"unknown {_SAMPLER}: {quote(name)}, must be one of {', '.join(_SAMPLERS)}")
    share = environ.get(f"{_SAMPLER}_ARG", "").strip()
    if name in _SHARES and share and not (re.fullmatch(r"[0-9]*\.?[0-9]+", share, re.ASCII) and float(share) <= 1):
        raise ExportError(f"invalid {_SAMPLER}_ARG: {quote(share)}, must be a number from 0 to 1")


def _check_exporter(environ: Mapping[str, str], signal: Signal, export: Export) -> None:
    name, endpoint = _given(environ, signal, "ENDPOINT")
    if endpoint:
        _check_endpoint(name, endpoint.strip(), over_grpc=export.protocol == "grpc")
    name, headers = _given(environ, signal, "HEADERS")
    for place, pair in enumerate(headers.split(","), 1):
        if pair.strip() and not _HEADER.fullmatch(pair.strip()):
            raise ExportError(f"invalid {name}: header {place} is not name=value")
    name, compression = _given(environ, signal, "COMPRESSION")
    if compression.strip().lower() not in ("", *_COMPRESSIONS):
        raise ExportError(f"invalid {name}: {quote(compression)}, must be one of {', '.join(_COMPRESSIONS)}")
    name, insecure = _given(environ, signal, "INSECURE")
    if insecure.strip().lower() not in ("", "true", "false"):
        raise ExportError(f"invalid {name}: {quote(insecure)}, must be true or false")
    _check_certificates(environ, signal)


def _given(environ: Mapping[str, str], signal: Signal, what: str) -> tuple[str, str]:
    """The variable that counts for a signal, and its value."""
    own = f"OTEL_EXPORTER_OTLP_{signal}_{what}"
    general = f"OTEL_EXPORTER_OTLP_{what}"
    return (own, environ[own]) if environ.get(own) else (general, environ.get(general, ""))


def _check_endpoint(name: str, endpoint: str, *, over_grpc: bool) -> None:
    if over_grpc and (endpoint.startswith(("unix:", "dns:")) or _AUTHORITY.fullmatch(endpoint)):
        return
    url = _url(endpoint)
    if url is None or url.scheme not in ("http", "https") or not url.hostname or re.search(r"\s", endpoint):
        # Some put a credential into it.
        raise ExportError(f"invalid {name}: not a URL such as http://collector:{'4317' if over_grpc else '4318'}")


def _url(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        # Whether it is a number is only found out by looking.
        _ = url.port
    except ValueError:
        return None
    return url


def _check_certificates(environ: Mapping[str, str], signal: Signal) -> None:
    trusted, authorities = _given(environ, signal, "CERTIFICATE")
    own, chain = _given(environ, signal, "CLIENT_CERTIFICATE")
    own_key, key = _given(environ, signal, "CLIENT_KEY")
    if key and not chain:
        raise ExportError(f"{own_key} is of no use without {own}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities:
        _try(trusted, authorities, lambda: context.load_verify_locations(authorities))
    if chain:
        _try(own, chain, lambda: context.load_cert_chain(chain, key or None))


def _try(name: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:  # of which those of TLS are some
        raise ExportError(f"invalid {name}: {quote(path)} cannot be used: {error.strerror or error}") from error

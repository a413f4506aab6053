"""Who exports: the resource of spans and of pushed metrics.

Later ones win: what the SDK says by itself, ``service.name=ai-gateway``, the environment (contract 1.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.version import __version__

from extproc.golang import quote
from extproc.telemetry.otel.exports import ExportError


def resource(environ: Mapping[str, str]) -> Resource:
    """The resource of this process.

    Raises:
        ExportError: ``OTEL_RESOURCE_ATTRIBUTES`` is malformed.
    """
    attributes = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": __version__,
        "service.name": "ai-gateway",
        **_given(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")),
    }
    if name := environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = name
    return Resource(attributes)


def _given(text: str) -> dict[str, str]:
    given = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ExportError(f"malformed OTEL_RESOURCE_ATTRIBUTES: {quote(pair.strip())} is not key=value")
        given[key.strip()] = unquote(value.strip())
    return given

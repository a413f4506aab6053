"""What the core has to know of the settings of its process."""

from __future__ import annotations

from extproc.endpoints.table import EndpointTable
from extproc.exchange.context import ExchangeOptions
from extproc.settings import Settings
from extproc.telemetry.levels import DEBUG


def endpoint_table(settings: Settings) -> EndpointTable:
    """The paths that are served."""
    return EndpointTable.build(settings.endpoint_prefixes, root=settings.root_prefix)


def exchange_options(settings: Settings, endpoints: EndpointTable) -> ExchangeOptions:
    """What the core has to know of the settings."""
    return ExchangeOptions(
        endpoints=endpoints,
        log_attributes=dict(settings.log_attributes),
        metric_attributes=dict(settings.metric_attributes),
        max_body_bytes=settings.max_body_bytes,
        default_max_tokens=settings.default_max_tokens,
        debug=settings.log_level <= DEBUG,
        redact=settings.enable_redaction,
    )

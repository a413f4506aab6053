"""What the core has to know of the settings of its process."""

from __future__ import annotations

from extproc.endpoints.table import EndpointTable
from extproc.exchange.context import ExchangeOptions
from extproc.settings import Settings
from extproc.telemetry.levels import DEBUG
from extproc.translate.anthropic import BEDROCK_BETAS


def endpoint_table(settings: Settings) -> EndpointTable:
    """The paths that are served."""
    return EndpointTable.build(settings.endpoint_prefixes, root=settings.root_prefix)


def bedrock_betas(changes: str) -> frozenset[str]:
    """The flags that Bedrock knows, with what the operator knows better: flags to add, or with a minus to take out."""
    flags = [flag.strip() for flag in changes.split(",")]
    added = {flag for flag in flags if flag and not flag.startswith("-")}
    return (BEDROCK_BETAS | added) - {flag.removeprefix("-") for flag in flags if flag.startswith("-")}


def exchange_options(settings: Settings, endpoints: EndpointTable) -> ExchangeOptions:
    """What the core has to know of the settings."""
    return ExchangeOptions(
        endpoints=endpoints,
        log_attributes=dict(settings.log_attributes),
        metric_attributes=dict(settings.metric_attributes),
        max_body_bytes=settings.max_body_bytes,
        default_max_tokens=settings.default_max_tokens,
        bedrock_betas=bedrock_betas(settings.bedrock_betas),
        debug=settings.log_level <= DEBUG,
        redact=settings.enable_redaction,
    )

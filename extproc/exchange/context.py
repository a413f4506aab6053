"""What every stream of one process shares."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from extproc.endpoints.table import EndpointTable
from extproc.exchange.owners import Owner
from extproc.runtime import Runtime
from extproc.telemetry.ledger import Ledger
from extproc.telemetry.metrics import Metrics
from extproc.translate.anthropic import BEDROCK_BETAS
from extproc.translate.base import DEFAULT_MAX_TOKENS

DEFAULT_MAX_BODY_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeOptions:
    """What the settings of the process decide for its streams.

    Attributes:
        endpoints: which paths are served.
        log_attributes: request header to the metadata key under which access logs find it.
        metric_attributes: request header to the metric attribute that carries it.
        max_body_bytes: largest request body taken; 0 for no limit.
        default_max_tokens: limit of output tokens for requests without one, where an API demands it.
        bedrock_betas: flags of ``anthropic-beta`` that Amazon Bedrock knows.
        debug: write a log line for each message.
        redact: keep the content of bodies out of those lines.
    """

    endpoints: EndpointTable = field(default_factory=EndpointTable.build)
    log_attributes: Mapping[str, str] = field(default_factory=dict)
    metric_attributes: Mapping[str, str] = field(default_factory=dict)
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    bedrock_betas: frozenset[str] = BEDROCK_BETAS
    debug: bool = False
    redact: bool = True


def new_id() -> str:
    """A random UUID, version 4, as text."""
    # The class of the standard library takes several times as long, and so does asking the system for each.
    if len(_random) < _DIGITS:
        _random[:] = os.urandom(4096).hex().encode()
    digits = _random[-_DIGITS:].decode()
    del _random[-_DIGITS:]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


# Hexadecimal digits that no id has had yet. No process is forked from one that has some.
_random = bytearray()
_DIGITS = 32
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


@dataclass(slots=True, kw_only=True)
class ExchangeContext:
    """Shared state and seams: the live config, the clock, the source of ids, the metrics.

    Attributes:
        ledger: takes every attempt that has ended; ``None`` where nobody looks at it.
        runtime: the live config, or ``None`` until there is one. Assigning is the reload.
        closing: take no further client requests; attempts of those in flight are served.
        owner: which worker this is; ``None`` for the only process of its address.
        id_tag: what internal request ids end in, so that other workers can tell whose they are.
        clock: monotonic seconds.
        now: seconds since 1970.
    """

    metrics: Metrics
    options: ExchangeOptions = field(default_factory=ExchangeOptions)
    ledger: Ledger | None = None
    runtime: Runtime | None = None
    closing: bool = False
    owner: Owner | None = None
    id_tag: str = ""
    clock: Callable[[], float] = time.perf_counter
    now: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id

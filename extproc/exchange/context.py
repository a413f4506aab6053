"""What every stream of one process shares."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from extproc.endpoints.table import EndpointTable
from extproc.exchange.accounts import Accounts
from extproc.exchange.owners import Owner
from extproc.runtime import Runtime
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.tracing.base import Tracer
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
        redact: show of bodies only the shape in those lines, and none of the content.
    """

    endpoints: EndpointTable = field(default_factory=EndpointTable.build)
    log_attributes: Mapping[str, str] = field(default_factory=dict)
    metric_attributes: Mapping[str, str] = field(default_factory=dict)
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    bedrock_betas: frozenset[str] = BEDROCK_BETAS
    debug: bool = False
    redact: bool = True

    def logged(self, headers: Mapping[str, str]) -> dict[str, str | float]:
        """The metadata that access logs find some of these headers under; an empty one is none (contract 5.1)."""
        # Few requests have one of them.
        if self.log_attributes.keys().isdisjoint(headers.keys()):
            return {}
        return {attribute: value for name, attribute in self.log_attributes.items() if (value := headers.get(name))}


def new_id() -> str:
    """A random UUID, version 4, as text."""
    # One by one they would take longer than anything else that is as small: a hundred times as long from the class of
    # the standard library, ten times as long by putting the digits of one together.
    if not _random:
        _random.extend(_new_ids(_BLOCK))
    return _random.pop()


def _new_ids(count: int) -> list[str]:
    digits = os.urandom(count * 16).hex().encode()
    text = bytearray(_FORM * count)
    places = [place for place, mark in enumerate(_FORM) if mark in b"xv"]
    # Every id at once, one digit after the other.
    for digit, place in enumerate(places):
        text[place :: len(_FORM)] = digits[digit::32]
    variant = _FORM.index(b"v")
    text[variant :: len(_FORM)] = text[variant :: len(_FORM)].translate(_VARIANTS)
    return text.decode().split()


# Ids that nothing has had yet. No process is forked from one that has some.
_random: list[str] = []
_BLOCK: Final = 256
# Where the digits of an id are; the one at ``v`` also has the variant in it (RFC 9562, 5.4).
_FORM: Final = b"xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx "
_VARIANTS: Final = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


@dataclass(slots=True, kw_only=True)
class ExchangeContext:
    """Shared state and seams: the live config, the clock, the source of ids, the metrics.

    Attributes:
        accounts: takes every attempt that has ended.
        tracer: starts a span for every request; ``None`` while tracing is off.
        runtime: the live config, or ``None`` until there is one. Assigning is the reload.
        closing: take no further client requests; attempts of those in flight are served.
        owner: which worker this is; ``None`` for the only process of its address.
        id_tag: what internal request ids end in, so that other workers can tell whose they are.
        clock: monotonic seconds.
        now: seconds since 1970.
    """

    metrics: Metrics
    accounts: Accounts
    options: ExchangeOptions = field(default_factory=ExchangeOptions)
    tracer: Tracer | None = None
    runtime: Runtime | None = None
    closing: bool = False
    owner: Owner | None = None
    id_tag: str = ""
    clock: Callable[[], float] = time.perf_counter
    now: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id

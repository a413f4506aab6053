"""How attempts and requests have ended, entered into metrics and ledger.

Most attempts of a time ask the same for the same, and end in the same way. They are entered together: what they are
counted under is worked out once, and their numbers go into each series as a list.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from extproc.telemetry.ledger import Entry, Ledger
from extproc.telemetry.metrics import AttemptLabels, Metrics
from extproc.usage import NO_USAGE

if TYPE_CHECKING:
    from extproc.exchange.attempt import Attempt
    from extproc.exchange.plan import AttemptPlan


class Outcome(StrEnum):
    """How an attempt ended."""

    # An enum hashes in Python; as text it does in C, to the same value.
    __hash__ = str.__hash__

    SUCCESS = "success"
    FAILED = "failed"
    """The backend answered with an error, or nothing came of it."""
    RETRIED = "retried"
    """Envoy gave it up for another attempt."""
    REFUSED = "refused"
    """We answered the client ourselves."""
    CLIENT_CANCELLED = "client_cancelled"
    """The client went away before the answer was whole."""


# To look a member up on its class takes as long as several calls.
SUCCESS: Final = Outcome.SUCCESS

# `error.type` of everything that is not a success; who left is worth telling from what broke.
_ERROR_TYPES: Final = {SUCCESS: None, Outcome.CLIENT_CANCELLED: "client_cancelled"}
_OTHER: Final = "_OTHER"

MappedHeaders = tuple[tuple[str, str], ...]
"""Request headers that metrics carry, as (attribute name, value)."""


class Accounts:
    """Enters what has ended.

    Attributes:
        ledger: ``None`` where nobody looks at it.
        ended: takes attempts that have ended, which are entered before anybody reads.

    Args:
        metrics: their backlog is where attempts wait, and that of the ledger too.
        now: seconds since 1970.
    """

    def __init__(self, metrics: Metrics, ledger: Ledger | None, now: Callable[[], float]) -> None:
        self.ledger = ledger
        self._metrics = metrics
        self._now = now
        self.ended = metrics.backlog.kind(self._enter)

    def unattempted(
        self,
        status: int,
        *,
        by: Literal["processor", "envoy"],
        operation: str = "unknown",
        model: str = "",
        request_id: str = "",
    ) -> None:
        """Enter a request that was answered with ``status`` before any backend was asked."""
        self._metrics.unattempted(operation, status, by)
        if self.ledger is not None:
            self.ledger.record(Entry.unattempted(self._now(), model, operation, status, request_id))

    def _enter(self, attempts: list[Attempt]) -> None:
        alike: dict[tuple[AttemptPlan, str, Outcome, MappedHeaders], list[Attempt]] = {}
        for attempt in attempts:
            outcome = attempt.outcome or Outcome.FAILED
            key = attempt.plan, attempt.response_model, outcome, attempt.mapped_headers()
            alike.setdefault(key, []).append(attempt)
        for (plan, response_model, outcome, mapped), together in alike.items():
            self._count(labels_of(plan, response_model, mapped), outcome, together)
            if self.ledger is not None:
                names = plan.model, plan.backend.short_name, plan.route
                self.ledger.record_alike(names, outcome, together, _entry, streamed=plan.stream)

    def _count(self, labels: AttemptLabels, outcome: Outcome, attempts: list[Attempt]) -> None:
        metrics = self._metrics
        spacings = [spacing for attempt in attempts if (spacing := attempt.time_per_output_token) is not None]
        if spacings:
            metrics.times_per_output_token(labels, spacings)
        usages = [attempt.usage for attempt in attempts if attempt.usage is not NO_USAGE]
        if usages:
            metrics.tokens(labels, usages)
        seconds = [attempt.elapsed for attempt in attempts]
        metrics.request_durations(labels, seconds, _ERROR_TYPES.get(outcome, _OTHER))
        metrics.outcome(labels.operation, outcome, len(attempts))


def labels_of(plan: AttemptPlan, response_model: str, mapped: MappedHeaders) -> AttemptLabels:
    """What metrics count an attempt under."""
    return AttemptLabels(
        operation=plan.operation,
        provider=plan.provider,
        original_model=plan.original_model,
        request_model=plan.model,
        response_model=response_model,
        attributes=mapped,
    )


def _entry(attempt: Attempt) -> Entry:
    plan, usage = attempt.plan, attempt.usage
    return Entry(
        attempt.ended_at,
        plan.model,
        plan.original_model,
        plan.backend.short_name,
        plan.route,
        plan.operation,
        attempt.outcome or Outcome.FAILED,
        attempt.status,
        attempt.elapsed,
        attempt.prepared,
        attempt.headers_after,
        attempt.first_byte,
        plan.stream,
        attempt.request_id,
        attempt.charged(),
        usage.input or 0,
        usage.cached_input or 0,
        usage.output or 0,
        usage.reasoning or 0,
    )

"""One attempt to get an answer from one backend: its accounting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import structlog

from extproc.endpoints.base import COUNTING
from extproc.exchange.context import ExchangeContext
from extproc.exchange.headers import HeaderDict
from extproc.exchange.plan import AttemptPlan
from extproc.exchange.replies import EncodedMetadata, Metadata
from extproc.telemetry.ledger import Entry
from extproc.telemetry.metrics import AttemptLabels
from extproc.translate.base import Translator
from extproc.usage import NO_USAGE, TokenUsage
from filter_config.cel import CELError

_log = structlog.get_logger(__name__)


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


# `error.type` of everything that is not a success; who left is worth telling from what broke.
_ERROR_TYPES = {Outcome.SUCCESS: None, Outcome.CLIENT_CANCELLED: "client_cancelled"}
_OTHER = "_OTHER"


class Attempt:
    """The state of an attempt between its request and the end of its answer.

    Everything is recorded at most once, whichever way the attempt ends: answered, failed, superseded by a retry, or
    left by a client that hung up.

    Attributes:
        headers: the request's headers at this attempt, for authentication, logs and metrics.
        request_id: the client's ``x-request-id``, may be empty.
        started: clock reading when Envoy asked for this attempt.
    """

    # Set when the attempt is bound; one whose backend has no translator is never asked for it.
    translator: Translator

    def __init__(
        self, context: ExchangeContext, plan: AttemptPlan, *, headers: HeaderDict, request_id: str, started: float
    ) -> None:
        self.plan = plan
        self.headers = headers
        self.request_id = request_id
        self.started = started
        self.usage: TokenUsage = NO_USAGE
        self.response_model = "unknown"
        self.time_to_first_token: float | None = None
        self.time_per_output_token: float | None = None
        # Seconds after the start, as far as the attempt has come.
        self.prepared: float | None = None
        self._headers_after: float | None = None
        self._first_byte_after: float | None = None
        self._status = 0
        self._context = context
        self._pieces = 0
        self._max_output = 0
        self._strange = False
        self._elapsed = 0.0
        self._ended_at = 0.0
        self._outcome: Outcome | None = None
        self._costs: dict[str, int] = {}
        self._costed: TokenUsage | None = None

    @property
    def finished(self) -> bool:
        return self._outcome is not None

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, once it has."""
        return self._outcome

    def costs(self) -> dict[str, int]:
        """The costs of the usage so far; computed again only when the usage has changed.

        Counting costs nothing, however many tokens there are (BR-70).
        """
        usage = self.usage
        if usage is not self._costed and usage != self._costed and self.plan.operation not in COUNTING:
            self._costs = self.plan.formula.evaluate(usage, self._cost_failed)
            self._costed = usage
        return self._costs

    def _cost_failed(self, key: str, error: CELError) -> None:
        self._context.metrics.cost_error(key)
        _log.error(
            "cost rule failed, its key is left out",
            metadata_key=key,
            error=str(error),
            **self.log_fields(),
        )

    def log_fields(self) -> dict[str, str]:
        """Whose problem a log line is about."""
        plan = self.plan
        return {"request_id": self.request_id, "model": plan.model, "backend": plan.backend.name, "route": plan.route}

    def introduction(self) -> Metadata:
        """The names, and the headers that are mapped for access logs, where a name stands back (contract 3.14)."""
        plan = self.plan
        return {**plan.names, **plan.introduction, **self._context.options.logged(self.headers)}

    def introduced(self, numbers: Mapping[str, float]) -> Metadata | EncodedMetadata:
        """The same and some numbers, for a reply."""
        if self._context.options.log_attributes:
            return {**numbers, **self.introduction()}
        return self.plan.metadata(self.plan.introduction, numbers)

    def report(self, texts: Mapping[str, str]) -> EncodedMetadata:
        """Costs and times, and the names, as they are so far (contract 3.16)."""
        plan = self.plan
        numbers: Mapping[str, float] = self.costs()
        if plan.stream:
            numbers = {
                **numbers,
                "token_latency_ttft": int((self.time_to_first_token or 0) * 1000),
                "token_latency_itl": (self.time_per_output_token or 0.0) * 1000,
            }
        return plan.metadata(texts, numbers)

    def headers_came(self, status: int) -> None:
        """The backend has begun to answer; ``status`` is 0 for one that cannot be read."""
        self._headers_after = self._context.clock() - self.started
        self._status = status

    def answered(self, usage: TokenUsage, model: str) -> bool:
        """Take in what one piece of a successful answer reports; says whether the usage has changed."""
        self.response_model = model
        self._pieces += 1
        if self._pieces == 1:
            self._first_piece()
        # Most pieces of a stream.
        if usage is NO_USAGE:
            return False
        if self._pieces > 1:
            self._max_output = max(self._max_output, usage.output or 0)
        before = self.usage
        self.usage = before.merge(usage)
        return self.usage != before

    def stopped_strangely(self, reason: str) -> None:
        """The model has stopped for a reason that no table has (BR-55): count it once, say each reason once."""
        if self._strange:
            return
        self._strange = True
        if self._context.metrics.unknown_stop_reason(self.plan.provider, reason):
            _log.warning(
                "unknown stop reason",
                reason=reason,
                provider=self.plan.provider,
                **self.log_fields(),
            )

    def _first_piece(self) -> None:
        self._first_byte_after = self._context.clock() - self.started
        if self.plan.stream:
            self.time_to_first_token = self._first_byte_after
            self._context.metrics.time_to_first_token(self._labels(), self.time_to_first_token)

    def succeed(self) -> None:
        """The answer has come to its end."""
        if self._outcome is not None:
            return
        elapsed = self._context.clock() - self.started
        # One message cannot tell the time between tokens, nor can one token (contract, TTFT and ITL 7.4).
        if self.time_to_first_token is not None and self._max_output > 1:
            self.time_per_output_token = (elapsed - self.time_to_first_token) / (self._max_output - 1)
        self._end(Outcome.SUCCESS, elapsed)

    def fail(self, outcome: Outcome = Outcome.FAILED, status: int = 0) -> None:
        """The attempt ends without a whole answer; tokens that were reported are counted all the same.

        ``status`` is that of an answer of ours.
        """
        if self._outcome is None:
            self._status = status or self._status
            self._end(outcome, self._context.clock() - self.started)

    def release(self) -> None:
        """Nothing more will come of it: let go of the answer as far as it was kept."""
        self.__dict__.pop("translator", None)

    def _end(self, outcome: Outcome, elapsed: float) -> None:
        self._outcome = outcome
        self._elapsed = elapsed
        self._ended_at = self._context.now()
        self._context.metrics.backlog.add(self._record)

    def _record(self) -> None:
        """Enter it into metrics and ledger; by now the request that it belonged to may be over."""
        metrics, labels = self._context.metrics, self._labels()
        outcome = self._outcome or Outcome.FAILED
        if self.time_per_output_token is not None:
            metrics.time_per_output_token(labels, self.time_per_output_token)
        if self.usage is not NO_USAGE:
            metrics.tokens(labels, self.usage)
        metrics.request_duration(labels, self._elapsed, _ERROR_TYPES.get(outcome, _OTHER))
        metrics.outcome(labels.operation, outcome)
        if self._context.ledger is not None:
            self._context.ledger.record(self._entry(outcome))

    def _entry(self, outcome: Outcome) -> Entry:
        plan, usage = self.plan, self.usage
        # Envoy is told costs for every usage, and for a success without one.
        if (usage is not NO_USAGE or outcome is Outcome.SUCCESS) and plan.metered:
            self.costs()
        return Entry(
            self._ended_at,
            plan.model,
            plan.original_model,
            plan.backend.short_name,
            plan.route,
            plan.operation,
            outcome,
            self._status,
            self._elapsed,
            self.prepared,
            self._headers_after,
            self._first_byte_after,
            plan.stream,
            self.request_id,
            self._costs,
            usage.input or 0,
            usage.cached_input or 0,
            usage.output or 0,
            usage.reasoning or 0,
        )

    def _labels(self) -> AttemptLabels:
        plan, headers = self.plan, self.headers
        carried: Iterable[tuple[str, str]] = ()
        if mapped := self._context.options.metric_attributes:
            carried = [(attribute, headers[name]) for name, attribute in mapped.items() if name in headers]
        return AttemptLabels(
            operation=plan.operation,
            provider=plan.provider,
            original_model=plan.original_model,
            request_model=plan.model,
            response_model=self.response_model,
            attributes=tuple(carried),
        )

"""One attempt to get an answer from one backend: its accounting."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from extproc.endpoints.base import COUNTING
from extproc.exchange.accounts import SUCCESS, MappedHeaders, Outcome, labels_of
from extproc.exchange.context import ExchangeContext
from extproc.exchange.headers import HeaderDict
from extproc.exchange.plan import BODY_LENGTH, AttemptPlan
from extproc.exchange.replies import EncodedMetadata, Metadata
from extproc.telemetry.metrics import AttemptLabels
from extproc.translate.base import Translator
from extproc.usage import NO_USAGE, TokenUsage
from filter_config.cel import CELError

_log = structlog.get_logger(__name__)


class Attempt:
    """The state of an attempt between its request and the end of its answer.

    Everything is recorded at most once, whichever way the attempt ends: answered, failed, superseded by a retry, or
    left by a client that hung up.

    Attributes:
        context: what all streams share.
        plan: what it has in common with others.
        headers: the request's headers at this attempt, for authentication, logs and metrics.
        request_id: the client's ``x-request-id``, may be empty.
        started: clock reading when Envoy asked for this attempt.
        prepared, headers_after, first_byte: seconds after that, as far as it has come: its request was ready, the
            backend's headers came, and the first piece of a successful answer's body.
        status: HTTP status of the backend, or of our answer in its place; 0 without one.
        outcome: how it ended, once it has.
        elapsed: seconds that it took, once it has ended.
        ended_at: when that was, in seconds since 1970.
    """

    __slots__ = (
        *("_costed", "_costs", "_max_output", "_pieces", "_strange", "context", "elapsed", "ended_at", "first_byte"),
        *("headers", "headers_after", "outcome", "plan", "prepared", "request_id", "response_model", "started"),
        *("status", "time_per_output_token", "time_to_first_token", "translator", "usage"),
    )

    def __init__(
        self, context: ExchangeContext, plan: AttemptPlan, headers: HeaderDict, request_id: str, started: float
    ) -> None:
        self.plan = plan
        self.headers = headers
        self.request_id = request_id
        self.started = started
        # Set when the attempt is bound; one whose backend has no translator is never asked for it.
        self.translator: Translator
        self.usage: TokenUsage = NO_USAGE
        self.response_model = "unknown"
        self.time_to_first_token: float | None = None
        self.time_per_output_token: float | None = None
        self.prepared: float | None = None
        self.headers_after: float | None = None
        self.first_byte: float | None = None
        self.status = 0
        self.outcome: Outcome | None = None
        self.elapsed = 0.0
        self.ended_at = 0.0
        self.context = context
        self._pieces = 0
        self._max_output = 0
        self._strange = False
        self._costs: dict[str, int] = {}
        self._costed: TokenUsage | None = None

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
        self.context.metrics.cost_error(key)
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
        return {**plan.names, **plan.introduction, **self.context.options.logged(self.headers)}

    def introduced(self, length: int | None) -> Metadata | EncodedMetadata:
        """The same for a reply, and the length of the body if it is told."""
        plan = self.plan
        logged = self.context.options.logged(self.headers)
        if logged:
            numbers = {} if length is None else {BODY_LENGTH: length}
            return {**numbers, **plan.names, **plan.introduction, **logged}
        return plan.unsized if length is None else plan.sized.fill_one(length)

    def report(self, failure: str) -> EncodedMetadata:
        """Costs and times, and the names, as they are so far; see ``AttemptPlan.report``."""
        plan = self.plan
        numbers: Mapping[str, float] = self.costs()
        if plan.stream:
            numbers = {
                **numbers,
                "token_latency_ttft": int((self.time_to_first_token or 0) * 1000),
                "token_latency_itl": (self.time_per_output_token or 0.0) * 1000,
            }
        return plan.report(self.response_model, failure, numbers)

    def headers_came(self, status: int) -> None:
        """The backend has begun to answer; ``status`` is 0 for one that cannot be read."""
        self.headers_after = self.context.clock() - self.started
        self.status = status

    def answered(self, usage: TokenUsage, model: str) -> bool:
        """Take in what one piece of a successful answer reports; says whether the usage has changed."""
        self.response_model = model
        self._pieces += 1
        if self._pieces == 1:
            self.first_byte = self.context.clock() - self.started
            if self.plan.stream:
                self.time_to_first_token = self.first_byte
                self.context.metrics.time_to_first_token(self.labels(), self.first_byte)
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
        if self.context.metrics.unknown_stop_reason(self.plan.provider, reason):
            _log.warning(
                "unknown stop reason",
                reason=reason,
                provider=self.plan.provider,
                **self.log_fields(),
            )

    def succeed(self) -> None:
        """The answer has come to its end."""
        if self.outcome is not None:
            return
        elapsed = self.context.clock() - self.started
        # One message cannot tell the time between tokens, nor can one token (contract, TTFT and ITL 7.4).
        if self.time_to_first_token is not None and self._max_output > 1:
            self.time_per_output_token = (elapsed - self.time_to_first_token) / (self._max_output - 1)
        self._end(SUCCESS, elapsed)

    def fail(self, outcome: Outcome = Outcome.FAILED, status: int = 0) -> None:
        """The attempt ends without a whole answer; tokens that were reported are counted all the same.

        ``status`` is that of an answer of ours.
        """
        if self.outcome is None:
            self.status = status or self.status
            self._end(outcome, self.context.clock() - self.started)

    def release(self) -> None:
        """Nothing more will come of it: let go of the answer as far as it was kept."""
        try:  # noqa: SIM105 - the other way takes several times as long
            del self.translator
        except AttributeError:
            pass

    def _end(self, outcome: Outcome, elapsed: float) -> None:
        self.outcome = outcome
        self.elapsed = elapsed
        self.ended_at = self.context.now()
        self.context.accounts.ended.add(self)

    def charged(self) -> Mapping[str, int]:
        """What Envoy was told that the attempt costs: it is told for every usage, and for a success without one."""
        # Nearly always: the end of an answer reports them.
        if self.usage is self._costed:
            return self._costs
        if (self.usage is not NO_USAGE or self.outcome is SUCCESS) and self.plan.metered:
            return self.costs()
        return self._costs

    def labels(self) -> AttemptLabels:
        """What metrics count it under, as far as it has come."""
        return labels_of(self.plan, self.response_model, self.mapped_headers())

    def mapped_headers(self) -> MappedHeaders:
        """Those of this request."""
        names = self.context.options.metric_attributes
        if not names:
            return ()
        headers = self.headers
        return tuple([(attribute, headers[name]) for name, attribute in names.items() if name in headers])

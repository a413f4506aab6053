"""Every metric of the process: the peer's ``gen_ai`` histograms and our own ``extproc`` ones.

Names, units, buckets and texts of the former are the peer's (contract, metrics 7.1 and 7.2). A label value that a
client or an upstream can choose is capped, because each new one is memory and a time series for good.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, Literal, Protocol
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

import extproc
from extproc.telemetry.backlog import Backlog
from extproc.telemetry.instruments import Distribution, Histogram, Scalars, Value
from extproc.telemetry.otel.exports import pushes_metrics
from extproc.telemetry.snapshot import Labels, Snapshot

MAX_MODELS: Final = 200
"""Distinct models a model label may have; further ones are counted as ``other``."""
MAX_ATTRIBUTE_VALUES: Final = 2000
"""Distinct values a mapped header may have, likewise."""
MAX_ATTEMPT_SERIES: Final = 4000
"""Distinct sets of labels; beyond, a new set keeps only its operation and provider."""
MAX_NAMES: Final = 50
"""Distinct names that upstreams make up, of codings for instance."""
MAX_VALUE: Final = 256
"""Characters of a model or a mapped header that are kept; a scrape has some hundred lines with each."""
MAX_REASON: Final = 120
"""Characters of a stop reason that are kept."""
OTHER: Final = "other"

_SCOPE: Final = (
    ("otel_scope_name", "envoyproxy/ai-gateway"),
    ("otel_scope_schema_url", ""),
    ("otel_scope_version", ""),
)
_TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
_DURATION_BUCKETS: Final = tuple(2**power / 100 for power in range(14))
_FIRST_TOKEN_BUCKETS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60),
)
_OUTPUT_TOKEN_BUCKETS: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_MESSAGE_BUCKETS: Final = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
# Attribute of a usage record, and the token type that it is counted as.
_TOKEN_TYPES: Final = ("input", "cached_input", "cache_creation_input", "output", "reasoning")
_token_counts: Final = attrgetter(*_TOKEN_TYPES)


class TokenCounts(Protocol):
    """What is counted of a usage record; ``None`` is a count that nobody reported."""

    @property
    def input(self) -> int | None: ...
    @property
    def cached_input(self) -> int | None: ...
    @property
    def cache_creation_input(self) -> int | None: ...
    @property
    def output(self) -> int | None: ...
    @property
    def reasoning(self) -> int | None: ...


class CredentialState(Protocol):
    """What ``Metrics.credentials`` reads of a credential: the name of its source, and how long it lasts."""

    @property
    def name(self) -> str: ...
    @property
    def usable(self) -> bool: ...
    @property
    def expires_at(self) -> float | None: ...


class AttemptLabels(Struct, frozen=True, kw_only=True):
    """What one attempt at a backend is counted under.

    Attributes:
        operation: ``gen_ai.operation.name``.
        provider: ``gen_ai.provider.name``.
        original_model: the model in the client's body.
        request_model: the model that the backend was asked for.
        response_model: the model that answered, as far as the answer says.
        attributes: mapped request headers, as (attribute name, value).
    """

    operation: str
    provider: str
    original_model: str
    request_model: str
    response_model: str
    attributes: tuple[tuple[str, str], ...] = ()


class _Cap:
    """Lets the first ``limit`` distinct values through, cut to a length, and turns every later one into ``other``."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        value = value[:MAX_VALUE]
        if value not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(value)
        return value


class _Attempt:
    """The series of one set of labels, each made when it gets its first value."""

    __slots__ = ("attributes", "durations", "first_token", "per_output_token", "tokens")

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes = attributes
        self.tokens: dict[str, Distribution] = {}
        self.durations: dict[str | None, Distribution] = {}
        self.first_token: Distribution | None = None
        self.per_output_token: Distribution | None = None


class Metrics:
    """The metrics of one process. Not thread-safe: everything is recorded on the event loop.

    Attributes:
        backlog: what is yet to be recorded; whoever reads the metrics has it recorded by that.
        streams: what is recorded of the ext_proc streams of a level, by its name.

    Args:
        environ: where ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` are looked up, for ``target_info``.
        clock: seconds since the epoch.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.backlog = Backlog()
        # The first one, so that those that follow have it all.
        self.registry.register(_Settled(self.backlog))
        self._clock = clock
        self._histograms: dict[str, Histogram] = {}
        self._counts: dict[str, Scalars] = {}
        self._attempts: dict[AttemptLabels, _Attempt] = {}
        self._latest: tuple[AttemptLabels | None, _Attempt] = (None, _Attempt({}))
        self._original_models = _Cap(MAX_MODELS)
        self._request_models = _Cap(MAX_MODELS)
        self._response_models = _Cap(MAX_MODELS)
        self._attribute_values: dict[str, _Cap] = {}
        self._codings = _Cap(MAX_NAMES)
        self._stop_reasons = _Cap(MAX_NAMES)
        self._tokens = self._histogram("gen_ai_client_token_usage", "Number of tokens processed.", _TOKEN_BUCKETS)
        self._durations = self._histogram(
            "gen_ai_server_request_duration_seconds",
            "Generative AI server request duration such as time-to-last byte or last output token.",
            _DURATION_BUCKETS,
        )
        self._first_token = self._histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Time to receive first token in streaming responses.",
            _FIRST_TOKEN_BUCKETS,
        )
        self._per_output_token = self._histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Time per output token generated after the first token for successful responses.",
            _OUTPUT_TOKEN_BUCKETS,
        )
        self._own(resource_attributes(environ or {}))

    def _own(self, resource: Mapping[str, str]) -> None:
        self._message_seconds = self._histogram(
            "extproc_message_seconds", "Time spent on one ext_proc message, by level and phase.", _MESSAGE_BUCKETS
        )
        self.registry.register(_MessageCount(self._message_seconds))
        opened = self._scalars("gauge", "extproc_streams", "ext_proc streams that are open.")
        self.streams = _Levels(opened, self._message_seconds)
        self._outcomes: dict[tuple[str, str], Value] = {}
        self._requests = self._scalars("counter", "extproc_attempts", "Attempts at a backend that ended, by outcome.")
        self._unattempted = self._scalars(
            "counter",
            "extproc_unattempted_requests",
            "Requests that were answered before any backend was asked, by operation, status and who answered.",
        )
        self._unknown_encodings = self._scalars(
            "counter", "extproc_unknown_encodings", "Response bodies whose content-encoding cannot be decoded."
        )
        self._unknown_stops = self._scalars(
            "counter",
            "extproc_unknown_stop_reasons",
            "Answers that ended for a reason this process does not know, by provider and reason.",
        )
        self._cost_errors = self._scalars(
            "counter", "extproc_cost_errors", "Cost rules that failed on a request, by metadata key."
        )
        self._reloads = self._scalars(
            "counter", "extproc_config_reloads", "Attempts to load a filter config, by result."
        )
        self._mismatches = self._scalars(
            "counter",
            "extproc_config_version_mismatch",
            "Filter configs whose version is not that of this process.",
        )
        self._live = self._scalars(
            "gauge", "extproc_config_info", "Content hash of the live filter config.", merge="max"
        )
        self._live_since = self._scalars(
            "gauge",
            "extproc_config_live_timestamp_seconds",
            "When the live filter config was taken into use.",
            merge="max",
        )
        self._refreshes = self._scalars(
            "counter", "extproc_credential_refreshes", "Attempts to fetch a backend credential, by source and result."
        )
        self._unserved = self._scalars(
            "counter",
            "extproc_credential_unavailable_requests",
            "Requests that failed because a backend credential could not be had.",
        )
        self._expiries = self._scalars(
            "gauge",
            "extproc_credential_expiry_timestamp_seconds",
            "When the backend credential in use expires.",
            merge="max",
        )
        self._missing = self._scalars(
            "gauge", "extproc_credential_missing", "Processes that have no valid credential of a source."
        )
        self._workers = self._scalars("gauge", "extproc_workers", "Worker processes that serve.")
        self._worker_ends = self._scalars("counter", "extproc_worker_ends", "Worker processes that died.")
        self._relayed = self._scalars(
            "counter", "extproc_relayed_attempts", "Attempts at requests of another worker, which were relayed to it."
        )
        self._scalars("gauge", "target_info", "Target metadata", merge="max").series(**resource).add()
        self._mismatches.series()
        # Known from the start: of a counter that begins with 1, nobody sees that it has grown.
        for result in ("ok", "refused", "unavailable"):
            self._reloads.series(result=result)

    def _histogram(self, name: str, description: str, bounds: tuple[float, ...]) -> Histogram:
        histogram = self._histograms[name] = Histogram(name, description, bounds)
        self.registry.register(histogram)
        return histogram

    def _scalars(
        self,
        kind: Literal["counter", "gauge"],
        name: str,
        description: str,
        *,
        merge: Literal["sum", "max"] = "sum",
    ) -> Scalars:
        scalars = self._counts[name] = Scalars(kind, name, description, merge=merge)
        self.registry.register(scalars)
        return scalars

    def snapshot(self) -> Snapshot:
        """Everything that was recorded so far."""
        return Snapshot.whole(self.parts(MAX_ATTEMPT_SERIES))

    def parts(self, size: int) -> Iterator[Snapshot]:
        """The same in parts of at most ``size`` histograms, between which other things may be done and recorded."""
        self.backlog.settle()
        yield Snapshot(scalars={name: scalars.values() for name, scalars in self._counts.items()})
        for name, histogram in self._histograms.items():
            for series in histogram.parts(size):
                yield Snapshot(histograms={name: series})

    def absorb(self, snapshot: Snapshot, *, ended: bool = False) -> None:
        """Add what another process has recorded; of one that has ``ended``, only what it counted for good."""
        for name, values in snapshot.scalars.items():
            scalars = self._counts[name]
            if scalars.lasting or not ended:
                scalars.absorb(values)
        for name, series in snapshot.histograms.items():
            self._histograms[name].absorb(series)

    def tokens(self, labels: AttemptLabels, usages: Iterable[TokenCounts]) -> None:
        """Record each count that is set, a zero too."""
        attempt = self._attempt(labels)
        by_type = zip(*map(_token_counts, usages), strict=True)
        for token_type, reported in zip(_TOKEN_TYPES, by_type, strict=False):
            counts = [count for count in reported if count is not None]
            if not counts:
                continue
            series = attempt.tokens.get(token_type)
            if series is None:
                attributes = attempt.attributes | {"gen_ai.token.type": token_type}
                series = attempt.tokens[token_type] = self._tokens.series(_labels(attributes))
            series.extend(counts)

    def request_durations(self, labels: AttemptLabels, seconds: Iterable[float], error_type: str | None = None) -> None:
        """Record how long attempts took; ``error_type`` is ``_OTHER`` for those that failed."""
        attempt = self._attempt(labels)
        series = attempt.durations.get(error_type)
        if series is None:
            attributes = attempt.attributes | ({"error.type": error_type} if error_type else {})
            series = attempt.durations[error_type] = self._durations.series(_labels(attributes))
        series.extend(seconds)

    def time_to_first_token(self, labels: AttemptLabels, seconds: float) -> None:
        """Record the time to the first body message of a streamed answer."""
        attempt = self._attempt(labels)
        if attempt.first_token is None:
            attempt.first_token = self._first_token.series(_labels(attempt.attributes))
        attempt.first_token.observe(seconds)

    def times_per_output_token(self, labels: AttemptLabels, seconds: Iterable[float]) -> None:
        """Record the mean times between the tokens of streamed answers."""
        attempt = self._attempt(labels)
        if attempt.per_output_token is None:
            attempt.per_output_token = self._per_output_token.series(_labels(attempt.attributes))
        attempt.per_output_token.extend(seconds)

    def outcome(self, operation: str, outcome: str, count: int = 1) -> None:
        """Count attempts by how they ended: ``success``, ``client_cancelled`` and so on."""
        series = self._outcomes.get((operation, outcome))
        if series is None:
            series = self._outcomes[operation, outcome] = self._requests.series(operation=operation, outcome=outcome)
        series.value += count

    def unattempted(self, operation: str, status: int, by: Literal["processor", "envoy"]) -> None:
        """Count a request that was answered with ``status`` before it became an attempt."""
        self._unattempted.series(operation=operation, status=str(status), by=by).add()

    def unknown_encoding(self, coding: str) -> None:
        """Count a response body that could not be looked into."""
        self._unknown_encodings.series(coding=self._codings(coding)).add()

    def unknown_stop_reason(self, provider: str, reason: str) -> bool:
        """Count an answer that ended for an unknown reason; says whether it is the first one for it."""
        series = self._unknown_stops.series(provider=provider, reason=self._stop_reasons(reason[:MAX_REASON]))
        series.add()
        return series.value == 1

    def cost_error(self, metadata_key: str) -> None:
        """Count a cost rule that failed."""
        self._cost_errors.series(metadata_key=metadata_key).add()

    def config_reload(self, result: str) -> None:
        """Count an attempt to load a filter config: ``ok``, ``refused``, ``unavailable`` or ``refused_by_worker``."""
        self._reloads.series(result=result).add()

    def config_version_mismatch(self) -> None:
        """Count a filter config that was written for another version."""
        self._mismatches.series().add()

    def live_config(self, digest: str) -> None:
        """Say which filter config is live from now on."""
        self._live.clear()
        self._live.series(digest=digest).value = 1
        self._live_since.series().value = round(self._clock(), 3)

    def credential_refresh(self, source: str, result: str) -> None:
        """Count an attempt to fetch a credential: ``ok`` or ``failed``."""
        self._refreshes.series(source=source, result=result).add()

    def credential_unavailable(self, source: str, requests: int) -> None:
        """Count requests that failed for want of a credential."""
        self._unserved.series(source=source).add(requests)

    def credentials(self, states: Iterable[CredentialState]) -> None:
        """Say how the credentials are that have to be fetched; of others nothing is said any more."""
        self._expiries.clear()
        self._missing.clear()
        for state in states:
            self._missing.series(source=state.name).add(0 if state.usable else 1)
            if state.expires_at is not None:
                self._expiries.series(source=state.name).value = round(state.expires_at, 3)

    def workers(self, serving: int) -> None:
        """Say how many workers serve."""
        self._workers.series().value = serving
        self._worker_ends.series()

    def worker_ended(self) -> None:
        """Count a worker that died."""
        self._worker_ends.series().add()

    def relayed(self) -> None:
        """Count an attempt that was relayed to another worker."""
        self._relayed.series().add()

    def _attempt(self, labels: AttemptLabels) -> _Attempt:
        # The values of an attempt come one after the other with the same object; hashing six strings costs more
        # than recording.
        if labels is self._latest[0]:
            return self._latest[1]
        attempt = self._known_attempt(labels)
        self._latest = (labels, attempt)
        return attempt

    def _known_attempt(self, labels: AttemptLabels) -> _Attempt:
        attempt = self._attempts.get(labels)
        if attempt is None:
            # Kept under the capped labels only: the labels as they came could be without end.
            capped = self._cap(labels)
            attempt = self._attempts.get(capped)
            if attempt is None:
                attempt = self._attempts[capped] = _Attempt(_attributes(capped))
        return attempt

    def _cap(self, labels: AttemptLabels) -> AttemptLabels:
        if len(self._attempts) >= MAX_ATTEMPT_SERIES:
            return replace(labels, original_model=OTHER, request_model=OTHER, response_model=OTHER, attributes=())
        return replace(
            labels,
            original_model=self._original_models(labels.original_model),
            request_model=self._request_models(labels.request_model),
            response_model=self._response_models(labels.response_model),
            attributes=tuple((name, self._cap_attribute(name, value)) for name, value in labels.attributes),
        )

    def _cap_attribute(self, name: str, value: str) -> str:
        cap = self._attribute_values.get(name)
        if cap is None:
            cap = self._attribute_values[name] = _Cap(MAX_ATTRIBUTE_VALUES)
        return cap(value)


class _Settled(Collector):
    """Has nothing to show, and what waits recorded."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog

    def collect(self) -> Iterable[Metric]:
        self._backlog.settle()
        return ()


class StreamSeries:
    """What is recorded of the ext_proc streams of one level.

    Attributes:
        open: how many there are.
        messages: the seconds of messages that were answered, by phase.
    """

    __slots__ = ("messages", "open")

    def __init__(self, opened: Value, messages: Mapping[str, Distribution]) -> None:
        self.open = opened
        self.messages = messages


class _Levels(dict[str, StreamSeries]):
    """What is recorded of the streams by level, each made at its first use."""

    def __init__(self, opened: Scalars, seconds: Histogram) -> None:
        self._opened = opened
        self._seconds = seconds

    def __missing__(self, level: str) -> StreamSeries:
        series = self[level] = StreamSeries(self._opened.series(level=level), _MessageSeries(self._seconds, level))
        return series


class _MessageSeries(dict[str, Distribution]):
    """The series of messages of a level by phase, each made at its first use."""

    def __init__(self, seconds: Histogram, level: str) -> None:
        self._seconds = seconds
        self._level = level

    def __missing__(self, phase: str) -> Distribution:
        series = self[phase] = self._seconds.series((("level", self._level), ("phase", phase)))
        return series


class _MessageCount(Collector):
    """Messages as a counter, read off the histogram so that a message is recorded once."""

    def __init__(self, seconds: Histogram) -> None:
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        metric = Metric("extproc_messages", "ext_proc messages that were answered, by level and phase.", "counter")
        for labels, count in self._seconds.counts():
            metric.add_sample("extproc_messages_total", dict(labels), count)
        if metric.samples:
            yield metric


def _attributes(labels: AttemptLabels) -> dict[str, str]:
    return {
        "gen_ai.operation.name": labels.operation,
        "gen_ai.provider.name": labels.provider,
        "gen_ai.original.model": labels.original_model,
        "gen_ai.request.model": labels.request_model,
        "gen_ai.response.model": labels.response_model,
        # A mapped header with a built-in name replaces it (contract 7.2).
        **dict(labels.attributes),
    }


def _labels(attributes: Mapping[str, str]) -> Labels:
    """Attributes in Prometheus form; values whose names become equal are joined, as the OTel exporter does."""
    labels: dict[str, str] = {}
    for attribute, value in sorted(attributes.items()):
        name = label_name(attribute)
        labels[name] = f"{labels[name]};{value}" if name in labels else value
    return tuple(sorted((labels | dict(_SCOPE)).items()))


def label_name(attribute: str) -> str:
    """``a.b-c`` as ``a_b_c``; a run of characters that labels cannot have is one underscore."""
    name = re.sub(r"[^a-zA-Z0-9_]+", "_", attribute)
    # Histograms have a label ``le`` of their own; one more would give a page that nothing can read.
    return f"key_{name}" if name[:1].isdigit() or name == "le" else name


def resource_attributes(environ: Mapping[str, str]) -> dict[str, str]:
    """The labels of ``target_info``: who this process is, and what ``OTEL_*`` variables say of it."""
    attributes = {
        "service.name": "ai-gateway" if pushes_metrics(environ) else "unknown_service:extproc",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "envoy-llm-extproc",
        "telemetry.sdk.version": extproc.__version__,
    }
    for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            attributes[key.strip()] = unquote(value.strip())
    if name := environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = name
    return {label_name(key): value for key, value in attributes.items()}

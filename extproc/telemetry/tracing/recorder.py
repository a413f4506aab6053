"""Spans as the exchange sees them, over the SDK's: what a convention says of a request and its answer is recorded.

A request that is not sampled costs the two walks over its headers and no more: names and attributes, for which its body
is read once again, are made for spans that are recorded. Nothing here may raise into the exchange: what cannot be
recorded is left out, and the log says so once for each kind of fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import SpanKind, Status, StatusCode

from extproc.telemetry.redaction import bare_credential, is_sensitive_header, without_credentials
from extproc.telemetry.tracing.base import (
    AnswerReader,
    Attributes,
    Convention,
    Ending,
    Event,
    Failure,
    Reader,
    Started,
    TracedRequest,
)
from extproc.telemetry.tracing.views import RequestView
from extproc.usage import TokenUsage

_log = structlog.get_logger(__name__)

MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of an error's body that a span keeps."""

MAX_ATTRIBUTES: Final = 10_000
"""Attributes that a request may make, and an answer; each element of a list makes some, and a client may send many."""

_COUNTS: Final = 20

CLIENT_CANCELLED: Final = "client_cancelled"
"""``error.type`` of a request whose client left; not an error of the backend, so the span's status says none."""

_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_BAGGAGE: Final = "baggage"

P = ParamSpec("P")
S = TypeVar("S", bound="RecordedSpan")


class SpanTracer:
    """Starts spans; a ``tracing.base.Tracer``.

    Args:
        tracer: the SDK's.
        propagator: reads the parent from a request's headers, and writes the span into them.
        convention: says what spans are called and what is in them.
        readers: by operation.
        attributes: request headers that become attributes, as (lower-case header, attribute).
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        *,
        propagator: TextMapPropagator,
        convention: Convention,
        readers: Mapping[str, Reader],
        attributes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._tracer = tracer
        self._propagator = propagator
        self._convention = convention
        self._readers = readers
        self._attributes = attributes
        self._kind = _KINDS[convention.kind]
        self._faults = Faults()

    def start(self, request: TracedRequest) -> Started:
        """Begin the span of a request, as a child of the one that its headers name."""
        try:
            return self._start(request)
        except Exception as error:  # noqa: BLE001 - a request is served whether it can be traced or not
            self._faults.tell("start", error)
            return Started((), None)

    def _start(self, request: TracedRequest) -> Started:
        around = self._propagator.extract(request.headers, context=Context(), getter=_HEADERS)
        # Samplers that can be configured do not ask for the name, and most need not be made for what is not sampled.
        span = self._tracer.start_span(request.operation, context=around, kind=self._kind)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context=trace.set_span_in_context(span, around), setter=_CARRIER)
        if _BAGGAGE in carrier and _BAGGAGE in request.headers:
            # Nothing was added to it. As the client wrote it, it keeps the properties that the SDK does not know of.
            carrier[_BAGGAGE] = request.headers[_BAGGAGE]
        headers = tuple(carrier.items())
        if not span.is_recording():
            return Started(headers, None)
        recorded = RecordedSpan(span, request, self._convention, self._readers.get(request.operation), self._faults)
        recorded.describe(self._attributes)
        return Started(headers, recorded)


class Faults:
    """Tells of each kind of fault once: what one request of a kind has, the next one has too."""

    def __init__(self) -> None:
        self._told: set[tuple[str, type[Exception]]] = set()

    def tell(self, step: str, error: Exception) -> None:
        kind = (step, type(error))
        if kind not in self._told:
            self._told.add(kind)
            _log.error("a span is incomplete", step=step, error=type(error).__name__, exc_info=error)


def _unharmed(method: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """A method that does nothing after the end, and whose faults are only told."""

    @wraps(method)
    def unharmed(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.ended:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - as of the module
            self.faults.tell(method.__name__, error)

    return unharmed


class RecordedSpan:
    """A span that is sampled; a ``tracing.base.Span``.

    Args:
        span: the SDK's.
        request: what it is about.
        convention: what is recorded.
        reader: of the API; ``None`` for one that has none, of which only the frame is recorded.
        faults: where they are told.
    """

    __slots__ = (
        "_answer", "_concealed", "_convention", "_error", "_failed_status", "_pieces", "_reader", "_request", "_span",
        "_status", "_view", "ended", "faults",
    )  # fmt: skip

    def __init__(
        self,
        span: trace.Span,
        request: TracedRequest,
        convention: Convention,
        reader: Reader | None,
        faults: Faults,
    ) -> None:
        self._span = span
        self._request = request
        self._convention = convention
        self._reader = reader
        self._view = RequestView(operation=request.operation, model=request.model, stream=request.stream)
        self._status = 0
        self._answer: AnswerReader | None = None
        self._pieces = 0
        self._error = bytearray()
        self._concealed: set[str] = set()
        self.ended = False
        self.faults = faults

    @_unharmed
    def describe(self, attributes: tuple[tuple[str, str], ...]) -> None:
        """Record the name, the request, and the headers that are mapped to attributes, even empty ones."""
        headers = self._request.headers
        mapped = {attribute: headers[name] for name, attribute in attributes if name in headers}
        try:
            if self._reader is not None:
                self._view = self._reader.request(self._request)
            self._span.update_name(self._convention.name(self._view))
            self._record(self._convention.request(self._view))
        finally:
            self._span.set_attributes(mapped)

    @_unharmed
    def bound(self, provider: str) -> None:
        """An attempt goes to a backend of this provider; what the one before has left is replaced."""
        self._span.set_attributes(self._convention.bound(provider))

    @_unharmed
    def conceal(self, credentials: Iterable[str]) -> None:
        """These go to the backend; those of a former attempt have been somewhere, too."""
        self._concealed.update(map(bare_credential, credentials))

    @_unharmed
    def answered(self, status: int) -> None:
        """The headers of the answer that the client gets are here."""
        self._status = status
        self._error.clear()
        self._answer = None
        if self._successful and self._reader is not None:
            self._answer = self._reader.answer(self._request, stream=self._request.stream)

    @_unharmed
    def piece(self, data: bytes) -> None:
        """The next bytes of the answer's body."""
        if not data:
            return
        if not self._successful:
            self._error += data[: MAX_ERROR_BODY - len(self._error)]
            return
        self._pieces += 1
        if self._pieces == 1 and self._request.stream:
            self._add(self._convention.first_piece(self._view))
        if self._answer is not None:
            self._answer.feed(data)

    @_unharmed
    def refused(self, status: int, body: bytes) -> None:
        """The client was answered by us."""
        self._status = status
        self._answer = None
        self._error = bytearray(body[:MAX_ERROR_BODY])

    def end(self, usage: TokenUsage, model: str, ending: Ending) -> None:
        """Record how it ended; nothing is recorded after."""
        self._conclude(usage, model, ending)
        if not self.ended:
            self.ended = True
            self._span.end()

    @_unharmed
    def _conclude(self, usage: TokenUsage, model: str, ending: Ending) -> None:
        if self._status and not self._successful:
            self._fail(self._convention.failure(self._status, self._error_text()))
            return
        try:
            self._tell_answer(usage, model, whole=ending == "complete")
        finally:
            self._tell_ending(ending)

    def _error_text(self) -> str:
        """The error without credentials: those of the client, ours, and what looks like one."""
        given = (bare_credential(value) for name, value in self._request.headers.items() if is_sensitive_header(name))
        known = {*given, *self._concealed} - {""}
        text = self._error.decode("utf-8", "replace")
        return without_credentials(text, sorted(known, key=len, reverse=True))

    def _tell_answer(self, usage: TokenUsage, model: str, *, whole: bool) -> None:
        """Record the answer, or as much of it as came."""
        if self._answer is None:
            return
        view = self._answer.close()
        self._record(self._convention.answer(self._view, view, usage, model))
        for event in self._convention.events(self._view, view) if whole else ():
            self._add(event)

    def _tell_ending(self, ending: Ending) -> None:
        match ending:
            case "cancelled":
                self._span.set_attribute("error.type", CLIENT_CANCELLED)
            case "complete" if self._successful:
                self._span.set_status(Status(StatusCode.OK))
            case _:
                self._fail(self._convention.failure(0, ""))

    def _fail(self, failure: Failure) -> None:
        self._span.set_status(Status(StatusCode.ERROR, failure.description))
        self._span.set_attributes(failure.attributes)
        self._add(failure.event)

    def _record(self, attributes: Attributes) -> None:
        """Record attributes; of very many the first, and the last, which are counts."""
        if len(attributes) > MAX_ATTRIBUTES:
            listed = list(attributes.items())
            attributes = dict(listed[: MAX_ATTRIBUTES - _COUNTS] + listed[-_COUNTS:])
        self._span.set_attributes(attributes)

    def _add(self, event: Event | None) -> None:
        if event is not None:
            self._span.add_event(event.name, event.attributes)

    @property
    def _successful(self) -> bool:
        return 200 <= self._status < 300


class _Headers(Getter[Mapping[str, str]]):
    """Reads headers, whose names are in lower case, for propagators that write theirs otherwise."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        value = carrier.get(key.lower())
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


class _Carrier(Setter[dict[str, str]]):
    """Writes headers as HTTP/2 has them."""

    def set(self, carrier: dict[str, str], key: str, value: str) -> None:
        carrier[key.lower()] = value


_HEADERS: Final = _Headers()
_CARRIER: Final = _Carrier()

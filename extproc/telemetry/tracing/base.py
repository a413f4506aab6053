"""The seams of tracing: what the exchange tells, and what a convention makes of it.

The exchange shows a span the two sides that the client sees: its request, and the pieces of the answer as they reach
it, decoded. Readers, one for each client API, make views of both; a convention names what is in them. So no translator
knows of traces, and the span of a translated stream is as complete as that of one which passes (quirks Q57 and Q58).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from extproc.telemetry.tracing.views import AnswerView, RequestView
from extproc.usage import TokenUsage

Value = str | bool | int | float | Sequence[str] | Sequence[float]
Attributes = dict[str, Value]


class TracedRequest(Struct, frozen=True, kw_only=True):
    """A client's request, complete and understood.

    Attributes:
        operation: a value of ``endpoints.base.Operation``.
        model: the model in its body; may be empty.
        stream: whether the client asks for a stream.
        body: the bytes that the client sent.
        content_type: its ``content-type``, or empty.
        headers: its headers, by lower-case name.
    """

    operation: str
    model: str
    stream: bool
    body: bytes
    content_type: str
    headers: Mapping[str, str]


class Span(Protocol):
    """A request that is being traced. Every method is cheap, none raises; after ``end`` nothing is recorded."""

    def bound(self, provider: str) -> None:
        """An attempt goes to a backend of this provider (``gen_ai.provider.name``)."""
        ...

    def conceal(self, credentials: Iterable[str]) -> None:
        """These go to the backend, as values of headers; where its error quotes one, the span must not."""
        ...

    def answered(self, status: int) -> None:
        """The headers of the answer that the client gets are here; 0 if its status is no number."""
        ...

    def piece(self, data: bytes) -> None:
        """The next bytes of the answer's body, as the client reads them and without content coding."""
        ...

    def refused(self, status: int, body: bytes) -> None:
        """The client was answered by us, in place of what came before."""
        ...

    def end(self, usage: TokenUsage, model: str, ending: Ending) -> None:
        """Nothing more comes.

        Args:
            usage: what the backend has reported.
            model: the model that answered, as far as it was told; may be empty.
            ending: how it ended.
        """
        ...


Ending = Literal["complete", "failed", "cancelled"]
"""``failed``: the answer broke off or ended in an error; ``cancelled``: the client left before it was whole."""


class Started(NamedTuple):
    """What starting a trace gives.

    Attributes:
        headers: to set on the request, so that the backend can go on with the trace.
        span: ``None`` where this request is not sampled.
    """

    headers: tuple[tuple[str, str], ...]
    span: Span | None


class Tracer(Protocol):
    """Starts spans. There is none while tracing is off."""

    def start(self, request: TracedRequest) -> Started:
        """Begin the span of a request, as a child of the one that its headers name."""
        ...


# --- what a client API is read by ---


class AnswerReader(Protocol):
    """Reads one answer, however it is cut."""

    def feed(self, piece: bytes) -> None:
        """Take in the next piece. Never raises: what cannot be read is left out of the view."""
        ...

    def close(self) -> AnswerView:
        """What the answer has said, also when it was cut off. Called once."""
        ...


class Reader(Protocol):
    """Reads requests and answers of one client API. What it cannot read is left out, never an error."""

    def request(self, request: TracedRequest) -> RequestView: ...

    def answer(self, request: TracedRequest, *, stream: bool) -> AnswerReader:
        """A reader of the answer, which is a stream of events or one document."""
        ...


# --- what a span is called and says ---


class Event(NamedTuple):
    """Something that happened within a span."""

    name: str
    attributes: Attributes


class Failure(NamedTuple):
    """How a convention tells an error.

    Attributes:
        description: text of the span's status.
        event: an event of its own, or ``None``.
    """

    description: str
    attributes: Attributes
    event: Event | None


class Convention(Protocol):
    """Names of spans and of what is in them."""

    @property
    def kind(self) -> Literal["internal", "client"]: ...

    @property
    def unlimited(self) -> bool:
        """Whether spans may have more attributes than the default of the SDK (contract 7.6)."""
        ...

    def name(self, request: RequestView) -> str: ...

    def request(self, request: RequestView) -> Attributes: ...

    def bound(self, provider: str) -> Attributes: ...

    def first_piece(self, request: RequestView) -> Event | None:
        """The event of the first piece of a successful stream."""
        ...

    def answer(self, request: RequestView, answer: AnswerView, usage: TokenUsage, model: str) -> Attributes: ...

    def events(self, request: RequestView, answer: AnswerView) -> list[Event]:
        """Events that a successful answer has at its end."""
        ...

    def failure(self, status: int, body: str) -> Failure:
        """An error with this status, 0 for one without (a stream that broke off, a client that left)."""
        ...

"""The router-level half: one stream per client request, which finds the model and later watches the answer."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final, Literal

import msgspec
import structlog

from extproc.endpoints.base import Endpoint, ParsedRequest
from extproc.errors import BackendUnavailable, ClientError, MalformedRequest, RequestTooLarge
from extproc.exchange import names, replies
from extproc.exchange.accounts import Outcome
from extproc.exchange.attempt import Attempt
from extproc.exchange.context import ExchangeContext
from extproc.exchange.header_changes import CONTENT_LENGTH, HeaderChange, HeaderChanges
from extproc.exchange.headers import HeaderDict
from extproc.exchange.replies import Metadata, Reply
from extproc.exchange.response import ResponseExchange, status_code
from extproc.runtime import Runtime
from extproc.telemetry.tracing.base import Ending, Span, TracedRequest, Tracer
from extproc.translate.observe import named_error
from extproc.usage import NO_USAGE
from filter_config.checks import INTERNAL_PREFIX, is_protected
from protos.ext_proc_pb2 import BUFFERED, BUFFERED_PARTIAL, STREAMED

_log = structlog.get_logger(__name__)

_MAX_LENGTH_DIGITS = 19


BodyModes = tuple[int | None, int | None]
"""How Envoy sends the bodies of request and response; ``None`` where it does not say."""


class RouterExchange:
    """A client's request from its headers to the end of its answer.

    Attributes:
        internal_id: our id of the request, which its attempts carry.
        request_id: the client's ``x-request-id``, for logs; may be empty.
        path: the client's ``:path`` with its query.
        attempts: how many attempts have been bound to a backend.
        awaits_response: no response headers have come yet.
        touched: lower-case names of the headers that attempts have set or removed so far: Envoy carries those changes
            over into the next attempt.
    """

    __slots__ = (
        *("_attempt", "_context", "_headers", "_local_reply", "_original", "_pieces", "_received", "_refused"),
        *("_request", "_request_mode", "_response", "_response_mode", "_span", "attempts", "awaits_response"),
        *("endpoint", "internal_id", "path", "request_id", "runtime", "touched"),
    )

    def __init__(
        self,
        context: ExchangeContext,
        runtime: Runtime,
        endpoint: Endpoint,
        headers: HeaderDict,
        modes: BodyModes,
    ) -> None:
        self.runtime = runtime
        self.endpoint = endpoint
        self.path = headers.get(":path", "")
        self.request_id = headers.get(names.REQUEST_ID, "")
        self.attempts = 0
        self._context = context
        self._headers = headers
        self._request_mode, self._response_mode = modes
        self.internal_id = f"{self.request_id}-{context.new_id()}{context.id_tag}"
        self._pieces: list[bytes] = []
        self._received = 0
        self._request: ParsedRequest | None = None
        self._refused = False
        self.awaits_response = True
        self._attempt: Attempt | None = None
        # The headers of the first attempt before we changed them.
        self._original: HeaderDict = {}
        self.touched: frozenset[str] = frozenset()
        self._local_reply = False
        self._response: ResponseExchange | None = None
        self._span: Span | None = None

    # Request

    def request_headers(self, *, end_of_stream: bool) -> Reply:
        if end_of_stream:
            raise MalformedRequest("the request has no body")
        self._check_size(self._content_length() or 0)
        # To look at each name takes several times as long as this, and few clients have one of these.
        forged = self._forged() if INTERNAL_PREFIX in " ".join(self._headers) else ()
        return replies.one_header("request_headers", names.INTERNAL_REQUEST_ID, self.internal_id, removes=forged)

    def _forged(self) -> tuple[str, ...]:
        """Headers to remove which only the gateway writes: a client's could steer routing, or reach a provider."""
        forged = [name for name in self._headers if name.startswith(INTERNAL_PREFIX)]
        for name in forged:
            del self._headers[name]
        return tuple([name for name in forged if name != names.INTERNAL_REQUEST_ID])

    def request_body(self, piece: bytes, *, end_of_stream: bool) -> Reply:
        if self._request is not None or self._refused:
            # The request is complete: a repeated end of the body must not be read into it once more.
            _log.warning("request body after its end", request_id=self.request_id)
            return replies.neutral("request_body")
        self._received += len(piece)
        self._check_size(self._received)
        self._pieces.append(piece)
        if not (end_of_stream or self._may_be_complete()):
            return replies.neutral("request_body")
        try:
            self._request = self._parse()
        except MalformedRequest as error:
            if end_of_stream or not _is_truncated(error):
                raise
            if self._request_mode == BUFFERED_PARTIAL:
                # Envoy has sent what fits its buffer, and will not send the rest.
                raise RequestTooLarge(self._received) from error
            if self._request_mode is not None:
                raise
            return replies.neutral("request_body")
        reply = self._route_on(self._request)
        self._pieces.clear()
        return reply

    def request_trailers(self) -> Reply:
        """Trailers end a streamed body whose last piece could not say so."""
        if self._pieces and self._request is None and not self._refused:
            self._request = self._parse()
            self._pieces.clear()
        return replies.neutral("request_trailers")

    def _may_be_complete(self) -> bool:
        """Whether this piece may end the body, though it does not say so.

        A buffered body is one message, without ``end_of_stream`` when trailers follow it. An Envoy that does not
        say which mode it uses is judged by the length that the client declared, and else by whether the JSON is cut.
        """
        if self._request_mode in (BUFFERED, BUFFERED_PARTIAL):
            return True
        if self._request_mode == STREAMED:
            return False
        length = self._content_length()
        if length is not None:
            return self._received >= length
        # Do not read everything anew with each piece: a JSON object ends in a brace.
        return len(self._pieces) == 1 or self._pieces[-1].rstrip().endswith(b"}")

    def _parse(self) -> ParsedRequest:
        return self.endpoint.parse(
            b"".join(self._pieces),
            content_type=self._headers.get("content-type", ""),
            metering=bool(self.runtime.costs),
        )

    def _route_on(self, request: ParsedRequest) -> Reply:
        """Tell Envoy the model, and have it choose the route again (contract, router request body 3.8)."""
        model, path = request.model, self.path
        headers = self._headers
        headers[names.MODEL] = model
        headers[names.ORIGINAL_PATH] = headers[names.ENVOY_ORIGINAL_PATH] = path
        if self._context.tracer is not None:
            return _routing_reply(model, path, self._start_span(self._context.tracer, request))
        return _known_routing_reply(model, path, ())

    def _start_span(self, tracer: Tracer, request: ParsedRequest) -> tuple[tuple[str, str], ...]:
        """Begin the span of this request; gives the headers by which the backend can go on with the trace."""
        traced = TracedRequest(
            operation=self.endpoint.operation,
            model=request.model,
            stream=request.stream,
            body=b"".join(self._pieces),
            content_type=self._headers.get("content-type", ""),
            headers=self._headers,
        )
        headers, self._span = tracer.start(traced)
        self._headers.update(headers)
        return headers

    def _content_length(self) -> int | None:
        declared = self._headers.get("content-length", "")
        if not (declared.isascii() and declared.isdigit()):
            return None
        # A number of absurd length is larger than any body, and Python refuses to read it.
        return int(declared) if len(declared) < _MAX_LENGTH_DIGITS else sys.maxsize

    def _check_size(self, size: int) -> None:
        limit = self._context.options.max_body_bytes
        if limit and size > limit:
            raise RequestTooLarge(limit)

    def refuse(self, status: int, body: bytes) -> None:
        """The client has been answered with ``body``; what still comes of its request is not read."""
        if self._span is not None:
            self._span.refused(status, body)
        self._unattempted(status, "processor")
        self._refused = True
        self._pieces.clear()

    def _unattempted(self, status: int, by: Literal["processor", "envoy"]) -> None:
        """Account for an answer if no backend was asked, and if it is the first answer."""
        if self._attempt is None and not self._refused and not self._local_reply:
            self._context.accounts.unattempted(
                status,
                by=by,
                operation=self.endpoint.operation,
                model=self._headers.get(names.MODEL, ""),
                request_id=self.request_id,
            )

    # Attempts

    def parsed_request(self) -> ParsedRequest:
        """The request that an attempt is made of.

        Raises:
            BackendUnavailable: Envoy routes before the body is here, so its filter does not buffer request bodies.
        """
        if self._request is None:
            _log.error("attempt before the request body is complete", request_id=self.request_id)
            raise BackendUnavailable("the request body was not buffered by the gateway")
        return self._request

    def bind(self, attempt: Attempt) -> None:
        """Take ``attempt`` as the one whose answer comes next; a former one has failed and was given up by Envoy."""
        if self._attempt is not None:
            self._attempt.fail(Outcome.RETRIED)
        self.attempts += 1
        self._attempt = attempt
        if self._span is not None:
            self._span.bound(attempt.plan.provider)
        self._local_reply = False

    def changed(self, change: HeaderChange) -> None:
        """Take note of what an attempt does to its headers, and have no span quote a credential among it."""
        self.touched = self.touched | change.names if self.touched else change.names
        if self._span is not None:
            self._span.conceal(change.secrets)

    def answered_locally(self, status: int) -> None:
        """The attempt is answered by us: that answer comes back through this stream and must pass as it is."""
        self._unattempted(status, "processor")
        self._local_reply = True
        if self._attempt is not None:
            self._attempt.fail(Outcome.REFUSED, status)

    def log_fields(self) -> dict[str, str]:
        """Whose problem a log line is about, as far as it is known."""
        if self._attempt is not None:
            return self._attempt.log_fields()
        return {"request_id": self.request_id, "model": self._headers.get(names.MODEL, "")}

    def failure(self, body: bytes) -> Metadata:
        """What access logs are told of an error of ours, of which the client is told by ``body``."""
        attempt = self._attempt
        values = self._context.options.logged(self._headers) if attempt is None else attempt.introduction()
        return {**values, "response_error": named_error(body)}

    def failed(self) -> None:
        """A fault of ours has ended the request."""
        if self._attempt is not None:
            self._attempt.fail()

    def restored(self, received: HeaderDict) -> HeaderDict:
        """The headers of an attempt, with what former attempts changed put back to what it was before the first."""
        headers = dict(received)
        if not self.touched:
            self._original = received
            return headers
        for name in self._changed():
            if name in self._original:
                headers[name] = self._original[name]
            else:
                headers.pop(name, None)
        return headers

    def _changed(self) -> list[str]:
        """The names to put back. Envoy recomputes the length, and the path is set by every attempt."""
        return sorted(name for name in self.touched if name != CONTENT_LENGTH and not is_protected(name))

    def restore(self, changes: HeaderChanges) -> None:
        """Complete an attempt's changes so that Envoy, too, undoes those of former attempts (contract 3.12, 3.19).

        Only what we changed ourselves is put back: other filters' headers and the trace context are not ours.
        """
        for name in self._changed():
            if name in changes.sets or name in changes.removes:
                continue
            if name in self._original:
                changes.set(name, self._original[name])
            else:
                changes.removes.append(name)

    # Response

    def response_headers(self, headers: HeaderDict, *, end_of_stream: bool) -> Reply:
        if self._attempt is None:
            self._unattempted(status_code(headers.get(":status", "")), "envoy")
        # From here on Envoy cannot retry, so the request's bytes are not needed any more.
        self._request = None
        self._refused = True
        self.awaits_response = False
        if self._span is not None:
            self._span.answered(status_code(headers.get(":status", "")))
        if self._attempt is None or self._local_reply or self._attempt.outcome is not None:
            return replies.neutral("response_headers")
        self._response = ResponseExchange(self._context, self._attempt, headers, self._response_mode, self._span)
        return self._response.headers(end_of_stream=end_of_stream)

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> Reply:
        if self._response is None:
            if self._span is not None:
                self._span.piece(piece)
            return replies.neutral("response_body")
        return self._response.body(piece, end_of_stream=end_of_stream)

    def response_trailers(self) -> Reply:
        if self._response is None:
            return replies.neutral("response_trailers")
        return self._response.trailers()

    @property
    def response_started(self) -> bool:
        """Whether the client may have seen headers, so that no other status can be given."""
        return self._response is not None and self._response.streamed

    def close(self) -> None:
        """The stream has ended, in whichever way; everything that was not accounted for is now."""
        self._pieces.clear()
        self._request = None
        if self._response is not None:
            self._response.close()
        elif self._attempt is not None:
            # Every failure of a backend comes back as response headers; without them, the client has left.
            self._attempt.fail(Outcome.CLIENT_CANCELLED)
        if self._span is not None:
            self._end_span(self._span)
        if self._attempt is not None:
            self._attempt.release()

    def _end_span(self, span: Span) -> None:
        """Here and nowhere else, so that every span ends, and once (quirks Q37 and Q38)."""
        attempt = self._attempt
        self._span = None
        if attempt is None or self._local_reply:
            span.end(NO_USAGE, "", "cancelled" if self.awaits_response else "complete")
        else:
            span.end(attempt.usage, attempt.response_model, _ENDINGS.get(attempt.outcome, "failed"))

    def error_body(self, error: ClientError) -> bytes:
        return self.endpoint.error_body(error)


_ENDINGS: Final[dict[Outcome | None, Ending]] = {Outcome.SUCCESS: "complete", Outcome.CLIENT_CANCELLED: "cancelled"}


def _routing_reply(model: str, path: str, trace: tuple[tuple[str, str], ...]) -> Reply:
    routing = [(names.MODEL, model), (names.ORIGINAL_PATH, path), (names.ENVOY_ORIGINAL_PATH, path), *trace]
    return replies.common("request_body", sets=routing, clear_route_cache=True)


# Models and paths are few; what a client makes up is forgotten again.
_known_routing_reply = lru_cache(maxsize=1024)(_routing_reply)


def _is_truncated(error: MalformedRequest) -> bool:
    return isinstance(error.__cause__, msgspec.DecodeError) and "truncated" in str(error.__cause__)

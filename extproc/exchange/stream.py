"""One ext_proc stream: the first message decides which half of a request it is; each message gets one reply."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import structlog

from extproc.endpoints.openai import client_error_body
from extproc.errors import BackendUnavailable, ClientError, InternalFault, StreamFailure
from extproc.exchange import debug, names, replies
from extproc.exchange.accounts import Accounts
from extproc.exchange.attributes import UnmatchedAttempt, read_target
from extproc.exchange.context import ExchangeContext, ExchangeOptions, new_id
from extproc.exchange.decode import decode
from extproc.exchange.headers import HeaderDict
from extproc.exchange.message_reader import read_message
from extproc.exchange.messages import Envelope, Message
from extproc.exchange.models import list_models
from extproc.exchange.owners import ForeignAttempt, Owner
from extproc.exchange.registry import Registry
from extproc.exchange.replies import Reply
from extproc.exchange.router import BodyModes, RouterExchange
from extproc.exchange.upstream import attempt_headers
from extproc.runtime import Runtime
from extproc.telemetry.ledger import Ledger
from extproc.telemetry.metrics import Metrics, StreamSeries
from extproc.telemetry.tracing.base import Tracer
from protos.ext_proc_pb2 import FULL_DUPLEX_STREAMED, GRPC, ProtocolConfiguration

_log = structlog.get_logger(__name__)

_UNSUPPORTED_MODES: Final = frozenset({FULL_DUPLEX_STREAMED, GRPC})

ROUTER = "router"
UPSTREAM = "upstream"


class Processor:
    """Opens streams; one of these serves a process.

    Attributes:
        runtime: the live config, or ``None`` until there is one. Assigning it is the reload: streams that are open
            keep the one they started with.
    """

    def __init__(
        self,
        *,
        metrics: Metrics,
        options: ExchangeOptions | None = None,
        ledger: Ledger | None = None,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], float] = time.time,
        ids: Callable[[], str] = new_id,
        owner: Owner | None = None,
    ) -> None:
        if ledger is not None:
            ledger.backlog = metrics.backlog
        self._registry = Registry()
        # What does not say whether it is a request or an attempt counts as the former.
        self._series = metrics.streams[ROUTER]
        self._context = ExchangeContext(
            metrics=metrics,
            options=options or ExchangeOptions(),
            accounts=Accounts(metrics, ledger, now),
            tracer=tracer,
            clock=clock,
            now=now,
            new_id=ids,
            owner=owner,
            id_tag=owner.tag if owner is not None else "",
        )

    @property
    def runtime(self) -> Runtime | None:
        return self._context.runtime

    @runtime.setter
    def runtime(self, runtime: Runtime | None) -> None:
        self._context.runtime = runtime

    @property
    def requests_in_flight(self) -> int:
        """Client requests whose router-level stream is open."""
        return len(self._registry)

    @property
    def requests_awaiting_response(self) -> int:
        """Those of them that have no response headers yet, so that another attempt may come."""
        return self._registry.awaiting_response()

    def open(self) -> Stream:
        return Stream(self._context, self._registry, self._series)

    def close(self) -> None:
        """Take no further client requests.

        Their streams end as UNAVAILABLE before any reply, so that Envoy may try them elsewhere. Streams of attempts are
        still served: turned away, the requests in flight that they belong to could not be finished.
        """
        self._context.closing = True


class Stream:
    """The messages of one gRPC stream, in; their replies, out.

    Attributes:
        end: set together with a reply after which the gRPC stream must end with this status.
    """

    __slots__ = ("_closed", "_context", "_level", "_registry", "_router", "_series", "_upstream_of", "end")

    def __init__(self, context: ExchangeContext, registry: Registry, series: StreamSeries) -> None:
        self.end: StreamFailure | None = None
        self._context = context
        self._registry = registry
        self._router: RouterExchange | None = None
        self._upstream_of: RouterExchange | None = None
        self._level = ""
        self._series = series
        self._closed = False

    def feed(self, data: bytes) -> Reply | None:
        """Handle one ``ProcessingRequest``; ``None`` only where Envoy observes and wants no reply.

        Raises:
            ForeignAttempt: the stream belongs to another worker. Nothing was done with the message.
            StreamFailure: the stream must end with that status instead of a reply.
        """
        context = self._context
        started = context.clock()
        message = read_message(data)
        envelope = message.envelope
        kind = envelope.kind
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise StreamFailure(StreamFailure.UNKNOWN, "error processing request message: unknown request type: none")
        try:
            reply = handler(self, message)
        except ClientError as error:
            reply = self._refuse(error, message)
        except StreamFailure:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one stream does must not end the process
            reply = self._fault(error, message)
        if context.options.debug:
            self._debug(data, kind, reply)
        self._series.messages[kind].observe(context.clock() - started)
        return None if envelope.observed else reply

    def close(self) -> None:
        """Account for the stream's end; safe to call twice, and whichever way the stream ends."""
        if self._closed:
            return
        self._closed = True
        if self._level:
            self._series.open.value -= 1
        if self._router is not None:
            self._registry.pop(self._router.internal_id, None)
            try:
                self._router.close()
            except Exception:  # noqa: BLE001 - the stream has ended; only the log can still be told
                self._router.failed()
                _log.exception("fault while closing a stream", request_id=self._router.request_id)

    def _debug(self, data: bytes, kind: str, reply: Reply) -> None:
        owner = self._router or self._upstream_of
        who = {"request_id": owner.request_id if owner else "", "is_upstream_filter": self._level == UPSTREAM}
        runtime = owner.runtime if owner else self._context.runtime
        secret = runtime.secret_headers if runtime else frozenset[str]()
        redact = self._context.options.redact
        try:
            received = debug.request_fields(data, kind, secret=secret, redact=redact)
            answered = debug.reply_fields(reply, secret=secret, redact=redact)
        except Exception:  # noqa: BLE001 - a line that cannot be written must not cost the client its answer
            _log.exception("fault while preparing a debug line", kind=kind, **who)
            return
        _log.debug("message received", kind=kind, **who, **received)
        _log.debug("message answered", kind=kind, **who, **answered)

    # Request headers

    def _request_headers(self, message: Message) -> Reply:
        if self._level:
            return replies.neutral("request_headers")
        envelope, headers = message.envelope, message.headers
        owner = foreign = None
        internal_id = headers.get(names.INTERNAL_REQUEST_ID)
        if internal_id:
            owner = self._registry.get(internal_id)
            if owner is None and self._context.owner is not None:
                foreign = self._context.owner.foreign(internal_id)
        # Only Envoy's upstream-level filter is set up with attributes. The id in the headers says nothing about the
        # level: backends have seen it, and what a backend knows a client may know.
        if envelope.attributes:
            if foreign is not None:
                raise ForeignAttempt(foreign)
            self._open(UPSTREAM)
            return self._upstream_headers(envelope, headers, owner)
        self._open(ROUTER)
        if owner is not None or foreign is not None:
            # Either a filter that lost its attributes, or a client that plays with an id: neither may go on as it is.
            raise UnmatchedAttempt("missing attributes in request")
        return self._router_headers(envelope, headers)

    def _open(self, level: str) -> None:
        self._level = level
        self._series = series = self._context.metrics.streams[level]
        series.open.value += 1

    def _router_headers(self, envelope: Envelope, headers: HeaderDict) -> Reply:
        context = self._context
        if context.closing:
            raise StreamFailure(StreamFailure.UNAVAILABLE, "shutting down")
        modes = _body_modes(envelope.protocol)
        if not _UNSUPPORTED_MODES.isdisjoint(modes):
            _log.error("unsupported body mode; use BUFFERED", modes=modes)
            raise BackendUnavailable("the gateway's filter uses a body mode that the external processor does not take")
        runtime = context.runtime
        if runtime is None:
            raise BackendUnavailable("the gateway has no configuration yet")
        path = headers.get(":path", "")
        bare_path = path.partition("?")[0]
        endpoint = context.options.endpoints.endpoints.get(bare_path)
        if endpoint is None:
            form = context.options.endpoints.model_list(bare_path, headers)
            if form is not None:
                return list_models(runtime.models, form, headers)
            return self._unknown_path(path)
        self._router = router = RouterExchange(context, runtime, endpoint, headers, modes)
        self._registry[router.internal_id] = router
        return router.request_headers(end_of_stream=envelope.end_of_stream)

    def _unknown_path(self, path: str) -> Reply:
        text = f"unsupported path: {path}"
        self._context.accounts.unattempted(404, by="processor")
        self.end = StreamFailure(StreamFailure.NOT_FOUND, text)
        return replies.immediate(404, text.encode(), content_type=None, grpc_status=StreamFailure.NOT_FOUND)

    def _upstream_headers(self, envelope: Envelope, headers: HeaderDict, owner: RouterExchange | None) -> Reply:
        if owner is None:
            internal_id = headers.get(names.INTERNAL_REQUEST_ID)
            raise UnmatchedAttempt(
                f"no router processor found, request_id={internal_id}"
                if internal_id
                else "missing internal request ID header from router filter"
            )
        self._upstream_of = owner
        target = read_target(envelope.attributes, headers)
        return attempt_headers(self._context, owner, envelope.metadata, headers, target)

    # The other phases

    def _request_body(self, message: Message) -> Reply:
        if self._router is None:
            return replies.neutral("request_body")
        return self._router.request_body(message.body, end_of_stream=message.envelope.end_of_stream)

    def _response_headers(self, message: Message) -> Reply:
        if self._router is None:
            return replies.neutral("response_headers")
        return self._router.response_headers(message.headers, end_of_stream=message.envelope.end_of_stream)

    def _response_body(self, message: Message) -> Reply:
        if self._router is None:
            return replies.neutral("response_body")
        return self._router.response_body(message.body, end_of_stream=message.envelope.end_of_stream)

    def _request_trailers(self, _message: Message) -> Reply:
        if self._router is None:
            return replies.neutral("request_trailers")
        return self._router.request_trailers()

    def _response_trailers(self, _message: Message) -> Reply:
        if self._router is None:
            return replies.neutral("response_trailers")
        return self._router.response_trailers()

    # Errors

    def _refuse(self, error: ClientError, message: Message) -> Reply:
        """Answer the client, in the error shape of its API."""
        owner = self._router or self._upstream_of
        body = owner.error_body(error) if owner else client_error_body(error)
        if self._router is not None:
            self._router.refuse(error.status, body)
        elif owner is not None:
            owner.answered_locally(error.status)
        else:
            self._context.accounts.unattempted(error.status, by="processor")
        _log.info("request refused", status=error.status, reason=str(error), **_whose(owner, message))
        return replies.client_error(error, body, owner.failure(body) if owner else None)

    def _fault(self, error: Exception, message: Message) -> Reply:
        """Something that must not happen: the log gets the cause, the client an id to ask about."""
        kind = message.envelope.kind
        fault_id = self._context.new_id()
        owner = self._router or self._upstream_of
        whose = _whose(owner, message)
        if isinstance(error, UnmatchedAttempt):
            _log.error("attempt cannot be matched", error=str(error), fault_id=fault_id, **whose)
        else:
            _log.error("fault", kind=kind, level=self._level, fault_id=fault_id, exc_info=error, **whose)
        if owner is not None:
            owner.failed()
        if kind.startswith("response") and owner is not None and owner.response_started:
            # The client has its status already; only the end of the stream can tell it.
            raise StreamFailure(StreamFailure.INTERNAL, f"internal error, id {fault_id}") from error
        return self._refuse(InternalFault(fault_id), message)


def _whose(owner: RouterExchange | None, message: Message) -> dict[str, str]:
    """Whose problem a log line is about; a request that has not been taken is known by its headers alone."""
    return {"request_id": message.headers.get(names.REQUEST_ID, "")} if owner is None else owner.log_fields()


@lru_cache(maxsize=64)
def _body_modes(encoded: bytes) -> BodyModes:
    """How Envoy sends the bodies of request and response, as it says on the first message; an older one does not.

    One that sends neither says it with no more bytes, and of that no body comes.
    """
    if not encoded:
        return None, None
    config = decode(ProtocolConfiguration, encoded)
    return config.request_body_mode, config.response_body_mode


_HANDLERS: dict[str, Callable[[Stream, Message], Reply]] = {
    "request_headers": Stream._request_headers,  # noqa: SLF001 - the table of this class
    "request_body": Stream._request_body,  # noqa: SLF001
    "request_trailers": Stream._request_trailers,  # noqa: SLF001
    "response_headers": Stream._response_headers,  # noqa: SLF001
    "response_body": Stream._response_body,  # noqa: SLF001
    "response_trailers": Stream._response_trailers,  # noqa: SLF001
}

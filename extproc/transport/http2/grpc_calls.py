"""The gRPC services on HTTP/2 streams: which call a request is, and what each does with its messages.

Rules: the gRPC protocol over HTTP/2. A call has no task and no queue: a message is handled while it is read, and its
answer is written in the same breath. Messages are never compressed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.message import DecodeError, Message

from extproc.errors import StreamFailure
from extproc.exchange.owners import ForeignAttempt
from extproc.transport.base import Processor, Relay, Relayed, Stream, converse, fault
from extproc.transport.http2 import status
from extproc.transport.http2.application import SILENT, Handler, HeaderList, Responder, Route
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.messages import Bounds, Call
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse

MAX_MESSAGE: Final = 2**32 - 1
_DEFAULT_LIMITS: Final = Limits()

_NO_TRAILERS: Final = "te: trailers is missing"  # codespell:ignore te
# Unit of grpc-timeout → seconds.
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
# The codec may be named behind a plus sign, and parameters may follow. Any codec but ours is refused.
_CONTENT_TYPE: Final = re.compile(rb"application/grpc(?:\+proto)?[ \t]*(?:;.*)?", re.IGNORECASE)


class ProcessCall(Call):
    """``Process``: a stream of the core, or of that of another process."""

    __slots__ = ("_relay", "_relayed", "_stream")

    def __init__(
        self, stream: Stream, responder: Responder, bounds: Bounds, *, encoded: bool, relay: Relay | None = None
    ) -> None:
        super().__init__(responder, bounds, encoded=encoded)
        self._stream = stream
        self._relay = relay
        self._relayed: Relayed | None = None

    def message(self, data: bytes) -> None:
        if self._relayed is not None:
            self._relayed.message(data)
            return
        try:
            converse(self._stream, data, self)
        except ForeignAttempt as foreign:
            if self._relay is None:
                self.finish(foreign.code, foreign.message)
                return
            self._relayed = self._relay(foreign.owner, self)
            self._relayed.message(data)

    def half_closed(self) -> None:
        if self._relayed is not None:
            self._relayed.half_closed()
        else:
            self.finish(0)

    def over(self) -> None:
        if self._relayed is not None:
            self._relayed.close()
        try:
            self._stream.close()
        except Exception as error:  # noqa: BLE001 - the call is over; only the log can still be told
            fault(error)


class UnaryCall(Call):
    """One message, and one that answers it."""

    __slots__ = ("_answer", "_request", "_request_type")

    def __init__(
        self,
        answer: Callable[[], Message],
        request_type: type[Message],
        responder: Responder,
        bounds: Bounds,
        *,
        encoded: bool,
    ) -> None:
        super().__init__(responder, bounds, encoded=encoded)
        self._answer = answer
        self._request_type = request_type
        self._request: bytes | None = None

    def message(self, data: bytes) -> None:
        if self._request is not None:
            self.finish(status.INTERNAL, "more than one message")
            return
        self._request = data

    def half_closed(self) -> None:
        if self._request is None:
            self.finish(status.INTERNAL, "no message")
            return
        try:
            self._request_type.FromString(self._request)
            answer = self._answer().SerializeToString()
        except DecodeError:
            self.finish(status.INTERNAL, "message cannot be decoded")
        except Exception as error:  # noqa: BLE001 - one call must not harm another, whatever the fault
            failure = fault(error)
            self.finish(failure.code, failure.message)
        else:
            self.answered(answer)

    def answered(self, answer: bytes) -> None:
        """The answer is there: send it, and what else the call consists of."""
        self.send(answer)
        self.finish(0)


class WatchCall(UnaryCall):
    """``Watch``: the health as it is, and again whenever it has changed, until one side has enough."""

    __slots__ = ("_told", "_watchers")

    def __init__(
        self,
        health: Callable[[], Message],
        watchers: Watchers,
        responder: Responder,
        bounds: Bounds,
        *,
        encoded: bool,
    ) -> None:
        super().__init__(health, HealthCheckRequest, responder, bounds, encoded=encoded)
        self._watchers = watchers
        self._told = b""

    def answered(self, answer: bytes) -> None:
        self.tell(answer)
        self._watchers.add(self)

    def tell(self, health: bytes) -> None:
        """Send a status, unless the client has it."""
        if health != self._told:
            self._told = health
            self.send(health)

    def over(self) -> None:
        self._watchers.calls.discard(self)


class Watchers:
    """Who watches the health of a server.

    Args:
        health: gives its status.

    Attributes:
        calls: those who watch.
        on_first: called when somebody watches after nobody did; ``tell`` has to be called regularly from then on.
    """

    def __init__(self, health: Callable[[], Message]) -> None:
        self.calls: set[WatchCall] = set()
        self.on_first: Callable[[], None] = lambda: None
        self._health = health
        self._dismissed = False

    def add(self, call: WatchCall) -> None:
        """Take a call that has the status."""
        if self._dismissed:
            call.finish(status.UNAVAILABLE, "server stops")
            return
        self.calls.add(call)
        if len(self.calls) == 1:
            self.on_first()

    def tell(self) -> None:
        """Tell everybody the health, if it has changed."""
        encoded = self._health().SerializeToString()
        for call in list(self.calls):
            call.tell(encoded)

    def dismiss(self) -> None:
        """Tell the health for the last time, and end these calls and all to come: they must not hold up the end."""
        self._dismissed = True
        self.tell()
        for call in list(self.calls):
            call.finish(status.UNAVAILABLE, "server stops")


class GrpcCalls:
    """What a server offers: ``Process`` and health. It is an ``Application``.

    Args:
        processor: the core.
        is_serving: what health checks answer.
        max_message: largest message taken, in bytes; for 0, and above what gRPC can express, there is no limit.
        limits: where the bound of incomplete messages is taken from.
        relay: takes the calls that belong to other processes, where there are any.

    Attributes:
        watchers: who watches the health.
    """

    def __init__(
        self,
        processor: Processor,
        *,
        is_serving: Callable[[], bool],
        max_message: int = MAX_MESSAGE,
        limits: Limits = _DEFAULT_LIMITS,
        relay: Relay | None = None,
    ) -> None:
        self._processor = processor
        self._relay = relay
        self._is_serving = is_serving
        self.watchers = Watchers(self._status)
        self._bounds = Bounds(
            message=max_message if 0 < max_message < MAX_MESSAGE else MAX_MESSAGE, partial=limits.partial_bytes
        )
        self._methods: Mapping[bytes, Callable[[Responder, bool], Handler]] = {
            b"/envoy.service.ext_proc.v3.ExternalProcessor/Process": self._process,
            b"/grpc.health.v1.Health/Check": self._check,
            b"/grpc.health.v1.Health/List": self._list,
            b"/grpc.health.v1.Health/Watch": self._watch,
        }

    def route(self, headers: HeaderList) -> Route:
        """The call that a request is, or the answer that refuses it."""
        fields = dict(headers)
        if fields[b":method"] != b"POST":
            return _refusal(status.WRONG_METHOD)
        if not _CONTENT_TYPE.fullmatch(fields.get(b"content-type", b"")):
            return _refusal(status.WRONG_CONTENT_TYPE)
        # This field says that trailers arrive: a proxy that does not know them would have removed it.
        if b"te" not in fields:  # codespell:ignore te
            return _refusal(status.trailers_only(status.INTERNAL, _NO_TRAILERS))
        encoded = fields.get(b"grpc-encoding", b"identity") != b"identity"
        path = fields[b":path"]
        method = self._methods.get(path)
        if method is None:
            unknown = f"unknown method {path.decode(errors='replace')}"
            return _refusal(status.trailers_only(status.UNIMPLEMENTED, unknown))
        timeout = fields.get(b"grpc-timeout")
        if timeout is None:
            return lambda responder: method(responder, encoded)
        seconds = _seconds(timeout)
        if seconds is None:
            return _refusal(status.trailers_only(status.INTERNAL, "malformed grpc-timeout"))

        def timed(responder: Responder) -> Handler:
            responder.expire(seconds)
            return method(responder, encoded)

        return timed

    def _process(self, responder: Responder, encoded: bool) -> Handler:  # noqa: FBT001 - a column of the table
        try:
            stream = self._processor.open()
        except Exception as error:  # noqa: BLE001 - one stream must not harm another, whatever the fault
            failure = error if isinstance(error, StreamFailure) else fault(error)
            return _refusal(status.trailers_only(failure.code, failure.message))(responder)
        return ProcessCall(stream, responder, self._bounds, encoded=encoded, relay=self._relay)

    def _check(self, responder: Responder, encoded: bool) -> Handler:  # noqa: FBT001
        return UnaryCall(self._status, HealthCheckRequest, responder, self._bounds, encoded=encoded)

    def _list(self, responder: Responder, encoded: bool) -> Handler:  # noqa: FBT001
        return UnaryCall(self._statuses, HealthListRequest, responder, self._bounds, encoded=encoded)

    def _watch(self, responder: Responder, encoded: bool) -> Handler:  # noqa: FBT001
        return WatchCall(self._status, self.watchers, responder, self._bounds, encoded=encoded)

    def _status(self) -> HealthCheckResponse:
        serving = self._is_serving()
        return HealthCheckResponse(status=HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING)

    def _statuses(self) -> HealthListResponse:
        return HealthListResponse(statuses={"extproc": self._status()})


def _refusal(block: bytes) -> Route:
    """A route that answers at once, with a block that is the whole response."""

    def refuse(responder: Responder) -> Handler:
        responder.headers(block, end=True)
        return SILENT

    return refuse


def _seconds(timeout: bytes) -> float | None:
    match = _TIMEOUT.fullmatch(timeout)
    return None if match is None else int(match[1]) * _UNITS[match[2]]

"""A stand-in for an OpenTelemetry collector: takes traces and metrics over OTLP, by HTTP or gRPC, and keeps them.

It reads with the messages of ``opentelemetry-proto`` and knows nothing of the SDK that wrote them.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal, Self

import grpc
from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

Protocol = Literal["http/protobuf", "grpc"]

_TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_PATHS = {"/v1/traces": _TRACES, "/v1/metrics": _METRICS}
_REQUESTS = {_TRACES: ExportTraceServiceRequest, _METRICS: ExportMetricsServiceRequest}
_RESPONSES = {_TRACES: ExportTraceServiceResponse, _METRICS: ExportMetricsServiceResponse}


class Event(Struct, frozen=True):
    name: str
    attributes: dict[str, Any]
    at: int


class Span(Struct, frozen=True, kw_only=True):
    """A span as it arrived; ids in hexadecimal, ``parent`` empty for a root, ``status`` UNSET, OK or ERROR."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    trace_state: str
    status: str
    description: str
    attributes: dict[str, Any]
    events: list[Event]
    started: int
    ended: int
    scope: str
    resource: dict[str, Any]


class Point(Struct, frozen=True, kw_only=True):
    """A data point as it arrived. ``counts`` and ``bounds`` are of histograms, whose ``value`` is their sum."""

    metric: str
    unit: str
    description: str
    kind: str
    temporality: str
    attributes: dict[str, Any]
    value: float
    counts: tuple[int, ...]
    bounds: tuple[float, ...]
    started: int
    at: int
    scope: str
    resource: dict[str, Any]


class Collector:
    """A collector on a free port, for as long as the block.

    Attributes:
        status: what it answers with: an HTTP status, which over gRPC is told as UNAVAILABLE unless it is 200.
        headers: of the requests, as they came.
        received: every request's bytes, without content coding.
    """

    def __init__(self, protocol: Protocol = "http/protobuf") -> None:
        self.protocol = protocol
        self.status = 200
        self.headers: list[dict[str, str]] = []
        self.received: list[bytes] = []
        self.refused = 0
        self._messages: list[Any] = []
        self._changed = threading.Condition()
        self._hold = threading.Event()
        self._hold.set()
        self._server = _Http(self) if protocol == "http/protobuf" else _Grpc(self)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process export here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": self.protocol}

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._hold.set()
        self._server.stop()

    def hang(self) -> None:
        """Answer nothing from now on, until the end of the block."""
        self._hold.clear()

    def spans(self) -> list[Span]:
        with self._changed:
            return list(_spans(self._messages))

    def points(self, metric: str = "", **attributes: Any) -> list[Point]:
        """Data points of a metric that have these attributes, of the newest push first."""
        with self._changed:
            found = list(_points(reversed(self._messages)))
        return [
            point for point in found if metric in ("", point.metric) and attributes.items() <= point.attributes.items()
        ]

    def wait(self, condition: Callable[[Self], Any], timeout: float = 20.0) -> Any:
        """Wait until the condition holds, which is looked at whenever something has come; gives what it gives."""
        with self._changed:
            self._changed.wait_for(lambda: condition(self), timeout)
            found = condition(self)
        assert found, f"this is all that has come: {[*_spans(self._messages), *_points(self._messages)]}"
        return found

    def clear(self) -> None:
        """Forget what was received, but for its bytes."""
        with self._changed:
            self._messages.clear()
            self.headers.clear()

    def text(self) -> str:
        """All that was ever received, for a search."""
        with self._changed:
            return b"\n".join(self.received).decode("utf-8", "replace")

    def take(self, method: str, data: bytes, headers: dict[str, str]) -> int:
        """The servers' side: keep a request; the status to answer with."""
        self._hold.wait()
        with self._changed:
            self.received.append(data)
            self.headers.append(headers)
            if self.status == 200:
                self._messages.append(_REQUESTS[method].FromString(data))
            else:
                self.refused += 1
            self._changed.notify_all()
            return self.status


class _Http:
    def __init__(self, collector: Collector) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                method = _PATHS[self.path]
                status = collector.take(method, data, {name.lower(): value for name, value in self.headers.items()})
                body = _RESPONSES[method]().SerializeToString() if status == 200 else b"no"
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not in the output of tests."""

        class Server(ThreadingHTTPServer):
            daemon_threads: ClassVar[bool] = True

            def handle_error(self, *_: object) -> None:
                """A client that has left meanwhile."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.block_on_close = False
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Grpc:
    def __init__(self, collector: Collector) -> None:
        class Handler(grpc.GenericRpcHandler):
            def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
                headers = {name: str(value) for name, value in details.invocation_metadata}

                def export(request: bytes, context: grpc.ServicerContext) -> bytes:
                    if collector.take(details.method, request, headers) != 200:
                        context.abort(grpc.StatusCode.UNAVAILABLE, "no")
                    response: bytes = _RESPONSES[details.method]().SerializeToString()
                    return response

                return grpc.unary_unary_rpc_method_handler(export)

        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool, handlers=[Handler()])
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown()


def _spans(messages: list[Any]) -> Iterator[Span]:
    for message in messages:
        if not isinstance(message, ExportTraceServiceRequest):
            continue
        for whole in message.resource_spans:
            for part in whole.scope_spans:
                for span in part.spans:
                    yield _span(span, part.scope.name, _attributes(whole.resource.attributes))


def _span(span: SpanMessage, scope: str, resource: dict[str, Any]) -> Span:
    return Span(
        name=span.name,
        kind=SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        trace_state=span.trace_state,
        status=Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        description=span.status.message,
        attributes=_attributes(span.attributes),
        events=[Event(event.name, _attributes(event.attributes), event.time_unix_nano) for event in span.events],
        started=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        scope=scope,
        resource=resource,
    )


def _points(messages: Iterable[Any]) -> Iterator[Point]:
    for message in messages:
        if not isinstance(message, ExportMetricsServiceRequest):
            continue
        for whole in message.resource_metrics:
            resource = _attributes(whole.resource.attributes)
            for part in whole.scope_metrics:
                for metric in part.metrics:
                    yield from _points_of(metric, part.scope.name, resource)


def _points_of(metric: Any, scope: str, resource: dict[str, Any]) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    temporality = "" if kind == "gauge" else AggregationTemporality.Name(data.aggregation_temporality)
    for point in data.data_points:
        histogram = kind == "histogram"
        yield Point(
            metric=metric.name,
            unit=metric.unit,
            description=metric.description,
            kind=kind,
            temporality=temporality.removeprefix("AGGREGATION_TEMPORALITY_"),
            attributes=_attributes(point.attributes),
            value=point.sum if histogram else getattr(point, point.WhichOneof("value")),
            counts=tuple(point.bucket_counts) if histogram else (),
            bounds=tuple(point.explicit_bounds) if histogram else (),
            started=point.start_time_unix_nano,
            at=point.time_unix_nano,
            scope=scope,
            resource=resource,
        )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return None if kind is None else getattr(value, kind)

"""Takes a request through the processor as Envoy would, once for each backend of the rule that it matches.

It is the core itself that answers, fed with the messages of Envoy's two filters; only the choice of the route, which is
Envoy's, is made here, by the precedence that the Envoy configuration is written by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from google.protobuf.struct_pb2 import Struct

from extproc.auth.build import build_authenticator
from extproc.auth.sources import Cells
from extproc.costs import CostScope
from extproc.errors import BackendFault
from extproc.exchange import names
from extproc.exchange.headers import header_map
from extproc.exchange.stream import Processor, Stream
from extproc.explain.request import ExplainedRequest
from extproc.runtime import Runtime, build_runtime
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.redaction import redact_headers
from extproc.usage import TokenUsage
from filter_config.cel import CELError
from filter_config.model import Config
from filter_config.sources.model import Backend, Gateway, Listener
from filter_config.sources.routing import Entry, admits, domain, holds, precedence
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse

Headers = list[tuple[str, str]]

_REQUEST_ID = "explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The client is answered at once."""

    status: int
    body: bytes
    by: str
    """Who answers: ``processor`` or ``envoy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What one backend would get.

    Attributes:
        share: of the requests that its priority gets, between 0 and 1.
        headers: all that differs from the client's request, credentials taken out.
        removed: the client's headers that it does not get.
        body: its bytes.
        credential: where the credential comes from that is only fetched while serving; else empty.
        metadata: dynamic metadata at the request.
        costs: metadata of the given usage.
        cost_faults: rules that fail on it, by metadata key.
        refusal: the client is answered instead.
    """

    backend: Backend
    share: float
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()
    body: bytes = b""
    credential: str = ""
    metadata: Mapping[str, object]
    costs: Mapping[str, int]
    cost_faults: Mapping[str, str]
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would become of a request at one gateway.

    Attributes:
        host: the virtual host that takes it.
        model: the model that was found in it; empty where it was refused before.
        entry: the rule that takes it, and why; ``None`` when none does.
        upstreams: the backends in the order in which they are tried.
        refusal: the client is answered without asking any backend.
    """

    gateway: str
    listener: str
    host: str
    model: str = ""
    entry: Entry | None = None
    upstreams: tuple[Upstream, ...] = ()
    refusal: Refusal | None = None


def explain(
    gateway: Gateway, config: Config, request: ExplainedRequest, *, listeners: Sequence[Listener]
) -> Explanation:
    """Say what would become of ``request``.

    Args:
        gateway: the model of the gateway.
        config: the filter config of its processor.
        request: the client's request.
        listeners: where it comes in, several where they share a port and a hostname; none takes requests for its host.
    """
    with structlog.testing.capture_logs():
        return _Walk(gateway, config, request, listeners).explain()


class _Walk:
    def __init__(
        self, gateway: Gateway, config: Config, request: ExplainedRequest, listeners: Sequence[Listener]
    ) -> None:
        self._gateway = gateway
        self._request = request
        self._runtime, self._fetched = _offline(build_runtime(config, digest=config.uuid))
        self._processor = Processor(metrics=Metrics(), ids=lambda: "0")
        self._processor.runtime = self._runtime
        self._routes = [route for route in gateway.routes if any(admits(listener, route) for listener in listeners)]
        self._listeners = listeners

    def explain(self) -> Explanation:
        if not self._listeners:
            nobody = Refusal(status=404, body=b"", by="envoy")
            return Explanation(gateway=self._gateway.id, listener="", host=self._request.host, refusal=nobody)
        first = self._listeners[0]
        host = domain(first.hostname, self._routes, self._request.host or first.hostname)
        known = Explanation(gateway=self._gateway.id, listener=first.name, host=host)
        routed = self._routed()
        if isinstance(routed, Refusal):
            return replace(known, refusal=routed)
        _, headers = routed
        known = replace(known, model=headers.get(names.MODEL, ""))
        entry = next(
            (entry for entry in precedence(self._routes, host) if holds(entry.match, self._request.path, headers)), None
        )
        if entry is None:
            return replace(known, refusal=Refusal(status=404, body=b"No matching route found.", by="envoy"))
        known = replace(known, entry=entry, upstreams=tuple(self._upstreams(entry)))
        if not any(upstream.share for upstream in known.upstreams):
            return replace(known, refusal=Refusal(status=500, body=b"", by="envoy"))
        return known

    def _routed(self) -> tuple[Stream, dict[str, str]] | Refusal:
        """A stream whose request has been read, and the request's headers as Envoy routes on them."""
        request = self._request
        # The path is looked up and the body understood by the core; so are faults of both.
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":authority": request.host or "localhost",
            ":path": request.path,
            "content-type": "application/json",
            "content-length": str(len(request.body)),
            names.REQUEST_ID: _REQUEST_ID,
            **request.headers,
        }
        stream = self._processor.open()
        for message in (_headers_message(headers), _body_message(request.body)):
            reply = _feed(stream, message)
            if reply.HasField("immediate_response"):
                return _refusal(reply)
            _carry(reply, headers)
        return stream, headers

    def _upstreams(self, entry: Entry) -> Iterable[Upstream]:
        backends = sorted(entry.rule.backends, key=lambda backend: backend.priority)
        for backend in backends:
            alike = sum(_weight(other) for other in backends if other.priority == backend.priority)
            yield self._upstream(entry, backend, _weight(backend) / alike if alike else 0.0)

    def _upstream(self, entry: Entry, backend: Backend, share: float) -> Upstream:
        routed = self._routed()
        assert not isinstance(routed, Refusal), "it was not refused before"
        _, before = routed
        attributes = Struct()
        attributes.update({names.BACKEND_OF_HOST: backend.id, names.ROUTE_NAME: entry.route.id})
        reply = _feed(self._processor.open(), _headers_message(before, attributes))
        costs, cost_faults = self._costs(entry, backend, before)
        if reply.HasField("immediate_response"):
            return Upstream(
                backend=backend, share=share, metadata={}, costs={}, cost_faults={}, refusal=_refusal(reply)
            )
        after = dict(before)
        removed = _carry(reply, after)
        changed = [(name, value) for name, value in after.items() if before.get(name) != value and name != ":path"]
        mutation = reply.request_headers.response.body_mutation
        return Upstream(
            backend=backend,
            share=share,
            path=after[":path"],
            headers=tuple(redact_headers(changed, self._runtime.secret_headers)),
            removed=tuple(name for name in removed if name in before and name not in after),
            body=mutation.body if mutation.WhichOneof("mutation") == "body" else self._request.body,
            credential=self._fetched.get(backend.id, ""),
            metadata=_metadata(reply),
            costs=costs,
            cost_faults=cost_faults,
        )

    def _costs(
        self, entry: Entry, backend: Backend, headers: Mapping[str, str]
    ) -> tuple[dict[str, int], dict[str, str]]:
        usage: TokenUsage | None = self._request.usage
        if usage is None:
            return {}, {}
        faults: dict[str, str] = {}

        def failed(key: str, error: CELError) -> None:
            faults[key] = str(error)

        compiled = self._runtime.backends[backend.id]
        scope = CostScope(
            model=compiled.model_override or headers.get(names.MODEL, ""),
            backend=backend.id,
            short_backend=compiled.short_name,
            route=entry.route.id,
        )
        return self._runtime.costs.of(scope).evaluate(usage, failed), faults


def _weight(backend: Backend) -> int:
    """What it gets: nothing where nobody knows its address."""
    return backend.weight if backend.endpoint is not None or backend.pool is not None else 0


def _offline(runtime: Runtime) -> tuple[Runtime, dict[str, str]]:
    """The runtime without credentials that would have to be fetched, and where those would come from."""
    fetched: dict[str, str] = {}
    for backend in runtime.config.backends:
        cells = Cells()
        try:
            if backend.auth is not None:
                build_authenticator(backend.auth, cells)
        except BackendFault:
            # The core refuses the backend by itself, and says why.
            continue
        if cells.used:
            fetched[backend.name] = ", ".join(cell.source.name for cell in cells.used)
    backends = {
        name: replace(backend, auth=None) if name in fetched else backend for name, backend in runtime.backends.items()
    }
    return replace(runtime, backends=backends, cells=()), fetched


def _headers_message(headers: Mapping[str, str], attributes: Struct | None = None) -> ProcessingRequest:
    message = ProcessingRequest()
    message.request_headers.headers = header_map((name, value.encode()) for name, value in headers.items())
    if attributes is not None:
        message.attributes[names.ATTRIBUTES] = attributes.SerializeToString()
    return message


def _body_message(body: bytes) -> ProcessingRequest:
    message = ProcessingRequest()
    message.request_body.body = body
    message.request_body.end_of_stream = True
    return message


def _feed(stream: Stream, message: ProcessingRequest) -> ProcessingResponse:
    reply = stream.feed(message.SerializeToString())
    assert reply is not None, "it is not observing"
    return ProcessingResponse.FromString(reply.SerializeToString())


def _carry(reply: ProcessingResponse, headers: dict[str, str]) -> list[str]:
    """Change headers as Envoy does; gives the names that it takes out."""
    mutation = getattr(reply, reply.WhichOneof("response") or "").response.header_mutation
    removed = list(mutation.remove_headers)
    for name in removed:
        headers.pop(name, None)
    headers.update({option.header.key.lower(): option.header.raw_value.decode() for option in mutation.set_headers})
    return removed


def _metadata(reply: ProcessingResponse) -> dict[str, object]:
    namespace = reply.dynamic_metadata.fields[names.METADATA_NAMESPACE].struct_value
    return dict(namespace.items())


def _refusal(reply: ProcessingResponse) -> Refusal:
    answer = reply.immediate_response
    return Refusal(status=answer.status.code, body=answer.body, by="processor")

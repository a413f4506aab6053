"""A script for exchanges: the messages Envoy would send, and what came back.

``Gateway`` holds a processor on a filter config; ``Exchange`` plays one client request through it, message by
message, the way Envoy's two filters would. Everything is synchronous, so a whole story is a table row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.struct_pb2 import Struct

from extproc.exchange import names
from extproc.exchange.context import ExchangeOptions
from extproc.exchange.headers import header_map
from extproc.exchange.stream import Processor, Stream
from extproc.runtime import build_runtime
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.tracing.base import Tracer
from filter_config.load import decode
from protos.ext_proc_pb2 import (
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
)

BACKEND = "default/openai/route/chat/rule/0/ref/0"
SECOND_BACKEND = "default/second/route/chat/rule/0/ref/1"
ROUTE = "default/chat"

NOW = 1_700_000_000.0
"""The time of day in every exchange, in seconds since 1970."""

Headers = Mapping[str, str] | Sequence[tuple[str, str | bytes]]


def openai_backend(name: str = BACKEND, **extra: Any) -> dict[str, Any]:
    return {"name": name, "schema": {"name": "OpenAI", "prefix": "v1"}, "modelNameOverride": "", **extra}


def cost(key: str, kind: str = "TotalToken", *, route: str = ROUTE, **extra: str) -> dict[str, Any]:
    return {"metadataKey": key, "type": kind, "routeName": route, **extra}


def body_modes(request: int, response: int) -> bytes:
    """What an Envoy says of how its filter sends bodies, as it goes over the wire."""
    config = ProtocolConfiguration(request_body_mode=request, response_body_mode=response)
    return config.SerializeToString()


def _fill(target: HttpHeaders, headers: Headers, *, end_of_stream: bool) -> None:
    listed = headers.items() if isinstance(headers, Mapping) else headers
    target.headers = header_map((name, value.encode() if isinstance(value, str) else value) for name, value in listed)
    target.end_of_stream = end_of_stream


def request_headers(
    headers: Headers, *, eos: bool = False, attributes: Mapping[str, str] | None = None
) -> ProcessingRequest:
    request = ProcessingRequest()
    _fill(request.request_headers, headers, end_of_stream=eos)
    if attributes is not None:
        struct = Struct()
        struct.update(attributes)
        request.attributes[names.ATTRIBUTES] = struct.SerializeToString()
    return request


def request_body(body: bytes, *, eos: bool = True) -> ProcessingRequest:
    request = ProcessingRequest()
    request.request_body.body = body
    request.request_body.end_of_stream = eos
    return request


def response_headers(headers: Headers, *, eos: bool = False) -> ProcessingRequest:
    request = ProcessingRequest()
    _fill(request.response_headers, headers, end_of_stream=eos)
    return request


def response_body(body: bytes, *, eos: bool = True) -> ProcessingRequest:
    request = ProcessingRequest()
    request.response_body.body = body
    request.response_body.end_of_stream = eos
    return request


def response_trailers() -> ProcessingRequest:
    request = ProcessingRequest()
    request.response_trailers.SetInParent()
    return request


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Reply:
    """What a reply says, in plain values."""

    message: ProcessingResponse

    @property
    def kind(self) -> str | None:
        return self.message.WhichOneof("response")

    @property
    def _common(self) -> Any:
        return getattr(self.message, self.kind or "").response

    @property
    def set(self) -> dict[str, str]:
        return dict(self.set_list)

    @property
    def set_list(self) -> list[tuple[str, str]]:
        mutation = (
            self.message.immediate_response.headers
            if self.kind == "immediate_response"
            else self._common.header_mutation
        )
        assert all(not option.header.value for option in mutation.set_headers), "only raw_value may be set"
        return [(option.header.key, option.header.raw_value.decode()) for option in mutation.set_headers]

    @property
    def remove(self) -> list[str]:
        return list(self._common.header_mutation.remove_headers)

    @property
    def body(self) -> bytes | None:
        """The new body, or ``None`` when the one that Envoy has goes on."""
        if self.kind == "immediate_response":
            return self.message.immediate_response.body
        mutation = self._common.body_mutation
        return mutation.body if mutation.WhichOneof("mutation") == "body" else None

    @property
    def replaces(self) -> bool:
        return self._common.status == 1

    @property
    def status(self) -> int:
        assert self.kind == "immediate_response", self.message
        return self.message.immediate_response.status.code

    @property
    def json(self) -> Any:
        return json.loads(self.message.immediate_response.body)

    @property
    def metadata(self) -> dict[str, Any]:
        if not self.message.HasField("dynamic_metadata"):
            return {}
        namespace = self.message.dynamic_metadata.fields[names.METADATA_NAMESPACE].struct_value
        return dict(namespace.items())

    @property
    def is_neutral(self) -> bool:
        """Whether it changes nothing of the message; what it tells access logs is in ``metadata``."""
        empty = ProcessingResponse()
        getattr(empty, self.kind or "").SetInParent()
        if self.message.HasField("dynamic_metadata"):
            empty.dynamic_metadata.CopyFrom(self.message.dynamic_metadata)
        return self.message == empty


def fed(stream: Stream, message: ProcessingRequest) -> Reply:
    """What a stream answers, read with the wire library."""
    reply = stream.feed(message.SerializeToString())
    assert reply is not None
    return Reply(ProcessingResponse.FromString(reply.SerializeToString()))


class Gateway:
    """A processor on one filter config."""

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, tracer: Tracer | None = None, **options: Any
    ) -> None:
        self.clock = Clock()
        self.metrics = Metrics()
        self._ids = 0
        self.processor = Processor(
            metrics=self.metrics,
            options=ExchangeOptions(**options),
            tracer=tracer,
            clock=self.clock,
            now=lambda: NOW,
            ids=self._next_id,
        )
        if config is not None:
            self.load(config)

    def _next_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def load(self, config: Mapping[str, Any]) -> None:
        decoded = decode(json.dumps(config).encode())
        assert decoded.config is not None, decoded.problems
        self.processor.runtime = build_runtime(decoded.config, digest="test", problems=decoded.problems)

    def stream(self) -> Stream:
        return self.processor.open()

    def exchange(self, **headers: str) -> Exchange:
        return Exchange(self, headers)


DEFAULT_HEADERS = {
    ":method": "POST",
    ":path": "/v1/chat/completions",
    ":authority": "gateway.example",
    "content-type": "application/json",
    "x-request-id": "req-1",
}


@dataclass
class Exchange:
    """One client request. Keeps the headers as Envoy would carry them from filter to filter and attempt to attempt."""

    gateway: Gateway
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.router = self.gateway.stream()
        self.carried: dict[str, str] = {}
        self.attempts: list[Stream] = []

    def send(self, stream: Stream, message: ProcessingRequest) -> Reply:
        return fed(stream, message)

    def headers(self, headers: Mapping[str, str] | None = None, *, eos: bool = False) -> Reply:
        self.carried = {**DEFAULT_HEADERS, **{k.replace("_", "-"): v for k, v in self.extra.items()}, **(headers or {})}
        reply = self.send(self.router, request_headers(self.carried, eos=eos))
        self._carry(reply)
        return reply

    def _carry(self, reply: Reply) -> None:
        if reply.kind == "immediate_response":
            return
        for name in reply.remove:
            self.carried.pop(name, None)
        self.carried.update({name.lower(): value for name, value in reply.set_list})

    def body(self, body: bytes | Mapping[str, Any], *, eos: bool = True) -> Reply:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = self.send(self.router, request_body(raw, eos=eos))
        self._carry(reply)
        return reply

    def request(self, body: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
        self.headers(headers)
        return self.body(body)

    def attempt(
        self, backend: str = BACKEND, *, route: str = ROUTE, host: str = "", headers: Mapping[str, str] | None = None
    ) -> Reply:
        attributes = {names.BACKEND_OF_HOST: backend, names.ROUTE_NAME: route}
        if host:
            attributes[names.HOST_OF_UPSTREAM] = host
        stream = self.gateway.stream()
        self.attempts.append(stream)
        self.carried.update(headers or {})
        reply = self.send(stream, request_headers(self.carried, attributes=attributes))
        self._carry(reply)
        return reply

    def response(self, headers: Headers | None = None, *, status: str = "200", eos: bool = False) -> Reply:
        pairs = headers if headers is not None else {"content-type": "application/json"}
        listed = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
        return self.send(self.router, response_headers([(":status", status), *listed], eos=eos))

    def piece(self, body: bytes, *, eos: bool = False) -> Reply:
        return self.send(self.router, response_body(body, eos=eos))

    def pieces(self, bodies: Iterable[bytes]) -> tuple[bytes, dict[str, Any]]:
        """Play the pieces, the last one as the end; gives what the client got and the last metadata."""
        parts = list(bodies)
        output, metadata = b"", {}
        for index, part in enumerate(parts):
            reply = self.piece(part, eos=index == len(parts) - 1)
            output += part if reply.body is None else reply.body
            metadata = reply.metadata or metadata
        return output, metadata

    def close(self) -> None:
        for stream in self.attempts:
            stream.close()
        self.router.close()

"""Small pieces that every change needs: values that are packed by type, metadata, addresses and durations.

A packed value is read by its type and not by the name beside it. What is packed has the same bytes every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from protos import xds_pb2 as xds

_URL: Final = "type.googleapis.com/"
_HTTP: Final = "envoy.extensions.filters.http."
_SOCKETS: Final = "envoy.extensions.transport_sockets."

_TYPES: Final[dict[type[Message], str]] = {
    xds.HttpProtocolOptions: "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    xds.HttpConnectionManager: "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    xds.FilterConfig: "envoy.config.route.v3.FilterConfig",
    xds.ExternalProcessor: f"{_HTTP}ext_proc.v3.ExternalProcessor",
    xds.ExtProcPerRoute: f"{_HTTP}ext_proc.v3.ExtProcPerRoute",
    xds.HeaderMutation: f"{_HTTP}header_mutation.v3.HeaderMutation",
    xds.HeaderMutationPerRoute: f"{_HTTP}header_mutation.v3.HeaderMutationPerRoute",
    xds.HeaderToMetadata: f"{_HTTP}header_to_metadata.v3.Config",
    xds.RateLimitFilter: f"{_HTTP}ratelimit.v3.RateLimit",
    xds.RateLimitPerRoute: f"{_HTTP}ratelimit.v3.RateLimitPerRoute",
    xds.Router: f"{_HTTP}router.v3.Router",
    xds.UpstreamCodec: f"{_HTTP}upstream_codec.v3.UpstreamCodec",
    xds.Http11ProxyUpstreamTransport: f"{_SOCKETS}http_11_proxy.v3.Http11ProxyUpstreamTransport",
    xds.RawBuffer: f"{_SOCKETS}raw_buffer.v3.RawBuffer",
    xds.UpstreamTlsContext: f"{_SOCKETS}tls.v3.UpstreamTlsContext",
}
"""Envoy's names of the types that are packed."""

Kind = TypeVar("Kind", bound=Message)


def pack(message: Message) -> Packed:
    """A message as a value of its Envoy type."""
    return Packed(type_url=_URL + _TYPES[type(message)], value=message.SerializeToString(deterministic=True))


def is_packed(value: Packed, kind: type[Message]) -> bool:
    """Whether a value has this type."""
    return value.type_url.rpartition("/")[2] == _TYPES[kind]


def unpack(value: Packed, kind: type[Kind]) -> Kind | None:
    """The message in a value, None when it has another type.

    Raises:
        DecodeError: it has this type, and its bytes are no such message.
    """
    return kind.FromString(value.value) if is_packed(value, kind) else None


def copy(message: Kind) -> Kind:
    """The same message once more."""
    made = type(message)()
    made.CopyFrom(message)
    return made


def replace(target: Any, messages: Iterable[Message]) -> None:  # noqa: ANN401 - protobuf has no type for a list
    """Put other messages in the place of those of a repeated field; they may be its own."""
    kept = [copy(message) for message in messages]
    del target[:]
    target.extend(kept)


def duration(seconds: float) -> Duration:
    """A time in seconds."""
    whole = Duration()
    whole.FromNanoseconds(round(seconds * 1_000_000_000))
    return whole


def address(host: str, port: int) -> xds.Address:
    """A host and port."""
    return xds.Address(socket_address=xds.SocketAddress(address=host, port_value=port))


def label(metadata: xds.Metadata, namespace: str, key: str, value: str) -> None:
    """Write a text of static metadata."""
    metadata.filter_metadata[namespace].fields[key].string_value = value


def labels(metadata: xds.Metadata, namespace: str) -> Struct | None:
    """A namespace of static metadata, None when there is none."""
    # A map of protobuf makes what it is asked for.
    return metadata.filter_metadata[namespace] if namespace in metadata.filter_metadata else None  # noqa: SIM401

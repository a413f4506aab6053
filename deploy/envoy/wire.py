"""Small bridges between Python values and Envoy's well-known messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from envoy_data_plane.envoy.config.core.v3 import Address as EnvoyAddress
from envoy_data_plane.envoy.config.core.v3 import Metadata, Pipe
from envoy_data_plane.envoy.config.core.v3 import SocketAddress as EnvoySocketAddress
from envoy_data_plane.google.protobuf import Any as PackedMessage
from envoy_data_plane.google.protobuf import Struct

from deploy.envoy.model import Address, PipeAddress, SocketAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from betterproto2 import Message


def pack(message: Message) -> PackedMessage:
    """The message with its type URL, as extension points want it."""
    return PackedMessage.pack(message)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def struct(value: Mapping[str, object]) -> Struct:
    return Struct.from_dict(value)


def metadata(namespaces: Mapping[str, Mapping[str, object]]) -> Metadata | None:
    """Metadata with the namespaces that have something to say; None when none has."""
    filled = {name: struct(fields) for name, fields in namespaces.items() if fields}
    return Metadata(filter_metadata=filled) if filled else None


def address(value: Address) -> EnvoyAddress:
    match value:
        case SocketAddress(host=host, port=port):
            return EnvoyAddress(socket_address=EnvoySocketAddress(address=host, port_value=port))
        case PipeAddress(path=path):
            return EnvoyAddress(pipe=Pipe(path=path))
        case _:
            assert_never(value)

"""The attributes that Envoy's upstream-level filter sends: which backend, route and host an attempt goes to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from google.protobuf import struct_pb2
from msgspec import Struct

from extproc.errors import ExtProcError
from extproc.exchange import names
from extproc.exchange.decode import decode
from extproc.exchange.headers import HeaderDict


class UnmatchedAttempt(ExtProcError):
    """An attempt of which the request or the backend cannot be told: Envoy's two filters are not set up alike."""


class AttemptTarget(Struct, frozen=True, kw_only=True):
    """Where an attempt goes.

    Attributes:
        backend: full backend name.
        route: ``namespace/name`` of the route, or empty.
        host: host name of the chosen endpoint as its metadata has it, or empty.
    """

    backend: str
    route: str
    host: str


def read_target(attributes: Mapping[str, bytes], headers: HeaderDict) -> AttemptTarget:
    """Read the target of an attempt (contract, backend binding 3.10).

    An endpoint picker chooses among the endpoints of one cluster, so with its header the cluster's name goes first;
    else the endpoint's own does. The other place is the fallback in both cases: a client can send that header too.

    Raises:
        UnmatchedAttempt: neither place names a backend.
        StreamFailure: the attributes cannot be decoded.
    """
    return _target(attributes.get(names.ATTRIBUTES, b""), names.ENDPOINT_PICKED in headers)


# Backends and routes are few, and so are the ways in which their names are encoded.
@lru_cache(maxsize=4096)
def _target(encoded: bytes, picked: bool) -> AttemptTarget:  # noqa: FBT001 - a key of the cache
    struct = decode(struct_pb2.Struct, encoded)
    if not struct.fields:
        raise UnmatchedAttempt("missing attributes in request")
    places = (names.BACKEND_OF_HOST, names.BACKEND_OF_CLUSTER)
    if picked:
        places = (names.BACKEND_OF_CLUSTER, names.BACKEND_OF_HOST)
    backend = _text(struct, places[0]) or _text(struct, places[1])
    if not backend:
        raise UnmatchedAttempt(f"missing backend name in attributes at path: {places[0]}")
    return AttemptTarget(
        backend=backend, route=_text(struct, names.ROUTE_NAME), host=_text(struct, names.HOST_OF_UPSTREAM)
    )


def _text(struct: struct_pb2.Struct, path: str) -> str:
    # A value of another kind than a string reads as empty.
    value = struct.fields.get(path)
    return "" if value is None else value.string_value

"""Our declarations of the discovery service against the complete types: every number and type is Envoy's."""

from __future__ import annotations

import warnings

import pytest
from google.protobuf.descriptor import FieldDescriptor

from protos import discovery_pb2 as wire

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    import envoy_data_plane.envoy.config.core.v3 as core
    import envoy_data_plane.envoy.service.discovery.v3 as discovery
    from envoy_data_plane.google import rpc

OFFICIAL = {
    wire.DiscoveryRequest: discovery.DiscoveryRequest,
    wire.DiscoveryResponse: discovery.DiscoveryResponse,
    wire.Node: core.Node,
    wire.Status: rpc.Status,
}
KINDS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_MESSAGE: "message",
}
FIELDS = {
    f"{ours.DESCRIPTOR.name}.{field.name}": (theirs, field)
    for ours, theirs in OFFICIAL.items()
    for field in ours.DESCRIPTOR.fields
}


@pytest.mark.parametrize(("theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_a_field_is_envoys(theirs, field):
    meta = theirs._betterproto.meta_by_field_name[field.name]

    assert (meta.number, meta.proto_type) == (field.number, KINDS[field.type])
    assert getattr(meta, "repeated", False) == field.is_repeated


# What envoy-data-plane lacks: see NUMBERS in test_snapshot.py.
LIMITS = {"RateLimitConfig", "RateLimitDescriptor", "RateLimitPolicy"}


def test_every_message_is_compared_with_something():
    assert set(wire.DESCRIPTOR.message_types_by_name) == {ours.DESCRIPTOR.name for ours in OFFICIAL} | LIMITS

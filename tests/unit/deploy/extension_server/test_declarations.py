"""Our declarations of Envoy's messages against the complete types: every number, type, choice and enum is Envoy's."""

from __future__ import annotations

import importlib
import warnings

import pytest
from google.protobuf.descriptor import FieldDescriptor

from deploy.extension_server.wire import _TYPES as PACKED
from protos import extension_pb2, xds_pb2

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    import envoy_data_plane.envoy.config.cluster.v3 as clusters
    import envoy_data_plane.envoy.config.endpoint.v3 as endpoints
    import envoy_data_plane.envoy.config.listener.v3 as listeners
    import envoy_data_plane.envoy.config.route.v3 as routes
    import envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 as tls

    OFFICIAL = {
        kind: getattr(importlib.import_module(f"envoy_data_plane.{name.rpartition('.')[0]}"), name.rpartition(".")[2])
        for kind, name in PACKED.items()
    }

ROOTS = {
    xds_pb2.Cluster: clusters.Cluster,
    xds_pb2.ClusterLoadAssignment: endpoints.ClusterLoadAssignment,
    xds_pb2.Listener: listeners.Listener,
    xds_pb2.RouteConfiguration: routes.RouteConfiguration,
    xds_pb2.Secret: tls.Secret,
    **OFFICIAL,
}
KINDS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_MESSAGE: "message",
}


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def walk():
    """Every declared message with its official class, and every enum."""
    messages, enums = {}, {}
    waiting = [(ours.DESCRIPTOR, theirs) for ours, theirs in ROOTS.items()]
    while waiting:
        ours, theirs = waiting.pop()
        if ours in messages:
            continue
        messages[ours] = theirs
        known = theirs._betterproto.cls_by_field
        for field in ours.fields:
            if field.enum_type is not None:
                enums[field.enum_type] = known[field.name]
                continue
            inner = field.message_type.fields_by_name["value"].message_type if is_map(field) else field.message_type
            if inner is not None and inner.full_name.startswith("extproc."):
                waiting.append((inner, known[f"{field.name}.value" if is_map(field) else field.name]))
    return messages, enums


MESSAGES, ENUMS = walk()
FIELDS = {f"{ours.name}.{field.name}": (theirs, field) for ours, theirs in MESSAGES.items() for field in ours.fields}


@pytest.mark.parametrize(("theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_a_field_is_envoys(theirs, field):
    meta = theirs._betterproto.meta_by_field_name[field.name]
    choice = field.containing_oneof.name if field.containing_oneof is not None else None

    assert (meta.number, meta.group) == (field.number, choice)
    assert meta.proto_type == ("map" if is_map(field) else KINDS[field.type])
    assert getattr(meta, "repeated", False) == (field.is_repeated and not is_map(field))


@pytest.mark.parametrize(("theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_a_well_known_type_is_the_same(theirs, field):
    inner = field.message_type.fields_by_name["value"].message_type if is_map(field) else field.message_type
    if inner is None or not inner.full_name.startswith("google.protobuf."):
        return
    official = theirs._betterproto.cls_by_field[f"{field.name}.value" if is_map(field) else field.name]
    unwrapped = {"timedelta": "Duration", "bool": "BoolValue"}

    wrapper = theirs._betterproto.meta_by_field_name[field.name].unwrap
    name = wrapper().__name__ if wrapper is not None else official.__name__
    assert unwrapped.get(name, name) == inner.name


def test_every_declared_message_was_compared():
    declared = set(xds_pb2.DESCRIPTOR.message_types_by_name.values())

    assert declared == set(MESSAGES)


@pytest.mark.parametrize(("ours", "theirs"), ENUMS.items(), ids=[enum.full_name for enum in ENUMS])
def test_an_enum_is_envoys(ours, theirs):
    assert {value.name: value.number for value in ours.values} == {value.name: value.value for value in theirs}


# Envoy Gateway's own messages (contract, control plane 6.1).
HOOKS = {
    "PostRouteModifyRequest": {"route": 1, "post_route_context": 2},
    "PostRouteExtensionContext": {"extension_resources": 1, "hostnames": 2},
    "PostRouteModifyResponse": {"route": 1},
    "PostClusterModifyRequest": {"cluster": 1, "post_cluster_context": 2},
    "PostClusterExtensionContext": {"backend_extension_resources": 1},
    "PostClusterModifyResponse": {"cluster": 1},
    "PostEndpointsModifyRequest": {"load_assignment": 1},
    "PostEndpointsModifyResponse": {"load_assignment": 1},
    "PostTranslateModifyRequest": {
        "post_translate_context": 1,
        "clusters": 2,
        "secrets": 3,
        "listeners": 4,
        "routes": 5,
    },
    "PostTranslateExtensionContext": {"extension_resources": 1},
    "PostTranslateModifyResponse": {"clusters": 1, "secrets": 2, "listeners": 3, "routes": 4},
    "ExtensionResource": {"unstructured_bytes": 1},
}


def test_the_hooks_messages_are_envoy_gateways():
    declared = {
        message.name: {field.name: field.number for field in message.fields}
        for message in extension_pb2.DESCRIPTOR.message_types_by_name.values()
    }

    assert declared == HOOKS

"""Our minimal declarations against the complete types: what one encodes, the other must read, field by field.

Both sides are walked by their descriptors from the messages that travel, so a field declared later is compared too.
Three liberties are ours by intent: octets where the official type is a string, an integer where it is an enum, and
messages that stay encoded.
"""

from __future__ import annotations

import warnings
from datetime import timedelta

import pytest
from google.protobuf import duration_pb2, json_format, struct_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from protos import ext_proc_pb2, health_pb2, rate_limit_pb2

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    import envoy_data_plane.envoy.service.ext_proc.v3 as official_ext_proc
    import envoy_data_plane.envoy.service.ratelimit.v3 as official_rate_limit
    import envoy_data_plane.google.protobuf as official_google

ROOTS = {
    ext_proc_pb2.ProcessingRequest.DESCRIPTOR: official_ext_proc.ProcessingRequest,
    ext_proc_pb2.ProcessingResponse.DESCRIPTOR: official_ext_proc.ProcessingResponse,
    rate_limit_pb2.RateLimitRequest.DESCRIPTOR: official_rate_limit.RateLimitRequest,
    rate_limit_pb2.RateLimitResponse.DESCRIPTOR: official_rate_limit.RateLimitResponse,
}
# Fields that hold encoded messages, and of which type they are.
ENCODED = {
    "extproc.wire.HeaderMap.headers": ext_proc_pb2.HeaderValue.DESCRIPTOR,
    "extproc.wire.HttpHeaders.headers": ext_proc_pb2.HeaderMap.DESCRIPTOR,
    "extproc.wire.ProcessingRequest.metadata_context": ext_proc_pb2.Metadata.DESCRIPTOR,
    "extproc.wire.ProcessingRequest.protocol_config": ext_proc_pb2.ProtocolConfiguration.DESCRIPTOR,
    "extproc.wire.ProcessingRequest.attributes": struct_pb2.Struct.DESCRIPTOR,
}
STRUCT = {"text": "é", "number": 1.5, "flag": True, "none": None, "list": ["a", 2.0], "nested": {"k": "v"}}
DURATION = timedelta(seconds=3, microseconds=500)


def is_ours(message):
    return message.full_name.startswith("extproc.wire")


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def value_type(field):
    """The message type behind a field: the map's value, or the field's own, or what it holds encoded."""
    if field.full_name in ENCODED:
        return ENCODED[field.full_name]
    return field.message_type.fields_by_name["value"].message_type if is_map(field) else field.message_type


def their_meta(theirs, name):
    return theirs._betterproto.meta_by_field_name.get(name)


def their_class(theirs, name):
    classes = theirs._betterproto.cls_by_field
    return classes.get(f"{name}.value", classes.get(name))


def walk():
    """Every message of ours that travels, with its official class; and the enums met on the way."""
    messages, enums, waiting = {}, {}, list(ROOTS.items())
    while waiting:
        ours, theirs = waiting.pop()
        if ours in messages:
            continue
        messages[ours] = theirs
        for field in ours.fields:
            their_value = their_class(theirs, field.name)
            if field.enum_type is not None:
                enums[field.enum_type] = their_value
            elif (inner := value_type(field)) is not None and is_ours(inner):
                waiting.append((value_type(field), their_value))
    return messages, enums


MESSAGES, ENUMS = walk()
FIELDS = {
    f"{ours.name}.{field.name}": (ours, theirs, field) for ours, theirs in MESSAGES.items() for field in ours.fields
}


# One sample for each field, made for each side on its own.


def scalar(field):
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return True
        case FieldDescriptor.TYPE_BYTES | FieldDescriptor.TYPE_STRING:
            return f"é-{field.name}".encode()
        case FieldDescriptor.TYPE_ENUM:
            return field.enum_type.values[-1].number
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_UINT32:
            return 300 + field.number
        case _:
            raise NotImplementedError(field.full_name)


def first_of_each_oneof(message):
    return [f for f in message.fields if f.containing_oneof is None or f is f.containing_oneof.fields[0]]


def plain_sample(field):
    """The sample in plain terms: bytes for text, dict for a message, its JSON for a well-known type."""
    if is_map(field):
        return {"key": plain_value(value_type(field))}
    inner = value_type(field)
    one = scalar(field) if inner is None else plain_value(inner)
    return [one, one] if field.is_repeated else one


def plain_value(message):
    if is_ours(message):
        return {field.name: plain_sample(field) for field in first_of_each_oneof(message)}
    return {"Struct": STRUCT, "Duration": DURATION, "UInt64Value": 1 << 40}[message.name]


def our_value(message, plain):
    if is_ours(message):
        made = GetMessageClass(message)()
        for name, value in plain.items():
            fill(made, message.fields_by_name[name], value)
        return made
    match message.name:
        case "Struct":
            made = struct_pb2.Struct()
            made.update(plain)
            return made
        case "Duration":
            made = duration_pb2.Duration()
            made.FromTimedelta(plain)
            return made
    return wrappers_pb2.UInt64Value(value=plain)


def fill(message, field, plain):
    text = field.type == FieldDescriptor.TYPE_STRING
    if field.full_name in ENCODED and not (field.is_repeated or is_map(field)):
        setattr(message, field.name, our_value(value_type(field), plain).SerializeToString())
    elif field.full_name in ENCODED:
        place(getattr(message, field.name), plain, lambda each: our_value(value_type(field), each).SerializeToString())
    elif is_map(field):
        for key, value in plain.items():
            getattr(message, field.name)[key].CopyFrom(our_value(value_type(field), value))
    elif field.message_type is None and not field.is_repeated:
        setattr(message, field.name, plain.decode() if text else plain)
    elif field.message_type is None:
        getattr(message, field.name).extend(value.decode() if text else value for value in plain)
    elif field.is_repeated:
        getattr(message, field.name).extend(our_value(field.message_type, value) for value in plain)
    else:
        getattr(message, field.name).CopyFrom(our_value(field.message_type, plain))


def place(target, plain, encode):
    """Fill a map or a list with encoded messages."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            target[key] = encode(value)
    else:
        target.extend(map(encode, plain))


def their_value(message, theirs, plain):
    if is_ours(message):
        return theirs(
            **{name: their_field(message.fields_by_name[name], theirs, value) for name, value in plain.items()}
        )
    return official_google.Struct.from_dict(plain) if message.name == "Struct" else plain


def their_field(field, theirs, plain):
    meta, cls = their_meta(theirs, field.name), their_class(theirs, field.name)
    if is_map(field):
        return {key: their_value(value_type(field), cls, value) for key, value in plain.items()}

    def one(value):
        if (inner := value_type(field)) is not None:
            return their_value(inner, cls, value)
        if meta.proto_type == "enum":
            return cls(value)
        return value.decode() if meta.proto_type == "string" else value

    return [one(value) for value in plain] if field.is_repeated else one(plain)


# What was read, in the same plain terms.


def read_ours(message):
    assert len(UnknownFieldSet(message)) == 0, f"{message.DESCRIPTOR.name} does not know a field that it should"
    plain = {}
    for field, value in message.ListFields():
        if is_map(field):
            plain[field.name] = {key: our_plain(decoded(field, each)) for key, each in value.items()}
        elif field.is_repeated:
            plain[field.name] = [our_plain(decoded(field, each)) for each in value]
        else:
            plain[field.name] = our_plain(decoded(field, value))
    return plain


def decoded(field, value):
    return GetMessageClass(value_type(field)).FromString(value) if field.full_name in ENCODED else value


def our_plain(value):
    match value:
        case str():
            return value.encode()
        case struct_pb2.Struct():
            return json_format.MessageToDict(value)
        case duration_pb2.Duration():
            return value.ToTimedelta()
        case wrappers_pb2.UInt64Value():
            return value.value
    return read_ours(value) if hasattr(value, "DESCRIPTOR") else value


def read_theirs(ours, message):
    assert message._unknown_fields in (None, b""), f"{type(message).__name__} knows no such field"
    plain = {}
    for field in ours.fields:
        value = getattr(message, field.name)
        if is_map(field):
            found = {key: their_plain(value_type(field), each) for key, each in value.items()}
        elif field.is_repeated:
            found = [their_plain(value_type(field), each) for each in value]
        else:
            found = None if value is None else their_plain(value_type(field), value)
        # proto3: a scalar that has its default is not there.
        if found not in (None, 0, False, b"", [], {}) or (field.has_presence and value is not None):
            plain[field.name] = found
    return plain


def their_plain(message, value):
    if isinstance(value, str):
        return value.encode()
    if message is None:
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if is_ours(message):
        return read_theirs(message, value)
    return value.to_dict() if message.name == "Struct" else value


@pytest.mark.parametrize(("ours", "theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_the_official_type_reads_what_we_write(ours, theirs, field):
    plain = {field.name: plain_sample(field)}

    wire = our_value(ours, plain).SerializeToString()

    assert read_theirs(ours, theirs.parse(wire)) == plain


@pytest.mark.parametrize(("ours", "theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_we_read_what_the_official_type_writes(ours, theirs, field):
    plain = {field.name: plain_sample(field)}

    wire = bytes(their_value(ours, theirs, plain))

    assert read_ours(GetMessageClass(ours).FromString(wire)) == plain


@pytest.mark.parametrize(("ours", "theirs", "field"), FIELDS.values(), ids=FIELDS)
def test_each_field_has_the_official_number_and_choice(ours, theirs, field):
    meta = their_meta(theirs, field.name)

    assert meta.number == field.number
    # One that is only optional is alone in a choice that the compiler made up.
    choice = field.containing_oneof.name if field.containing_oneof else "_"
    assert meta.group == (None if choice.startswith("_") else choice)


def test_every_declared_message_was_compared():
    declared = set()
    for module in (ext_proc_pb2, rate_limit_pb2):
        waiting = list(module.DESCRIPTOR.message_types_by_name.values())
        while waiting:
            message = waiting.pop()
            waiting += [nested for nested in message.nested_types if not nested.GetOptions().map_entry]
            declared.add(message)

    assert declared == set(MESSAGES)


def test_every_declared_enum_was_compared():
    declared = set()
    for module in (ext_proc_pb2, rate_limit_pb2):
        declared.update(module.DESCRIPTOR.enum_types_by_name.values())
    for message in MESSAGES:
        declared.update(message.enum_types)

    assert declared == set(ENUMS)


@pytest.mark.parametrize(("ours", "theirs"), ENUMS.items(), ids=[enum.name for enum in ENUMS])
def test_every_enum_value_agrees(ours, theirs):
    assert {value.name: value.number for value in ours.values} == {value.name: value.value for value in theirs}


@pytest.mark.parametrize("ours", MESSAGES, ids=[message.name for message in MESSAGES])
def test_a_field_nobody_knows_survives(ours):
    plain = {field.name: plain_sample(field) for field in first_of_each_oneof(ours)}
    unknown = b"\xfa\xff\x01\x03new"  # field 4095, three octets
    wire = our_value(ours, plain).SerializeToString() + unknown

    again = GetMessageClass(ours).FromString(wire).SerializeToString()

    assert again.endswith(unknown)
    assert sorted(again) == sorted(wire)


UNDECLARED = {
    "a metadata any": official_ext_proc.ProcessingRequest(
        metadata_context=official_ext_proc.ProcessingRequest._betterproto.cls_by_field["metadata_context"](
            typed_filter_metadata={"ns": official_google.Any(type_url="t", value=b"v")}
        )
    ),
    "a drain request": official_ext_proc.ProcessingResponse(request_drain=True),
    "a whole new choice": official_ext_proc.ProcessingResponse(
        streamed_immediate_response=official_ext_proc.StreamedImmediateResponse(
            body_response=official_ext_proc.StreamedBodyResponse(body=b"x", end_of_stream=True)
        )
    ),
    "a limit of the descriptor": official_rate_limit.RateLimitRequest(
        descriptors=[
            official_rate_limit.RateLimitRequest._betterproto.cls_by_field["descriptors"](is_negative_hits=True)
        ]
    ),
    "a raw body of the limiter": official_rate_limit.RateLimitResponse(raw_body=b"no"),
}


@pytest.mark.parametrize("message", UNDECLARED.values(), ids=UNDECLARED)
def test_official_fields_that_we_do_not_declare_survive(message):
    ours = next(ours for ours, theirs in ROOTS.items() if theirs is type(message))

    again = GetMessageClass(ours).FromString(bytes(message)).SerializeToString()

    assert type(message).parse(again) == message


# The complete types come without gRPC health: its numbers, from the protocol's own declaration.
HEALTH = {
    "HealthCheckRequest": {"service": (1, FieldDescriptor.TYPE_STRING)},
    "HealthCheckResponse": {"status": (1, FieldDescriptor.TYPE_ENUM)},
    "HealthListRequest": {},
    "HealthListResponse": {"statuses": (1, FieldDescriptor.TYPE_MESSAGE)},
}


def test_health_has_the_official_numbers():
    declared = {
        message.name: {field.name: (field.number, field.type) for field in message.fields}
        for message in health_pb2.DESCRIPTOR.message_types_by_name.values()
    }

    assert declared == HEALTH
    assert dict(health_pb2.HealthCheckResponse.ServingStatus.items()) == {
        "UNKNOWN": 0,
        "SERVING": 1,
        "NOT_SERVING": 2,
        "SERVICE_UNKNOWN": 3,
    }


HEALTH_WIRE = {
    "a request for the server": (health_pb2.HealthCheckRequest(), b""),
    "a request for a service": (health_pb2.HealthCheckRequest(service="a.B"), b"\x0a\x03a.B"),
    "serving": (health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING), b"\x08\x01"),
    "a list": (
        health_pb2.HealthListResponse(
            statuses={"s": health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)}
        ),
        b"\x0a\x07\x0a\x01s\x12\x02\x08\x02",
    ),
}


@pytest.mark.parametrize(("message", "wire"), HEALTH_WIRE.values(), ids=HEALTH_WIRE)
def test_health_on_the_wire(message, wire):
    assert message.SerializeToString() == wire
    assert type(message).FromString(wire) == message

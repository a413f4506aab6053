"""Whatever the hook does not know, wherever it is, comes out byte for byte; and the hook repeats nothing."""

from __future__ import annotations

import itertools

import pytest
from google.protobuf.any_pb2 import Any
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import encode
from deploy.extension_server.translate import modify_translation
from deploy.extension_server.wire import _TYPES as PACKED
from protos.extension_pb2 import PostTranslateModifyRequest
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

RULE = "default/r/rule/0"
HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_KINDS = {f"type.googleapis.com/{name}": kind for kind, name in PACKED.items()}


@pytest.fixture(scope="module")
def known():
    refs = [res.ref("a", modelNameOverride="m"), res.ref("b", priority=1)]
    target = {"group": res.AI, "kind": "AIServiceBackend", "name": "a"}
    made = res.compiled(
        res.gateway(),
        res.route("r", res.rule(*refs)),
        *res.served("a", "b"),
        res.quota([target], defaultBucket={"limit": 1, "duration": "1h"}),
    )
    return Snapshot(each.model for each in made.gateways)


def everything():
    """A request with every kind of message that the hook reads."""
    options = eg.typed(
        HTTP.removeprefix("envoy."),
        explicitHttpConfig={"httpProtocolOptions": {}},
        httpFilters=[eg.http("upstream_codec")],
    )
    notes = eg.http("header_to_metadata", "extensions.filters.http.header_to_metadata.v3.Config")
    notes["typedConfig"]["requestRules"] = [{"header": "x", "onHeaderPresent": {"metadataNamespace": "n", "key": "k"}}]
    return eg.request(
        clusters=[
            eg.cluster(
                RULE,
                *(eg.locality(ref=f"{RULE}/backend/{ref}", metadata=eg.owned("b")) for ref in range(2)),
                typedExtensionProtocolOptions={HTTP: options},
                transportSocketMatches=[
                    {
                        "name": "t",
                        "match": {"a": "b"},
                        "transportSocket": {"name": "s", "typedConfig": eg.ROUTER["typedConfig"]},
                    }
                ],
            ),
            eg.cluster("default/web/rule/0"),
        ],
        secrets=[{"name": "certificate"}],
        listeners=[
            eg.listener(eg.chain(eg.CUSTOM_RESPONSE, eg.JWT, notes, eg.ROUTER)),
            eg.listener(eg.passthrough(), name="tcp"),
        ],
        routes=[eg.route_config(eg.route(), eg.not_found(), eg.mcp_route("default/ai-eg-mcp-br-x/rule/0"))],
    )


def children(message):
    """The messages that stand in a message, without those of maps that have none."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from (value[key] for key in value)
        else:
            yield from value if field.is_repeated else [value]


def messages(message):
    """A message and all of ours below it."""
    yield message
    for child in children(message):
        if not child.DESCRIPTOR.full_name.startswith("google.protobuf."):
            yield from messages(child)


def packed(message):
    """The values in it whose type is known."""
    values = (child for each in messages(message) for child in children(each) if isinstance(child, Any))
    return [value for value in values if value.type_url in _KINDS]


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def unknown(number, value):
    """A field that no version of Envoy has."""
    return varint(number << 3 | 2) + varint(len(value)) + value


FIELDS = st.builds(unknown, st.integers(min_value=10_000, max_value=18_999), st.binary(min_size=8, max_size=24))


def plant(message, extras, places):
    """Put unknown fields into messages by their place, those that are packed in others first."""
    for value in packed(message):
        inner = _KINDS[value.type_url].FromString(value.value)
        plant(inner, extras, places)
        value.value = inner.SerializeToString(deterministic=True)
    for each in messages(message):
        each.MergeFromString(extras.get(next(places), b""))


def planted(extras):
    """The request with unknown fields, and how many messages are in it."""
    request, places = everything(), itertools.count()
    for name in ("clusters", "secrets", "listeners", "routes"):
        for each in getattr(request, name):
            plant(each, extras, places)
    return request, next(places)


PLACES = planted({})[1]


@settings(max_examples=60)
@given(extras=st.dictionaries(st.integers(min_value=0, max_value=PLACES - 1), FIELDS, max_size=20))
def test_unknown_fields_survive_wherever_they_are(known, extras):
    response = encode(modify_translation(planted(extras)[0], known, Options(), Findings()))

    assert [response.count(extra) > 0 for extra in extras.values()] == [True] * len(extras)


def test_an_unknown_field_survives_in_every_message_at_once(known):
    extras = {place: unknown(20_000 + place, b"whatever it is") for place in range(PLACES)}

    response = encode(modify_translation(planted(extras)[0], known, Options(), Findings()))

    assert [response.count(extra) for extra in extras.values()] == [1] * PLACES


def test_the_same_request_gets_the_same_bytes(known):
    first, second = (encode(modify_translation(everything(), known, Options(), Findings())) for _ in range(2))

    assert first == second


def test_what_was_answered_is_not_changed_again(known):
    once = modify_translation(everything(), known, Options(), Findings())
    twice = modify_translation(eg.again(once), known, Options(), Findings())

    assert encode(twice) == encode(once)


def test_a_value_of_an_unknown_type_is_not_touched(known):
    request = everything()
    value = Any(type_url="type.googleapis.com/example.Thing", value=b"\xff\x00 no message")
    request.routes[0].virtual_hosts[0].routes[0].typed_per_filter_config["example"].CopyFrom(value)
    request.clusters[1].typed_extension_protocol_options["example"].CopyFrom(value)

    response = modify_translation(request, known, Options(), Findings())

    assert response.routes[0].virtual_hosts[0].routes[0].typed_per_filter_config["example"] == value
    assert response.clusters[1].typed_extension_protocol_options["example"] == value


@settings(max_examples=60)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_none(known, body):
    """What can be read is answered: a hook never fails for what is in it."""
    from google.protobuf.message import DecodeError

    try:
        request = PostTranslateModifyRequest.FromString(body)
    except DecodeError:
        return
    modify_translation(request, known, Options(), Findings())

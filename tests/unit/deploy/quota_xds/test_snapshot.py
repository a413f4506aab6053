"""The quotas as bytes: those that a rate limit service reads, the same for the same content, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.quota_xds.snapshot import CONFIG_NAME, TYPE_URL, snapshot
from filter_config.sources.model import Bucket, Budget, ClientSelector
from protos import discovery_pb2 as wire
from tests.support.neutral import HERE, gateway, route, rule
from tests.support.quotas import bucket, limited, quota

RED = ClientSelector(name="x-team", value="red")
USER = ClientSelector(name="x-user", kind="distinct")


def config(made):
    (resource,) = made.resources.values()
    return wire.RateLimitConfig.FromString(resource.value)


# --- bytes, by the numbers of go-control-plane's ratelimit/config/ratelimit/v3/rls_conf.proto ---


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def test_the_bytes_are_those_that_the_service_reads():
    made = limited(
        quota(bucket(RED, limit=300, unit="second"), bucket(USER, unit="day", shadow=True), default=bucket(limit=1)),
        quota(model="", default=bucket(limit=2**32 - 1, unit="minute")),
    )
    red = text(1, "rule-0-x-team|red-match") + text(2, "true") + text(3, number(1, 1) + number(2, 300))
    user = text(1, "rule-1-x-user-match") + text(3, number(1, 4) + number(2, 10)) + number(5, 1)
    default = text(1, "rule-2-match--1-not-(x-team|red)") + text(2, "true") + text(3, number(1, 3) + number(2, 1))
    model = text(1, "model_name_override") + text(2, "m") + text(4, red) + text(4, user) + text(4, default)
    service = text(1, "service_quota") + text(2, "true") + text(3, number(1, 2) + number(2, 2**32 - 1))
    backend = text(1, "backend_name") + text(2, "ns/one") + text(4, model) + text(4, service)

    (resource,) = made.resources.values()
    assert resource.type_url == "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
    assert resource.value == text(1, "ai-gateway-quota") + text(2, "ai-gateway-quota") + text(3, backend)
    assert made.limits == 4


NUMBERS = {
    "RateLimitConfig": {"name": 1, "domain": 2, "descriptors": 3},
    "RateLimitDescriptor": {
        "key": 1,
        "value": 2,
        "rate_limit": 3,
        "descriptors": 4,
        "shadow_mode": 5,
    },
    "RateLimitPolicy": {"unit": 1, "requests_per_unit": 2},
}
UNITS = {"UNKNOWN": 0, "SECOND": 1, "MINUTE": 2, "HOUR": 3, "DAY": 4, "MONTH": 5, "YEAR": 6, "WEEK": 7}


@pytest.mark.parametrize(("message", "fields"), NUMBERS.items(), ids=NUMBERS)
def test_a_declaration_has_the_services_numbers(message, fields):
    declared = wire.DESCRIPTOR.message_types_by_name[message]
    assert {field.name: field.number for field in declared.fields} == fields


def test_the_units_are_the_services():
    assert dict(wire.RateLimitUnit.items()) == UNITS


# --- content ---


def test_there_is_no_resource_without_a_quota():
    empty = limited()
    assert (dict(empty.resources), empty.limits) == ({}, 0)
    assert empty.version == snapshot([]).version == limited(quota(default=bucket(limit=0))).version != ""


def test_the_version_changes_with_the_content_alone():
    one = limited(quota(default=bucket()))
    assert one.version == limited(quota(default=bucket(), policy="ns/renamed")).version
    assert one.version != limited(quota(default=bucket(limit=11))).version


def test_budgets_of_clients_are_kept_by_somebody_else():
    budget = Budget(id="b", origin=HERE, bucket=bucket(USER))
    assert snapshot([gateway(route(rule(budgets=(budget,))))]).resources == {}


def test_of_two_policies_the_first_by_name_counts_with_all_that_is_its_own():
    first, second = quota(default=bucket(limit=1)), quota(default=bucket(limit=2, shadow=True), policy="ns/r")
    for order in ([first, second], [second, first]):
        (backend,) = config(limited(*order)).descriptors
        (model,) = backend.descriptors
        assert (model.rate_limit.requests_per_unit, model.shadow_mode) == (1, False)


def test_a_limit_that_the_service_cannot_count_is_left_out():
    assert limited(quota(bucket(limit=2**32), default=bucket(limit=2**32))).resources == {}
    (backend,) = config(limited(quota(bucket(RED, limit=2**32), default=bucket(limit=2**32 - 1)))).descriptors
    (leaf,) = backend.descriptors[0].descriptors
    assert leaf.rate_limit.requests_per_unit == 2**32 - 1


def test_the_resource_has_the_name_that_clients_may_ask_for():
    assert list(limited(quota(default=bucket())).resources) == [CONFIG_NAME] == ["ai-gateway-quota"]
    assert TYPE_URL.endswith(".RateLimitConfig")


# --- any tree ---

SELECTORS = st.builds(
    ClientSelector,
    name=st.sampled_from(["x-a", "x-b", "X-A"]),
    value=st.text(max_size=3),
    kind=st.sampled_from(["exact", "regex", "distinct"]),
    invert=st.booleans(),
)
BUCKETS = st.builds(
    Bucket,
    limit=st.one_of(st.integers(0, 3), st.sampled_from([2**32 - 1, 2**32, 2**63 - 1])),
    unit=st.sampled_from(["second", "minute", "hour", "day"]),
    selectors=st.lists(SELECTORS, max_size=3).map(tuple),
    shadow=st.booleans(),
)


@st.composite
def policies(draw):
    """Quotas, each of a policy of its own."""
    found = draw(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(["ns/one", "ns/two"]), min_size=1, unique=True).map(tuple),
                st.sampled_from(["m", "n", ""]),
                st.lists(BUCKETS, max_size=3).map(tuple),
                st.none() | BUCKETS,
            ),
            max_size=5,
        )
    )
    return [
        quota(*buckets, policy=f"ns/{index}", backends=backends, model=model, default=default)
        for index, (backends, model, buckets, default) in enumerate(found)
    ]


def spread(draw, quotas):
    """The quotas in some order, and over some routes of some gateways, some of them more than once."""
    order = draw(st.permutations(quotas))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=3)))
    parts = [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    routes = [route(name=f"r{index}", quotas=tuple(part)) for index, part in enumerate(parts)]
    again = draw(st.lists(st.sampled_from(routes), max_size=2))
    return [gateway(*routes), *(gateway(one, name="gw2") for one in again)]


@given(st.data(), policies())
def test_a_merge_is_the_same_in_any_order(data, quotas):
    one, other = (snapshot(spread(data.draw, quotas)) for _ in range(2))
    assert (one.version, one.resources) == (other.version, other.resources)


@given(policies())
def test_siblings_differ_and_every_end_has_a_limit(quotas):
    """What the service asks of its configuration: one that repeats a key is refused as a whole."""
    made = limited(*quotas)
    for resource in made.resources.values():
        check(wire.RateLimitConfig.FromString(resource.value).descriptors)


def check(descriptors):
    composites = [item.key + (f"_{item.value}" if item.value else "") for item in descriptors]
    assert len(set(composites)) == len(composites)
    for item in descriptors:
        assert item.key
        assert item.HasField("rate_limit") or item.descriptors
        if item.HasField("rate_limit"):
            assert item.rate_limit.unit != wire.UNKNOWN
        check(item.descriptors)

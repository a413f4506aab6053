"""Quotas and budgets: what Envoy takes, and what the rate limit service has to know for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.envoy.model import (
    Charge,
    HeaderEqualsDescriptor,
    MetadataDescriptor,
    StaticDescriptor,
)
from deploy.envoy.quotas import rule_quotas, service_document
from deploy.ratelimit import budgets
from filter_config.sources.faults import Faults
from filter_config.sources.model import Bucket, Budget, ClientSelector, Quota
from tests.support.neutral import HERE, backend, gateway, route, rule

SERVED = (
    MetadataDescriptor(key="backend_name", metadata_key="ai_service_backend_name"),
    MetadataDescriptor(key="model_name_override", metadata_key="model_name_override"),
)
RED = ClientSelector(name="X-Team", value="red")
TRIAL = ClientSelector(name="x-plan", value="trial-.*", kind="regex")
USER = ClientSelector(name="x-user", kind="distinct")
IS_RED = '("x-team" in request.headers && request.headers["x-team"] == "red")'
IS_TRIAL = (
    '("x-plan" in request.headers && request.headers["x-plan"].matches('
    '"\\U0000005e\\U00000028\\U0000003f\\U0000003atrial-\\U0000002e\\U0000002a\\U00000029\\U00000024"))'
)


def bucket(*selectors, limit=10, **fields):
    return Bucket(limit=limit, unit="hour", selectors=selectors, **fields)


def quota(*buckets, model="m", default=None, backends=("ns/one",)):
    return Quota(policy="ns/q", origin=HERE, backends=backends, model=model, buckets=buckets, default=default)


def budget(*selectors, **fields):
    given = {"id": "it", "origin": HERE, "bucket": bucket(*selectors)}
    return Budget(**{**given, **fields})


def asked_of(name, model="m"):
    return (
        StaticDescriptor(key="backend_name", value=f"ns/{name}"),
        StaticDescriptor(key="model_name_override", value=model),
    )


def of_rule(*quotas, backends=None, budgets=()):
    one = rule(*(backends or [backend(model_override="m")]), budgets=budgets)
    faults = Faults()
    return rule_quotas(route(one, quotas=quotas), one, faults), [fault.message for fault in faults.closed()]


def charges(*quotas, **arguments):
    made, said = of_rule(*quotas, **arguments)
    assert said == []
    return made.charges


def paths(*quotas, **arguments):
    """What follows after backend and model in the charges of done requests."""
    return [charge.descriptors[2:] for charge in charges(*quotas, **arguments) if charge.done]


def test_a_model_with_one_bucket():
    assert charges(quota(default=bucket())) == (
        Charge(descriptors=asked_of("one")),
        Charge(descriptors=SERVED, cost_key="quota_cost", done=True),
    )


def test_a_backend_without_an_override_is_asked_for_the_model_of_the_request():
    first, _ = charges(quota(default=bucket()), backends=[backend()])

    assert first.descriptors == (
        StaticDescriptor(key="backend_name", value="ns/one"),
        HeaderEqualsDescriptor(header="x-ai-eg-model", key="model_name_override", value="m"),
    )


NOBODY = {
    "no quota": ((), [backend()]),
    "another backend": ((quota(default=bucket()),), [backend("two")]),
    "another model": ((quota(default=bucket()),), [backend(model_override="n")]),
    "no weight": ((quota(default=bucket()),), [backend(weight=0)]),
    "a default of 0": ((quota(default=bucket(limit=0)),), [backend()]),
}


@pytest.mark.parametrize(("quotas", "backends"), NOBODY.values(), ids=NOBODY)
def test_nothing_is_asked_where_no_quota_applies(quotas, backends):
    assert of_rule(*quotas, backends=backends) == (None, [])


def test_only_the_backends_that_are_tried_first_are_asked():
    names = ("one", "two", "three")
    given = quota(default=bucket(), backends=tuple(f"ns/{name}" for name in names))
    backends = [backend(name, model_override="m", priority=rank) for name, rank in zip(names, (3, 3, 5), strict=True)]

    found = charges(given, backends=backends)

    assert [charge.descriptors for charge in found if not charge.done] == [asked_of("one"), asked_of("two")]
    assert [charge.descriptors for charge in found if charge.done] == [SERVED]


def test_a_fallback_with_a_quota_pays_and_is_not_asked():
    backends = [backend("free"), backend("one", model_override="m", priority=1)]

    assert charges(quota(default=bucket()), backends=backends) == (
        Charge(descriptors=SERVED, cost_key="quota_cost", done=True),
    )


def test_clients_are_told_apart_by_what_was_noted():
    made, said = of_rule(quota(bucket(RED), bucket(TRIAL, USER), default=bucket()))

    assert said == []
    assert [(flag.header, flag.condition) for flag in made.flags] == [
        ("x-ai-eg-quota-0", IS_RED),
        ("x-ai-eg-quota-1", IS_TRIAL),
        ("x-ai-eg-quota-2", f'!({IS_RED}) && !({IS_TRIAL} && ("x-user" in request.headers))'),
    ]
    assert made.headers == ("x-user",)
    note = "quota_header:x-ai-eg-quota-{}".format
    assert [charge.descriptors[2:] for charge in made.charges if charge.done] == [
        (MetadataDescriptor(key="rule-0-X-Team|red-match", metadata_key=note(0)),),
        (
            MetadataDescriptor(key="rule-1-x-plan~trial-.*-match", metadata_key=note(1)),
            MetadataDescriptor(key="rule-1-x-user-match", metadata_key="quota_header:x-user"),
        ),
        (MetadataDescriptor(key="rule-2-match--1-not-(X-Team|red)&(x-plan~trial-.*&x-user)", metadata_key=note(2)),),
    ]


def test_what_is_asked_and_what_is_paid_are_the_same_buckets():
    found = charges(quota(bucket(RED), bucket(USER), default=bucket()))

    asked = [charge.descriptors[2:] for charge in found if not charge.done]
    assert asked == [charge.descriptors[2:] for charge in found if charge.done]


SERVICE = StaticDescriptor(key="service_quota", value="true")
SERVICE_PAID = Charge(descriptors=(SERVED[0], SERVICE), cost_key="service_quota_cost", done=True)
ONE = StaticDescriptor(key="backend_name", value="ns/one")


def test_a_service_has_one_bucket_for_its_models_without_a_quota():
    assert charges(quota(model="", default=bucket()), backends=[backend(model_override="n")]) == (
        Charge(descriptors=(ONE, SERVICE)),
        SERVICE_PAID,
    )


def test_a_model_with_a_quota_does_not_draw_on_that_of_the_service():
    given = quota(default=bucket()), quota(model="", default=bucket())

    found = charges(*given, backends=[backend(model_override="m")])

    assert [charge.descriptors for charge in found] == [asked_of("one"), SERVED]


def test_whether_a_model_has_a_quota_is_asked_of_the_request_where_any_may_be():
    given = quota(default=bucket()), quota(model="n", default=bucket()), quota(model="", default=bucket())

    made, said = of_rule(*given, backends=[backend()])

    assert said == []
    is_ = '("x-ai-eg-model" in request.headers && request.headers["x-ai-eg-model"] == "{}")'.format
    assert [(flag.header, flag.condition) for flag in made.flags] == [
        ("x-ai-eg-quota-0", f"!{is_('m')} && !{is_('n')}"),
    ]
    noted = MetadataDescriptor(key="service_quota", metadata_key="quota_header:x-ai-eg-quota-0")
    assert made.charges[-2:] == (Charge(descriptors=(ONE, noted)), SERVICE_PAID)


def test_the_quota_of_another_service_says_nothing_of_this_one():
    given = quota(backends=("ns/two",), default=bucket()), quota(model="", default=bucket())

    assert charges(*given, backends=[backend()]) == (Charge(descriptors=(ONE, SERVICE)), SERVICE_PAID)


def test_a_limit_that_cannot_be_counted_is_left_out_and_told():
    made, said = of_rule(quota(bucket(RED, limit=2**32), default=bucket(limit=2**32)))

    told = "a limit of 4294967296 is more than a rate limit service counts; the bucket is left out"
    assert (made, said) == (None, [told, told])


def test_a_selector_can_be_turned_round():
    inverted = [
        ClientSelector(name="a", value="1", invert=True),
        ClientSelector(name="b", kind="distinct", invert=True),
    ]

    made, _ = of_rule(quota(bucket(*inverted)))

    (flag,) = made.flags
    assert flag.condition == '!("a" in request.headers && request.headers["a"] == "1") && !("b" in request.headers)'
    assert made.headers == ()


def test_a_shadow_is_paid_never_asked_and_leaves_the_default_alone():
    found = charges(quota(bucket(RED, shadow=True), default=bucket()))

    constant = StaticDescriptor(key="rule-1-match--1", value="rule-1-match--1")
    assert [charge.descriptors[2:] for charge in found if not charge.done] == [(constant,)]
    assert [charge.descriptors[2:][0].key for charge in found if charge.done] == [
        "rule-0-X-Team|red-match",
        constant.key,
    ]


def test_a_bucket_for_every_client_leaves_nothing_to_the_default():
    assert [path[0].key for path in paths(quota(bucket(), default=bucket()))] == ["rule-0-match-0"]


def test_a_bucket_that_cannot_be_told_apart_is_left_out():
    bad = ClientSelector(name="x", value="(", kind="regex")

    made, said = of_rule(quota(bucket(bad), bucket(RED)))

    assert said == ["header x: '(' is no regular expression: missing ): (; the bucket is left out"]
    assert [charge.descriptors[2].key for charge in made.charges if charge.done] == ["rule-1-X-Team|red-match"]


BUDGETS = {
    "requests": (budget(), [Charge(descriptors=(), hits=1)]),
    "tokens": (
        budget(request_cost=0, response_key="total"),
        [Charge(descriptors=(), hits=0), Charge(descriptors=(), cost_key="total", done=True)],
    ),
    "both": (
        budget(request_cost=2, response_cost=3),
        [Charge(descriptors=(), hits=2), Charge(descriptors=(), hits=3, done=True)],
    ),
    "a shadow": (
        budget(bucket=bucket(shadow=True), response_key="total"),
        [Charge(descriptors=(), hits=1, done=True), Charge(descriptors=(), cost_key="total", done=True)],
    ),
    "a shadow of tokens": (
        budget(bucket=bucket(shadow=True), request_cost=0, response_key="total"),
        [Charge(descriptors=(), cost_key="total", done=True)],
    ),
}


@pytest.mark.parametrize(("given", "expected"), BUDGETS.values(), ids=BUDGETS)
def test_budgets(given, expected):
    path = (
        StaticDescriptor(key="budget", value="it"),
        StaticDescriptor(key="rule-0-match-0", value="rule-0-match-0"),
    )

    found = charges(budgets=(given,))

    assert [charge.descriptors for charge in found] == [path] * len(expected)
    assert [(charge.hits, charge.cost_key, charge.done) for charge in found] == [
        (charge.hits, charge.cost_key, charge.done) for charge in expected
    ]


def test_a_budget_that_cannot_be_told_apart_is_left_out():
    made, said = of_rule(budgets=(budget(ClientSelector(name="no header")),))

    assert (made, said) == (None, ["'no header' is no name of a header; the rule is left out"])


# --- the service ---


def test_the_service_knows_every_bucket():
    given = quota(bucket(RED, limit=1), bucket(USER, limit=2, shadow=True), default=bucket(limit=3))
    tokens = budget(USER, id="b", bucket=bucket(USER, limit=4))

    made = gateway(route(rule(budgets=(tokens,)), quotas=(given,)))

    assert service_document([made]) == {
        "domain": "ai-gateway-quota",
        "descriptors": [
            {
                "key": "backend_name",
                "value": "ns/one",
                "descriptors": [
                    {
                        "key": "model_name_override",
                        "value": "m",
                        "descriptors": [
                            {
                                "key": "rule-0-X-Team|red-match",
                                "value": "true",
                                "rate_limit": {"unit": "hour", "requests_per_unit": 1},
                            },
                            {
                                "key": "rule-1-x-user-match",
                                "rate_limit": {"unit": "hour", "requests_per_unit": 2},
                                "shadow_mode": True,
                            },
                            {
                                "key": "rule-2-match--1-not-(X-Team|red)",
                                "value": "true",
                                "rate_limit": {"unit": "hour", "requests_per_unit": 3},
                            },
                        ],
                    }
                ],
            },
            {
                "key": "budget",
                "value": "b",
                "descriptors": [{"key": "rule-0-x-user-match", "rate_limit": {"unit": "hour", "requests_per_unit": 4}}],
            },
        ],
    }


def test_of_two_buckets_in_one_place_the_first_counts_with_all_that_is_its_own():
    first, second = quota(bucket(USER, limit=1)), quota(bucket(USER, limit=2, shadow=True))

    document = service_document([gateway(route(quotas=(first, second)))])

    (leaf,) = document["descriptors"][0]["descriptors"][0]["descriptors"]
    assert (leaf["rate_limit"]["requests_per_unit"], "shadow_mode" in leaf) == (1, False)


SELECTORS = st.builds(
    ClientSelector,
    name=st.sampled_from(["x-a", "x-b", "x-c"]),
    value=st.text(max_size=4),
    kind=st.sampled_from(["exact", "distinct"]),
    invert=st.booleans(),
)
BUCKETS = st.builds(
    Bucket,
    limit=st.integers(0, 100),
    unit=st.sampled_from(["second", "minute", "hour", "day"]),
    selectors=st.lists(SELECTORS, max_size=3).map(tuple),
    shadow=st.booleans(),
)
QUOTAS = st.builds(
    Quota,
    policy=st.just("ns/q"),
    origin=st.just(HERE),
    backends=st.lists(st.sampled_from(["ns/one", "ns/two"]), min_size=1, unique=True).map(tuple),
    model=st.sampled_from(["m", "n", ""]),
    buckets=st.lists(BUCKETS, max_size=3).map(tuple),
    default=st.none() | BUCKETS,
)


@given(st.lists(QUOTAS, max_size=3).map(tuple))
def test_whatever_envoy_takes_the_service_knows(quotas):
    backends = [backend("one", model_override="m"), backend("two", model_override="n", priority=1)]
    one = rule(*backends)
    here = route(one, quotas=quotas)
    known = budgets.parse(service_document([gateway(here)]))
    made = rule_quotas(here, one, Faults())

    for charge in made.charges if made is not None else ():
        served = [("ns/one", "m"), ("ns/two", "n")]
        taken = [known.limit_of(entries(charge, *where)) for where in served]
        assert any(limit is not None for limit in taken)


def entries(charge, backend_name, model):
    """What the service is sent for a request that a backend serves and that meets every condition."""
    values = {"ai_service_backend_name": backend_name, "model_name_override": model}
    return tuple(
        (
            descriptor.key,
            values.get(descriptor.metadata_key, "true")
            if isinstance(descriptor, MetadataDescriptor)
            else descriptor.value,
        )
        for descriptor in charge.descriptors
    )

"""What clients may spend, as BackendTrafficPolicies say it."""

from __future__ import annotations

from typing import Any

import pytest

from filter_config.sources.model import Bucket, Budget, ClientSelector
from tests.support.gateway_resources import (
    ENVOY_GATEWAY,
    GATEWAY_API,
    compiled,
    faults,
    gateway,
    only,
    resource,
    route,
    rule,
    served,
)

TOKENS = {
    "request": {"from": "Number", "number": 0},
    "response": {"from": "Metadata", "metadata": {"namespace": "io.envoy.ai_gateway", "key": "total"}},
}
USER = {"headers": [{"name": "x-user", "type": "Distinct"}]}


def limit(requests: int = 10, unit: str = "Hour", **fields: Any) -> dict[str, Any]:
    return {"limit": {"requests": requests, "unit": unit}, **fields}


def policy(name: str, target: dict[str, str], *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    spec = {
        "targetRefs": [{"group": GATEWAY_API, **target}],
        "rateLimit": {"type": "Global", "global": {"rules": list(rules)}, **fields},
    }
    return resource(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", name, spec=spec)


GATEWAY = {"kind": "Gateway", "name": "gw"}
ROUTE = {"kind": "HTTPRoute", "name": "r"}
FIRST = {"kind": "HTTPRoute", "name": "r", "sectionName": "first"}


def budgets_of(*policies: dict[str, Any]) -> list[list[Budget]]:
    """Of the two rules of a route."""
    rules = (rule("b", name="first"), rule("b", model="other"))
    made = only(compiled(gateway(), route("r", *rules), *served("b"), *policies))
    return [list(each.budgets) for each in made.model.routes[0].rules]


def limits_of(*policies: dict[str, Any]) -> list[list[int]]:
    return [[budget.bucket.limit for budget in budgets] for budgets in budgets_of(*policies)]


def test_a_token_budget():
    (budget,), _ = budgets_of(policy("p", GATEWAY, limit(1000, clientSelectors=[USER], cost=TOKENS)))
    assert budget.bucket == Bucket(limit=1000, unit="hour", selectors=(ClientSelector(name="x-user", kind="distinct"),))
    assert (budget.request_cost, budget.response_key, budget.response_cost) == (0, "total", 0)
    assert budget.id == "default/r/rule/0/limit/0"
    assert budget.origin.path == "spec.rateLimit.global.rules[0]"


def test_a_policy_of_a_gateway_is_not_about_the_other_gateways_of_a_route():
    retrying = {"retry": {"numRetries": 3}}
    of_two = policy("p", {"kind": "Gateway", "name": "two"}, limit())
    of_two["spec"] |= retrying
    gateways = [gateway(), gateway("three"), gateway("two")]
    parents = [{"name": each["metadata"]["name"]} for each in reversed(gateways)]
    result = compiled(*gateways, route("r", rule("b"), parentRefs=parents), *served("b"), of_two)
    assert faults(result) == []
    said = {}
    for made in result.gateways:
        ((found,),) = (each.rules for each in made.model.routes)
        said[made.model.id] = (len(found.budgets), found.retry and found.retry.attempts)
    assert said == {"default/gw": (0, None), "default/three": (0, None), "default/two": (1, 3)}


def test_without_costs_a_request_takes_one():
    (budget,), _ = budgets_of(policy("p", GATEWAY, limit(unit="Second", shadowMode=True)))
    assert (budget.request_cost, budget.response_cost, budget.response_key) == (1, 0, "")
    assert budget.bucket == Bucket(limit=10, unit="second", shadow=True)


def test_each_rule_has_a_budget_of_its_own_unless_it_is_shared():
    own = budgets_of(policy("p", GATEWAY, limit()))
    assert [budget.id for budgets in own for budget in budgets] == [
        "default/r/rule/0/limit/0",
        "default/r/rule/1/limit/0",
    ]
    shared = budgets_of(policy("p", GATEWAY, limit(shared=True)))
    assert {budget.id for budgets in shared for budget in budgets} == {"default/p/limit/0"}


def test_all_conditions_of_all_selectors_must_hold():
    selectors = [
        USER,
        {
            "headers": [
                {"name": "x-tier", "value": "gold", "invert": True},
                {"name": "x-m", "type": "RegularExpression", "value": "g.*"},
            ]
        },
    ]
    (budget,), _ = budgets_of(policy("p", GATEWAY, limit(clientSelectors=selectors)))
    assert budget.bucket.selectors == (
        ClientSelector(name="x-user", kind="distinct"),
        ClientSelector(name="x-tier", value="gold", invert=True),
        ClientSelector(name="x-m", value="g.*", kind="regex"),
    )


NEAREST = {
    "the gateway's": ([policy("p", GATEWAY, limit(1))], [[1], [1]]),
    "the route's before the gateway's": ([policy("p", GATEWAY, limit(1)), policy("q", ROUTE, limit(2))], [[2], [2]]),
    "the rule's before the route's": ([policy("p", FIRST, limit(1)), policy("q", ROUTE, limit(2))], [[1], [2]]),
    "all rules of a policy": ([policy("p", GATEWAY, limit(1), limit(2))], [[1, 2], [1, 2]]),
    "one of two about the same": ([policy("b", ROUTE, limit(1)), policy("a", ROUTE, limit(2))], [[2], [2]]),
    "none for another gateway": ([policy("p", {"kind": "Gateway", "name": "other"}, limit(1))], [[], []]),
}


@pytest.mark.parametrize(("policies", "expected"), NEAREST.values(), ids=NEAREST)
def test_the_nearest_policy_counts(policies, expected):
    assert limits_of(*policies) == expected


def test_a_policy_that_only_retries_does_not_take_a_budget_away():
    retrying = policy("q", ROUTE)
    retrying["spec"] = {**retrying["spec"], "retry": {"numRetries": 1}}
    del retrying["spec"]["rateLimit"]
    assert limits_of(policy("p", GATEWAY, limit(1)), retrying) == [[1], [1]]


UNKNOWN = {
    "addresses": ({"clientSelectors": [{"sourceCIDR": {"value": "10.0.0.0/8"}}]}, "by source cidr is not known"),
    "paths": ({"clientSelectors": [{"path": {"value": "/x"}}]}, "by path is not known"),
    "another namespace": (
        {"cost": {"response": {"from": "Metadata", "metadata": {"namespace": "x", "key": "k"}}}},
        "costs are in the metadata namespace io.envoy.ai_gateway, not in x",
    ),
    "a cost before it is known": ({"cost": {"request": TOKENS["response"]}}, "only known when it is done"),
    "metadata without a key": ({"cost": {"response": {"from": "Metadata"}}}, "names no key"),
}


@pytest.mark.parametrize(("fields", "told"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_enforced_is_left_out_alone(fields, told):
    made = compiled(gateway(), route("r", rule("b")), *served("b"), policy("p", GATEWAY, limit(1, **fields), limit(2)))
    assert any(told in fault for fault in faults(made))
    (kept,) = made.gateways[0].model.routes[0].rules[0].budgets
    assert (kept.bucket.limit, kept.id) == (2, "default/r/rule/0/limit/1")


def test_local_limits_are_reported():
    made = compiled(gateway(), route("r", rule("b")), *served("b"), policy("p", GATEWAY, local={"rules": []}))
    assert [fault for fault in faults(made) if "local rate limits" in fault]

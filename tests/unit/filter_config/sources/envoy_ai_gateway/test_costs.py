"""Costs of gateways, routes and quotas (contract, control plane 2.7 and 2.8)."""

from __future__ import annotations

import pytest

from filter_config.sources.model import Bucket, ClientSelector
from tests.support.gateway_resources import (
    AI,
    ENVOY_GATEWAY,
    GATEWAY_API,
    compiled,
    document,
    faults,
    gateway,
    grant,
    only,
    ref,
    resource,
    route,
    rule,
    served,
)


def cost(key: str, kind: str = "TotalToken", **fields: str):
    return {"metadataKey": key, "type": kind, **fields}


def config(*costs, name: str = "gc", **spec):
    return resource(f"{AI}/v1beta1", "GatewayConfig", name, spec={"globalLLMRequestCosts": list(costs), **spec})


CONFIGURED = {"annotations": {"aigateway.envoyproxy.io/gateway-config": "gc"}}


def keys(result) -> list[str]:
    return [entry.metadata_key for entry in result.gateways[0].config.llm_request_costs]


def test_costs_of_a_route_keep_their_order_and_of_one_key_the_last_counts():
    costs = [cost("a"), cost("b", "InputToken"), cost("a", "CEL", cel="1u"), cost("c")]
    result = compiled(gateway(), route("r", rule("b"), llmRequestCosts=costs), *served("b"))
    assert document(result.gateways[0])["llmRequestCosts"] == [
        {"metadataKey": "b", "routeName": "default/r", "type": "InputToken"},
        {"metadataKey": "a", "routeName": "default/r", "type": "CEL", "cel": "1u"},
        {"metadataKey": "c", "routeName": "default/r", "type": "TotalToken"},
    ]
    assert faults(result) == [
        (
            "warning AIGatewayRoute default/r: spec.llmRequestCosts[0].metadataKey: 'a' is there again below, and the "
            "last one counts"
        )
    ]


def test_an_expression_beside_another_type_is_not_written():
    made = only(compiled(gateway(), route("r", rule("b"), llmRequestCosts=[cost("a", cel="1 +")]), *served("b")))
    assert made.config.llm_request_costs[0].cel == ""


INVALID = {
    "a syntax error": ("1 +", "cannot create CEL program"),
    "a negative cost": ("-1", "cannot create CEL program"),
    "a division by a counter that is 0": ("1000u / total_tokens", "cannot create CEL program"),
    "a text": ("model", "cannot create CEL program"),
    "none": (None, "type CEL without an expression"),
}


@pytest.mark.parametrize(("expression", "said"), INVALID.values(), ids=INVALID)
def test_an_invalid_expression_of_a_route_is_left_out_alone(expression, said):
    bad = cost("bad", "CEL", **({"cel": expression} if expression else {}))
    routes = (
        route("r", rule("b"), llmRequestCosts=[cost("a"), bad, cost("c")]),
        route("s", rule("b"), llmRequestCosts=[cost("d")]),
    )
    result = compiled(gateway(), *routes, *served("b"))
    assert keys(result) == ["a", "c", "d"]
    (fault,) = faults(result)
    assert fault.startswith(f"error AIGatewayRoute default/r: spec.llmRequestCosts[1].cel: {said}")


def test_an_expression_that_fails_for_some_requests_is_told_and_kept():
    costs = [cost("a", "CEL", cel="input_tokens - cached_input_tokens")]
    result = compiled(gateway(), route("r", rule("b"), llmRequestCosts=costs), *served("b"))
    assert keys(result) == ["a"]
    (fault,) = faults(result)
    assert fault.startswith("warning AIGatewayRoute default/r: spec.llmRequestCosts[0].cel: the expression fails for")


def test_a_route_without_a_backend_has_no_costs():
    costs = [cost("a"), cost("b", "CEL", cel="1 +")]
    result = compiled(gateway(), route("r", rule("missing"), llmRequestCosts=costs))
    assert keys(result) == []
    # What is wrong with them is told all the same.
    assert faults(result)[0].startswith("error AIGatewayRoute default/r: spec.llmRequestCosts[1].cel: cannot create")


# --- global ---


def test_global_costs_are_those_of_the_config_that_the_gateway_names():
    named, other = config(cost("a"), cost("b", "CEL", cel="2u")), config(cost("c"), name="other")
    made = only(compiled(gateway(**CONFIGURED), route("r", rule("b")), *served("b"), named, other))
    assert document(made)["globalLLMRequestCosts"] == [
        {"metadataKey": "a", "type": "TotalToken"},
        {"metadataKey": "b", "type": "CEL", "cel": "2u"},
    ]


def test_an_invalid_global_cost_blocks_nothing_else():
    named = config(cost("a", "CEL", cel="1 +"), cost("b"))
    costs = [cost("c")]
    result = compiled(gateway(**CONFIGURED), route("r", rule("b"), llmRequestCosts=costs), *served("b"), named)
    made = result.gateways[0].config
    assert [entry.metadata_key for entry in made.global_llm_request_costs] == ["b"]
    assert keys(result) == ["c"]
    assert len(made.backends) == 1
    (fault,) = faults(result)
    assert fault.startswith("error GatewayConfig default/gc: spec.globalLLMRequestCosts[0].cel: cannot create")


def test_a_config_that_is_not_there_is_none():
    result = compiled(gateway(**CONFIGURED), route("r", rule("b")), *served("b"))
    assert result.ok
    assert faults(result) == [
        (
            "warning Gateway default/gw: metadata.annotations[aigateway.envoyproxy.io/gateway-config]: GatewayConfig "
            "default/gc does not exist, and none is used"
        )
    ]


def test_a_forward_proxy_is_the_gateways():
    proxied = config(forwardProxy={"address": "proxy.example.com:3128"})
    made = only(compiled(gateway(**CONFIGURED), route("r", rule("b")), *served("b"), proxied))
    assert made.model.proxy == "proxy.example.com:3128"


# --- quotas ---


def quota(model: str = "m", **definition):
    return {"modelName": model, "quota": {"defaultBucket": {"limit": 10, "duration": "1m"}, **definition}}


def quotas(name: str, *entries, targets=("b",), namespace="default", **spec):
    refs = [{"group": AI, "kind": "AIServiceBackend", "name": target} for target in targets]
    spec = {"targetRefs": refs, "perModelQuotas": list(entries), **spec}
    return resource(f"{AI}/v1alpha1", "QuotaPolicy", name, namespace, spec=spec)


def charged(result) -> list[tuple[str, str, str]]:
    costs = result.gateways[0].config.llm_request_costs
    return [(entry.backend, entry.model, entry.cel) for entry in costs if entry.metadata_key == "quota_cost"]


def quota_result(*policies, rules=None, costs=(), also=()):
    rules = rules or [rule("b")]
    return compiled(gateway(), route("r", *rules, llmRequestCosts=list(costs)), *served("b", "c"), *policies, *also)


def test_a_quota_charges_total_tokens_before_the_costs_of_the_route():
    result = quota_result(quotas("q", quota()), costs=[cost("a")])
    assert document(only(result))["llmRequestCosts"] == [
        {
            "metadataKey": "quota_cost",
            "type": "CEL",
            "cel": "total_tokens",
            "backend": "default/b",
            "model": "m",
            "routeName": "default/r",
        },
        {"metadataKey": "a", "type": "TotalToken", "routeName": "default/r"},
    ]


def overridden(name: str, model: str):
    return ref(name, modelNameOverride=model)


# What is charged for the models m and n of the backend b.
OVERRIDES = {
    "no override, any model": ([rule("b")], ["m", "n"]),
    "an override": ([rule(overridden("b", "n"))], ["n"]),
    "no quota of the override": ([rule(overridden("b", "x"))], []),
    "two overrides": ([rule(overridden("b", "m"), overridden("b", "n"))], ["m", "n"]),
    "an override of another backend": ([rule("b", overridden("c", "m"))], ["m", "n"]),
    "an override of another backend in another rule": ([rule("b"), rule(overridden("c", "x"))], ["m", "n"]),
    "an override of the same backend in another rule": ([rule("b"), rule(overridden("b", "m"))], ["m", "n"]),
    "an override that has no quota in another rule": ([rule("b"), rule(overridden("b", "x"))], ["m", "n"]),
    "other overrides in two rules": ([rule(overridden("b", "x")), rule(overridden("b", "m"))], ["m"]),
}


@pytest.mark.parametrize(("rules", "expected"), OVERRIDES.values(), ids=OVERRIDES)
def test_quotas_are_for_the_models_that_a_backend_is_asked_for(rules, expected):
    result = quota_result(quotas("q", quota("m"), quota("n")), rules=rules)
    assert [model for _, model, _ in charged(result)] == expected


def test_each_target_is_charged_for_its_own_models():
    rules = [rule(overridden("b", "m")), rule(overridden("c", "n"))]
    result = quota_result(quotas("q", quota("m"), quota("n"), targets=("b", "c")), rules=rules)
    assert charged(result) == [("default/b", "m", "total_tokens"), ("default/c", "n", "total_tokens")]


def test_only_targets_on_the_route_are_charged():
    policies = quotas("q", quota(), targets=("b", "elsewhere")), quotas("other", quota(), targets=("c",))
    assert charged(quota_result(*policies)) == [("default/b", "m", "total_tokens")]


def test_of_two_policies_the_first_by_name_charges():
    policies = quotas("z", quota(costExpression="2u")), quotas("a", quota(costExpression="1u"))
    assert charged(quota_result(*policies)) == [("default/b", "m", "1u")]


def test_an_invalid_quota_expression_is_left_out_alone():
    result = quota_result(quotas("q", quota("m", costExpression="1 +"), quota("n")))
    assert charged(result) == [("default/b", "n", "total_tokens")]
    (fault,) = faults(result)
    assert fault.startswith("error QuotaPolicy default/q: spec.perModelQuotas[0].quota.costExpression: cannot create")


def test_the_key_of_quotas_is_reserved_where_there_are_any():
    own = [cost("quota_cost", "InputToken"), cost("a")]
    result = quota_result(quotas("q", quota()), costs=own)
    assert charged(result) == [("default/b", "m", "total_tokens")]
    assert keys(result) == ["quota_cost", "a"]
    assert faults(result) == [
        (
            "error AIGatewayRoute default/r: spec.llmRequestCosts[0].metadataKey: 'quota_cost' is what quotas are "
            "charged with; this cost is left out"
        )
    ]
    assert keys(quota_result(costs=own)) == ["quota_cost", "a"]


def test_a_quota_of_a_backend_of_another_namespace_is_found_there():
    grants = [
        grant("other", source=(AI, "AIGatewayRoute", "default"), target=(AI, "AIServiceBackend")),
        grant("other", source=(GATEWAY_API, "HTTPRoute", "default"), target=(ENVOY_GATEWAY, "Backend")),
    ]
    policies = quotas("q", quota(costExpression="1u"), namespace="other"), quotas("q", quota(costExpression="2u"))
    rules = [rule(ref("b", namespace="other"))]
    result = quota_result(*policies, rules=rules, also=(*served("b", namespace="other"), *grants))
    # By the short name that the processor knows it by, and not with the policy of a namesake.
    assert charged(result) == [("default/b", "m", "1u")]


def test_quotas_are_carried_with_their_buckets():
    rules = [
        {
            "clientSelectors": [{"headers": [{"name": "x-team", "value": "a", "invert": True}]}],
            "quota": {"limit": 5, "duration": "1d"},
            "shadowMode": True,
        },
        {
            "clientSelectors": [{"headers": [{"name": "x-user", "type": "Distinct"}]}],
            "quota": {"limit": 6, "duration": "1s"},
        },
    ]
    made = only(quota_result(quotas("q", quota(bucketRules=rules))))
    (carried,) = made.model.routes[0].quotas
    assert (carried.policy, carried.backends, carried.model) == ("default/q", ("default/b",), "m")
    assert carried.default == Bucket(limit=10, unit="minute")
    assert carried.buckets == (
        Bucket(limit=5, unit="day", shadow=True, selectors=(ClientSelector(name="x-team", value="a", invert=True),)),
        Bucket(limit=6, unit="second", selectors=(ClientSelector(name="x-user", kind="distinct"),)),
    )


# --- quotas of services ---


def service_quota(limit: int = 7, **fields: str):
    return {"quota": {"limit": limit, "duration": "1h"}, **fields}


def charged_to_services(result) -> list[tuple[str, str, str]]:
    costs = result.gateways[0].config.llm_request_costs
    return [(entry.backend, entry.model, entry.cel) for entry in costs if entry.metadata_key == "service_quota_cost"]


def test_a_service_quota_is_charged_for_every_model_but_those_with_their_own():
    policy = quotas("q", quota("m", costExpression="2u"), serviceQuota=service_quota(costExpression="output_tokens"))
    result = quota_result(policy)
    assert faults(result) == []
    assert charged(result) == [("default/b", "m", "2u")]
    # The last one counts.
    assert charged_to_services(result) == [("default/b", "", "output_tokens"), ("default/b", "m", "0u")]


def test_a_service_quota_is_carried_for_the_models_without_a_name():
    made = only(quota_result(quotas("q", quota("m"), serviceQuota=service_quota())))
    model, service = made.model.routes[0].quotas
    assert (model.model, service.model) == ("m", "")
    assert (service.backends, service.buckets, service.default) == (("default/b",), (), Bucket(limit=7, unit="hour"))


def test_of_two_service_quotas_the_first_policy_by_name_charges():
    policies = [
        quotas(name, serviceQuota=service_quota(costExpression=cel)) for name, cel in (("z", "2u"), ("a", "1u"))
    ]
    assert charged_to_services(quota_result(*policies)) == [("default/b", "", "1u")]


UNCHARGED = {"a limit of 0 is none": ("b", 0), "another backend": ("c", 7)}


@pytest.mark.parametrize(("target", "limit"), UNCHARGED.values(), ids=UNCHARGED)
def test_a_service_quota_of_nothing_or_of_nobody_charges_nothing(target, limit):
    result = quota_result(quotas("q", targets=[target], serviceQuota=service_quota(limit)))
    assert (charged_to_services(result), only(result).model.routes[0].quotas) == ([], ())


def test_the_key_of_service_quotas_is_reserved_where_there_are_any():
    own = [cost("service_quota_cost", "InputToken"), cost("quota_cost", "InputToken")]
    result = quota_result(quotas("q", serviceQuota=service_quota()), costs=own)
    assert keys(result) == ["service_quota_cost", "quota_cost"]
    (fault,) = faults(result)
    assert fault.startswith("error AIGatewayRoute default/r: spec.llmRequestCosts[0].metadataKey: 'service_quota_cost'")


TOO_MUCH = 2**32
LIMITS = {
    "a default": (quotas("q", quota(defaultBucket={"limit": TOO_MUCH, "duration": "1d"})), "quota.defaultBucket"),
    "a bucket": (
        quotas("q", quota(bucketRules=[{"quota": {"limit": TOO_MUCH, "duration": "1d"}}])),
        "quota.bucketRules[0].quota",
    ),
    "a service": (quotas("q", quota(), serviceQuota=service_quota(TOO_MUCH)), "serviceQuota.quota"),
}


@pytest.mark.parametrize(("policy", "field"), LIMITS.values(), ids=LIMITS)
def test_a_limit_of_more_than_32_bits_is_a_fault_of_its_policy(policy, field):
    found = [text for text in faults(quota_result(policy)) if text.startswith("error QuotaPolicy default/q: ")]
    assert any(f"{field}.limit: 4294967296 is more than a rate limit service counts" in text for text in found)


def test_the_largest_limit_is_taken():
    largest = {"limit": TOO_MUCH - 1, "duration": "1d"}
    assert faults(quota_result(quotas("q", quota(defaultBucket=largest)))) == []

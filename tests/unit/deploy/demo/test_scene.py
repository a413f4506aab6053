"""The demo's gateway and its filter config belong together."""

from __future__ import annotations

import yaml

from deploy.compose.files import PLACE
from deploy.demo import scene
from deploy.ratelimit import budgets
from filter_config.load import decode


def test_every_backend_of_the_gateway_is_in_the_filter_config_under_its_name():
    in_envoy = [name for name, _ in scene.route(PLACE).backend_names()]
    in_config = [backend["name"] for backend in scene.filter_config(PLACE)["backends"]]

    assert in_config == in_envoy


def test_the_filter_config_has_no_problem():
    decoded = decode(yaml.safe_dump(scene.filter_config(PLACE)).encode())

    assert decoded.problems == ()
    assert decoded.config is not None
    assert [cost.metadata_key for cost in decoded.config.global_llm_request_costs][-1] == scene.COST_KEY


def test_every_model_of_the_gateway_is_listed():
    routed = {model for rule in scene.route(PLACE).rules for model in rule.models}

    assert {model["Name"] for model in scene.filter_config(PLACE)["models"]} == routed


def test_what_is_charged_is_a_cost_and_has_a_budget():
    (budget,) = scene.route(PLACE).budgets
    keys = {rule["metadataKey"] for rule in scene.filter_config(PLACE)["globalLLMRequestCosts"]}
    tree = budgets.parse(scene.budgets())

    assert budget.cost_key in keys
    assert tree.domain == scene.gateway(PLACE).rate_limit.domain
    (descriptor,) = budget.descriptors
    assert tree.limit_of(((descriptor.key, "carol"),)).amount == scene.CAROLS_BUDGET
    assert tree.limit_of(((descriptor.key, "anyone"),)).amount > scene.CAROLS_BUDGET


def test_an_edit_changes_one_backend_only():
    before, after = scene.filter_config(PLACE), scene.filter_config(PLACE, alpha_model="other")

    changed = [
        (old["modelNameOverride"], new["modelNameOverride"])
        for old, new in zip(before["backends"], after["backends"], strict=True)
        if old != new
    ]
    assert changed == [(scene.ALPHA_MODEL, "other")]

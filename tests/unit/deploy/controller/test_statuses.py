"""One condition that says whether a resource is accepted, since when, and why not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from deploy.controller import conditions
from filter_config.sources.faults import Fault, Origin
from tests.support import gateway_resources as g
from tests.support.kube_world import NOW, World, gateway, gateway_class

ORIGIN = Origin(file="", kind="AIGatewayRoute", namespace="default", name="r", path="spec.rules[0]")


def fault(message: str = "is wrong", severity: str = "error", fix: str = "") -> Fault:
    return Fault(origin=ORIGIN, message=message, severity=severity, fix=fix)


def test_an_accepted_resource_has_one_condition():
    (condition,) = conditions.wanted("AIGatewayRoute", 3, [])
    assert condition == {
        "type": "Accepted",
        "status": "True",
        "reason": "ReconciliationSucceeded",
        "observedGeneration": 3,
        "message": "the resource is in effect",
    }


def test_a_refused_one_has_the_peers_condition_last():
    accepted, legacy = conditions.wanted("AIGatewayRoute", 3, [fault(fix="mend it")])
    assert (accepted["type"], accepted["status"]) == ("Accepted", "False")
    assert (legacy["type"], legacy["status"], legacy["reason"]) == ("NotAccepted", "False", "ReconciliationFailed")
    assert legacy["message"] == "spec.rules[0]: is wrong; mend it"


def test_warnings_are_told_and_refuse_nothing():
    (condition,) = conditions.wanted("AIGatewayRoute", 1, [fault("looks odd", "warning")])
    assert (condition["status"], condition["message"]) == ("True", "warning: spec.rules[0]: looks odd")


def test_the_reasons_of_a_gateway_config_are_its_types():
    (accepted,) = conditions.wanted("GatewayConfig", 1, [])
    assert accepted["reason"] == "Accepted"
    assert {each["reason"] for each in conditions.wanted("GatewayConfig", 1, [fault()])} == {"NotAccepted"}


def test_a_message_has_the_length_that_a_condition_may_have():
    (accepted, _) = conditions.wanted("AIGatewayRoute", 1, [fault("x" * 40_000)])
    assert len(accepted["message"]) == 32768


def test_the_time_moves_only_with_the_status():
    first = conditions.merged(None, conditions.wanted("AIGatewayRoute", 1, []), NOW)
    assert first is not None
    later = NOW + timedelta(hours=1)
    assert conditions.merged(first, conditions.wanted("AIGatewayRoute", 1, []), later) is None
    second = conditions.merged(first, conditions.wanted("AIGatewayRoute", 2, []), later)
    assert second is not None
    assert second[0]["lastTransitionTime"] == first[0]["lastTransitionTime"]
    third = conditions.merged(second, conditions.wanted("AIGatewayRoute", 2, [fault()]), later)
    assert third is not None
    assert third[0]["lastTransitionTime"] == "2026-02-01T01:00:00Z"


@pytest.mark.parametrize("found", [None, [], "x", [{"type": "NotAccepted", "status": "False"}], [{}]])
def test_whatever_is_there_is_replaced(found: object):
    merged = conditions.merged(found, conditions.wanted("AIGatewayRoute", 1, []), NOW)
    assert merged is not None
    assert [each["type"] for each in merged] == ["Accepted"]


def test_every_kind_has_a_status_also_where_nothing_uses_it():
    made = World()
    made.put(*g.served("b"), g.api_key("k", "b"), g.secret("k", apiKey="x"), g.mcp(), g.quota(defaultBucket=None))
    made.put(g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={}), g.route("r", g.rule("b")))
    made.settle()
    for kind, name in (("AIServiceBackend", "b"), ("BackendSecurityPolicy", "k"), ("GatewayConfig", "c")):
        assert made.accepted(kind, name) == ""
    assert made.accepted("QuotaPolicy", "q")
    assert "Gateway default/gw does not exist" in made.accepted("AIGatewayRoute", "r")
    assert "Gateway default/gw does not exist" in made.accepted("MCPRoute", "m")


def test_a_policy_without_its_secret_says_so_and_recovers():
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"), g.api_key("k", "b"))
    made.settle()
    assert "Secret default/k does not exist" in made.accepted("BackendSecurityPolicy", "k")
    made.put(g.secret("k", apiKey="x"))
    made.settle()
    assert made.accepted("BackendSecurityPolicy", "k") == ""
    made.delete("Secret", "k")
    made.settle()
    assert "Secret default/k does not exist" in made.accepted("BackendSecurityPolicy", "k")


def test_a_deleted_policys_credential_goes_at_once():
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    held = g.api_key("k", "b")
    held["metadata"]["finalizers"] = ["example.com/held"]
    made.put(held, g.secret("k", apiKey="planted"))
    made.settle()
    made.delete("BackendSecurityPolicy", "k")
    made.settle()
    assert made.has("BackendSecurityPolicy", "k")
    (key,) = [each for each in made.plans if each.kind == "Gateway"]
    config = made.planner.config(key)
    assert config is not None
    assert b"planted" not in config.payload


def test_the_generation_that_was_looked_at_is_told():
    made = World()
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    made.put(g.route("r", g.rule("b", model="n")))
    made.settle()
    assert made.conditions("AIGatewayRoute", "r")["Accepted"]["observedGeneration"] == 2

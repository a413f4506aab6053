"""Statuses of InferencePools: an entry for each Gateway of ours whose routes lead there, beside those of others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from deploy.controller.writes import Patch
from tests.support import gateway_resources as g
from tests.support.kube_world import World, gateway, gateway_class

POOL_REF = g.ref("p", group=g.INFERENCE, kind="InferencePool")
API = f"{g.INFERENCE}/v1"


def pool(picker: Any = None, *, name: str = "p", namespace: str = "default") -> dict[str, Any]:
    return g.resource(API, "InferencePool", name, namespace, spec={"endpointPickerRef": picker or {"name": "epp"}})


def http_route(name: str = "h", namespace: str = "default", *, parents: Any = ({"name": "gw"},), pools: str = ""):
    refs = [{"group": g.INFERENCE, "kind": "InferencePool", "name": "p", **({"namespace": pools} if pools else {})}]
    spec = {"parentRefs": list(parents), "rules": [{"backendRefs": refs}]}
    return g.resource(f"{g.GATEWAY_API}/v1", "HTTPRoute", name, namespace, spec=spec)


def world(*values: dict[str, Any]) -> World:
    made = World()
    made.put(gateway_class(), gateway(), *values)
    made.settle()
    return made


def parents(made: World, name: str = "p") -> list[dict[str, Any]]:
    found = made.get("InferencePool", name).get("status", {}).get("parents", [])
    assert isinstance(found, list)
    return found


def gateways(made: World) -> list[str]:
    return [f"{entry['parentRef'].get('namespace')}/{entry['parentRef']['name']}" for entry in parents(made)]


def put_parents(made: World, *entries: dict[str, Any]) -> None:
    """Another controller writes the list."""
    value = made.get("InferencePool", "p")
    made.put({**value, "status": {"parents": list(entries)}})


def entry_of(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    """An entry as somebody else writes it."""
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "fine",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"parentRef": {"name": name, "namespace": namespace, **fields}, "conditions": [condition]}


def test_a_pool_that_a_route_leads_to_is_accepted_by_its_gateway():
    made = world(g.route("r", g.rule(POOL_REF)), pool())
    assert parents(made) == [
        {
            "parentRef": {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "namespace": "default",
                "name": "gw",
            },
            "conditions": [
                {
                    "type": "Accepted",
                    "status": "True",
                    "reason": "Accepted",
                    "message": "routes of the Gateway lead to the pool",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-02-01T00:00:00Z",
                }
            ],
        }
    ]


def test_nothing_is_written_without_a_route_and_nothing_twice():
    made = world(pool())
    assert "status" not in made.get("InferencePool", "p")
    made.put(http_route())
    (write,) = made.settle()
    assert isinstance(write, Patch)
    assert write.subresource == "status"
    made.planner.resync()
    assert made.settle() == []


PICKERS = {
    "no name": ({"name": ""}, "spec.endpointPickerRef.name is empty"),
    "no Service": ({"name": "epp", "group": "example.com", "kind": "Picker"}, "is about no Service"),
}


@pytest.mark.parametrize(("picker", "said"), PICKERS.values(), ids=PICKERS)
def test_a_picker_that_cannot_be_found_is_told(picker: dict[str, str], said: str):
    made = world(http_route(), pool(picker))
    ((accepted, resolved),) = [entry["conditions"] for entry in parents(made)]
    assert (accepted["type"], accepted["status"], accepted["reason"]) == ("Accepted", "False", "NotAccepted")
    assert (resolved["type"], resolved["status"], resolved["reason"]) == (
        "ResolvedRefs",
        "False",
        "InvalidExtensionRef",
    )
    assert said in accepted["message"]

    made.now += timedelta(hours=1)
    made.put(pool())
    made.settle()
    ((accepted,),) = [entry["conditions"] for entry in parents(made)]
    assert (accepted["status"], accepted["observedGeneration"]) == ("True", 2)
    assert accepted["lastTransitionTime"] == "2026-02-01T01:00:00Z"


def test_gateways_are_sorted_whatever_the_order_of_the_routes():
    made = world(
        pool(),
        *(gateway(name, namespace) for namespace, name in (("z", "a"), ("default", "c"), ("default", "b"))),
        http_route(parents=[{"name": "a", "namespace": "z"}, {"name": "c"}]),
        g.route("r", g.rule(POOL_REF), parentRefs=[{"name": "b"}, {"name": "gw"}]),
    )
    assert gateways(made) == ["default/b", "default/c", "default/gw", "z/a"]


NO_GATEWAYS = {
    "a Service": {"group": "", "kind": "Service", "name": "gw"},
    "a Gateway of another controller": {"name": "foreign"},
    "a Gateway that is not there": {"name": "missing"},
}


@pytest.mark.parametrize("parent", NO_GATEWAYS.values(), ids=NO_GATEWAYS)
def test_a_parent_that_we_do_not_serve_has_no_entry_of_ours(parent: dict[str, str]):
    foreign = gateway("foreign", class_name="other")
    made = world(gateway_class("other", "example.com/c"), foreign, pool(), http_route(parents=[parent]))
    assert parents(made) == []


def test_an_entry_goes_with_the_last_route_and_with_the_gateway():
    made = world(pool(), http_route(), http_route("h2"))
    made.delete("HTTPRoute", "h")
    assert made.settle() == []
    made.delete("HTTPRoute", "h2")
    made.settle()
    assert parents(made) == []
    made.put(http_route())
    made.settle()
    assert gateways(made) == ["default/gw"]
    made.delete("Gateway", "gw")
    made.settle()
    assert parents(made) == []


def test_an_entry_goes_when_the_gateway_becomes_anothers():
    made = world(http_route(), pool())
    assert gateways(made) == ["default/gw"]
    made.put(gateway_class(controller="example.com/other"))
    made.settle()
    assert parents(made) == []


def test_entries_of_others_stay_and_come_first():
    made = world(pool())
    made.put(gateway_class("other", "example.com/c"), gateway("foreign", class_name="other"))
    others = [entry_of("foreign"), entry_of("unseen", "elsewhere"), entry_of("gw", group="example.com", kind="Mesh")]
    put_parents(made, *others)
    made.put(http_route())
    made.settle()
    assert parents(made)[:3] == others
    assert gateways(made)[3:] == ["default/gw"]
    made.delete("HTTPRoute", "h")
    made.settle()
    assert parents(made) == others


def test_what_another_controller_wrote_about_a_gateway_of_ours_is_replaced():
    made = world(pool(), http_route())
    put_parents(made, entry_of("gw"), entry_of("gw", kind="Gateway"))
    made.settle()
    assert gateways(made) == ["default/gw"]
    assert parents(made)[0]["conditions"][0]["message"] == "routes of the Gateway lead to the pool"


def test_the_placeholder_of_an_early_crd_goes_when_there_is_something_to_say():
    made = world(pool())
    put_parents(made, {"parentRef": {"kind": "Status", "name": "default"}})
    assert made.settle() == []
    made.put(http_route())
    made.settle()
    assert gateways(made) == ["default/gw"]


MALFORMED: dict[str, Any] = {"a text": "x", "a list of texts": ["x"], "no reference": [{"conditions": 1}], "none": None}


@pytest.mark.parametrize("found", MALFORMED.values(), ids=MALFORMED)
def test_whatever_is_there_does_no_harm(found: Any):
    made = world(pool(), http_route())
    made.put({**made.get("InferencePool", "p"), "status": {"parents": found}})
    made.settle()
    assert parents(made)[-1]["parentRef"]["name"] == "gw"


def test_there_are_never_more_entries_than_the_list_may_have():
    names = [f"g{index:02d}" for index in range(40)]
    made = world(pool(), *(gateway(name) for name in names), http_route(parents=[{"name": name} for name in names]))
    assert gateways(made) == [f"default/{name}" for name in names[:32]]
    made.planner.resync()
    assert made.settle() == []


REFERRERS = {
    "an AIGatewayRoute": (
        g.route(
            "r",
            g.rule({**POOL_REF, "namespace": "default"}),
            namespace="team",
            parentRefs=[{"name": "gw", "namespace": "default"}],
        ),
        (g.AI, "AIGatewayRoute", "team"),
    ),
    "an HTTPRoute": (
        http_route(namespace="team", parents=[{"name": "gw", "namespace": "default"}], pools="default"),
        (g.GATEWAY_API, "HTTPRoute", "team"),
    ),
}


@pytest.mark.parametrize(("route", "source"), REFERRERS.values(), ids=REFERRERS)
def test_a_route_of_another_namespace_counts_where_a_grant_lets_it(route: dict[str, Any], source: tuple[str, str, str]):
    made = world(pool(), route)
    assert parents(made) == []
    made.put(g.grant("default", source=source, target=(g.INFERENCE, "InferencePool")))
    made.settle()
    assert gateways(made) == ["default/gw"]


def test_a_namesake_in_the_namespace_of_the_route_is_another_pool():
    made = world(
        pool(), pool(namespace="team"), http_route(namespace="team", parents=[{"name": "gw", "namespace": "default"}])
    )
    assert parents(made) == []
    assert made.get("InferencePool", "p", "team")["status"]["parents"]


def test_a_pool_that_is_being_deleted_is_left_alone():
    held = pool()
    held["metadata"]["finalizers"] = ["example.com/held"]
    made = world(held)
    made.delete("InferencePool", "p")
    made.put(http_route())
    assert not [write for write in made.settle() if write.key.kind == "InferencePool"]


def test_a_credential_for_a_pool_reaches_the_routes_that_lead_there():
    policy = g.api_key("k", "p")
    policy["spec"]["targetRefs"] = [{"group": g.INFERENCE, "kind": "InferencePool", "name": "p"}]
    made = world(g.route("r", g.rule(POOL_REF)), pool(), policy, g.secret("k", apiKey="first"))
    for secret in ("first", "second"):
        made.put(g.secret("k", apiKey=secret))
        made.settle()
        (key,) = [each for each in made.plans if each.kind == "Gateway"]
        config = made.planner.config(key)
        assert config is not None
        assert secret.encode() in config.payload

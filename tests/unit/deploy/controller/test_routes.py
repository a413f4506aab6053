"""AIGatewayRoutes become HTTPRoutes, filters and a status, and nothing more is written than has changed."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.controller.writes import Apply, Delete, Patch
from tests.support import gateway_resources as g
from tests.support.kube_world import World, gateway, gateway_class, namespace

PRIORITY = "gateway.envoyproxy.io/backend-ref-priority"


def world(*values: dict[str, Any]) -> World:
    made = World()
    made.put(gateway_class(), gateway(), namespace(), *values)
    return made


def rules(made: World, name: str = "r") -> list[dict[str, Any]]:
    return made.get("HTTPRoute", name)["spec"]["rules"]


def test_a_route_becomes_an_http_route_and_two_filters():
    made = world(g.route("r", g.rule(g.ref("b", priority=1, weight=3), name="chat")), *g.served("b"))
    made.settle()
    found = made.get("HTTPRoute", "r")
    assert found["metadata"]["annotations"] == {
        PRIORITY: "0:b:1",
        "gateway.envoyproxy.io/ai-gateway-generated": "true",
    }
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("AIGatewayRoute", "r", True)
    first, last = found["spec"]["rules"]
    assert first == {
        "name": "chat",
        "matches": [
            {
                "path": {"type": "PathPrefix", "value": "/"},
                "headers": [{"type": "Exact", "name": "x-ai-eg-model", "value": "m"}],
            }
        ],
        "filters": [
            {
                "type": "ExtensionRef",
                "extensionRef": {
                    "group": "gateway.envoyproxy.io",
                    "kind": "HTTPRouteFilter",
                    "name": "ai-eg-host-rewrite-r",
                },
            }
        ],
        "timeouts": {"request": "60s"},
        "backendRefs": [{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "b", "weight": 3}],
    }
    assert last["name"] == "route-not-found"
    assert "backendRefs" not in last
    assert made.get("HTTPRouteFilter", "ai-eg-host-rewrite-r")["spec"] == {
        "urlRewrite": {"hostname": {"type": "Backend"}}
    }
    response = made.get("HTTPRouteFilter", "ai-eg-route-not-found-response-r")["spec"]["directResponse"]
    assert response["statusCode"] == 404
    assert made.accepted("AIGatewayRoute", "r") == ""


def test_what_is_there_is_not_written_again():
    made = world(g.route("r", g.rule("b")), *g.served("b"))
    assert made.settle()
    made.planner.resync()
    assert made.settle() == []
    assert made.restarted().settle() == []


def test_a_rule_without_matches_has_the_root_prefix():
    made = World()
    made.planner.options = type(made.options)(root_prefix="/ai")
    made.put(gateway_class(), gateway(), g.route("r", g.rule("b", model=None)), *g.served("b"))
    made.settle()
    assert [rule["matches"] for rule in rules(made)] == [[{"path": {"type": "PathPrefix", "value": "/ai"}}]] * 2


def test_labels_and_annotations_that_a_route_loses_go_from_its_http_route():
    meta = {
        "labels": {"team": "a"},
        "annotations": {"note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    made = world(g.route("r", g.rule("b"), meta=meta), *g.served("b"))
    made.settle()
    assert made.get("HTTPRoute", "r")["metadata"]["labels"] == {"team": "a"}
    assert set(made.get("HTTPRoute", "r")["metadata"]["annotations"]) == {
        "note",
        PRIORITY,
        "gateway.envoyproxy.io/ai-gateway-generated",
    }
    made.put(g.route("r", g.rule("b")))
    made.settle()
    assert not made.get("HTTPRoute", "r")["metadata"].get("labels")
    assert "note" not in made.get("HTTPRoute", "r")["metadata"]["annotations"]


def test_what_others_add_stays_and_what_they_change_is_mended():
    made = world(g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    found = made.get("HTTPRoute", "r")
    changed = {**found, "metadata": {**found["metadata"], "labels": {"theirs": "1"}}}
    changed["spec"] = {**found["spec"], "rules": found["spec"]["rules"][:1]}
    made.put(changed)
    assert [type(write) for write in made.settle()] == [Apply]
    assert len(rules(made)) == 2
    assert made.get("HTTPRoute", "r")["metadata"]["labels"] == {"theirs": "1"}


def test_deleted_objects_come_back():
    made = world(g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    made.delete("HTTPRouteFilter", "ai-eg-host-rewrite-r")
    made.delete("HTTPRoute", "r")
    assert len(made.settle()) == 2
    assert made.has("HTTPRoute", "r")


def test_a_missing_backend_leaves_a_hole_in_its_place_and_harms_nothing_else():
    made = world(g.route("r", g.rule("gone", "b"), g.rule("b", model="n")), *g.served("b"))
    made.settle()
    first, second, _ = rules(made)
    assert [ref["name"] for ref in first["backendRefs"]] == ["ai-eg-unresolved-0-0", "b"]
    assert [ref["name"] for ref in second["backendRefs"]] == ["b"]
    assert "gone" in made.accepted("AIGatewayRoute", "r")
    assert made.accepted("AIServiceBackend", "b") == ""
    made.put(*g.served("gone"))
    made.settle()
    assert [ref["name"] for ref in rules(made)[0]["backendRefs"]] == ["gone", "b"]
    assert made.accepted("AIGatewayRoute", "r") == ""


def test_a_reference_across_namespaces_needs_a_grant_and_loses_it():
    rule = g.rule(g.ref("b", namespace="models"))
    made = world(g.route("r", rule), *g.served("b", namespace="models"))
    made.settle()
    assert rules(made)[0]["backendRefs"][0]["name"] == "ai-eg-unresolved-0-0"
    assert "does not allow it" in made.accepted("AIGatewayRoute", "r")
    made.put(
        g.grant("models", source=(g.AI, "AIGatewayRoute", "default"), target=(g.AI, "AIServiceBackend", "b")),
        g.grant("models", source=(g.GATEWAY_API, "HTTPRoute", "default"), target=(g.ENVOY_GATEWAY, "Backend")),
    )
    made.settle()
    assert rules(made)[0]["backendRefs"][0] == {
        "group": "gateway.envoyproxy.io",
        "kind": "Backend",
        "name": "b",
        "namespace": "models",
        "weight": 1,
    }
    assert made.accepted("AIGatewayRoute", "r") == ""
    made.delete("ReferenceGrant", "aigatewayroute-aigateway.envoyproxy.io-aiservicebackend-b", "models")
    made.settle()
    assert rules(made)[0]["backendRefs"][0]["name"] == "ai-eg-unresolved-0-0"


def test_a_pool_is_named_with_its_namespace():
    pool = g.ref("p", group=g.INFERENCE, kind="InferencePool")
    value = g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={"endpointPickerRef": {"name": "epp"}})
    made = world(g.route("r", g.rule(pool)), value)
    made.settle()
    assert rules(made)[0]["backendRefs"] == [
        {"group": g.INFERENCE, "kind": "InferencePool", "name": "p", "namespace": "default", "weight": 1}
    ]


def test_an_http_route_of_somebody_else_is_left_alone():
    theirs = g.resource(f"{g.GATEWAY_API}/v1", "HTTPRoute", "r", spec={"rules": []})
    made = world(theirs, g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    assert made.get("HTTPRoute", "r")["spec"]["rules"] == []
    assert "was not made of AIGatewayRoute default/r" in made.accepted("AIGatewayRoute", "r")
    made.delete("HTTPRoute", "r")
    made.settle()
    assert len(rules(made)) == 2
    assert made.accepted("AIGatewayRoute", "r") == ""


def test_an_http_route_of_somebody_else_gets_no_credential():
    """It may say that it is ours, and lead anywhere: what finds routes by name must find none."""
    generated = {"annotations": {"gateway.envoyproxy.io/ai-gateway-generated": "true"}}
    theirs = g.resource(f"{g.GATEWAY_API}/v1", "HTTPRoute", "r", spec={"rules": []}, metadata=generated)
    made = world(
        theirs,
        g.route("r", g.rule("b")),
        g.route("s", g.rule("b")),
        *g.served("b"),
        g.api_key("k", "b"),
        g.secret("k", apiKey="x"),
    )
    made.settle()
    (model,) = made.planner.gateways()
    assert [route.name for route in model.routes] == ["s"]
    made.delete("HTTPRoute", "r")
    made.settle()
    (model,) = made.planner.gateways()
    assert [route.name for route in model.routes] == ["r", "s"]
    # One that is ours, and that somebody takes from us.
    made.put({**theirs, "metadata": {**theirs["metadata"], "ownerReferences": []}})
    made.observe()
    made.planner.compile()
    (model,) = made.planner.gateways()
    assert [route.name for route in model.routes] == ["s"]


def test_the_http_route_of_an_earlier_route_of_the_name_makes_room():
    made = world(g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    found = made.get("HTTPRoute", "r")
    (owner,) = found["metadata"]["ownerReferences"]
    owner["uid"] = "uid-of-another"
    made.planner.put({**found, "kind": "HTTPRoute"})
    writes = [write for plan in made.planner.plan(made.now) for write in plan.writes]
    assert [(type(write), write.key.name) for write in writes] == [(Delete, "r")]


def test_a_gateway_of_somebody_else_gets_nothing():
    made = World()
    made.put(gateway_class(controller="example.com/other"), gateway(), g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    assert made.names("HTTPRoute") == []
    assert made.names("Secret") == []
    assert "is not served by Envoy Gateway" in made.accepted("AIGatewayRoute", "r")


def test_of_two_parents_only_ours_is_in_the_http_route():
    made = World()
    refs = [{"name": "gw"}, {"name": "theirs"}]
    made.put(
        gateway_class(),
        gateway_class("other", "example.com/other"),
        gateway(),
        gateway("theirs", class_name="other"),
        g.route("r", g.rule("b"), parentRefs=refs),
        *g.served("b"),
    )
    made.settle()
    assert [ref["name"] for ref in made.get("HTTPRoute", "r")["spec"]["parentRefs"]] == ["gw"]


def test_a_deleted_route_takes_its_objects_along():
    made = world(g.route("r", g.rule("b")), *g.served("b"))
    made.settle()
    made.delete("AIGatewayRoute", "r")
    made.settle()
    assert made.names("HTTPRoute") == made.names("HTTPRouteFilter") == made.names("Secret") == []


def test_the_finalizer_of_another_controller_is_taken_off_when_all_is_gone():
    meta = {"finalizers": ["aigateway.envoyproxy.io/finalizer", "example.com/other"]}
    made = world(g.route("r", g.rule("b"), meta=meta), *g.served("b"))
    made.settle()
    made.delete("AIGatewayRoute", "r")
    writes = made.settle()
    assert made.get("AIGatewayRoute", "r")["metadata"]["finalizers"] == ["example.com/other"]
    assert isinstance(writes[-1], Patch)
    assert made.names("HTTPRoute") == []
    made.settle()
    found = made.get("AIGatewayRoute", "r")
    made.cluster.replace(
        next(place for place in made.cluster.objects if place.plural == "aigatewayroutes"),
        {**found, "metadata": {**found["metadata"], "finalizers": []}},
    )
    assert not made.has("AIGatewayRoute", "r")


def test_a_route_that_cannot_be_read_keeps_its_objects_and_says_why():
    made = world(g.route("r", g.rule("b")), g.route("other", g.rule("b", model="n")), *g.served("b"))
    made.settle()
    before = rules(made)
    broken = g.route("r", g.rule("b"))
    broken["spec"]["rules"][0]["backendRefs"][0]["weight"] = "much"
    made.put(broken)
    made.settle()
    assert rules(made) == before
    assert "weight" in made.accepted("AIGatewayRoute", "r")
    assert made.accepted("AIGatewayRoute", "other") == ""


def test_what_the_server_refuses_is_in_the_status_of_its_route():
    crowded = g.rule(*(g.ref("b", modelNameOverride=str(number)) for number in range(17)))
    made = world(g.route("r", crowded), g.route("other", g.rule("b", model="n")), *g.served("b"))
    made.settle()
    assert not made.has("HTTPRoute", "r")
    assert "must have at most 16 items" in made.accepted("AIGatewayRoute", "r")
    assert made.has("HTTPRoute", "other")
    made.put(g.route("r", g.rule("b")))
    made.settle()
    assert made.accepted("AIGatewayRoute", "r") == ""


@pytest.mark.parametrize("stage", ["slice", "plan"])
def test_a_fault_of_ours_harms_one_route_alone(stage: str, monkeypatch: pytest.MonkeyPatch):
    from deploy.controller import http_routes, planner

    made = world(g.route("bad", g.rule("b")), g.route("good", g.rule("b", model="n")), *g.served("b"))
    real_slice, real_objects = planner.compile_slice, http_routes.objects

    def broken_slice(view, judging, key, **options):
        if key.name == "bad":
            raise RuntimeError("cannot")
        return real_slice(view, judging, key, **options)

    def broken_objects(entry, *rest):
        if entry.key.name == "bad":
            raise RuntimeError("cannot")
        return real_objects(entry, *rest)

    if stage == "slice":
        monkeypatch.setattr(planner, "compile_slice", broken_slice)
    else:
        monkeypatch.setattr(http_routes, "objects", broken_objects)
    made.settle()
    assert made.names("HTTPRoute") == ["default/good"]
    if stage == "slice":
        assert "see its log" in made.accepted("AIGatewayRoute", "bad")
    assert made.accepted("AIGatewayRoute", "good") == ""

"""From one state to the next: everything that either needs is there in between."""

from __future__ import annotations

from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.model import Processor, SocketAddress
from deploy.local.transition import Revisions, united, with_clusters_of
from tests.support.gateway_resources import (
    api_key,
    compiled,
    endpoint,
    gateway,
    only,
    route,
    rule,
    secret,
    served,
    service,
)

COSTS = [{"metadataKey": "tokens", "type": "TotalToken"}]


def made(*resources):
    return only(compiled(gateway(), *resources))


def names(config):
    return [backend.name for backend in config.backends]


# --- filter config ---


def test_what_comes_is_simply_new():
    live = made(*served("b"), route("r", rule("b"))).config
    wanted = made(*served("b"), route("r", rule("b")), route("s", rule("b", model="n"))).config

    assert united(live, wanted) == wanted
    assert united(None, wanted) == wanted


def test_what_goes_stays_known_with_its_costs_and_is_listed_no_more():
    live = made(*served("b"), route("r", rule("b")), route("s", rule("b", model="n"), llmRequestCosts=COSTS)).config
    wanted = made(*served("b"), route("r", rule("b"))).config

    both = united(live, wanted)

    assert names(both) == ["default/b/route/r/rule/0/ref/0", "default/b/route/s/rule/0/ref/0"]
    assert [cost.route_name for cost in both.llm_request_costs] == ["default/s"]
    assert both.models == wanted.models
    # And so it does through another edit.
    assert names(united(both, wanted)) == names(both)


def test_costs_of_a_route_that_stays_are_as_wanted():
    live = made(*served("a", "b"), route("r", rule("a"), llmRequestCosts=COSTS)).config
    wanted = made(*served("a", "b"), route("r", rule("b"), llmRequestCosts=[{**COSTS[0], "type": "InputToken"}])).config

    both = united(live, wanted)

    assert names(both) == ["default/b/route/r/rule/0/ref/0", "default/a/route/r/rule/0/ref/0"]
    assert [cost.type for cost in both.llm_request_costs] == ["InputToken"]


# --- Envoy ---


def envoy(*resources):
    processor = Processor(address=SocketAddress(host="127.0.0.1", port=1063))
    return envoy_gateway(made(*resources).model, Serving(processor=processor))


def cluster_names(gateway_):
    return [route_.cluster_name(index) for route_ in gateway_.routes for index, _ in enumerate(route_.rules)]


def test_clusters_stay_as_long_as_requests_may_need_them():
    live = envoy(*served("b"), route("r", rule("b"), rule("b", model="n")), route("s", rule("b", model="o")))
    wanted = envoy(*served("b"), route("r", rule("b")))

    both = with_clusters_of(live, wanted)

    assert cluster_names(both) == [f"httproute/default/{name}" for name in ("r/rule/0", "r/rule/1", "s/rule/0")]
    assert both.listener == wanted.listener
    assert cluster_names(with_clusters_of(both, wanted)) == cluster_names(both)


def test_nothing_stays_that_is_still_there():
    wanted = envoy(*served("b"), route("r", rule("b")))

    assert with_clusters_of(wanted, wanted) == wanted
    assert with_clusters_of(None, wanted) == wanted


# --- names ---


def secured(key, port):
    address = {"endpoints": [{"ip": {"address": "127.0.0.1", "port": port}}]}
    return made(
        service("b"), endpoint("b", **address), api_key("k", "b"), secret("k", apiKey=key), route("r", rule("b"))
    )


NAME = "default/b/route/r/rule/0/ref/0"


def named(revisions, key, port, *, live=True):
    found = revisions.named(secured(key, port))
    if live:
        revisions.settle()
    (backend,) = found.model.routes[0].rules[0].backends
    assert names(found.config) == [backend.id]
    return backend.id


def test_what_changes_in_one_place_only_keeps_its_name():
    revisions = Revisions()

    assert named(revisions, "k", 1) == NAME
    assert named(revisions, "other", 1) == NAME
    assert named(revisions, "other", 2) == NAME
    assert named(revisions, "other", 2) == NAME


def test_what_changes_in_both_places_gets_a_new_one():
    revisions = Revisions()
    assert named(revisions, "k", 1) == NAME

    assert named(revisions, "other", 2) == f"{NAME}/revision/1"
    assert named(revisions, "other", 2) == f"{NAME}/revision/1"
    assert named(revisions, "k", 1) == f"{NAME}/revision/2"
    assert named(revisions, "k", 2) == f"{NAME}/revision/2"


def test_what_did_not_go_live_is_not_what_the_next_one_is_compared_to():
    revisions = Revisions()
    assert named(revisions, "k", 1) == NAME
    assert named(revisions, "other", 2, live=False) == f"{NAME}/revision/1"

    assert named(revisions, "other", 1) == NAME

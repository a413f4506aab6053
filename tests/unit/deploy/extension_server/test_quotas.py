"""Quotas on routes: asked at no cost, paid in the end, by the rule however its clusters are named (6.11)."""

from __future__ import annotations

import pytest

from deploy.envoy.model import SocketAddress
from deploy.extension_server.options import Options, QuotaService
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

RULE = "default/r/rule/0"
QUOTA = "envoy.filters.http.ratelimit/ai-gateway-quota"
FLAGS = "envoy.filters.http.header_mutation/ai-gateway-quota"
NOTES = "envoy.filters.http.header_to_metadata/ai-gateway-quota"
TARGET = {"group": res.AI, "kind": "AIServiceBackend", "name": "b"}
BUCKET = {"limit": 100, "duration": "1h"}


def policy(*rules, default=None):
    """A QuotaPolicy about model ``m`` of backend ``b``."""
    definition = {}
    if rules:
        definition["bucketRules"] = [{"quota": BUCKET, "clientSelectors": [{"headers": headers}]} for headers in rules]
    if default:
        definition["defaultBucket"] = default
    return res.quota([TARGET], **definition)


DISTINCT = [{"name": "x-user", "type": "Distinct"}]
INVERTED = [{"name": "x-team", "type": "Exact", "value": "red", "invert": True}]


@pytest.fixture
def limited(knowledge, translate):
    """``limited(policy, *routes, …)``: routes of a rule whose backend serves model ``m``."""

    def run(policy, *routes, options=None, **lists):
        ref = res.ref("b", modelNameOverride="m")
        known = knowledge(res.gateway(), res.route("r", res.rule(ref, res.ref("c"))), *res.served("b", "c"), policy)
        return translate(
            known,
            options=options,
            listeners=[eg.listener(eg.chain(eg.JWT, eg.ROUTER)), eg.listener(eg.passthrough(), name="default/gw/tcp")],
            routes=[eg.route_config(*(routes or [eg.route()]))],
            **lists,
        )

    return run


def entries(result, name=f"{RULE}/match/0/*"):
    """Hits, whether they are taken in the end, and the descriptor keys of each entry."""
    config = result.routes()[name]["typed_per_filter_config"][QUOTA]
    assert config["domain"] == "ai-gateway-quota"
    return [
        (
            entry["hits_addend"].get("format", entry["hits_addend"].get("number", 0)),
            entry.get("apply_on_stream_done", False),
            [next(iter(action.values())).get("descriptor_key") for action in entry["actions"]],
        )
        for entry in config["rate_limits"]
    ]


COST = "%DYNAMIC_METADATA(io.envoy.ai_gateway:quota_cost)%"
DEFAULT = policy(default=BUCKET)


def test_a_request_asks_for_nothing_and_pays_in_the_end(limited):
    assert entries(limited(DEFAULT)) == [
        (0, False, ["backend_name", "model_name_override"]),
        (COST, True, ["backend_name", "model_name_override"]),
    ]


SELECTED = {"each value of a header": DISTINCT, "an inverted header": INVERTED}


@pytest.mark.parametrize("selector", SELECTED.values(), ids=SELECTED)
def test_a_client_pays_from_the_bucket_that_it_asked_for(limited, selector):
    (_, _, asked), (cost, done, charged) = entries(limited(policy(selector)))

    assert asked == charged
    assert (cost, done) == (COST, True)
    assert len(asked) == 3


def test_what_tells_clients_apart_is_noted_when_they_come(limited):
    config = limited(policy(DISTINCT, INVERTED)).routes()[f"{RULE}/match/0/*"]["typed_per_filter_config"]

    (mutation,) = config[FLAGS]["mutations"]["request_mutations"]
    flag = mutation["append"]["header"]["key"]
    assert mutation["append"]["append_action"] == "OVERWRITE_IF_EXISTS_OR_ADD"
    assert mutation["append"]["header"]["value"].startswith("%CEL(")
    assert [(rule["header"], rule.get("remove", False)) for rule in config[NOTES]["request_rules"]] == [
        (flag, True),
        ("x-user", False),
    ]


def test_a_service_quota_is_asked_for_and_paid_from(limited):
    given = res.quota([TARGET])
    given["spec"] = {"targetRefs": [TARGET], "serviceQuota": {"quota": BUCKET}}

    assert entries(limited(given)) == [
        (0, False, ["backend_name", "service_quota"]),
        (COST.replace("quota_cost", "service_quota_cost"), True, ["backend_name", "service_quota"]),
    ]


ROUTED = {
    "one cluster": {"route": {"cluster": f"httproute/{RULE}"}},
    "a cluster for each backend": {
        "route": {
            "weightedClusters": {
                "clusters": [{"name": f"httproute/{RULE}/backend/{ref}", "weight": 1} for ref in range(2)]
            }
        }
    },
}


@pytest.mark.parametrize("action", ROUTED.values(), ids=ROUTED)
def test_the_rule_is_known_by_its_clusters(limited, action):
    result = limited(DEFAULT, eg.route(**action))

    assert len(entries(result)) == 2
    assert result.filters() == [
        "jwt_authn",
        "ext_proc/aigateway",
        "header_to_metadata",
        *(name.removeprefix("envoy.filters.http.") for name in (FLAGS, NOTES, QUOTA)),
        "router",
    ]


UNLIMITED = {
    "another rule": eg.route("default/r/rule/1"),
    "an answer": eg.not_found(),
    "a cluster by header": eg.route(route={"clusterHeader": "x-cluster"}),
    "the user's own route": eg.route(generated=False),
}


@pytest.mark.parametrize("route", UNLIMITED.values(), ids=UNLIMITED)
def test_what_goes_elsewhere_has_no_quota(limited, route):
    result = limited(DEFAULT, route)

    (found,) = result.routes().values()
    assert QUOTA not in found.get("typed_per_filter_config", {})
    assert "ai_gateway_ratelimit_cluster" not in result.cluster_names
    assert QUOTA.removeprefix("envoy.filters.http.") not in result.filters()


def test_the_rate_limit_service_is_asked_as_the_options_say(limited):
    service = QuotaService(address=SocketAddress(host="limits", port=81), timeout=0.25, deny_on_failure=True)

    result = limited(DEFAULT, options=Options(quota=service))

    (manager,) = result.managers()
    (config,) = [each["typed_config"] for each in manager["http_filters"] if each["name"] == QUOTA]
    assert {key: value for key, value in config.items() if key not in {"@type", "rate_limit_service"}} == {
        "domain": "ai-gateway-quota",
        "timeout": "0.250s",
        "failure_mode_deny": True,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "disable_x_envoy_ratelimited_header": True,
    }
    assert config["rate_limit_service"]["transport_api_version"] == "V3"
    cluster = result.cluster("ai_gateway_ratelimit_cluster")
    (locality,) = cluster["load_assignment"]["endpoints"]
    assert locality["lb_endpoints"][0]["endpoint"]["address"]["socket_address"] == {
        "address": "limits",
        "port_value": 81,
    }
    assert (cluster["type"], cluster["connect_timeout"]) == ("STRICT_DNS", "5s")


def test_a_bucket_that_cannot_be_told_apart_is_reported_and_the_others_count(limited):
    result = limited(policy([{"name": "bad name", "type": "Exact", "value": "x"}], DISTINCT))

    assert len(entries(result)) == 2
    assert [resource for resource, _ in result.findings] == ["QuotaPolicy default/q"]

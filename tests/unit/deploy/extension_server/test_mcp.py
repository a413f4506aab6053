"""MCP: the proxy in the place of its stand-in, and nothing to reach behind it (contract, control plane 6.7)."""

from __future__ import annotations

import pytest

from deploy.extension_server.knowledge import Snapshot
from tests.support import envoy_gateway as eg

MAIN = "default/ai-eg-mcp-main-m"
SERVER = "default/ai-eg-mcp-br-m-github/rule/0"
LISTENER = "aigateway-mcp-backend-listener"
ROUTES = f"{LISTENER}-route-config"
INJECTOR = eg.http("credential_injector", suffix="/httproutefilter/default/ai-eg-mcp-brf-m-github", disabled=True)
PER_ROUTE = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": eg.ROUTER["typedConfig"]}


@pytest.fixture
def run(translate):
    def translated(*routes, filters=(eg.ROUTER,), **lists):
        listeners = [eg.listener(eg.chain(*filters))]
        return translate(Snapshot(), listeners=listeners, routes=[eg.route_config(*routes)], **lists)

    return translated


mcp = eg.mcp_route


def test_the_main_route_takes_the_servers_from_nobody_but_the_proxy(run):
    (found,) = run(mcp(f"{MAIN}/rule/0")).routes().values()

    assert found["request_headers_to_add"][1:] == [
        {
            "header": {
                "key": "x-ai-eg-mcp-backend-subset",
                "value": '%DYNAMIC_METADATA(["aigateway.envoy.io", "mcp_backend_subset"])%',
            },
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            "keep_empty_value": True,
        }
    ]


FILTERS = {
    "of JWT": ("jwt_authn", True),
    "of API keys": ("api_key_auth", True),
    "of external authorization": ("ext_authz", True),
    "of external authorization by policy": ("ext_authz/securitypolicy/default/p", True),
    "of something named nearly so": ("ext_authz_other", False),
    "of something else": ("cors", False),
}


@pytest.mark.parametrize(("name", "removed"), FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("rule", [0, 1, 10])
def test_the_well_known_pages_are_public(run, name, removed, rule):
    config = {f"envoy.filters.http.{name}": PER_ROUTE}

    (found,) = run(mcp(f"{MAIN}/rule/{rule}", typedPerFilterConfig=config)).routes().values()

    assert (f"envoy.filters.http.{name}" not in found.get("typed_per_filter_config", {})) is (removed and rule > 0)


ACTIONS = {
    "one cluster": {"route": {"cluster": "c"}},
    "weighted clusters": {"route": {"weightedClusters": {"clusters": [{"name": "c", "weight": 1}]}}},
    "an answer": {"to": None, "directResponse": {"status": 500}},
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_no_route_to_a_server_stays_where_clients_come_in(run, action):
    result = run(mcp(f"{MAIN}/rule/0"), mcp(SERVER, **action))

    assert list(result.routes()) == [f"{MAIN}/rule/0/match/0/*"]
    assert list(result.routes(ROUTES)) == [f"{SERVER}/match/0/*"]
    (moved,) = [each for each in result.lists["routes"] if each["name"] == ROUTES]
    assert [(host["name"], host["domains"]) for host in moved["virtual_hosts"]] == [(f"{LISTENER}-wildcard", ["*"])]


def test_the_listener_inside_has_what_belonged_to_the_routes(run):
    result = run(mcp(f"{MAIN}/rule/0"), mcp(SERVER), filters=(eg.JWT, INJECTOR, eg.ROUTER))

    inside = result.listener(LISTENER)
    assert inside["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 10088}
    assert result.filters() == ["jwt_authn", "header_to_metadata", "router"]
    assert result.filters(LISTENER) == [
        "credential_injector/httproutefilter/default/ai-eg-mcp-brf-m-github",
        "header_to_metadata",
        "router",
    ]
    (manager,) = result.managers(LISTENER)
    assert manager["rds"]["route_config_name"] == ROUTES
    assert manager["scheme_header_transformation"] == {"match_upstream": True}
    assert manager["stat_prefix"] == f"{LISTENER}-http"
    assert [
        (rule["header"], rule["on_header_present"]["key"], rule.get("remove", False))
        for rule in manager["http_filters"][1]["typed_config"]["request_rules"]
    ] == [
        ("x-ai-eg-mcp-backend", "mcp_backend", False),
        ("x-ai-eg-mcp-metadata-method", "mcp_method", True),
        ("x-ai-eg-mcp-metadata-request-id", "mcp_request_id", True),
        ("x-ai-eg-mcp-metadata-resource-uri", "mcp_resource_uri", True),
        ("x-ai-eg-mcp-metadata-tool-name", "mcp_tool_name", True),
        ("agent-session-id", "session.id", False),
    ]


def test_its_access_log_is_that_of_the_gateway(translate):
    log = {
        "name": "envoy.access_loggers.file",
        "typedConfig": eg.typed("extensions.access_loggers.file.v3.FileAccessLog", path="/dev/stdout"),
    }
    chain = eg.chain()
    chain["filters"][0]["typedConfig"]["accessLog"] = [log]

    result = translate(Snapshot(), listeners=[eg.listener(chain)], routes=[eg.route_config(mcp(SERVER))])

    (manager,) = result.managers(LISTENER)
    assert [each["typed_config"]["path"] for each in manager["access_log"]] == ["/dev/stdout"]


def test_a_route_of_several_hosts_and_listeners_is_moved_from_each(translate):
    configs = [
        eg.route_config(mcp(SERVER, host="a_example"), mcp(SERVER, host="b_example")),
        eg.route_config(mcp(SERVER, host="a_example"), name="default/gw/https"),
    ]

    result = translate(Snapshot(), listeners=[eg.listener()], routes=configs)

    assert list(result.routes(ROUTES)) == [f"{SERVER}/match/0/{host}" for host in ("a_example", "b_example")]
    assert result.routes() == result.routes("default/gw/https") == {}


USERS = {
    "a route": "default/my-ai-eg-mcp-br-x/rule/0",
    "a namespace": "ai-eg-mcp-br-x/web/rule/0",
    "a main route": "default/my-ai-eg-mcp-main-x/rule/0",
}


@pytest.mark.parametrize("rule", USERS.values(), ids=USERS)
def test_what_a_user_has_named_nearly_so_stays_as_it_is(run, rule):
    given = eg.route(rule, generated=False)
    cluster = eg.cluster(rule, eg.locality())

    result = run(given, clusters=[cluster])

    assert result.response.routes == eg.request(routes=[eg.route_config(given)]).routes
    assert result.response.clusters == eg.request(clusters=[cluster]).clusters


CLUSTERS = {
    "of the proxy": (f"{MAIN}/rule/0", True),
    "of another rule": (f"{MAIN}/rule/1", False),
    "of a server": (SERVER, False),
}


@pytest.mark.parametrize(("rule", "replaced"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_proxy_stands_where_its_address_was_a_dummy(run, rule, replaced):
    found = run(mcp(rule), clusters=[eg.cluster(rule)]).cluster(rule)

    if not replaced:
        assert found["type"] == "EDS"
        return
    assert found == {
        "name": f"httproute/{rule}",
        "connect_timeout": "10s",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": f"httproute/{rule}",
            "endpoints": [
                {
                    "lb_endpoints": [
                        {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 9856}}}}
                    ]
                }
            ],
        },
    }


def untouched(run, given, rule):
    """Whether a route and its cluster stay where and as they are."""
    cluster = eg.cluster(rule, eg.locality())
    result = run(given, clusters=[cluster])
    unchanged = eg.request(routes=[eg.route_config(given)], clusters=[cluster])
    return (result.response.routes, result.response.clusters) == (unchanged.routes, unchanged.clusters)


# Written by somebody who may write HTTPRoutes in a namespace of the gateway, and wants what belongs to others.
EVIL = "evil/ai-eg-mcp-main-m/rule/0"
APPENDED = [{"header": {"key": "x-ai-eg-mcp-route", "value": "evil/m"}, "appendAction": "APPEND_IF_EXISTS_OR_ADD"}]
TAKEN = "evil/ai-eg-mcp-br-m-github/rule/0"
FORGED = {
    "a way to the proxy in the name of another's route": (EVIL, {"about": "default/m"}),
    "one that is of a namespace nearly so": (EVIL, {"about": "evil2/m"}),
    "one in whatever name a client gives": (EVIL, {"requestHeadersToAdd": []}),
    "one that leaves what a client gives": (EVIL, {"requestHeadersToAdd": APPENDED}),
    "a well-known page that leads somewhere": ("evil/ai-eg-mcp-main-m/rule/1", {"to": "c", "directResponse": None}),
    "what the proxy sends for another's route": (TAKEN, {"about": "default/m"}),
    "what the proxy sends for any": (TAKEN, {"match": {"prefix": "/"}}),
    "what it sends for all but one": (
        TAKEN,
        {
            "match": {
                "prefix": "/",
                "headers": [{"name": "x-ai-eg-mcp-route", "stringMatch": {"exact": "evil/m"}, "invertMatch": True}],
            }
        },
    ),
    "what it sends for those that begin so": (
        TAKEN,
        {"match": {"prefix": "/", "headers": [{"name": "x-ai-eg-mcp-route", "stringMatch": {"prefix": "evil/"}}]}},
    ),
}


@pytest.mark.parametrize(("rule", "fields"), FORGED.values(), ids=FORGED)
def test_a_name_alone_opens_nothing(run, rule, fields):
    given = {key: value for key, value in mcp(rule, **fields).items() if value is not None}
    given["typedPerFilterConfig"] = {"envoy.filters.http.jwt_authn": PER_ROUTE}

    assert untouched(run, given, rule)

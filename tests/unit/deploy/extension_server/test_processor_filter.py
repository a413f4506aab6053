"""Where the processor's filter stands, on which routes it is enabled, and what else listeners get (6.5, 6.9, 6.10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.extension_server.options import Options
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

OURS = "ext_proc/aigateway"
NOTES = "header_to_metadata"
LUA = eg.http("lua", "extensions.filters.http.custom_response.v3.CustomResponse")
USERS = eg.http("ext_proc", "extensions.filters.http.ext_proc.v3.ExternalProcessor", suffix="/envoyextensionpolicy/p")
BUFFER = eg.http("buffer", disabled=True)
RATE_LIMIT = eg.http("ratelimit", "extensions.filters.http.ratelimit.v3.RateLimit")
NOT_HTTP = {"name": "httproute/default/other/rule/0", "type": "EDS"}


@pytest.fixture
def known(knowledge):
    return knowledge(res.gateway(), res.route("r", res.rule("b")), *res.served("b"))


CHAINS = {
    "nothing else": ([eg.ROUTER], [OURS, NOTES, "router"]),
    "CORS": ([eg.CORS, eg.ROUTER], ["cors", OURS, NOTES, "router"]),
    "response overrides, which come first": (
        [eg.CUSTOM_RESPONSE, eg.CORS, eg.API_KEY, eg.ROUTER],
        ["custom_response", "cors", "api_key_auth", OURS, NOTES, "router"],
    ),
    "all authentication": (
        [eg.EXT_AUTHZ, eg.API_KEY, eg.http("basic_auth", "extensions.filters.http.cors.v3.Cors"), eg.JWT, eg.ROUTER],
        ["ext_authz/securitypolicy/default/auth", "api_key_auth", "basic_auth", "jwt_authn", OURS, NOTES, "router"],
    ),
    "authentication behind what usually follows": (
        [LUA, USERS, eg.JWT, eg.RBAC, eg.ROUTER],
        ["lua", "ext_proc/envoyextensionpolicy/p", "jwt_authn", OURS, "rbac", NOTES, "router"],
    ),
    "what depends on the route": (
        [eg.JWT, USERS, eg.RBAC, RATE_LIMIT, eg.ROUTER],
        ["jwt_authn", OURS, "ext_proc/envoyextensionpolicy/p", "rbac", "ratelimit", NOTES, "router"],
    ),
    "a buffer": ([eg.JWT, BUFFER, eg.ROUTER], ["jwt_authn", "buffer", OURS, NOTES, "router"]),
    "a buffer behind": ([LUA, BUFFER, eg.ROUTER], ["lua", "buffer", OURS, NOTES, "router"]),
    "headers noted already": (
        [eg.http("header_to_metadata", "extensions.filters.http.header_to_metadata.v3.Config"), eg.ROUTER],
        [NOTES, OURS, "router"],
    ),
    "the filter already": (
        [eg.http("ext_proc", "extensions.filters.http.ext_proc.v3.ExternalProcessor", suffix="/aigateway"), eg.ROUTER],
        [OURS, NOTES, "router"],
    ),
}


@pytest.mark.parametrize(("given", "expected"), CHAINS.values(), ids=CHAINS)
def test_the_filter_stands_behind_all_authentication(translate, known, given, expected):
    result = translate(known, listeners=[eg.listener(eg.chain(*given))], routes=[eg.route_config(eg.route())])

    assert result.filters() == expected
    assert result.findings == []


def test_the_filter_is_disabled_and_fails_closed(translate, known):
    result = translate(known, listeners=[eg.listener()], routes=[eg.route_config(eg.route())])

    (manager,) = result.managers()
    added = manager["http_filters"][0]
    assert added["disabled"] is True
    assert "failure_mode_allow" not in added["typed_config"]
    assert "request_attributes" not in added["typed_config"]
    assert manager["scheme_header_transformation"] == {"match_upstream": True}


def test_every_http_chain_of_the_listener_gets_it_and_no_other(translate, known):
    chains = [eg.chain(routes="default/gw/a"), eg.passthrough(), eg.chain(eg.JWT, eg.ROUTER, routes="default/gw/b")]
    ours = eg.http("ext_proc", "extensions.filters.http.ext_proc.v3.ExternalProcessor", suffix="/aigateway")
    listener = eg.listener(eg.chain(ours, eg.ROUTER, routes="default/gw/c"), *chains, name="default/gw/a")

    result = translate(known, listeners=[listener], routes=[eg.route_config(eg.route(), name="default/gw/b")])

    assert [[each["name"] for each in manager["http_filters"]] for manager in result.managers("default/gw/a")] == [
        [f"envoy.filters.http.{name}" for name in names]
        for names in ([OURS, NOTES, "router"], [OURS, NOTES, "router"], ["jwt_authn", OURS, NOTES, "router"])
    ]
    assert result.findings == []


LISTENERS = {
    "without routes of ours": (eg.listener(eg.chain(routes="default/gw/other")), eg.route(generated=False)),
    "for TCP": (eg.listener(eg.passthrough()), eg.route(generated=False)),
    "for statistics": (eg.listener(name="envoy-gateway-proxy-stats-0.0.0.0-19001"), eg.route()),
    "for readiness": (eg.listener(name="envoy-gateway-proxy-ready-0.0.0.0-19003"), eg.route()),
}


@pytest.mark.parametrize(("given", "route"), LISTENERS.values(), ids=LISTENERS)
def test_every_other_listener_stays_as_it_is(translate, known, given, route):
    result = translate(known, listeners=[given], routes=[eg.route_config(route)])

    assert result.response.listeners == eg.request(listeners=[given]).listeners
    assert result.findings == []


def test_a_gateway_without_ai_routes_stays_as_it_is(translate, known):
    given = {
        "clusters": [NOT_HTTP],
        "listeners": [eg.listener(), eg.listener(eg.passthrough(), name="default/gw/tcp")],
        "routes": [eg.route_config(eg.route("default/other/rule/0", generated=False))],
        "secrets": [{"name": "certificate"}],
    }

    result = translate(known, **given)

    assert eg.again(result.response) == eg.request(**given)


def test_a_chain_without_a_router_is_told(translate, known):
    result = translate(known, listeners=[eg.listener(eg.chain(eg.CORS))], routes=[eg.route_config(eg.route())])

    assert result.filters() == ["cors"]
    assert {resource for resource, _ in result.findings} == {"listener default/gw/http"}
    assert any("not seen by the processor" in message for _, message in result.findings)


# --- routes ---


def test_all_routes_of_an_ai_route_enable_it_and_say_their_name(translate, known):
    result = translate(
        known,
        listeners=[eg.listener()],
        routes=[eg.route_config(eg.route(), eg.not_found(), eg.route("default/web/rule/0", generated=False))],
    )

    enabled = {
        name: (
            found.get("typed_per_filter_config"),
            found["metadata"]["filter_metadata"].get("aigateway.envoy.io"),
        )
        for name, found in result.routes().items()
    }
    config = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}}
    ours = ({f"envoy.filters.http.{OURS}": config}, {"aigw_route_name": "default/r"})
    assert enabled == {
        "default/r/rule/0/match/0/*": ours,
        "default/r/rule/1/match/0/*": ours,
        "default/web/rule/0/match/0/*": (None, None),
    }


def nameless(*resources):
    return {"filterMetadata": {"envoy-gateway": {"resources": list(resources)}}}


MARK = {"annotations": {"ai-gateway-generated": "true"}}
NAMED = {
    "its first resource with both names": (
        eg.route(metadata=nameless(MARK, {"name": "half"}, {"namespace": "n", "name": "whole"})),
        "n/whole",
    ),
    "a name alone": (eg.route(metadata=nameless({**MARK, "name": "half"})), "half"),
    "its own name": (eg.route(metadata=nameless(MARK)), "default/r"),
    "whatever name it has": (eg.route(metadata=nameless(MARK)) | {"name": "odd"}, "odd"),
}


@pytest.mark.parametrize(("given", "expected"), NAMED.values(), ids=NAMED)
def test_the_name_of_a_route_is_found(translate, known, given, expected):
    (found,) = translate(known, routes=[eg.route_config(given)]).routes().values()

    assert found["metadata"]["filter_metadata"]["aigateway.envoy.io"] == {"aigw_route_name": expected}


STANDALONE = {
    "made of an AIGatewayRoute": ("default/r/rule/0", True),
    "the user's own": ("default/web/rule/0", False),
    "of MCP": ("default/ai-eg-mcp-main-m/rule/0", False),
}


@pytest.mark.parametrize(("rule", "enabled"), STANDALONE.values(), ids=STANDALONE)
def test_without_annotations_a_route_is_known_by_its_name(translate, known, rule, enabled):
    result = translate(
        known, options=Options(standalone=True), routes=[eg.route_config(eg.route(rule, generated=False))]
    )

    (found,) = result.routes().values()
    assert (f"envoy.filters.http.{OURS}" in found.get("typed_per_filter_config", {})) is enabled


def test_a_cluster_needs_no_annotations_to_be_known_but_a_route_does(translate, known):
    (found,) = translate(known, routes=[eg.route_config(eg.route(generated=False))]).routes().values()

    assert "typed_per_filter_config" not in found


# --- how long attempts wait ---


@pytest.fixture
def patient(known):
    """The same rule, of which an attempt may be silent for two seconds and a half."""
    route = known.route("default", "r")
    rule = replace(route.rules[0], idle_timeout=2.5)

    class Patient:
        def route(self, namespace, name):
            return replace(route, rules=(rule,)) if known.route(namespace, name) else None

        def gateways(self, namespace, name):
            return known.gateways(namespace, name)

    return Patient()


TIMES = {
    "no policy": ({"cluster": "c"}, {"per_try_idle_timeout": "2.500s"}),
    "a policy": (
        {"cluster": "c", "retryPolicy": {"retryOn": "reset", "numRetries": 3}},
        {"retry_on": "reset", "num_retries": 3, "per_try_idle_timeout": "2.500s"},
    ),
}


@pytest.mark.parametrize(("action", "expected"), TIMES.values(), ids=TIMES)
def test_an_attempt_is_given_up_when_it_is_silent(translate, patient, action, expected):
    (found,) = translate(patient, routes=[eg.route_config(eg.route(route=action))]).routes().values()

    assert found["route"]["retry_policy"] == expected


def test_what_does_not_forward_waits_for_nothing(translate, patient):
    result = translate(patient, routes=[eg.route_config(eg.not_found("default/r/rule/0"))])

    (found,) = result.routes().values()
    assert "route" not in found


# --- headers for access logs ---


def noted(result):
    (manager,) = result.managers()
    (found,) = [each for each in manager["http_filters"] if each["name"].endswith(NOTES)]
    return [
        (rule["header"], rule["on_header_present"]["key"]) for rule in found["typed_config"].get("request_rules", ())
    ]


def test_headers_are_noted_once_and_in_order(translate, known):
    options = Options(header_attributes=(("x-user", "user.id"), ("agent-session-id", "session.id"), ("X-Team", "team")))
    theirs = {"header": "x-team", "onHeaderPresent": {"metadataNamespace": "mine", "key": "t"}}
    given = eg.http("header_to_metadata", "extensions.filters.http.header_to_metadata.v3.Config")
    given["typedConfig"]["requestRules"] = [theirs]

    result = translate(
        known,
        options=options,
        listeners=[eg.listener(eg.chain(given, eg.ROUTER))],
        routes=[eg.route_config(eg.route())],
    )

    assert noted(result) == [("x-team", "t"), ("agent-session-id", "session.id"), ("x-user", "user.id")]


def test_no_headers_need_no_filter(translate, known):
    result = translate(
        known,
        options=Options(header_attributes=()),
        listeners=[eg.listener()],
        routes=[eg.route_config(eg.route())],
    )

    assert result.filters() == [OURS, "router"]

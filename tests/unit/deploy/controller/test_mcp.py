"""MCPRoutes become routes to the proxy and to each server, protected before they are there."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from deploy.controller.mcp import name_of
from tests.support import gateway_resources as g
from tests.support.kube_world import World, gateway, gateway_class

RESOURCE = {"resource": "https://mcp.example.com/mcp/", "scopesSupported": ["a", "b"]}
OAUTH = {
    "issuer": "https://id.example.com/realm",
    "audiences": ["mcp"],
    "claimToHeaders": [{"claim": "sub", "header": "x-sub"}],
    "jwks": {"remoteJWKS": {"uri": "https://id.example.com/keys"}},
    "protectedResourceMetadata": RESOURCE,
}


def world(*values: dict[str, Any]) -> World:
    made = World()
    made.put(gateway_class(), gateway(), *values)
    made.settle()
    return made


def keyed(**key: Any) -> dict[str, Any]:
    return g.mcp(g.server(securityPolicy={"apiKey": key}))


def spec(made: World, name: str, kind: str = "HTTPRoute") -> dict[str, Any]:
    return made.get(kind, name)["spec"]


def test_a_route_leads_to_the_proxy_and_the_proxy_to_each_server():
    made = world(
        g.mcp(g.server(), g.server(name="t", path="/t"), headers=[g.header("x-a")], hostnames=["a.example.com"])
    )
    (rule,) = spec(made, "ai-eg-mcp-main-m")["rules"]
    assert rule["matches"] == [
        {
            "path": {"type": "Exact", "value": "/mcp"},
            "headers": [{"type": "Exact", "name": "x-a", "value": "v"}],
        }
    ]
    assert rule["backendRefs"][0] == {
        "group": "gateway.envoyproxy.io",
        "kind": "Backend",
        "name": "ai-eg-mcp-proxy",
        "namespace": "default",
        "port": 9856,
        "weight": 1,
    }
    assert rule["timeouts"] == {"request": "30m", "backendRequest": "30m"}
    assert spec(made, "ai-eg-mcp-proxy", "Backend")["endpoints"] == [{"ip": {"address": "192.0.2.42", "port": 9856}}]
    (to_server,) = spec(made, "ai-eg-mcp-br-m-t")["rules"]
    assert [each["value"] for each in to_server["matches"][0]["headers"]] == ["t", "default/m"]
    assert to_server["filters"][-1]["urlRewrite"] == {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/t"}}
    assert to_server["backendRefs"] == [{"group": "", "kind": "Service", "name": "t", "port": 80, "weight": 1}]
    assert spec(made, "ai-eg-mcp-br-m-t")["hostnames"] == ["a.example.com"]
    assert "annotations" not in made.get("HTTPRoute", "ai-eg-mcp-main-m")["metadata"]
    assert made.accepted("MCPRoute", "m") == ""


def test_servers_and_routes_that_go_take_their_objects_along():
    made = world(g.mcp(g.server(), g.server(name="t")))
    made.put(g.mcp(g.server()))
    made.settle()
    assert made.names("HTTPRoute") == ["default/ai-eg-mcp-br-m-s", "default/ai-eg-mcp-main-m"]
    made.delete("MCPRoute", "m")
    made.settle()
    assert made.names("HTTPRoute") == made.names("HTTPRouteFilter") == made.names("Backend") == []


def test_a_backend_of_the_proxys_name_that_is_not_ours_stays():
    made = world(g.endpoint("ai-eg-mcp-proxy"))
    assert made.names("Backend") == ["default/ai-eg-mcp-proxy"]
    made.planner.want(next(iter({plan.owner for plan in made.plans.values()})))
    made.settle()
    assert made.names("Backend") == ["default/ai-eg-mcp-proxy"]


@pytest.mark.parametrize("header", [None, "authorization", "Authorization"])
def test_a_key_of_a_secret_is_injected_as_a_bearer_token(header: str | None):
    made = world(g.secret("k", apiKey="key"), keyed(secretRef={"name": "k"}, **({"header": header} if header else {})))
    stored = made.get("Secret", "ai-eg-mcp-cred-m-s")
    assert base64.b64decode(stored["data"]["credential"]) == b"Bearer key"
    injection = spec(made, "ai-eg-mcp-brf-m-s", "HTTPRouteFilter")["credentialInjection"]
    assert injection["overwrite"] is True
    assert injection["credential"]["valueRef"]["name"] == "ai-eg-mcp-cred-m-s"
    assert injection.get("header") == header


def test_a_key_in_another_header_is_sent_as_it_is():
    made = world(g.secret("k", apiKey="key"), keyed(secretRef={"name": "k"}, header="x-key"))
    assert base64.b64decode(made.get("Secret", "ai-eg-mcp-cred-m-s")["data"]["credential"]) == b"key"
    made.put(keyed(inline="other", header="x-key"))
    made.settle()
    assert not made.has("Secret", "ai-eg-mcp-cred-m-s")
    (rule,) = spec(made, "ai-eg-mcp-br-m-s")["rules"]
    assert rule["filters"][1]["requestHeaderModifier"] == {"set": [{"name": "x-key", "value": "other"}]}


def test_a_key_in_the_query_is_escaped():
    made = world(g.secret("k", apiKey="a&b=c"), keyed(secretRef={"name": "k"}, queryParam="key"))
    (rule,) = spec(made, "ai-eg-mcp-br-m-s")["rules"]
    assert rule["filters"][-1]["urlRewrite"]["path"]["replaceFullPath"] == "/mcp?key=a%26b%3Dc"


def test_a_server_without_its_key_is_left_out_and_comes_with_it():
    made = world(g.mcp(g.server(securityPolicy={"apiKey": {"secretRef": {"name": "k"}}}), g.server(name="t")))
    assert made.names("HTTPRoute") == ["default/ai-eg-mcp-br-m-t", "default/ai-eg-mcp-main-m"]
    assert "Secret default/k does not exist" in made.accepted("MCPRoute", "m")
    made.put(g.secret("k", apiKey="key"))
    made.settle()
    assert made.has("HTTPRoute", "ai-eg-mcp-br-m-s")
    assert made.accepted("MCPRoute", "m") == ""


def test_oauth_checks_the_issuer_and_tells_clients_where_to_go():
    made = world(g.secured(oauth=OAUTH))
    (provider,) = spec(made, "ai-eg-mcp-m", "SecurityPolicy")["jwt"]["providers"]
    assert provider == {
        "name": "mcp-jwt-provider",
        "issuer": "https://id.example.com/realm",
        "audiences": ["mcp"],
        "claimToHeaders": [{"claim": "sub", "header": "x-sub"}],
        "remoteJWKS": {"uri": "https://id.example.com/keys"},
    }
    rules = spec(made, "ai-eg-mcp-main-m")["rules"]
    assert [rule["matches"][0]["path"]["value"] for rule in rules] == [
        "/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration/mcp",
    ]
    name = "ai-eg-mcp-m-oauth-protected-resource-metadata"
    (override,) = spec(made, name, "BackendTrafficPolicy")["responseOverride"]
    assert override["response"]["header"]["set"][0]["value"] == (
        'Bearer error="invalid_token", error_description="The access token is missing or invalid", '
        'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="a b"'
    )
    body = json.loads(spec(made, name, "HTTPRouteFilter")["directResponse"]["body"]["inline"])
    assert body["authorization_servers"] == ["https://id.example.com/realm"]
    made.put(g.mcp())
    made.settle()
    assert made.names("SecurityPolicy") == made.names("BackendTrafficPolicy") == []


def test_the_policy_is_there_before_the_route_that_it_protects():
    made = world(g.secured(oauth=OAUTH))
    written = [write.key for write in made.writes]
    policy = next(place for place, key in enumerate(written) if key.kind == "SecurityPolicy")
    main = next(place for place, key in enumerate(written) if key.name == "ai-eg-mcp-main-m")
    assert policy < main


def test_a_route_that_cannot_be_protected_is_not_there():
    made = world(g.secured(oauth=OAUTH))
    made.put(g.secured(oauth={name: value for name, value in OAUTH.items() if name != "jwks"}))
    made.settle()
    assert made.names("HTTPRoute") == []
    assert "give remoteJWKS or localJWKS" in made.accepted("MCPRoute", "m")


def test_a_route_is_not_served_behind_the_policy_of_somebody_else():
    theirs = g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "SecurityPolicy", "ai-eg-mcp-m", spec={"targetRefs": []})
    made = world(g.mcp())
    made.put(theirs, g.secured(oauth=OAUTH))
    made.settle()
    assert made.names("HTTPRoute") == []
    assert spec(made, "ai-eg-mcp-m", "SecurityPolicy") == {"targetRefs": []}
    assert "was not made of MCPRoute default/m" in made.accepted("MCPRoute", "m")
    made.delete("SecurityPolicy", "ai-eg-mcp-m")
    made.settle()
    assert made.accepted("MCPRoute", "m") == ""
    assert made.has("HTTPRoute", "ai-eg-mcp-main-m")


@pytest.mark.parametrize("length", [1, 200, 240, 253])
def test_whatever_a_route_is_called_its_policy_is_about_its_route(length: int):
    value = g.secured(oauth=OAUTH)
    value["metadata"]["name"] = "m" * length
    made = world(value)
    assert made.accepted("MCPRoute", "m" * length) == ""
    (policy,) = made.names("SecurityPolicy")
    (target,) = spec(made, policy.removeprefix("default/"), "SecurityPolicy")["targetRefs"]
    (main,) = [name for name in made.names("HTTPRoute") if "-main-" in name]
    assert main == f"default/{target['name']}"
    filters = {
        f"default/{rule['filters'][0].get('extensionRef', {}).get('name')}"
        for rule in spec(made, target["name"])["rules"][1:]
    }
    assert filters <= set(made.names("HTTPRouteFilter"))


def test_other_policies_are_passed_on_as_they_are():
    auth = {"credentialRefs": [{"name": "c"}], "extractFrom": [{"headers": ["x-key"]}]}
    made = world(g.secured(apiKeyAuth=auth))
    assert spec(made, "ai-eg-mcp-m", "SecurityPolicy")["apiKeyAuth"] == auth


def test_long_names_end_in_a_hash_and_differ():
    one, other = name_of("br", "a" * 200, "b" * 100), name_of("br", "a" * 200, "b" * 101)
    assert len(one) == len(other) == 253
    assert one != other
    assert name_of("br", "a", "b") == "ai-eg-mcp-br-a-b"

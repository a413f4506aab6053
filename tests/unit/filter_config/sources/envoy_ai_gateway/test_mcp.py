"""MCPRoutes to the MCP part of the filter config (contract, control plane 2.9). The golden case has the whole of it."""

from __future__ import annotations

import pytest

from tests.support.gateway_resources import AI, compiled, document, faults, gateway, only, resource, route, rule, served


def mcp(name: str = "m", *, meta=None, **spec):
    spec = {"parentRefs": [{"name": "gw"}], "backendRefs": [{"name": "s", "port": 80}], **spec}
    return resource(f"{AI}/v1beta1", "MCPRoute", name, spec=spec, metadata=meta or {})


def routes_of(*resources):
    return document(only(compiled(gateway(), *resources)))["mcpConfig"]["routes"]


def test_without_a_route_there_is_no_mcp_config():
    made = only(compiled(gateway(), route("r", rule("b")), *served("b")))
    assert made.config.mcp_config is None
    assert compiled(gateway(), mcp(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})).gateways == ()


def test_the_oldest_route_comes_first_and_ties_are_broken_by_name():
    old = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    new = {"creationTimestamp": "2026-02-01T00:00:00Z"}
    made = routes_of(mcp("a", meta=new), mcp("c", meta=old), mcp("b", meta=old))
    assert [entry["name"] for entry in made] == ["default/b", "default/c", "default/a"]


def test_a_backend_of_another_namespace_is_left_out_alone():
    refs = [{"name": "far", "namespace": "other", "port": 80}, {"name": "near", "namespace": "default", "port": 80}]
    result = compiled(gateway(), mcp(backendRefs=refs))
    assert [entry.name for entry in result.gateways[0].config.mcp_config.routes[0].backends] == ["near"]
    said = "an MCP backend must be in the namespace of its route; it is left out"
    assert faults(result) == [f"error MCPRoute default/m: spec.backendRefs[0].namespace: {said}"]


def test_a_route_that_selects_its_servers():
    rule = {"cel": "request.mcp.backend == 'a'"}
    result = compiled(gateway(), mcp(backendSelector={"rules": [rule]}), mcp("n"))
    assert faults(result) == []
    selector, nothing = (entry.backend_selector for entry in result.gateways[0].config.mcp_config.routes)
    assert nothing is None
    assert selector.default_action == "Deny"
    assert [(each.action, each.cel) for each in selector.rules] == [("Allow", rule["cel"])]


def oauth(resource_url: str, *headers: str):
    return {
        "issuer": "https://i.example.com",
        "protectedResourceMetadata": {"resource": resource_url},
        "claimToHeaders": [{"claim": "c", "header": name} for name in headers],
    }


URLS = {
    "https://r.example.com": "https://r.example.com/.well-known/oauth-protected-resource",
    "https://r.example.com/": "https://r.example.com/.well-known/oauth-protected-resource",
    "https://r.example.com:8443/a/b/": "https://r.example.com:8443/.well-known/oauth-protected-resource/a/b",
}


@pytest.mark.parametrize(("given", "expected"), URLS.items(), ids=URLS)
def test_the_metadata_of_a_resource_are_at_its_well_known_path(given, expected):
    (made,) = routes_of(mcp(securityPolicy={"oauth": oauth(given), "authorization": {}}))
    assert made["authorization"] == {"defaultAction": "Deny", "resourceMetadataURL": expected}


def test_authorization_is_written_only_where_there_is_any():
    (made,) = routes_of(mcp(securityPolicy={"oauth": oauth("https://r.example.com")}))
    assert "authorization" not in made


def test_forwarded_headers_are_those_of_claims_and_of_keys_without_repeats():
    keys = {"credentialRefs": [{"name": "s"}], "extractFrom": [{"headers": ["x"]}], "forwardClientIDHeader": "X-Client"}
    policy = {"oauth": oauth("https://r.example.com", "x-b", "x-a", "x-b"), "apiKeyAuth": keys}
    (made,) = routes_of(mcp(securityPolicy=policy))
    assert made["forwardHeaders"] == ["x-b", "x-a", "X-Client"]

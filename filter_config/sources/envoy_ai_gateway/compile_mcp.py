"""MCPRoutes to the MCP part of the filter config (contract, control plane 2.9)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from filter_config import model as document
from filter_config.sources.envoy_ai_gateway import mcp_resources as mcp
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.load import Found

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def compile_mcp(route: Found[mcp.MCPRoute], context: Context) -> document.MCPRoute:
    """The route as the MCP proxy reads it."""
    spec = route.value.spec
    backends = []
    for index, ref in enumerate(spec.backend_refs):
        if ref.namespace and ref.namespace != route.namespace:
            at = route.origin.at(f"spec.backendRefs[{index}].namespace")
            message = "an MCP backend must be in the namespace of its route; it is left out"
            context.faults.error(at, message, f"move it to {route.namespace}")
        else:
            backends.append(_backend(ref))
    return document.MCPRoute(
        name=f"{route.namespace}/{route.name}",
        backends=tuple(backends),
        authorization=_authorization(spec.security_policy),
        backend_selector=_selector(spec.backend_selector),
        forward_headers=_forward_headers(spec.security_policy),
    )


def _backend(ref: mcp.MCPBackendRef) -> document.MCPBackend:
    return document.MCPBackend(
        name=ref.name,
        tool_selector=_tools(ref.tool_selector),
        forward_headers=tuple(
            document.MCPForwardHeader(name=header.name, backend_header=header.backend_header or "")
            for header in ref.forward_headers
        ),
    )


def _tools(selector: mcp.ToolSelector | None) -> document.MCPToolSelector | None:
    if selector is None:
        return None
    return document.MCPToolSelector(
        include=selector.include or (),
        include_regex=selector.include_regex or (),
        exclude=selector.exclude or (),
        exclude_regex=selector.exclude_regex or (),
    )


def _forward_headers(policy: mcp.MCPSecurityPolicy | None) -> tuple[str, ...]:
    if policy is None:
        return ()
    names = [entry.header for entry in policy.oauth.claim_to_headers] if policy.oauth is not None else []
    if policy.api_key_auth is not None and policy.api_key_auth.forward_client_id_header:
        names.append(policy.api_key_auth.forward_client_id_header)
    return tuple(dict.fromkeys(names))


def _authorization(policy: mcp.MCPSecurityPolicy | None) -> document.MCPAuthorization | None:
    if policy is None or policy.authorization is None:
        return None
    return document.MCPAuthorization(
        default_action=policy.authorization.default_action,
        resource_metadata_url=_metadata_url(policy.oauth) if policy.oauth is not None else "",
        rules=tuple(_rule(rule) for rule in policy.authorization.rules),
    )


def _selector(selector: mcp.BackendSelector | None) -> document.MCPAuthorization | None:
    if selector is None:
        return None
    return document.MCPAuthorization(
        default_action=selector.default_action,
        rules=tuple(document.MCPAuthorizationRule(action=rule.action, cel=rule.cel or "") for rule in selector.rules),
    )


def _metadata_url(oauth: mcp.MCPOAuth) -> str:
    """Where RFC 9728 has the metadata of a resource: its well-known path goes between origin and path."""
    resource = urlsplit(oauth.protected_resource_metadata.resource.removesuffix("/"))
    return f"{resource.scheme}://{resource.netloc}{_WELL_KNOWN}{resource.path}"


def _rule(rule: mcp.AuthorizationRule) -> document.MCPAuthorizationRule:
    return document.MCPAuthorizationRule(
        action=rule.action,
        cel=rule.cel or "",
        source=_source(rule.source.jwt) if rule.source is not None else None,
        target=document.MCPAuthorizationTarget(
            tools=tuple(document.MCPToolReference(backend=tool.backend, tool=tool.tool) for tool in rule.target.tools)
        )
        if rule.target is not None
        else None,
    )


def _source(jwt: mcp.JWTSource) -> document.MCPAuthorizationSource:
    claims = (
        document.MCPClaim(name=claim.name, value_type=claim.value_type, values=claim.values) for claim in jwt.claims
    )
    return document.MCPAuthorizationSource(jwt=document.MCPJWTSource(scopes=jwt.scopes, claims=tuple(claims)))

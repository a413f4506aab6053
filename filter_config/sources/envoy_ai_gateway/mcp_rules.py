"""What the fields of an MCPRoute must say together; see :mod:`.rules` (contract, control plane 1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from filter_config.decode import shown
from filter_config.sources.envoy_ai_gateway.fields import CORE_GROUP
from filter_config.sources.envoy_ai_gateway.reading import Finding

if TYPE_CHECKING:
    from filter_config.sources.envoy_ai_gateway.mcp_resources import (
        AuthorizationRule,
        MCPAPIKey,
        MCPBackendRef,
        MCPRoute,
        ToolSelector,
    )


def backends(route: MCPRoute) -> Iterator[Finding]:
    """Servers have names of their own, and each what it needs."""
    names = [ref.name for ref in route.spec.backend_refs]
    for index, ref in enumerate(route.spec.backend_refs):
        at = f"spec.backendRefs[{index}]"
        if ref.name in names[:index]:
            yield Finding(f"{at}.name", f"{shown(ref.name)} is there twice", "give each backend a name of its own")
        yield from _backend(ref, at)


def _backend(ref: MCPBackendRef, at: str) -> Iterator[Finding]:
    if (ref.group, ref.kind) == (CORE_GROUP, "Service") and ref.port is None:
        yield Finding(f"{at}.port", "is required for a Service", "add it")
    if ref.tool_selector is not None:
        yield from _tools(ref.tool_selector, f"{at}.toolSelector")
    if ref.security_policy is not None and ref.security_policy.api_key is not None:
        yield from _api_key(ref.security_policy.api_key, f"{at}.securityPolicy.apiKey")


def _tools(selector: ToolSelector, at: str) -> Iterator[Finding]:
    if selector.include is not None and selector.include_regex is not None:
        yield Finding(at, "include and includeRegex exclude each other", "keep one")
    if selector.exclude is not None and selector.exclude_regex is not None:
        yield Finding(at, "exclude and excludeRegex exclude each other", "keep one")
    lists = (selector.include, selector.include_regex, selector.exclude, selector.exclude_regex)
    if all(names is None for names in lists):
        yield Finding(at, "selects nothing", "give include, includeRegex, exclude or excludeRegex")


def _api_key(key: MCPAPIKey, at: str) -> Iterator[Finding]:
    if (key.secret_ref is None) == (key.inline is None):
        yield Finding(at, "exactly one of secretRef and inline is needed", "keep one")
    if key.header is not None and key.query_param is not None:
        yield Finding(at, "header and queryParam exclude each other", "keep one")


def match_headers(route: MCPRoute) -> Iterator[Finding]:
    """A header is named once."""
    names = [header.name for header in route.spec.headers]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Finding(f"spec.headers[{index}].name", f"{shown(name)} is there twice", "keep one")


def security(route: MCPRoute) -> Iterator[Finding]:
    """Keys come from one place, and an external authorizer speaks one protocol."""
    policy = route.spec.security_policy
    if policy is None:
        return
    jwks = policy.oauth.jwks if policy.oauth is not None else None
    if jwks is not None and (jwks.remote_jwks is None) == (jwks.local_jwks is None):
        at = "spec.securityPolicy.oauth.jwks"
        yield Finding(at, "exactly one of remoteJWKS and localJWKS is needed", "keep one")
    if policy.ext_auth is not None and (policy.ext_auth.get("grpc") is None) == (policy.ext_auth.get("http") is None):
        yield Finding("spec.securityPolicy.extAuth", "exactly one of grpc and http is needed", "keep one")


def authorization(route: MCPRoute) -> Iterator[Finding]:
    """Rules about tokens need someone who issues them; without rules there is nothing to need it for."""
    policy = route.spec.security_policy
    if policy is None or policy.authorization is None:
        return
    for index, rule in enumerate(policy.authorization.rules):
        at = f"spec.securityPolicy.authorization.rules[{index}]"
        if rule.source is not None and policy.oauth is None:
            fix = "configure spec.securityPolicy.oauth"
            yield Finding(f"{at}.source.jwt", "a rule about tokens on a route that takes none", fix)
        yield from _source(rule, f"{at}.source.jwt")


def _source(rule: AuthorizationRule, at: str) -> Iterator[Finding]:
    if rule.source is None:
        return
    if not rule.source.jwt.scopes and not rule.source.jwt.claims:
        yield Finding(at, "asks for nothing", "give scopes or claims")
    for index, claim in enumerate(rule.source.jwt.claims):
        if claim.name == "scope":
            yield Finding(f"{at}.claims[{index}].name", "'scope' is not a claim here", "write it under scopes")


MCP_RULES: Final = (backends, match_headers, security, authorization)

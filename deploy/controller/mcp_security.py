"""Who may use an MCPRoute, as policies of Envoy Gateway (contract, control plane 3.6.4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from deploy.controller.http_routes import extension, object_of
from deploy.controller.kinds import Object
from deploy.controller.store import Entry
from filter_config.sources.emit import MAX_OBJECT_NAME
from filter_config.sources.envoy_ai_gateway.fields import GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPOAuth, MCPRoute

PROVIDER: Final = "mcp-jwt-provider"
_RESOURCE: Final = "oauth-protected-resource-metadata"
_SERVER: Final = "oauth-authorization-server-metadata"
_CORS: Final = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET"),
    ("Access-Control-Allow-Headers", "mcp-protocol-version"),
)


class Unprotected(Exception):
    """A route cannot be protected as it says; the text says why."""


def name_of(kind: str, *parts: str) -> str:
    """``ai-eg-mcp-<kind>-<parts>``, with a hash in place of the end when that is no name."""
    name = "-".join((f"ai-eg-mcp-{kind}" if kind else "ai-eg-mcp", *parts))
    if len(name) <= MAX_OBJECT_NAME:
        return name
    digest = hashlib.sha256("/".join((kind, *parts)).encode()).hexdigest()[:12]
    return f"{name[: MAX_OBJECT_NAME - len(digest) - 1].rstrip('-.')}-{digest}"


def objects(entry: Entry, route: MCPRoute) -> tuple[Object, ...]:
    """The policies of a route, and the filters that its rules of :func:`rules` refer to.

    Raises:
        Unprotected: there are no keys to check tokens with.
    """
    policy = route.spec.security_policy
    if policy is None or (policy.oauth is None and policy.api_key_auth is None and policy.ext_auth is None):
        return ()
    raw = entry.value["spec"]["securityPolicy"]
    spec: Object = {"targetRefs": _targets(entry)}
    for field in ("apiKeyAuth", "extAuth"):
        if field in raw:
            spec[field] = raw[field]
    if policy.oauth is not None:
        spec["jwt"] = {"providers": [_provider(policy.oauth, raw["oauth"])]}
    made = [object_of("SecurityPolicy", entry, name_of("", entry.key.name), spec=spec)]
    if policy.oauth is not None:
        made += _oauth(entry, policy.oauth)
    return tuple(made)


def rules(entry: Entry, route: MCPRoute) -> Iterator[Object]:
    """The rules by which clients learn how to get a token."""
    policy = route.spec.security_policy
    if policy is None or policy.oauth is None:
        return
    path = route.spec.path.removesuffix("/")
    for name, prefix, document in (
        (_RESOURCE, "/.well-known/oauth-protected-resource", _RESOURCE),
        (_SERVER, "/.well-known/oauth-authorization-server", _SERVER),
        (f"{_SERVER}-oidc", "/.well-known/openid-configuration", _SERVER),
    ):
        yield {
            "name": name,
            "matches": [{"path": {"type": "Exact", "value": f"{prefix}{path}"}}],
            "filters": [extension(name_of("", entry.key.name, document))],
        }


def _targets(entry: Entry) -> list[Object]:
    return [{"group": GATEWAY_GROUP, "kind": "HTTPRoute", "name": name_of("main", entry.key.name)}]


def _provider(oauth: MCPOAuth, raw: Object) -> Object:
    provider: dict[str, Any] = {"name": PROVIDER, "issuer": oauth.issuer}
    if oauth.audiences:
        provider["audiences"] = list(oauth.audiences)
    if oauth.claim_to_headers:
        provider["claimToHeaders"] = [{"claim": each.claim, "header": each.header} for each in oauth.claim_to_headers]
    keys = raw.get("jwks") or {}
    given = {field: keys[field] for field in ("remoteJWKS", "localJWKS") if field in keys}
    if not given:
        raise Unprotected(
            "spec.securityPolicy.oauth.jwks: the issuer is not asked for its keys; give remoteJWKS or localJWKS. "
            "The route is not served"
        )
    return {**provider, **given}


# --- metadata ---


def _oauth(entry: Entry, oauth: MCPOAuth) -> Iterator[Object]:
    name = entry.key.name
    spec: Object = {"targetRefs": _targets(entry), "responseOverride": [_challenge(oauth)]}
    yield object_of("BackendTrafficPolicy", entry, name_of("", name, _RESOURCE), spec=spec)
    for suffix, document in ((_RESOURCE, _resource(oauth)), (_SERVER, _server(oauth))):
        response = {
            "statusCode": 200,
            "contentType": "application/json",
            "body": {"type": "Inline", "inline": json.dumps(document, separators=(",", ":"))},
            "header": _headers(_CORS),
        }
        yield object_of("HTTPRouteFilter", entry, name_of("", name, suffix), spec={"directResponse": response})


def _headers(headers: tuple[tuple[str, str], ...]) -> Object:
    return {"set": [{"name": name, "value": value} for name, value in headers]}


def _challenge(oauth: MCPOAuth) -> Object:
    """What a client without a token gets (RFC 9728, 5.1)."""
    metadata = oauth.protected_resource_metadata
    resource = urlsplit(metadata.resource.removesuffix("/"))
    url = f"{resource.scheme}://{resource.netloc}/.well-known/oauth-protected-resource{resource.path}"
    value = (
        'Bearer error="invalid_token", error_description="The access token is missing or invalid", '
        f'resource_metadata="{url}"'
    )
    if metadata.scopes_supported:
        value += f', scope="{" ".join(metadata.scopes_supported)}"'
    return {
        "match": {"statusCodes": [{"type": "Value", "value": 401}]},
        "response": {"statusCode": 401, "header": _headers((("WWW-Authenticate", value), *_CORS))},
    }


def _resource(oauth: MCPOAuth) -> Object:
    metadata = oauth.protected_resource_metadata
    given = {
        "resource_name": metadata.resource_name,
        "scopes_supported": list(metadata.scopes_supported),
        "resource_signing_alg_values_supported": list(metadata.resource_signing_alg_values_supported or ()),
        "resource_documentation": metadata.resource_documentation,
        "resource_policy_uri": metadata.resource_policy_uri,
    }
    return {
        "resource": metadata.resource,
        "authorization_servers": [oauth.issuer],
        "bearer_methods_supported": ["header"],
        **{name: value for name, value in given.items() if value},
    }


def _server(oauth: MCPOAuth) -> Object:
    """The peer's answer for an issuer that tells nothing about itself."""
    issuer = oauth.issuer.removesuffix("/")
    endpoints = f"{issuer}/protocol/openid-connect"
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{endpoints}/auth",
        "token_endpoint": f"{endpoints}/token",
        "jwks_uri": f"{endpoints}/certs",
        "scopes_supported": list(oauth.protected_resource_metadata.scopes_supported),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
    }

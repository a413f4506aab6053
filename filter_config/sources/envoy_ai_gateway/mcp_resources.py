"""MCPRoute, in all served versions (contract, control plane 1.5); see :mod:`.resources` for how."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.fields import (
    BackendObjectReference,
    HeaderName,
    Hostname,
    ParentReference,
    Part,
    Resource,
    SecretReference,
    Text,
)

Action = Literal["Allow", "Deny"]
# An absolute URI: a scheme, and something after it.
URI = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s]+\Z")]
Expression = Annotated[str, Meta(max_length=4096)]
Names = Annotated[tuple[str, ...], Meta(max_length=32)]


class MCPHeaderMatch(Part, frozen=True, kw_only=True):
    """A header that a request must carry."""

    type: Literal["Exact", "RegularExpression"] = "Exact"
    name: HeaderName
    value: Annotated[str, Meta(min_length=1, max_length=4096)]


class ToolSelector(Part, frozen=True, kw_only=True):
    """Which tools of a server are offered; exclusion wins."""

    include: Names | None = None
    include_regex: Names | None = None
    exclude: Names | None = None
    exclude_regex: Names | None = None


class MCPAPIKey(Part, frozen=True, kw_only=True):
    """The API key of a server, and where it goes."""

    secret_ref: SecretReference | None = None
    inline: Secret | None = None
    header: Text | None = None
    query_param: Text | None = None


class MCPBackendSecurity(Part, frozen=True, kw_only=True):
    """How requests to a server are authenticated."""

    api_key: MCPAPIKey | None = None


class ForwardHeader(Part, frozen=True, kw_only=True):
    """A header of the client that a server gets."""

    name: Text
    backend_header: Text | None = None


class MCPBackendRef(BackendObjectReference, frozen=True, kw_only=True):
    """An MCP server."""

    path: Annotated[str, Meta(max_length=1024)] = "/mcp"
    tool_selector: ToolSelector | None = None
    security_policy: MCPBackendSecurity | None = None
    forward_headers: Annotated[tuple[ForwardHeader, ...], Meta(max_length=32)] = ()


class JWKS(Part, frozen=True, kw_only=True):
    """Keys of an issuer."""

    remote_jwks: dict[str, Any] | None = field(name="remoteJWKS", default=None)
    local_jwks: dict[str, Any] | None = field(name="localJWKS", default=None)


class ProtectedResourceMetadata(Part, frozen=True, kw_only=True):
    """What RFC 9728 says of the route."""

    resource: URI
    resource_name: Annotated[str, Meta(max_length=256)] | None = None
    scopes_supported: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    resource_signing_alg_values_supported: Annotated[tuple[str, ...], Meta(min_length=1, max_length=16)] | None = None
    resource_documentation: URI | None = None
    resource_policy_uri: URI | None = None


class ClaimToHeader(Part, frozen=True, kw_only=True):
    """A claim that Envoy puts into a header."""

    claim: str
    header: str


class MCPOAuth(Part, frozen=True, kw_only=True):
    """Whose tokens a route takes."""

    issuer: URI
    audiences: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    jwks: JWKS | None = None
    protected_resource_metadata: ProtectedResourceMetadata
    claim_to_headers: Annotated[tuple[ClaimToHeader, ...], Meta(max_length=16)] = ()


class APIKeyAuth(Part, frozen=True, kw_only=True):
    """Whose API keys a route takes, in Envoy Gateway's words."""

    credential_refs: tuple[Any, ...]
    extract_from: tuple[Any, ...]
    forward_client_id_header: str | None = None
    sanitize: bool | None = None


class Claim(Part, frozen=True, kw_only=True):
    """A claim that a token must carry."""

    name: Text
    value_type: Literal["String", "StringArray"] = "String"
    values: Annotated[tuple[str, ...], Meta(min_length=1, max_length=128)]


class JWTSource(Part, frozen=True, kw_only=True):
    """What the caller's token must carry."""

    scopes: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    claims: Annotated[tuple[Claim, ...], Meta(max_length=16)] = ()


class AuthorizationSource(Part, frozen=True, kw_only=True):
    """Who may call."""

    jwt: JWTSource


class ToolReference(Part, frozen=True, kw_only=True):
    """A tool of a server."""

    backend: Text
    tool: Text


class AuthorizationTarget(Part, frozen=True, kw_only=True):
    """What is called."""

    tools: Annotated[tuple[ToolReference, ...], Meta(min_length=1, max_length=16)]


class AuthorizationRule(Part, frozen=True, kw_only=True):
    """A rule for tool calls."""

    source: AuthorizationSource | None = None
    target: AuthorizationTarget | None = None
    cel: Expression | None = None
    action: Action = "Allow"


class Authorization(Part, frozen=True, kw_only=True):
    """Who may call which tool."""

    default_action: Action = "Deny"
    rules: Annotated[tuple[AuthorizationRule, ...], Meta(max_length=32)] = ()


class SelectorRule(Part, frozen=True, kw_only=True):
    """A rule for servers."""

    cel: Expression | None = None
    action: Action = "Allow"


class BackendSelector(Part, frozen=True, kw_only=True):
    """Which servers a session has."""

    default_action: Action = "Deny"
    rules: Annotated[tuple[SelectorRule, ...], Meta(max_length=32)] = ()


class MCPSecurityPolicy(Part, frozen=True, kw_only=True):
    """Who may use a route."""

    oauth: MCPOAuth | None = None
    api_key_auth: APIKeyAuth | None = None
    ext_auth: dict[str, Any] | None = None
    authorization: Authorization | None = None


class MCPRouteSpec(Part, frozen=True, kw_only=True):
    """See :class:`MCPRoute`."""

    parent_refs: Annotated[tuple[ParentReference, ...], Meta(min_length=1, max_length=16)]
    path: Annotated[str, Meta(max_length=1024)] = "/mcp"
    headers: Annotated[tuple[MCPHeaderMatch, ...], Meta(max_length=16)] = ()
    hostnames: Annotated[tuple[Hostname, ...], Meta(max_length=16)] = ()
    backend_refs: Annotated[tuple[MCPBackendRef, ...], Meta(min_length=1, max_length=256)]
    security_policy: MCPSecurityPolicy | None = None
    backend_selector: BackendSelector | None = None


class MCPRoute(Resource, frozen=True, kw_only=True):
    """MCP servers behind one path."""

    spec: MCPRouteSpec
    status: Any = None

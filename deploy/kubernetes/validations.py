"""What the fields of a resource must say together, as CEL rules by the struct that they are about.

Each rule has a twin in :mod:`filter_config.sources.envoy_ai_gateway.rules`, by which ``extproc translate --check``
looks at files; tests hold the two together. A rule is written at the lowest struct that sees everything it speaks of,
so that it counts, and costs, where it belongs: the API server refuses a CRD whose rules might take too long (contract,
control plane 1.1 to 1.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from filter_config.sources.envoy_ai_gateway import fields, mcp_resources, resources
from filter_config.sources.envoy_ai_gateway.fields import (
    AI_GROUP,
    ENVOY_GATEWAY_GROUP,
    GATEWAY_GROUP,
    INFERENCE_GROUP,
)
from filter_config.sources.envoy_ai_gateway.rules import RESERVED_RULE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A CEL rule over ``self``. ``version``: the only served version that has it, all when empty."""

    expression: str
    message: str
    version: str = ""

    def to_schema(self) -> dict[str, str]:
        """The rule as a CRD writes it."""
        return {"rule": self.expression, "message": self.message}


def _exclusive(*names: str) -> str:
    """At most one of some optional fields is given."""
    return " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names) + " <= 1"


def _one_of(first: str, second: str) -> str:
    return f"has(self.{first}) != has(self.{second})"


def _each_is(items: str, allowed: tuple[tuple[str, str], ...]) -> str:
    """All references of an optional list are of one of some pairs of group and kind."""
    pairs = " || ".join(f"(t.group == '{group}' && t.kind == '{kind}')" for group, kind in allowed)
    return f"!has(self.{items}) || self.{items}.all(t, {pairs})"


def _goes_with(kind: str, member: str) -> Rule:
    return Rule(
        expression=f"(self.type == '{kind}') == has(self.{member})",
        message=f"{member} goes with type {kind}, and with no other",
    )


_SERVICE_BACKEND: Final = (AI_GROUP, "AIServiceBackend")
_POOL: Final = (INFERENCE_GROUP, "InferencePool")

_PARENT: Final = Rule(
    expression=f"self.kind == 'Gateway' && self.group == '{GATEWAY_GROUP}'",
    message=f"a route attaches to a Gateway of {GATEWAY_GROUP}",
)

_ROUTES: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    fields.ParentReference: (_PARENT,),
    resources.AIGatewayRouteSpec: (
        Rule(
            expression="self.rules.all(a, !has(a.name) || self.rules.exists_one(b, has(b.name) && b.name == a.name))",
            message="names of rules are unique",
        ),
    ),
    resources.RouteRule: (
        Rule(
            expression=f"!has(self.name) || self.name != '{RESERVED_RULE_NAME}'",
            message=f"{RESERVED_RULE_NAME} is reserved, choose another name",
        ),
        Rule(
            expression="!has(self.backendRefs) || self.backendRefs.size() < 2 || "
            "self.backendRefs.all(r, !has(r.group) && !has(r.kind))",
            message="an InferencePool needs a rule of its own",
        ),
    ),
    resources.RouteBackendRef: (
        Rule(
            expression="has(self.group) == has(self.kind)",
            message="group and kind are given together",
        ),
        Rule(
            expression="!has(self.group) || !has(self.kind) || "
            f"(self.group == '{INFERENCE_GROUP}' && self.kind == 'InferencePool')",
            message=f"write group {INFERENCE_GROUP} and kind InferencePool, or neither for an AIServiceBackend",
        ),
    ),
    resources.RouteTimeouts: (
        Rule(
            expression="!has(self.request) || !has(self.backendRequest) || "
            "duration(self.request) == duration('0s') || duration(self.backendRequest) <= duration(self.request)",
            message="backendRequest is not more than request",
        ),
    ),
}

_BACKENDS: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    resources.AIServiceBackendSpec: (
        Rule(
            expression=f"self.backendRef.group == '{ENVOY_GATEWAY_GROUP}' && self.backendRef.kind == 'Backend'",
            message=f"backendRef is of group {ENVOY_GATEWAY_GROUP} and kind Backend",
        ),
    ),
}

_POLICIES: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    resources.BackendSecurityPolicySpec: (
        Rule(
            expression=_each_is("targetRefs", (_SERVICE_BACKEND, _POOL)),
            message="a target is an AIServiceBackend or an InferencePool",
        ),
        _goes_with("APIKey", "apiKey"),
        _goes_with("AWSCredentials", "awsCredentials"),
        _goes_with("AzureAPIKey", "azureAPIKey"),
        _goes_with("AzureCredentials", "azureCredentials"),
        _goes_with("GCPCredentials", "gcpCredentials"),
        _goes_with("AnthropicAPIKey", "anthropicAPIKey"),
    ),
    resources.AWSCredentials: (
        Rule(
            expression=_exclusive("credentialsFile", "oidcExchangeToken"),
            message="credentialsFile and oidcExchangeToken exclude each other",
        ),
    ),
    resources.AzureCredentials: (
        Rule(
            expression=_one_of("clientSecretRef", "oidcExchangeToken"),
            message="exactly one of clientSecretRef and oidcExchangeToken is needed",
        ),
    ),
    resources.GCPCredentials: (
        Rule(
            expression=_exclusive("credentialsFile", "workloadIdentityFederationConfig"),
            message="credentialsFile and workloadIdentityFederationConfig exclude each other",
        ),
        Rule(
            expression="has(self.credentialsFile) || has(self.workloadIdentityFederationConfig)",
            message="give credentialsFile or workloadIdentityFederationConfig, or write apiVersion v1beta1",
            version="v1alpha1",
        ),
    ),
    fields.OIDC: (
        Rule(
            expression=_one_of("clientID", "clientIDRef"),
            message="exactly one of clientID and clientIDRef is needed",
        ),
    ),
    resources.CredentialOverride: (
        Rule(
            expression=_one_of("fromRequestHeaders", "fromDynamicMetadata"),
            message="exactly one of fromRequestHeaders and fromDynamicMetadata is needed",
        ),
    ),
}

_GATEWAYS: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    resources.ExtProcContainer: (
        Rule(
            expression=_exclusive("image", "imageRepository"),
            message="image and imageRepository exclude each other",
        ),
    ),
}

_QUOTAS: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    resources.QuotaPolicySpec: (
        Rule(
            expression=_each_is("targetRefs", (_SERVICE_BACKEND,)),
            message="a target is an AIServiceBackend",
        ),
    ),
    resources.QuotaValue: (
        Rule(
            expression="self.limit <= 4294967295",
            message="a rate limit service counts to 4294967295",
        ),
    ),
    resources.ModelQuotaDefinition: (
        Rule(
            expression="has(self.defaultBucket) || (has(self.bucketRules) && self.bucketRules.size() > 0)",
            message="give defaultBucket or bucketRules",
        ),
    ),
}

_MCP: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    mcp_resources.MCPRouteSpec: (
        Rule(
            expression="self.backendRefs.all(a, self.backendRefs.exists_one(b, b.name == a.name))",
            message="names of backends are unique",
        ),
    ),
    mcp_resources.MCPBackendRef: (
        Rule(
            expression="self.group != '' || self.kind != 'Service' || has(self.port)",
            message="port is required for a Service",
        ),
    ),
    mcp_resources.ToolSelector: (
        Rule(
            expression=_exclusive("include", "includeRegex"),
            message="include and includeRegex exclude each other",
        ),
        Rule(
            expression=_exclusive("exclude", "excludeRegex"),
            message="exclude and excludeRegex exclude each other",
        ),
        Rule(
            expression="has(self.include) || has(self.includeRegex) || has(self.exclude) || has(self.excludeRegex)",
            message="give include, includeRegex, exclude or excludeRegex",
        ),
    ),
    mcp_resources.MCPAPIKey: (
        Rule(
            expression=_one_of("secretRef", "inline"),
            message="exactly one of secretRef and inline is needed",
        ),
        Rule(
            expression=_exclusive("header", "queryParam"),
            message="header and queryParam exclude each other",
        ),
    ),
    mcp_resources.JWKS: (
        Rule(
            expression=_one_of("remoteJWKS", "localJWKS"),
            message="exactly one of remoteJWKS and localJWKS is needed",
        ),
    ),
    mcp_resources.MCPSecurityPolicy: (
        Rule(
            expression="!has(self.extAuth) || has(self.extAuth.grpc) != has(self.extAuth.http)",
            message="extAuth has exactly one of grpc and http",
        ),
        # Guarded against an authorization without rules (contract, control plane 1.5).
        Rule(
            expression="has(self.oauth) || !has(self.authorization) || !has(self.authorization.rules) || "
            "self.authorization.rules.all(r, !has(r.source))",
            message="a rule about tokens needs oauth",
        ),
    ),
    mcp_resources.JWTSource: (
        Rule(
            expression="(has(self.scopes) && self.scopes.size() > 0) || (has(self.claims) && self.claims.size() > 0)",
            message="give scopes or claims",
        ),
    ),
    mcp_resources.Claim: (
        Rule(
            expression="self.name != 'scope'",
            message="scope is not a claim here, write it under scopes",
        ),
    ),
}

RULES: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    **_ROUTES,
    **_BACKENDS,
    **_POLICIES,
    **_GATEWAYS,
    **_QUOTAS,
    **_MCP,
}


# --- what one field says, beyond its annotation ---


def _map_by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


_SET: Final = {"x-kubernetes-list-type": "set"}
_OPAQUE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
IMAGE: Final = (
    r"^[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$"
)
_PORT: Final = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

REFINEMENTS: Final[Mapping[type[Struct], Mapping[str, dict[str, Any]]]] = {
    fields.HeaderMutation: {"set": _map_by("name"), "remove": _SET},
    fields.BodyMutation: {"set": _map_by("path"), "remove": _SET},
    fields.Header: {"value": {"minLength": 1, "maxLength": 4096}},
    resources.RouteMatch: {"headers": _map_by("name")},
    resources.GatewayConfigSpec: {"globalLLMRequestCosts": _map_by("metadataKey")},
    resources.ExtProcContainer: {
        "image": {"pattern": IMAGE},
        # No colon after the last slash, which would begin a tag.
        "imageRepository": {"pattern": r"^([^@]*/)?[^@:/]*$"},
    },
    resources.ForwardProxy: {"address": {"pattern": rf"^[\s\S]+:{_PORT}$"}},
    mcp_resources.MCPRouteSpec: {"headers": _map_by("name")},
    # A rule can only speak of fields that have a type.
    mcp_resources.JWKS: {"remoteJWKS": _OPAQUE, "localJWKS": _OPAQUE},
    mcp_resources.MCPSecurityPolicy: {"extAuth": {"properties": {"grpc": _OPAQUE, "http": _OPAQUE}}},
}
"""Fields by struct and document key."""

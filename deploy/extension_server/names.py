"""Names that only an Envoy that is configured by Envoy Gateway has, and what they tell.

Envoy Gateway says in names where an object comes from. They are read here and nowhere else (contract, control plane
6.4 to 6.11, 10.5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
HTTP_FILTERS: Final = "envoy.filters.http."
PROXY_SOCKET: Final = "envoy.transport_sockets.http_11_proxy"

OWNER_NAMESPACE: Final = "envoy-gateway"
"""The namespace of static metadata in which Envoy Gateway names the resources behind an object."""
GENERATED: Final = "ai-gateway-generated"
"""The annotation of HTTPRoutes that were made of an AIGatewayRoute, as it arrives in metadata."""
POOL_KEY: Final = "per_route_rule_inference_pool"
DESTINATION_HEADER: Final = "x-gateway-destination-endpoint"

OWN_LISTENERS: Final = ("envoy-gateway-proxy-stats-", "envoy-gateway-proxy-ready-")
"""Begin of the names of listeners that serve Envoy Gateway itself."""

MCP_PREFIX: Final = "ai-eg-mcp-"
MCP_MAIN_PREFIX: Final = "ai-eg-mcp-main-"
MCP_BACKEND_PREFIX: Final = "ai-eg-mcp-br-"
MCP_FILTER_PREFIX: Final = "ai-eg-mcp-brf-"
MCP_LISTENER: Final = "aigateway-mcp-backend-listener"
MCP_ROUTES: Final = f"{MCP_LISTENER}-route-config"
MCP_HOST: Final = f"{MCP_LISTENER}-wildcard"
MCP_SUBSET_HEADER: Final = "x-ai-eg-mcp-backend-subset"
MCP_SUBSET_KEY: Final = "mcp_backend_subset"

# The same names come again in every hook.
_REMEMBERED: Final = 1 << 15
_RULE: Final = re.compile(r"httproute/([^/]+)/([^/]+)/rule/([0-9]{1,9})(?:/(.+))?")
_BACKEND: Final = re.compile(r"backend/([0-9]{1,9})")
_REF: Final = re.compile(r"/ref/([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleName:
    """The rule of an HTTPRoute that an object serves, and the backend reference when it is about one of them."""

    namespace: str
    route: str
    rule: int
    ref: int | None = None


@lru_cache(_REMEMBERED)
def of_cluster(name: str) -> RuleName | None:
    """What a cluster serves, by its name or by the region of a locality; None for every other one."""
    found = _RULE.fullmatch(name)
    if found is None:
        return None
    namespace, route, rule, rest = found.groups()
    backend = _BACKEND.fullmatch(rest) if rest else None
    if rest and backend is None:
        return None
    return RuleName(namespace=namespace, route=route, rule=int(rule), ref=int(backend[1]) if backend else None)


@lru_cache(_REMEMBERED)
def of_route(name: str) -> RuleName | None:
    """What a route serves: after the rule, its name goes on with the match and the host."""
    found = _RULE.fullmatch(name)
    return RuleName(namespace=found[1], route=found[2], rule=int(found[3])) if found else None


def gateway_of_listener(name: str) -> tuple[str, str] | None:
    """Namespace and name of the gateway, when a listener or route configuration is named after one of its listeners."""
    parts = name.split("/")
    return (parts[0], parts[1]) if len(parts) == 3 and all(parts) else None


@lru_cache(_REMEMBERED)
def ref_of_backend(backend_id: str) -> int | None:
    """The place of a backend among the references of its rule."""
    found = _REF.search(backend_id)
    return int(found[1]) if found else None


def is_mcp_filter(name: str) -> bool:
    """Whether an HTTP filter was made for an MCP server."""
    return any(part.startswith(MCP_FILTER_PREFIX) for part in name.split("/"))


def picker_cluster(namespace: str, pool: str) -> str:
    """The cluster of the endpoint picker of a pool."""
    return f"envoy.clusters.endpointpicker_{pool}_{namespace}_ext_proc"


def picker_filter(namespace: str, pool: str) -> str:
    """The HTTP filter that asks the endpoint picker of a pool."""
    return f"envoy.filters.http.ext_proc/endpointpicker/{pool}_{namespace}_ext_proc"

"""The names that Envoy, the processor and the control plane must agree on.

Each is fixed by the contract (server, section 0; control plane, section 10.5). A gateway that was configured for the
peer keeps working with this processor only as long as not one of them changes.
"""

from __future__ import annotations

from typing import Final

# Namespaces of metadata.
DYNAMIC_NAMESPACE: Final = "io.envoy.ai_gateway"
"""Dynamic metadata that the processor writes per request: costs, backend, content length."""
XDS_NAMESPACE: Final = "aigateway.envoy.io"
"""Static metadata on endpoints, clusters and routes that tells the processor where a request is going."""

BACKEND_NAME_KEY: Final = "per_route_rule_backend_name"
UPSTREAM_HOST_KEY: Final = "upstream_host"
ROUTE_NAME_KEY: Final = "aigw_route_name"
CONTENT_LENGTH_KEY: Final = "content_length"
SERVICE_BACKEND_KEY: Final = "ai_service_backend_name"
SERVED_MODEL_KEY: Final = "model_name_override"
QUOTA_COST_KEY: Final = "quota_cost"
SERVICE_QUOTA_COST_KEY: Final = "service_quota_cost"

# Headers.
MODEL_HEADER: Final = "x-ai-eg-model"
QUOTA_HEADER: Final = "x-ai-eg-quota"
"""Begin of the headers that carry outcomes of conditions from one filter to the next."""
ORIGINAL_PATH_HEADER: Final = "x-ai-eg-original-path"

# HTTP filters. The processor's filter has the same name at router level and at upstream level.
EXT_PROC_FILTER: Final = "envoy.filters.http.ext_proc/aigateway"
RATE_LIMIT_FILTER: Final = "envoy.filters.http.ratelimit"
QUOTA_FILTER: Final = "envoy.filters.http.ratelimit/ai-gateway-quota"
QUOTA_FLAGS_FILTER: Final = "envoy.filters.http.header_mutation/ai-gateway-quota"
QUOTA_NOTES_FILTER: Final = "envoy.filters.http.header_to_metadata/ai-gateway-quota"
HEADER_TO_METADATA_FILTER: Final = "envoy.filters.http.header_to_metadata"
HEADER_MUTATION_FILTER: Final = "envoy.filters.http.header_mutation"
UPSTREAM_CODEC_FILTER: Final = "envoy.filters.http.upstream_codec"
ROUTER_FILTER: Final = "envoy.filters.http.router"

# Clusters.
PROCESSOR_CLUSTER: Final = "ai-gateway-extproc-uds"
RATE_LIMIT_CLUSTER: Final = "ai_gateway_ratelimit_cluster"

QUOTA_DOMAIN: Final = "ai-gateway-quota"
"""The rate limit service's domain of quotas (contract, control plane 3.7)."""
LISTENER: Final = "llm"
"""The name of a listener that has no other."""

NOT_FOUND_BODY: Final = (
    "No matching route found. "
    "It is likely because the model specified in your request is not configured in the Gateway."
)
"""What the catch-all route answers (contract, control plane 3.2)."""

REQUEST_ATTRIBUTES: Final = (
    f"xds.upstream_host_metadata.filter_metadata['{XDS_NAMESPACE}']['{BACKEND_NAME_KEY}']",
    f"xds.cluster_metadata.filter_metadata['{XDS_NAMESPACE}']['{BACKEND_NAME_KEY}']",
    f"xds.upstream_host_metadata.filter_metadata['{XDS_NAMESPACE}']['{UPSTREAM_HOST_KEY}']",
    f"xds.route_metadata.filter_metadata['{XDS_NAMESPACE}']['{ROUTE_NAME_KEY}']",
)
"""Attributes that the upstream-level filter sends; their presence is what tells the processor its level."""


def backend_name(*, namespace: str, backend: str, route: str, rule: int, ref: int) -> str:
    """The name of a backend in the filter config and in endpoint metadata (contract, server section 0)."""
    return f"{namespace}/{backend}/route/{route}/rule/{rule}/ref/{ref}"


def cluster_name(*, namespace: str, route: str, rule: int) -> str:
    """The cluster of one rule, named as Envoy Gateway names it (contract, control plane 10.5)."""
    return f"httproute/{namespace}/{route}/rule/{rule}"


def header_note(header: str) -> str:
    """The key of dynamic metadata under which a header is noted for the time when it has changed."""
    return f"quota_header:{header}"


def dynamic_metadata(key: str) -> str:
    """The format operator that reads a key of the processor's dynamic metadata."""
    return f"%DYNAMIC_METADATA({DYNAMIC_NAMESPACE}:{key})%"

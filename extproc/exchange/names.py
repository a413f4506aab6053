"""Header names, metadata names and attribute paths (contract, fixed names 0)."""

from __future__ import annotations

METADATA_NAMESPACE = "io.envoy.ai_gateway"

MODEL = "x-ai-eg-model"
ORIGINAL_PATH = "x-ai-eg-original-path"
ENVOY_ORIGINAL_PATH = "x-envoy-original-path"
INTERNAL_REQUEST_ID = "x-ai-eg-internal-req-id"
UPSTREAM_HOST = "x-ai-eg-upstream-host"
REQUEST_ID = "x-request-id"
ENDPOINT_PICKED = "x-gateway-destination-endpoint"

ATTRIBUTES = "envoy.filters.http.ext_proc"
BACKEND_OF_HOST = "xds.upstream_host_metadata.filter_metadata['aigateway.envoy.io']['per_route_rule_backend_name']"
BACKEND_OF_CLUSTER = "xds.cluster_metadata.filter_metadata['aigateway.envoy.io']['per_route_rule_backend_name']"
HOST_OF_UPSTREAM = "xds.upstream_host_metadata.filter_metadata['aigateway.envoy.io']['upstream_host']"
ROUTE_NAME = "xds.route_metadata.filter_metadata['aigateway.envoy.io']['aigw_route_name']"

"""MCP: the proxy behind the main routes, and a listener inside of the pod for the routes to MCP servers.

Two headers are all that it takes to reach an MCP server past the proxy, so none of those routes may stay where clients
come in, whatever it does (contract, control plane 6.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deploy.envoy import names
from deploy.extension_server.chains import Chain, header_rule, header_to_metadata
from deploy.extension_server.filters import http_filter, single_cluster
from deploy.extension_server.names import (
    HTTP_FILTERS,
    MCP_BACKEND_PREFIX,
    MCP_HOST,
    MCP_LISTENER,
    MCP_MAIN_PREFIX,
    MCP_ROUTES,
    MCP_SUBSET_HEADER,
    MCP_SUBSET_KEY,
    RuleName,
    is_mcp_filter,
    of_cluster,
    of_route,
)
from deploy.extension_server.options import Options
from deploy.extension_server.wire import address, copy, pack, replace
from protos import xds_pb2 as xds

_NOTED: Final = (
    ("x-ai-eg-mcp-backend", "mcp_backend", False),
    ("x-ai-eg-mcp-metadata-method", "mcp_method", True),
    ("x-ai-eg-mcp-metadata-request-id", "mcp_request_id", True),
    ("x-ai-eg-mcp-metadata-resource-uri", "mcp_resource_uri", True),
    ("x-ai-eg-mcp-metadata-tool-name", "mcp_tool_name", True),
)
"""Headers of the proxy, keys of dynamic metadata, and whether the header goes no further."""
_AUTHENTICATION: Final = tuple(HTTP_FILTERS + kind for kind in ("api_key_auth", "ext_authz", "jwt_authn"))
_MANAGER: Final = "envoy.filters.network.http_connection_manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What the hook adds for MCP servers."""

    listener: xds.Listener
    config: xds.RouteConfiguration


def edit_main_route(route: xds.Route) -> bool:
    """Make a route to the MCP proxy safe, and one to its well-known pages public; whether it is one of them."""
    name = _mcp_name(route.name, MCP_MAIN_PREFIX)
    if name is None:
        return False
    if name.rule:
        for present in list(route.typed_per_filter_config):
            if any(present == kind or present.startswith(f"{kind}/") for kind in _AUTHENTICATION):
                del route.typed_per_filter_config[present]
    elif not any(option.header.key.lower() == MCP_SUBSET_HEADER for option in route.request_headers_to_add):
        # Whatever a client has sent under this name.
        route.request_headers_to_add.add(
            header=xds.HeaderValue(
                key=MCP_SUBSET_HEADER, value=f'%DYNAMIC_METADATA(["{names.XDS_NAMESPACE}", "{MCP_SUBSET_KEY}"])%'
            ),
            append_action=xds.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
            keep_empty_value=True,
        )
    return True


def edit_cluster(cluster: xds.Cluster, options: Options) -> None:
    """Put the MCP proxy in the place of the address that stands for it."""
    name = of_cluster(cluster.name)
    if name is None or not name.route.startswith(MCP_MAIN_PREFIX) or name.rule:
        return
    where = address(options.mcp_proxy.host, options.mcp_proxy.port)
    cluster.CopyFrom(single_cluster(cluster.name, xds.Cluster.STATIC, where))


def move_backend_routes(
    configs: Iterable[xds.RouteConfiguration], chains: Sequence[Chain], options: Options
) -> Moved | None:
    """Take routes to MCP servers, and the filters for them, from all listeners; what the inner listener is, if any."""
    routes = list(_take_routes(configs))
    if not routes:
        return None
    filters = list(_take_filters(chains))
    return Moved(
        listener=_listener(filters, chains, options),
        config=xds.RouteConfiguration(
            name=MCP_ROUTES, virtual_hosts=[xds.VirtualHost(name=MCP_HOST, domains=["*"], routes=routes)]
        ),
    )


def _mcp_name(name: str, prefix: str) -> RuleName | None:
    found = of_route(name)
    return found if found is not None and found.route.startswith(prefix) else None


def _take_routes(configs: Iterable[xds.RouteConfiguration]) -> Iterator[xds.Route]:
    """The same route stands once for each host and listener; inside, it stands once for each of its names."""
    seen = set()
    for config in configs:
        if config.name == MCP_ROUTES:
            continue
        for host in config.virtual_hosts:
            taken = [copy(route) for route in host.routes if _mcp_name(route.name, MCP_BACKEND_PREFIX)]
            if taken:
                replace(host.routes, [each for each in host.routes if not _mcp_name(each.name, MCP_BACKEND_PREFIX)])
            for route in taken:
                if route.name not in seen:
                    seen.add(route.name)
                    yield route


def _take_filters(chains: Iterable[Chain]) -> Iterator[xds.HttpFilter]:
    seen = set()
    for chain in chains:
        taken = [copy(each) for each in chain.manager.http_filters if is_mcp_filter(each.name)]
        if taken:
            chain.set_filters([each for each in chain.manager.http_filters if not is_mcp_filter(each.name)])
        for each in taken:
            if each.name not in seen:
                seen.add(each.name)
                yield each


def _listener(filters: Iterable[xds.HttpFilter], chains: Sequence[Chain], options: Options) -> xds.Listener:
    rules = [header_rule(header, key, remove=remove) for header, key, remove in _NOTED]
    manager = xds.HttpConnectionManager(
        stat_prefix=f"{MCP_LISTENER}-http",
        rds=xds.Rds(
            config_source=xds.ConfigSource(ads=xds.AggregatedConfigSource(), resource_api_version=xds.V3),
            route_config_name=MCP_ROUTES,
        ),
        http_filters=[
            *filters,
            header_to_metadata(xds.HeaderToMetadata(request_rules=rules)),
            http_filter(names.ROUTER_FILTER, xds.Router()),
        ],
        access_log=chains[-1].manager.access_log if chains else (),
        scheme_header_transformation=xds.SchemeHeaderTransformation(match_upstream=True),
    )
    filter_chain = xds.FilterChain(filters=[xds.Filter(name=_MANAGER, typed_config=pack(manager))])
    where = address(options.mcp_listener.host, options.mcp_listener.port)
    return xds.Listener(name=MCP_LISTENER, address=where, filter_chains=[filter_chain])

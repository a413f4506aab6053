"""MCP: the proxy behind the main routes, and a listener inside of the pod for the routes to MCP servers.

Two headers are all that it takes to reach an MCP server past the proxy, so none of those routes may stay where clients
come in, whatever it does (contract, control plane 6.7).

Names are anybody's to give. A route is what its name says when the MCPRoute that it is about is one of its own
namespace: else whoever may write HTTPRoutes would reach the proxy in the name of others, or take what it sends to their
servers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

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
_ROUTE_HEADER: Final = "x-ai-eg-mcp-route"
# Numbers of fields that are not declared: Route.match, RouteMatch.headers.
_MATCH: Final = 1
_MATCH_HEADERS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What the hook adds for MCP servers."""

    listener: xds.Listener
    config: xds.RouteConfiguration


def edit_main_route(route: xds.Route) -> bool:
    """Make a route to the MCP proxy safe, and one to its well-known pages public; whether it is one of them."""
    name = _mcp_name(route.name, MCP_MAIN_PREFIX)
    if name is None or (name.rule and route.HasField("route")):
        # A well-known page is an answer, and goes nowhere.
        return False
    if not name.rule and not _asks_for_own(route, name.namespace):
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


def _asks_for_own(route: xds.Route, namespace: str) -> bool:
    """Whether what the proxy is told, whatever a client says, is an MCPRoute of this namespace."""
    told = [option for option in route.request_headers_to_add if option.header.key.lower() == _ROUTE_HEADER]
    return bool(told) and all(
        option.header.value.startswith(f"{namespace}/")
        and option.append_action == xds.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
        for option in told
    )


def proxied(route: xds.Route) -> RuleName | None:
    """The rule of a main route, whose cluster stands for the proxy."""
    name = _mcp_name(route.name, MCP_MAIN_PREFIX)
    return name if name is not None and not name.rule and _asks_for_own(route, name.namespace) else None


def edit_cluster(cluster: xds.Cluster, rules: Collection[RuleName], options: Options) -> None:
    """Put the MCP proxy in the place of the address that stands for it, in the cluster of one of these rules."""
    name = of_cluster(cluster.name)
    if name is None or RuleName(namespace=name.namespace, route=name.route, rule=name.rule) not in rules:
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
            taken = [copy(route) for route in host.routes if _leads_to_server(route)]
            if taken:
                replace(host.routes, [each for each in host.routes if not _leads_to_server(each)])
            for route in taken:
                if route.name not in seen:
                    seen.add(route.name)
                    yield route


def _leads_to_server(route: xds.Route) -> bool:
    """Whether a route takes what the proxy sends to an MCP server for an MCPRoute of the same namespace."""
    name = _mcp_name(route.name, MCP_BACKEND_PREFIX)
    return name is not None and any(
        header.name.lower() == _ROUTE_HEADER
        and header.string_match.exact.startswith(f"{name.namespace}/")
        and not len(UnknownFieldSet(header))
        for header in _matched_headers(route)
    )


def _matched_headers(route: xds.Route) -> Iterator[xds.HeaderMatcher]:
    for match in _undeclared(route, _MATCH):
        for header in _undeclared(Empty.FromString(match), _MATCH_HEADERS):
            yield xds.HeaderMatcher.FromString(header)


def _undeclared(message: Message, number: int) -> Iterator[bytes]:
    """The messages in a field that is not declared."""
    fields = UnknownFieldSet(message)
    for place in range(len(fields)):
        if fields[place].field_number == number:
            yield fields[place].data


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

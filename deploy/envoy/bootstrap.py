"""The whole of an Envoy: listener, filter chain, routes, clusters, admin.

Order of the HTTP filters: the processor first of those that look at the route, then the rate limit, which must see
the route that the processor has chosen, then the router (docs/howto/envoy.md has the full list).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.bootstrap.v3 import Admin, Bootstrap, BootstrapStaticResources
from envoy_data_plane.envoy.config.core.v3 import Node, SchemeHeaderTransformation
from envoy_data_plane.envoy.config.listener.v3 import Filter, FilterChain, Listener
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpFilter,
)

from deploy.envoy import ext_proc, names
from deploy.envoy.access_log import access_log
from deploy.envoy.clusters import clusters
from deploy.envoy.rate_limit import rate_limit_filter
from deploy.envoy.routes import route_configuration
from deploy.envoy.wire import address, pack, seconds

if TYPE_CHECKING:
    from deploy.envoy.model import Gateway

LISTENER: Final = "llm"


def bootstrap(gateway: Gateway) -> Bootstrap:
    """A static configuration: everything that this Envoy needs is in it."""
    return Bootstrap(
        node=Node(id="envoy-llm", cluster="envoy-llm"),
        static_resources=BootstrapStaticResources(listeners=[listener(gateway)], clusters=clusters(gateway)),
        admin=Admin(address=address(gateway.admin)) if gateway.admin is not None else None,
    )


def listener(gateway: Gateway) -> Listener:
    """The listener. Its buffer limit bounds both bodies that filters hold back: the request's and the answer's."""
    manager = Filter(
        name="envoy.filters.network.http_connection_manager", typed_config=pack(connection_manager(gateway))
    )
    return Listener(
        name=LISTENER,
        address=address(gateway.listener.address),
        per_connection_buffer_limit_bytes=gateway.buffer_limit,
        enable_reuse_port=False if gateway.listener.exclusive else None,
        filter_chains=[FilterChain(filters=[manager])],
    )


def connection_manager(gateway: Gateway) -> HttpConnectionManager:
    return HttpConnectionManager(
        stat_prefix="http",
        route_config=route_configuration(gateway),
        http_filters=http_filters(gateway),
        access_log=[access_log(gateway.access_log)] if gateway.access_log is not None else [],
        # Clients are strangers: their x-envoy-* headers are dropped and x-forwarded-for is ours.
        use_remote_address=True,
        normalize_path=True,
        preserve_external_request_id=gateway.listener.trust_request_id,
        scheme_header_transformation=SchemeHeaderTransformation(match_upstream=True),
        stream_idle_timeout=seconds(gateway.listener.stream_idle_timeout),
    )


def http_filters(gateway: Gateway) -> list[HttpFilter]:
    filters: list[HttpFilter] = []
    if gateway.processor is not None:
        filters.append(ext_proc.router_filter(gateway.processor))
    if gateway.rate_limit is not None:
        filters.append(rate_limit_filter(gateway.rate_limit))
    # What Envoy tells an upstream about itself is none of a provider's business.
    filters.append(HttpFilter(name=names.ROUTER_FILTER, typed_config=pack(Router(suppress_envoy_headers=True))))
    return filters

"""The whole of an Envoy: listeners, filter chains, routes, clusters, admin.

Order of the HTTP filters: the processor first of those that look at the route, then the rate limits, which must see
the route that the processor has chosen, then the router (docs/howto/envoy.md has the full list).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.bootstrap.v3 import Admin, Bootstrap, BootstrapStaticResources
from envoy_data_plane.envoy.config.core.v3 import Node, SchemeHeaderTransformation
from envoy_data_plane.envoy.config.listener.v3 import Filter, FilterChain, FilterChainMatch, ListenerFilter
from envoy_data_plane.envoy.config.listener.v3 import Listener as EnvoyListener
from envoy_data_plane.envoy.extensions.filters.http.header_to_metadata.v3 import (
    Config as HeaderToMetadata,
)
from envoy_data_plane.envoy.extensions.filters.http.header_to_metadata.v3 import (
    ConfigKeyValuePair,
    ConfigRule,
    ConfigValueType,
)
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.listener.tls_inspector.v3 import TlsInspector
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpFilter,
    Rds,
)

from deploy.envoy import ext_proc, names
from deploy.envoy.access_log import access_log
from deploy.envoy.clusters import clusters
from deploy.envoy.rate_limit import quota_filters, rate_limit_filter
from deploy.envoy.routes import route_configuration
from deploy.envoy.transports import server_socket
from deploy.envoy.wire import address, pack, seconds

if TYPE_CHECKING:
    from deploy.envoy.model import Gateway, Listener, ServerTLS

LISTENER: Final = names.LISTENER
NODE: Final = Node(id="envoy-llm", cluster="envoy-llm")


def bootstrap(gateway: Gateway) -> Bootstrap:
    """A static configuration: everything that this Envoy needs is in it."""
    return Bootstrap(
        node=NODE,
        static_resources=BootstrapStaticResources(
            listeners=[listener(gateway, opened) for opened in gateway.listeners], clusters=clusters(gateway)
        ),
        admin=admin(gateway),
    )


def admin(gateway: Gateway) -> Admin | None:
    return Admin(address=address(gateway.admin)) if gateway.admin is not None else None


def listener(gateway: Gateway, opened: Listener, rds: Rds | None = None) -> EnvoyListener:
    """A listener. Its buffer limit bounds both bodies that filters hold back: the request's and the answer's.

    With ``rds`` its routes come from there, and are not part of it.
    """
    manager = Filter(
        name="envoy.filters.network.http_connection_manager",
        typed_config=pack(connection_manager(gateway, opened, rds)),
    )
    inspector = ListenerFilter(name="envoy.filters.listener.tls_inspector", typed_config=pack(TlsInspector()))
    return EnvoyListener(
        name=opened.name,
        address=address(opened.address),
        per_connection_buffer_limit_bytes=gateway.buffer_limit,
        enable_reuse_port=False if opened.exclusive else None,
        listener_filters=[inspector] if opened.tls else [],
        filter_chains=[_tls_chain(tls, manager) for tls in opened.tls] or [FilterChain(filters=[manager])],
    )


def _tls_chain(tls: ServerTLS, manager: Filter) -> FilterChain:
    match = FilterChainMatch(server_names=[tls.server_name]) if tls.server_name else None
    return FilterChain(filter_chain_match=match, filters=[manager], transport_socket=server_socket(tls))


def connection_manager(gateway: Gateway, opened: Listener, rds: Rds | None = None) -> HttpConnectionManager:
    return HttpConnectionManager(
        stat_prefix="http",
        route_config=route_configuration(gateway, opened) if rds is None else None,
        rds=rds,
        http_filters=http_filters(gateway),
        access_log=[access_log(gateway.access_log)] if gateway.access_log is not None else [],
        # Clients are strangers: their x-envoy-* headers are dropped and x-forwarded-for is ours.
        use_remote_address=True,
        normalize_path=True,
        preserve_external_request_id=opened.trust_request_id,
        scheme_header_transformation=SchemeHeaderTransformation(match_upstream=True),
        stream_idle_timeout=seconds(opened.stream_idle_timeout),
    )


def http_filters(gateway: Gateway) -> list[HttpFilter]:
    filters: list[HttpFilter] = []
    if gateway.processor is not None:
        filters.append(ext_proc.router_filter(gateway.processor))
    if gateway.rate_limit is not None and gateway.has_budgets:
        filters.append(rate_limit_filter(gateway.rate_limit))
    if gateway.header_attributes:
        filters.append(_header_to_metadata(gateway.header_attributes))
    if gateway.rate_limit is not None and gateway.has_quotas:
        filters.extend(quota_filters(gateway.rate_limit))
    # What Envoy tells an upstream about itself is none of a provider's business.
    filters.append(HttpFilter(name=names.ROUTER_FILTER, typed_config=pack(Router(suppress_envoy_headers=True))))
    return filters


def _header_to_metadata(attributes: tuple[tuple[str, str], ...]) -> HttpFilter:
    """Headers of the request, where an access log finds them (contract, control plane 6.10)."""
    rules = [
        ConfigRule(
            header=header,
            on_header_present=ConfigKeyValuePair(
                metadata_namespace=names.DYNAMIC_NAMESPACE, key=key, type=ConfigValueType.STRING
            ),
        )
        for header, key in attributes
    ]
    return HttpFilter(name=names.HEADER_TO_METADATA_FILTER, typed_config=pack(HeaderToMetadata(request_rules=rules)))

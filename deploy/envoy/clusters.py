"""Clusters: one per rule with all its backends, one for the processor, one for the rate limit service.

A rule is one cluster, each backend a locality of its own in it, because only inside a cluster can a retry move on to
another backend. The endpoint's metadata carries the backend's name to the processor (contract, control plane 6.4), and
a label that joins it to its transport.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterCommonLbConfig,
    ClusterCommonLbConfigLocalityWeightedLbConfig,
    ClusterDiscoveryType,
    ClusterDnsLookupFamily,
    ClusterTransportSocketMatch,
)
from envoy_data_plane.envoy.config.core.v3 import (
    Http1ProtocolOptions,
    Http2ProtocolOptions,
    Locality,
)
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints
from envoy_data_plane.envoy.config.endpoint.v3 import Endpoint as EnvoyEndpoint
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsExplicitHttpConfig,
)

from deploy.envoy import ext_proc, names
from deploy.envoy.model import SocketAddress, is_ip
from deploy.envoy.transports import Transport
from deploy.envoy.wire import address, metadata, pack, seconds, struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deploy.envoy.model import Address, Backend, Endpoint, Gateway, Processor, RateLimitService, Route, Rule

_HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_SOCKET_MATCH: Final = "envoy.transport_socket_match"
_MANY: Final = 1_000_000
"""Envoy's circuit breakers start at 1024 requests and 3 retries; a stream occupies two of them for minutes."""


def clusters(gateway: Gateway) -> list[Cluster]:
    return rule_clusters(gateway) + service_clusters(gateway)


def rule_clusters(gateway: Gateway) -> list[Cluster]:
    """Where requests go: one for each rule that does not answer by itself."""
    return [
        rule_cluster(gateway, route, index)
        for route in gateway.routes
        for index, rule in enumerate(route.rules)
        if rule.answer is None
    ]


def service_clusters(gateway: Gateway) -> list[Cluster]:
    """Whom Envoy asks: the processor, and the rate limit service."""
    found = []
    if gateway.processor is not None:
        found.append(processor_cluster(gateway.processor, gateway.buffer_limit))
    if gateway.rate_limit is not None:
        found.append(rate_limit_cluster(gateway.rate_limit))
    return found


def rule_cluster(gateway: Gateway, route: Route, index: int) -> Cluster:
    """All backends of a rule. A backend of weight 0 gets no endpoint, as in Envoy Gateway."""
    rule = route.rules[index]
    name = route.cluster_name(index)
    ranks = _ranks(rule)
    addresses = [endpoint.address for backend in rule.backends for endpoint in backend.endpoints]
    # A proxy that is asked in clear text needs the whole URL; what is asked of an origin is a path.
    asks_proxy = all(transport.proxy is not None and transport.tls is None for transport in _transports(rule))
    http1 = Http1ProtocolOptions(send_fully_qualified_url=asks_proxy)
    http = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(http_protocol_options=http1),
        http_filters=ext_proc.upstream_filters(gateway.processor) if gateway.processor is not None else [],
    )
    return Cluster(
        name=name,
        type=_discovery(addresses),
        # Many a host that has a way into the world has none for IPv6.
        dns_lookup_family=_lookup_family(addresses),
        connect_timeout=seconds(10),
        per_connection_buffer_limit_bytes=gateway.buffer_limit,
        circuit_breakers=_open_breakers(),
        common_lb_config=ClusterCommonLbConfig(
            locality_weighted_lb_config=ClusterCommonLbConfigLocalityWeightedLbConfig()
        ),
        load_assignment=ClusterLoadAssignment(
            cluster_name=name,
            endpoints=[
                _locality(route.backend_name(index, ref), backend, ranks[backend.priority])
                for ref, backend in enumerate(rule.backends)
                if backend.weight > 0
            ],
        ),
        transport_socket_matches=[_socket_match(transport) for transport in _distinct_transports(rule)],
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(http)},
    )


def processor_cluster(processor: Processor, buffer_limit: int) -> Cluster:
    """The processor over HTTP/2. The windows are the peer's (contract, control plane 6.4)."""
    return _grpc_cluster(names.PROCESSOR_CLUSTER, processor.address, buffer_limit)


def rate_limit_cluster(service: RateLimitService) -> Cluster:
    return _grpc_cluster(names.RATE_LIMIT_CLUSTER, service.address, None)


def _grpc_cluster(name: str, target: Address, buffer_limit: int | None) -> Cluster:
    http2 = Http2ProtocolOptions(initial_connection_window_size=1 << 20, initial_stream_window_size=1 << 16)
    http = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(http2_protocol_options=http2),
    )
    endpoint = LbEndpoint(endpoint=EnvoyEndpoint(address=address(target)))
    return Cluster(
        name=name,
        type=_discovery([target]),
        connect_timeout=seconds(10),
        per_connection_buffer_limit_bytes=buffer_limit,
        circuit_breakers=_open_breakers(),
        load_assignment=ClusterLoadAssignment(
            cluster_name=name, endpoints=[LocalityLbEndpoints(lb_endpoints=[endpoint])]
        ),
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(http)},
    )


def _locality(name: str, backend: Backend, priority: int) -> LocalityLbEndpoints:
    return LocalityLbEndpoints(
        locality=Locality(region=name),
        lb_endpoints=[_endpoint(name, backend, endpoint) for endpoint in backend.endpoints],
        load_balancing_weight=backend.weight,
        priority=priority,
    )


def _endpoint(name: str, backend: Backend, endpoint: Endpoint) -> LbEndpoint:
    host = upstream_host(endpoint)
    labels = {names.BACKEND_NAME_KEY: name}
    if host is not None:
        labels[names.UPSTREAM_HOST_KEY] = host
    return LbEndpoint(
        endpoint=EnvoyEndpoint(address=address(endpoint.address), hostname=host or ""),
        metadata=metadata({names.XDS_NAMESPACE: labels, _SOCKET_MATCH: Transport.of(backend, endpoint).label}),
    )


def upstream_host(endpoint: Endpoint | Backend) -> str | None:
    """The name of an endpoint on the network; None for a bare address (contract, control plane 6.4)."""
    if endpoint.hostname:
        return endpoint.hostname
    return endpoint.address.host if _is_named(endpoint.address) else None


def _is_named(where: Address) -> TypeGuard[SocketAddress]:
    return isinstance(where, SocketAddress) and not is_ip(where.host)


def _discovery(addresses: Iterable[Address]) -> ClusterDiscoveryType:
    return ClusterDiscoveryType.STRICT_DNS if any(map(_is_named, addresses)) else ClusterDiscoveryType.STATIC


def _lookup_family(addresses: Iterable[Address]) -> ClusterDnsLookupFamily:
    return ClusterDnsLookupFamily.V4_PREFERRED if any(map(_is_named, addresses)) else ClusterDnsLookupFamily.AUTO


def _socket_match(transport: Transport) -> ClusterTransportSocketMatch:
    return ClusterTransportSocketMatch(
        name=" ".join(transport.label.values()), match=struct(transport.label), transport_socket=transport.socket()
    )


def _distinct_transports(rule: Rule) -> list[Transport]:
    """Those that have a label. An endpoint takes the first whose label is part of its own: longer ones go first."""
    found = [transport for transport in dict.fromkeys(_transports(rule)) if transport.label]
    return sorted(found, key=lambda transport: len(transport.label), reverse=True)


def _transports(rule: Rule) -> Iterator[Transport]:
    for backend in rule.backends:
        if backend.weight > 0:
            yield from (Transport.of(backend, endpoint) for endpoint in backend.endpoints)


def _open_breakers() -> CircuitBreakers:
    limits = CircuitBreakersThresholds(
        max_connections=_MANY, max_pending_requests=_MANY, max_requests=_MANY, max_retries=_MANY
    )
    return CircuitBreakers(thresholds=[limits])


def _ranks(rule: Rule) -> dict[int, int]:
    """Priorities without gaps: Envoy rejects a cluster that skips one."""
    used = sorted({backend.priority for backend in rule.backends if backend.weight > 0})
    return {priority: rank for rank, priority in enumerate(used)}

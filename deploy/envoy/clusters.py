"""Clusters: one per rule with all its backends, one for the processor, one for the rate limit service.

A rule is one cluster, each backend a locality of its own in it, because only inside a cluster can a retry move on to
another backend. The endpoint's metadata carries the backend's name to the processor (contract, control plane 6.4).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterCommonLbConfig,
    ClusterCommonLbConfigLocalityWeightedLbConfig,
    ClusterDiscoveryType,
    ClusterTransportSocketMatch,
)
from envoy_data_plane.envoy.config.core.v3 import (
    DataSource,
    Http1ProtocolOptions,
    Http2ProtocolOptions,
    Locality,
    TransportSocket,
)
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    SubjectAltNameMatcher,
    SubjectAltNameMatcherSanType,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsExplicitHttpConfig,
)
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher

from deploy.envoy import ext_proc, names
from deploy.envoy.wire import address, metadata, pack, seconds, struct

if TYPE_CHECKING:
    from deploy.envoy.model import Address, Backend, Gateway, Processor, RateLimitService, Route, Rule, UpstreamTLS

_HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_SOCKET_MATCH: Final = "envoy.transport_socket_match"
_MANY: Final = 1_000_000
"""Envoy's circuit breakers start at 1024 requests and 3 retries; a stream occupies two of them for minutes."""


def clusters(gateway: Gateway) -> list[Cluster]:
    found = [rule_cluster(gateway, route, index) for route in gateway.routes for index in range(len(route.rules))]
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
    by_name = any(not _is_ip(backend.address.host) for backend in rule.backends)
    http = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(http_protocol_options=Http1ProtocolOptions()),
        http_filters=ext_proc.upstream_filters(gateway.processor) if gateway.processor is not None else [],
    )
    return Cluster(
        name=name,
        type=ClusterDiscoveryType.STRICT_DNS if by_name else ClusterDiscoveryType.STATIC,
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
        transport_socket_matches=[_tls_match(tls) for tls in _distinct_tls(rule)],
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
    host = getattr(target, "host", None)
    by_name = host is not None and not _is_ip(host)
    endpoint = LbEndpoint(endpoint=Endpoint(address=address(target)))
    return Cluster(
        name=name,
        type=ClusterDiscoveryType.STRICT_DNS if by_name else ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(10),
        per_connection_buffer_limit_bytes=buffer_limit,
        circuit_breakers=_open_breakers(),
        load_assignment=ClusterLoadAssignment(
            cluster_name=name, endpoints=[LocalityLbEndpoints(lb_endpoints=[endpoint])]
        ),
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(http)},
    )


def _locality(name: str, backend: Backend, priority: int) -> LocalityLbEndpoints:
    host = upstream_host(backend)
    labels = {names.BACKEND_NAME_KEY: name}
    if host is not None:
        labels[names.UPSTREAM_HOST_KEY] = host
    socket_match = _socket_label(backend.tls) if backend.tls is not None else {}
    endpoint = LbEndpoint(
        endpoint=Endpoint(address=address(backend.address), hostname=host or ""),
        metadata=metadata({names.XDS_NAMESPACE: labels, _SOCKET_MATCH: socket_match}),
    )
    return LocalityLbEndpoints(
        locality=Locality(region=name),
        lb_endpoints=[endpoint],
        load_balancing_weight=backend.weight,
        priority=priority,
    )


def upstream_host(backend: Backend) -> str | None:
    """The backend's name on the network; None for a bare IP address (contract, control plane 6.4)."""
    if backend.hostname:
        return backend.hostname
    return None if _is_ip(backend.address.host) else backend.address.host


def _tls_match(tls: UpstreamTLS) -> ClusterTransportSocketMatch:
    san = SubjectAltNameMatcher(san_type=SubjectAltNameMatcherSanType.DNS, matcher=StringMatcher(exact=tls.server_name))
    context = UpstreamTlsContext(
        sni=tls.server_name,
        common_tls_context=CommonTlsContext(
            validation_context=CertificateValidationContext(
                trusted_ca=DataSource(filename=tls.ca_file), match_typed_subject_alt_names=[san]
            )
        ),
    )
    return ClusterTransportSocketMatch(
        name=tls.server_name,
        match=struct(_socket_label(tls)),
        transport_socket=TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context)),
    )


def _distinct_tls(rule: Rule) -> list[UpstreamTLS]:
    used = (backend.tls for backend in rule.backends if backend.weight > 0)
    return list(dict.fromkeys(tls for tls in used if tls is not None))


def _socket_label(tls: UpstreamTLS) -> dict[str, str]:
    """What joins an endpoint to its TLS settings; an endpoint without the label is reached in clear text."""
    return {"tls": f"{tls.server_name} {tls.ca_file}"}


def _open_breakers() -> CircuitBreakers:
    limits = CircuitBreakersThresholds(
        max_connections=_MANY, max_pending_requests=_MANY, max_requests=_MANY, max_retries=_MANY
    )
    return CircuitBreakers(thresholds=[limits])


def _ranks(rule: Rule) -> dict[int, int]:
    """Priorities without gaps: Envoy rejects a cluster that skips one."""
    used = sorted({backend.priority for backend in rule.backends if backend.weight > 0})
    return {priority: rank for rank, priority in enumerate(used)}


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

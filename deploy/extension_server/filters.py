"""The HTTP filters that the hooks bring in, and the clusters that these ask.

Values are the peer's (contract, control plane 6.4 to 6.11). The processor's filters say what ``deploy.envoy.ext_proc``
says, a retry of its gRPC stream while a processor restarts included (field report BR-107).
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import UInt32Value

from deploy.envoy import names
from deploy.envoy.model import Address, PipeAddress, Processor
from deploy.extension_server.names import HTTP_OPTIONS
from deploy.extension_server.options import QuotaService
from deploy.extension_server.wire import address, duration, pack
from protos import xds_pb2 as xds

_SEND: Final = xds.ProcessingMode.SEND
_SKIP: Final = xds.ProcessingMode.SKIP
_MANY: Final = 1_000_000
"""Envoy's circuit breakers start at 1024 requests; each request occupies two streams to the processor."""
_RETRY_ON: Final = "connect-failure,refused-stream,reset,cancelled,unavailable"


def http_filter(name: str, config: Message, *, disabled: bool = False) -> xds.HttpFilter:
    """An HTTP filter."""
    return xds.HttpFilter(name=name, typed_config=pack(config), disabled=disabled)


# --- the processor ---


def router_filter(processor: Processor) -> xds.HttpFilter:
    """The filter of a listener. It is disabled; the routes that want it enable it."""
    config = xds.ExternalProcessor(
        grpc_service=_processor_service(processor),
        processing_mode=xds.ProcessingMode(
            request_header_mode=_SEND,
            request_body_mode=xds.ProcessingMode.BUFFERED,
            request_trailer_mode=_SKIP,
            response_header_mode=_SEND,
            response_body_mode=xds.ProcessingMode.BUFFERED,
            response_trailer_mode=_SKIP,
        ),
        metadata_options=_metadata_options(processor),
        message_timeout=duration(processor.message_timeout),
        allow_mode_override=True,
    )
    return http_filter(names.EXT_PROC_FILTER, config, disabled=True)


def upstream_filters(processor: Processor) -> tuple[xds.HttpFilter, ...]:
    """The filters of a cluster, which stand before its codec: the processor's, and what restores the content length."""
    config = xds.ExternalProcessor(
        grpc_service=_processor_service(processor, processor.upstream_timeout),
        processing_mode=xds.ProcessingMode(request_header_mode=_SEND, response_header_mode=_SKIP),
        request_attributes=names.REQUEST_ATTRIBUTES,
        metadata_options=_metadata_options(processor),
        message_timeout=duration(processor.message_timeout),
        allow_mode_override=True,
    )
    restore = xds.HeaderValueOption(
        header=xds.HeaderValue(key="content-length", value=names.dynamic_metadata(names.CONTENT_LENGTH_KEY)),
        append_action=xds.HeaderValueOption.ADD_IF_ABSENT,
    )
    return (http_filter(names.EXT_PROC_FILTER, config), http_filter(names.HEADER_MUTATION_FILTER, _sets(restore)))


def upstream_codec() -> xds.HttpFilter:
    """The last filter of every upstream chain."""
    return http_filter(names.UPSTREAM_CODEC_FILTER, xds.UpstreamCodec())


def _sets(*headers: xds.HeaderValueOption) -> xds.HeaderMutation:
    return xds.HeaderMutation(mutations=mutations(*headers))


def mutations(*headers: xds.HeaderValueOption) -> xds.Mutations:
    """Headers that a request gets."""
    return xds.Mutations(request_mutations=[xds.Mutation(append=header) for header in headers])


def _processor_service(processor: Processor, timeout: float | None = None) -> xds.GrpcService:
    service = xds.GrpcService(envoy_grpc=xds.EnvoyGrpc(cluster_name=names.PROCESSOR_CLUSTER))
    if timeout is not None:
        service.timeout.CopyFrom(duration(timeout))
    if processor.connect_retries:
        policy = xds.GrpcRetryPolicy(
            retry_on=_RETRY_ON,
            num_retries=UInt32Value(value=processor.connect_retries),
            retry_back_off=xds.BackoffStrategy(base_interval=duration(0.05), max_interval=duration(0.5)),
        )
        service.retry_policy.CopyFrom(policy)
    return service


def _metadata_options(processor: Processor) -> xds.MetadataOptions:
    options = xds.MetadataOptions(receiving_namespaces=xds.MetadataNamespaces(untyped=[names.DYNAMIC_NAMESPACE]))
    if processor.forwarding_namespaces:
        options.forwarding_namespaces.untyped.extend(processor.forwarding_namespaces)
    return options


# --- quotas ---


def quota_filters(service: QuotaService) -> tuple[xds.HttpFilter, ...]:
    """What notes who asks, and what limits; without configuration of a route they do nothing.

    None is disabled: the chain is made for the route that a request matches first, before its model is known.
    """
    target = xds.GrpcService(envoy_grpc=xds.EnvoyGrpc(cluster_name=names.RATE_LIMIT_CLUSTER))
    limits = xds.RateLimitFilter(
        domain=names.QUOTA_DOMAIN,
        timeout=duration(service.timeout),
        failure_mode_deny=service.deny_on_failure,
        enable_x_ratelimit_headers=xds.RateLimitFilter.DRAFT_VERSION_03,
        disable_x_envoy_ratelimited_header=True,
        rate_limit_service=xds.RateLimitServiceConfig(grpc_service=target, transport_api_version=xds.V3),
    )
    return (
        http_filter(names.QUOTA_FLAGS_FILTER, _sets()),
        http_filter(names.QUOTA_NOTES_FILTER, xds.HeaderToMetadata()),
        http_filter(names.QUOTA_FILTER, limits),
    )


# --- whom filters ask ---


def processor_cluster(processor: Processor) -> xds.Cluster:
    """The processor beside Envoy, over HTTP/2."""
    made = grpc_cluster(names.PROCESSOR_CLUSTER, processor.address)
    made.per_connection_buffer_limit_bytes.value = 50 << 20
    limits = xds.Thresholds()
    for limit in (limits.max_connections, limits.max_pending_requests, limits.max_requests, limits.max_retries):
        limit.value = _MANY
    made.circuit_breakers.thresholds.append(limits)
    return made


def grpc_cluster(name: str, target: Address, *, connect_timeout: float = 10.0) -> xds.Cluster:
    """A cluster of one gRPC server. A host that is a name is looked up again and again."""
    if isinstance(target, PipeAddress):
        kind, where = xds.Cluster.STATIC, xds.Address(pipe=xds.Pipe(path=target.path))
    else:
        kind, where = xds.Cluster.STRICT_DNS, address(target.host, target.port)
    http2 = xds.Http2ProtocolOptions(
        initial_connection_window_size=UInt32Value(value=1 << 20), initial_stream_window_size=UInt32Value(value=1 << 16)
    )
    http = xds.HttpProtocolOptions(explicit_http_config=xds.ExplicitHttpConfig(http2_protocol_options=http2))
    made = single_cluster(name, kind, where, connect_timeout=connect_timeout)
    made.typed_extension_protocol_options[HTTP_OPTIONS].CopyFrom(pack(http))
    return made


def single_cluster(
    name: str, kind: xds.Cluster.DiscoveryType, where: xds.Address, *, connect_timeout: float = 10.0
) -> xds.Cluster:
    """A cluster of one address."""
    endpoint = xds.LbEndpoint(endpoint=xds.Endpoint(address=where))
    return xds.Cluster(
        name=name,
        type=kind,
        connect_timeout=duration(connect_timeout),
        load_assignment=xds.ClusterLoadAssignment(
            cluster_name=name, endpoints=[xds.LocalityLbEndpoints(lb_endpoints=[endpoint])]
        ),
    )

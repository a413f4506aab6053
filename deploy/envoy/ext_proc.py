"""The HTTP filters that bring a request to the processor, at router level and at upstream level.

The router-level filter reads the body, so that the processor can find the model and Envoy can route on it; the
upstream-level filter runs once per attempt, so that each backend gets its own translation and credential. What the
processor must see is fixed by the contract (server 3.1); the reasons are in docs/howto/envoy.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as HeaderMutationRule
from envoy_data_plane.envoy.config.core.v3 import (
    BackoffStrategy,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    HeaderValue,
    HeaderValueOption,
    HeaderValueOptionHeaderAppendAction,
    RetryPolicy,
)
from envoy_data_plane.envoy.config.route.v3 import FilterConfig
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    MetadataOptions,
    MetadataOptionsMetadataNamespaces,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import HeaderMutation, Mutations
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3 import UpstreamCodec
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.google.protobuf import Any as PackedMessage

from deploy.envoy import names
from deploy.envoy.wire import pack, seconds

if TYPE_CHECKING:
    from deploy.envoy.model import Processor

_SEND = ProcessingModeHeaderSendMode.SEND
_SKIP = ProcessingModeHeaderSendMode.SKIP


def router_filter(processor: Processor) -> HttpFilter:
    """The filter of the listener. It is disabled, and enabled by the routes that ``enable`` was put on."""
    config = ExternalProcessor(
        grpc_service=_processor_service(processor),
        processing_mode=ProcessingMode(
            request_header_mode=_SEND,
            request_body_mode=ProcessingModeBodySendMode.BUFFERED,
            request_trailer_mode=_SKIP,
            response_header_mode=_SEND,
            response_body_mode=ProcessingModeBodySendMode.BUFFERED,
            response_trailer_mode=_SKIP,
        ),
        metadata_options=_metadata_options(processor),
        message_timeout=seconds(processor.message_timeout),
        failure_mode_allow=False,
        allow_mode_override=True,
    )
    return HttpFilter(name=names.EXT_PROC_FILTER, disabled=True, typed_config=pack(config))


def upstream_filters(processor: Processor) -> list[HttpFilter]:
    """The filters of a cluster, in the only order that works: processor, content-length, codec."""
    config = ExternalProcessor(
        grpc_service=_processor_service(processor, processor.upstream_timeout),
        processing_mode=ProcessingMode(
            request_header_mode=_SEND,
            request_body_mode=ProcessingModeBodySendMode.NONE,
            response_header_mode=_SKIP,
            response_body_mode=ProcessingModeBodySendMode.NONE,
        ),
        request_attributes=list(names.REQUEST_ATTRIBUTES),
        metadata_options=_metadata_options(processor),
        message_timeout=seconds(processor.message_timeout),
        allow_mode_override=True,
    )
    return [
        HttpFilter(name=names.EXT_PROC_FILTER, typed_config=pack(config)),
        content_length_filter(),
        upstream_codec(),
    ]


def content_length_filter() -> HttpFilter:
    """Puts ``content-length`` back: Envoy drops it when a headers reply carries a body, and providers want it."""
    restore = HeaderMutationRule(
        append=HeaderValueOption(
            header=HeaderValue(key="content-length", value=names.dynamic_metadata(names.CONTENT_LENGTH_KEY)),
            append_action=HeaderValueOptionHeaderAppendAction.ADD_IF_ABSENT,
        )
    )
    config = HeaderMutation(mutations=Mutations(request_mutations=[restore]))
    return HttpFilter(name=names.HEADER_MUTATION_FILTER, typed_config=pack(config))


def upstream_codec() -> HttpFilter:
    """The terminal filter of every upstream chain."""
    return HttpFilter(name=names.UPSTREAM_CODEC_FILTER, typed_config=pack(UpstreamCodec()))


def enable() -> dict[str, PackedMessage]:
    """Per-filter configuration of a route that wants the router-level filter."""
    return {names.EXT_PROC_FILTER: pack(FilterConfig(config=PackedMessage()))}


def _processor_service(processor: Processor, timeout: float | None = None) -> GrpcService:
    """The gRPC target. Retries bridge a restart of the processor; Envoy repeats only a stream without any answer yet.

    ``unavailable`` is how a processor that drains hands a new stream to its successor, ``cancelled`` and ``reset`` are
    what the last streams of a process may see. The policy belongs here and not in ``envoy_grpc``, where Envoy accepts
    one and does not use it for ext_proc.
    """
    retries = RetryPolicy(
        retry_on="connect-failure,refused-stream,reset,cancelled,unavailable",
        num_retries=processor.connect_retries,
        retry_back_off=BackoffStrategy(base_interval=seconds(0.05), max_interval=seconds(0.5)),
    )
    return GrpcService(
        envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=names.PROCESSOR_CLUSTER),
        timeout=None if timeout is None else seconds(timeout),
        retry_policy=retries if processor.connect_retries else None,
    )


def _metadata_options(processor: Processor) -> MetadataOptions:
    forwarding = processor.forwarding_namespaces
    return MetadataOptions(
        receiving_namespaces=MetadataOptionsMetadataNamespaces(untyped=[names.DYNAMIC_NAMESPACE]),
        forwarding_namespaces=MetadataOptionsMetadataNamespaces(untyped=list(forwarding)) if forwarding else None,
    )

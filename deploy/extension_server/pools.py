"""Inference pools: a cluster goes to the endpoint that its picker chose, and a filter of its own asks the picker.

Two hooks meet here. PostClusterModify and PostRouteModify are told about the pool and leave a note of it in metadata,
which is all that PostTranslateModify learns (contract, control plane 6.3, 6.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from google.protobuf.struct_pb2 import Struct

from deploy.envoy import names
from deploy.envoy.model import SocketAddress
from deploy.extension_server.filters import grpc_cluster, http_filter
from deploy.extension_server.findings import Findings
from deploy.extension_server.names import DESTINATION_HEADER, POOL_KEY, picker_cluster, picker_filter
from deploy.extension_server.wire import duration, labels, pack
from protos import xds_pb2 as xds
from protos.extension_pb2 import ExtensionResource

_API_VERSION: Final = "inference.networking.k8s.io/v1"
_ANNOTATIONS: Final = "aigateway.envoyproxy.io/"
_DEFAULT_PORT: Final = 9002
_MAX_PORT: Final = 65535
_MESSAGE_TIMEOUT: Final = 300.0
_CONNECT_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PoolNote:
    """A pool and how its picker is asked."""

    namespace: str
    name: str
    service: str
    port: str = str(_DEFAULT_PORT)
    body_mode: str = "duplex"
    """``duplex`` or ``buffered``; anything else is taken for the first."""
    allow_mode_override: bool = False

    @property
    def filter_name(self) -> str:
        """The HTTP filter that asks the picker."""
        return picker_filter(self.namespace, self.name)

    @property
    def host(self) -> str:
        """The picker's name in the cluster."""
        return f"{self.service}.{self.namespace}.svc"

    def write(self, metadata: xds.Metadata) -> None:
        """Leave the note. It has named fields: annotations may say anything."""
        fields = metadata.filter_metadata[names.XDS_NAMESPACE].fields[POOL_KEY].struct_value.fields
        fields["namespace"].string_value = self.namespace
        fields["name"].string_value = self.name
        fields["service"].string_value = self.service
        fields["port"].string_value = self.port
        fields["body_mode"].string_value = self.body_mode
        fields["allow_mode_override"].bool_value = self.allow_mode_override


def read_note(metadata: xds.Metadata) -> PoolNote | None:
    """The note in metadata, None when there is none. One of the peer's, parts between slashes, is read as well."""
    namespace = labels(metadata, names.XDS_NAMESPACE)
    if namespace is None or POOL_KEY not in namespace.fields:
        return None
    value = namespace.fields[POOL_KEY]
    note = _from_text(value.string_value) if value.string_value else _from_struct(value.struct_value)
    return note if note is not None and note.port.isdecimal() and int(note.port) <= _MAX_PORT else None


def _from_struct(value: Struct) -> PoolNote | None:
    fields = value.fields
    texts = {key: fields[key].string_value for key in ("namespace", "name", "service", "port") if key in fields}
    if not all(texts.get(key) for key in ("namespace", "name", "service")):
        return None
    return PoolNote(
        **texts,
        body_mode=fields["body_mode"].string_value if "body_mode" in fields else "duplex",
        allow_mode_override="allow_mode_override" in fields and fields["allow_mode_override"].bool_value,
    )


def _from_text(text: str) -> PoolNote | None:
    parts = text.split("/")
    if len(parts) != 6 or not all(parts[:3]):
        return None
    namespace, name, service, port, body_mode, override = parts
    return PoolNote(
        namespace=namespace,
        name=name,
        service=service,
        port=port,
        body_mode=body_mode,
        allow_mode_override=override == "true",
    )


# --- what is told about a pool ---


class _Meta(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None


class _Port(msgspec.Struct, frozen=True, kw_only=True):
    number: int = -1


class _Picker(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    port: _Port | None = None


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    endpoint_picker_ref: _Picker | None = None


class _Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Meta = _Meta()
    spec: Any = None


def modify_cluster(
    cluster: xds.Cluster, resources: Iterable[ExtensionResource], findings: Findings, *, resource: str
) -> None:
    """PostClusterModify: a cluster whose backend is a pool goes to the endpoint that a header names."""
    pool = _only_pool(resources, findings, resource)
    if pool is None:
        return
    cluster.type = xds.Cluster.ORIGINAL_DST
    cluster.lb_policy = xds.Cluster.CLUSTER_PROVIDED
    cluster.connect_timeout.CopyFrom(duration(_CONNECT_TIMEOUT))
    cluster.original_dst_lb_config.CopyFrom(
        xds.OriginalDstLbConfig(use_http_header=True, http_header_name=DESTINATION_HEADER)
    )
    for unfit in ("load_balancing_policy", "eds_cluster_config", "load_assignment"):
        cluster.ClearField(unfit)
    pool.write(cluster.metadata)


def modify_route(
    route: xds.Route, resources: Iterable[ExtensionResource], findings: Findings, *, resource: str
) -> None:
    """PostRouteModify: the same for a route that forwards; the Host header stays what it is."""
    pool = _only_pool(resources, findings, resource) if route.HasField("route") else None
    if pool is None:
        return
    if route.route.WhichOneof("host_rewrite_specifier") in {None, "auto_host_rewrite"}:
        route.route.auto_host_rewrite.value = False
    pool.write(route.metadata)


def _only_pool(resources: Iterable[ExtensionResource], findings: Findings, resource: str) -> PoolNote | None:
    pools = set(_pools(resources, findings, resource))
    if len(pools) > 1:
        named = ", ".join(f"{pool.namespace}/{pool.name}" for pool in sorted(pools))
        findings.add(resource, f"it has several InferencePools, of which none can be served: {named}")
        return None
    return next(iter(pools), None)


def _pools(resources: Iterable[ExtensionResource], findings: Findings, resource: str) -> Iterator[PoolNote]:
    for given in resources:
        try:
            found = msgspec.json.decode(given.unstructured_bytes, type=_Resource)
            if found.api_version != _API_VERSION or found.kind != "InferencePool":
                continue
            pool = _note(found.metadata, msgspec.convert(found.spec or {}, _Spec))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            findings.add(resource, f"an extension resource cannot be read: {error}")
            continue
        if pool is None:
            findings.add(resource, f"InferencePool {found.metadata.namespace}/{found.metadata.name} names no picker")
        else:
            yield pool


def _note(meta: _Meta, spec: _Spec) -> PoolNote | None:
    picker = spec.endpoint_picker_ref
    if picker is None or not picker.name or not meta.name or not meta.namespace:
        return None
    port = picker.port.number if picker.port is not None else -1
    annotations = meta.annotations or {}
    return PoolNote(
        namespace=meta.namespace,
        name=meta.name,
        service=picker.name,
        port=str(port if 0 <= port <= _MAX_PORT else _DEFAULT_PORT),
        body_mode=annotations.get(f"{_ANNOTATIONS}processing-body-mode", "duplex"),
        allow_mode_override=annotations.get(f"{_ANNOTATIONS}allow-mode-override") == "true",
    )


# --- who asks the picker ---


def by_filter(pools: Iterable[PoolNote]) -> dict[str, PoolNote]:
    """Pools by the name of their filter, each once and in order, however many routes go there."""
    found: dict[str, PoolNote] = {}
    for pool in sorted(set(pools)):
        found.setdefault(pool.filter_name, pool)
    return found


def picker_filters(pools: Iterable[PoolNote]) -> list[xds.HttpFilter]:
    """The filters of a listener, one for each pool that its routes go to."""
    return [http_filter(name, _asks(pool)) for name, pool in by_filter(pools).items()]


def _asks(pool: PoolNote) -> xds.ExternalProcessor:
    buffered = pool.body_mode == "buffered"
    body = xds.ProcessingMode.BUFFERED if buffered else xds.ProcessingMode.FULL_DUPLEX_STREAMED
    target = xds.EnvoyGrpc(cluster_name=picker_cluster(pool.namespace, pool.name), authority=f"{pool.host}:{pool.port}")
    return xds.ExternalProcessor(
        grpc_service=xds.GrpcService(envoy_grpc=target),
        processing_mode=xds.ProcessingMode(
            request_header_mode=xds.ProcessingMode.SEND,
            request_body_mode=body,
            request_trailer_mode=xds.ProcessingMode.SEND,
            response_header_mode=xds.ProcessingMode.SEND,
            response_body_mode=body,
            response_trailer_mode=xds.ProcessingMode.SEND,
        ),
        message_timeout=duration(_MESSAGE_TIMEOUT),
        allow_mode_override=pool.allow_mode_override,
    )


def spare_other_pools(route: xds.Route, filter_names: Iterable[str]) -> None:
    """Keep pickers from requests that do not go to their pool."""
    own = read_note(route.metadata)
    for name in filter_names:
        if own is None or name != own.filter_name:
            route.typed_per_filter_config[name].CopyFrom(_NOT_HERE)


_NOT_HERE: Final = pack(xds.ExtProcPerRoute(disabled=True))


def picker_clusters(pools: Iterable[PoolNote], *, ca_file: str) -> list[xds.Cluster]:
    """The clusters of pickers, each once. With certificates to trust, a picker has to show one for its name."""
    return [_picker_cluster(pool, ca_file) for pool in by_filter(pools).values()]


def _picker_cluster(pool: PoolNote, ca_file: str) -> xds.Cluster:
    target = SocketAddress(host=pool.host, port=int(pool.port))
    made = grpc_cluster(picker_cluster(pool.namespace, pool.name), target)
    made.lb_policy = xds.Cluster.LEAST_REQUEST
    made.load_assignment.endpoints[0].lb_endpoints[0].health_status = xds.HEALTHY
    context = xds.UpstreamTlsContext()
    trust = context.common_tls_context.validation_context
    trust.SetInParent()
    if ca_file:
        context.sni = pool.host
        trust.trusted_ca.filename = ca_file
        trust.match_typed_subject_alt_names.add(
            san_type=xds.SubjectAltNameMatcher.DNS, matcher=xds.StringMatcher(exact=pool.host)
        )
    made.transport_socket.CopyFrom(xds.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context)))
    return made

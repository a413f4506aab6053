import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[HealthStatus]
    HEALTHY: _ClassVar[HealthStatus]
    UNHEALTHY: _ClassVar[HealthStatus]
    DRAINING: _ClassVar[HealthStatus]
    TIMEOUT: _ClassVar[HealthStatus]
    DEGRADED: _ClassVar[HealthStatus]

class ApiVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUTO: _ClassVar[ApiVersion]
    V2: _ClassVar[ApiVersion]
    V3: _ClassVar[ApiVersion]
UNKNOWN: HealthStatus
HEALTHY: HealthStatus
UNHEALTHY: HealthStatus
DRAINING: HealthStatus
TIMEOUT: HealthStatus
DEGRADED: HealthStatus
AUTO: ApiVersion
V2: ApiVersion
V3: ApiVersion

class Cluster(_message.Message):
    __slots__ = ("name", "type", "cluster_type", "eds_cluster_config", "connect_timeout", "per_connection_buffer_limit_bytes", "lb_policy", "circuit_breakers", "transport_socket", "metadata", "load_assignment", "ring_hash_lb_config", "original_dst_lb_config", "least_request_lb_config", "maglev_lb_config", "round_robin_lb_config", "typed_extension_protocol_options", "load_balancing_policy", "transport_socket_matches")
    class DiscoveryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATIC: _ClassVar[Cluster.DiscoveryType]
        STRICT_DNS: _ClassVar[Cluster.DiscoveryType]
        LOGICAL_DNS: _ClassVar[Cluster.DiscoveryType]
        EDS: _ClassVar[Cluster.DiscoveryType]
        ORIGINAL_DST: _ClassVar[Cluster.DiscoveryType]
    STATIC: Cluster.DiscoveryType
    STRICT_DNS: Cluster.DiscoveryType
    LOGICAL_DNS: Cluster.DiscoveryType
    EDS: Cluster.DiscoveryType
    ORIGINAL_DST: Cluster.DiscoveryType
    class LbPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ROUND_ROBIN: _ClassVar[Cluster.LbPolicy]
        LEAST_REQUEST: _ClassVar[Cluster.LbPolicy]
        RING_HASH: _ClassVar[Cluster.LbPolicy]
        RANDOM: _ClassVar[Cluster.LbPolicy]
        MAGLEV: _ClassVar[Cluster.LbPolicy]
        CLUSTER_PROVIDED: _ClassVar[Cluster.LbPolicy]
        LOAD_BALANCING_POLICY_CONFIG: _ClassVar[Cluster.LbPolicy]
    ROUND_ROBIN: Cluster.LbPolicy
    LEAST_REQUEST: Cluster.LbPolicy
    RING_HASH: Cluster.LbPolicy
    RANDOM: Cluster.LbPolicy
    MAGLEV: Cluster.LbPolicy
    CLUSTER_PROVIDED: Cluster.LbPolicy
    LOAD_BALANCING_POLICY_CONFIG: Cluster.LbPolicy
    class TypedExtensionProtocolOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _any_pb2.Any
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_TYPE_FIELD_NUMBER: _ClassVar[int]
    EDS_CLUSTER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CONNECT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    PER_CONNECTION_BUFFER_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LB_POLICY_FIELD_NUMBER: _ClassVar[int]
    CIRCUIT_BREAKERS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_SOCKET_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LOAD_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    RING_HASH_LB_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_DST_LB_CONFIG_FIELD_NUMBER: _ClassVar[int]
    LEAST_REQUEST_LB_CONFIG_FIELD_NUMBER: _ClassVar[int]
    MAGLEV_LB_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ROUND_ROBIN_LB_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TYPED_EXTENSION_PROTOCOL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCING_POLICY_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_SOCKET_MATCHES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: Cluster.DiscoveryType
    cluster_type: CustomClusterType
    eds_cluster_config: EdsClusterConfig
    connect_timeout: _duration_pb2.Duration
    per_connection_buffer_limit_bytes: _wrappers_pb2.UInt32Value
    lb_policy: Cluster.LbPolicy
    circuit_breakers: CircuitBreakers
    transport_socket: TransportSocket
    metadata: Metadata
    load_assignment: ClusterLoadAssignment
    ring_hash_lb_config: RingHashLbConfig
    original_dst_lb_config: OriginalDstLbConfig
    least_request_lb_config: LeastRequestLbConfig
    maglev_lb_config: MaglevLbConfig
    round_robin_lb_config: RoundRobinLbConfig
    typed_extension_protocol_options: _containers.MessageMap[str, _any_pb2.Any]
    load_balancing_policy: LoadBalancingPolicy
    transport_socket_matches: _containers.RepeatedCompositeFieldContainer[TransportSocketMatch]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[Cluster.DiscoveryType, str]] = ..., cluster_type: _Optional[_Union[CustomClusterType, _Mapping]] = ..., eds_cluster_config: _Optional[_Union[EdsClusterConfig, _Mapping]] = ..., connect_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., per_connection_buffer_limit_bytes: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., lb_policy: _Optional[_Union[Cluster.LbPolicy, str]] = ..., circuit_breakers: _Optional[_Union[CircuitBreakers, _Mapping]] = ..., transport_socket: _Optional[_Union[TransportSocket, _Mapping]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., load_assignment: _Optional[_Union[ClusterLoadAssignment, _Mapping]] = ..., ring_hash_lb_config: _Optional[_Union[RingHashLbConfig, _Mapping]] = ..., original_dst_lb_config: _Optional[_Union[OriginalDstLbConfig, _Mapping]] = ..., least_request_lb_config: _Optional[_Union[LeastRequestLbConfig, _Mapping]] = ..., maglev_lb_config: _Optional[_Union[MaglevLbConfig, _Mapping]] = ..., round_robin_lb_config: _Optional[_Union[RoundRobinLbConfig, _Mapping]] = ..., typed_extension_protocol_options: _Optional[_Mapping[str, _any_pb2.Any]] = ..., load_balancing_policy: _Optional[_Union[LoadBalancingPolicy, _Mapping]] = ..., transport_socket_matches: _Optional[_Iterable[_Union[TransportSocketMatch, _Mapping]]] = ...) -> None: ...

class EdsClusterConfig(_message.Message):
    __slots__ = ("service_name",)
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    service_name: str
    def __init__(self, service_name: _Optional[str] = ...) -> None: ...

class OriginalDstLbConfig(_message.Message):
    __slots__ = ("use_http_header", "http_header_name")
    USE_HTTP_HEADER_FIELD_NUMBER: _ClassVar[int]
    HTTP_HEADER_NAME_FIELD_NUMBER: _ClassVar[int]
    use_http_header: bool
    http_header_name: str
    def __init__(self, use_http_header: _Optional[bool] = ..., http_header_name: _Optional[str] = ...) -> None: ...

class TransportSocketMatch(_message.Message):
    __slots__ = ("name", "match", "transport_socket")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_SOCKET_FIELD_NUMBER: _ClassVar[int]
    name: str
    match: _struct_pb2.Struct
    transport_socket: TransportSocket
    def __init__(self, name: _Optional[str] = ..., match: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., transport_socket: _Optional[_Union[TransportSocket, _Mapping]] = ...) -> None: ...

class LoadBalancingPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CustomClusterType(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RingHashLbConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeastRequestLbConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MaglevLbConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RoundRobinLbConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CircuitBreakers(_message.Message):
    __slots__ = ("thresholds",)
    THRESHOLDS_FIELD_NUMBER: _ClassVar[int]
    thresholds: _containers.RepeatedCompositeFieldContainer[Thresholds]
    def __init__(self, thresholds: _Optional[_Iterable[_Union[Thresholds, _Mapping]]] = ...) -> None: ...

class Thresholds(_message.Message):
    __slots__ = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    MAX_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    max_connections: _wrappers_pb2.UInt32Value
    max_pending_requests: _wrappers_pb2.UInt32Value
    max_requests: _wrappers_pb2.UInt32Value
    max_retries: _wrappers_pb2.UInt32Value
    def __init__(self, max_connections: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., max_pending_requests: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., max_requests: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., max_retries: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ...) -> None: ...

class ClusterLoadAssignment(_message.Message):
    __slots__ = ("cluster_name", "endpoints")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    endpoints: _containers.RepeatedCompositeFieldContainer[LocalityLbEndpoints]
    def __init__(self, cluster_name: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[LocalityLbEndpoints, _Mapping]]] = ...) -> None: ...

class LocalityLbEndpoints(_message.Message):
    __slots__ = ("locality", "lb_endpoints", "load_balancing_weight", "priority", "metadata")
    LOCALITY_FIELD_NUMBER: _ClassVar[int]
    LB_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCING_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    locality: Locality
    lb_endpoints: _containers.RepeatedCompositeFieldContainer[LbEndpoint]
    load_balancing_weight: _wrappers_pb2.UInt32Value
    priority: int
    metadata: Metadata
    def __init__(self, locality: _Optional[_Union[Locality, _Mapping]] = ..., lb_endpoints: _Optional[_Iterable[_Union[LbEndpoint, _Mapping]]] = ..., load_balancing_weight: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., priority: _Optional[int] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class LbEndpoint(_message.Message):
    __slots__ = ("endpoint", "health_status", "metadata", "load_balancing_weight")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    HEALTH_STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCING_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    endpoint: Endpoint
    health_status: HealthStatus
    metadata: Metadata
    load_balancing_weight: _wrappers_pb2.UInt32Value
    def __init__(self, endpoint: _Optional[_Union[Endpoint, _Mapping]] = ..., health_status: _Optional[_Union[HealthStatus, str]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., load_balancing_weight: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("address", "hostname")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    address: Address
    hostname: str
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ..., hostname: _Optional[str] = ...) -> None: ...

class Locality(_message.Message):
    __slots__ = ("region", "zone")
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    region: str
    zone: str
    def __init__(self, region: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class Address(_message.Message):
    __slots__ = ("socket_address", "pipe")
    SOCKET_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PIPE_FIELD_NUMBER: _ClassVar[int]
    socket_address: SocketAddress
    pipe: Pipe
    def __init__(self, socket_address: _Optional[_Union[SocketAddress, _Mapping]] = ..., pipe: _Optional[_Union[Pipe, _Mapping]] = ...) -> None: ...

class SocketAddress(_message.Message):
    __slots__ = ("address", "port_value")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_VALUE_FIELD_NUMBER: _ClassVar[int]
    address: str
    port_value: int
    def __init__(self, address: _Optional[str] = ..., port_value: _Optional[int] = ...) -> None: ...

class Pipe(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("filter_metadata",)
    class FilterMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Struct
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
    FILTER_METADATA_FIELD_NUMBER: _ClassVar[int]
    filter_metadata: _containers.MessageMap[str, _struct_pb2.Struct]
    def __init__(self, filter_metadata: _Optional[_Mapping[str, _struct_pb2.Struct]] = ...) -> None: ...

class TransportSocket(_message.Message):
    __slots__ = ("name", "typed_config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    typed_config: _any_pb2.Any
    def __init__(self, name: _Optional[str] = ..., typed_config: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class RawBuffer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Http11ProxyUpstreamTransport(_message.Message):
    __slots__ = ("transport_socket", "default_proxy_address")
    TRANSPORT_SOCKET_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PROXY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    transport_socket: TransportSocket
    default_proxy_address: Address
    def __init__(self, transport_socket: _Optional[_Union[TransportSocket, _Mapping]] = ..., default_proxy_address: _Optional[_Union[Address, _Mapping]] = ...) -> None: ...

class UpstreamTlsContext(_message.Message):
    __slots__ = ("common_tls_context", "sni")
    COMMON_TLS_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SNI_FIELD_NUMBER: _ClassVar[int]
    common_tls_context: CommonTlsContext
    sni: str
    def __init__(self, common_tls_context: _Optional[_Union[CommonTlsContext, _Mapping]] = ..., sni: _Optional[str] = ...) -> None: ...

class CommonTlsContext(_message.Message):
    __slots__ = ("validation_context",)
    VALIDATION_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    validation_context: CertificateValidationContext
    def __init__(self, validation_context: _Optional[_Union[CertificateValidationContext, _Mapping]] = ...) -> None: ...

class CertificateValidationContext(_message.Message):
    __slots__ = ("trusted_ca", "match_typed_subject_alt_names")
    TRUSTED_CA_FIELD_NUMBER: _ClassVar[int]
    MATCH_TYPED_SUBJECT_ALT_NAMES_FIELD_NUMBER: _ClassVar[int]
    trusted_ca: DataSource
    match_typed_subject_alt_names: _containers.RepeatedCompositeFieldContainer[SubjectAltNameMatcher]
    def __init__(self, trusted_ca: _Optional[_Union[DataSource, _Mapping]] = ..., match_typed_subject_alt_names: _Optional[_Iterable[_Union[SubjectAltNameMatcher, _Mapping]]] = ...) -> None: ...

class SubjectAltNameMatcher(_message.Message):
    __slots__ = ("san_type", "matcher")
    class SanType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SAN_TYPE_UNSPECIFIED: _ClassVar[SubjectAltNameMatcher.SanType]
        EMAIL: _ClassVar[SubjectAltNameMatcher.SanType]
        DNS: _ClassVar[SubjectAltNameMatcher.SanType]
        URI: _ClassVar[SubjectAltNameMatcher.SanType]
        IP_ADDRESS: _ClassVar[SubjectAltNameMatcher.SanType]
        OTHER_NAME: _ClassVar[SubjectAltNameMatcher.SanType]
    SAN_TYPE_UNSPECIFIED: SubjectAltNameMatcher.SanType
    EMAIL: SubjectAltNameMatcher.SanType
    DNS: SubjectAltNameMatcher.SanType
    URI: SubjectAltNameMatcher.SanType
    IP_ADDRESS: SubjectAltNameMatcher.SanType
    OTHER_NAME: SubjectAltNameMatcher.SanType
    SAN_TYPE_FIELD_NUMBER: _ClassVar[int]
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    san_type: SubjectAltNameMatcher.SanType
    matcher: StringMatcher
    def __init__(self, san_type: _Optional[_Union[SubjectAltNameMatcher.SanType, str]] = ..., matcher: _Optional[_Union[StringMatcher, _Mapping]] = ...) -> None: ...

class Secret(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DataSource(_message.Message):
    __slots__ = ("filename",)
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    filename: str
    def __init__(self, filename: _Optional[str] = ...) -> None: ...

class StringMatcher(_message.Message):
    __slots__ = ("exact",)
    EXACT_FIELD_NUMBER: _ClassVar[int]
    exact: str
    def __init__(self, exact: _Optional[str] = ...) -> None: ...

class HttpProtocolOptions(_message.Message):
    __slots__ = ("explicit_http_config", "use_downstream_protocol_config", "auto_config", "http_filters")
    EXPLICIT_HTTP_CONFIG_FIELD_NUMBER: _ClassVar[int]
    USE_DOWNSTREAM_PROTOCOL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    AUTO_CONFIG_FIELD_NUMBER: _ClassVar[int]
    HTTP_FILTERS_FIELD_NUMBER: _ClassVar[int]
    explicit_http_config: ExplicitHttpConfig
    use_downstream_protocol_config: UseDownstreamHttpConfig
    auto_config: AutoHttpConfig
    http_filters: _containers.RepeatedCompositeFieldContainer[HttpFilter]
    def __init__(self, explicit_http_config: _Optional[_Union[ExplicitHttpConfig, _Mapping]] = ..., use_downstream_protocol_config: _Optional[_Union[UseDownstreamHttpConfig, _Mapping]] = ..., auto_config: _Optional[_Union[AutoHttpConfig, _Mapping]] = ..., http_filters: _Optional[_Iterable[_Union[HttpFilter, _Mapping]]] = ...) -> None: ...

class ExplicitHttpConfig(_message.Message):
    __slots__ = ("http_protocol_options", "http2_protocol_options")
    HTTP_PROTOCOL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    HTTP2_PROTOCOL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    http_protocol_options: Http1ProtocolOptions
    http2_protocol_options: Http2ProtocolOptions
    def __init__(self, http_protocol_options: _Optional[_Union[Http1ProtocolOptions, _Mapping]] = ..., http2_protocol_options: _Optional[_Union[Http2ProtocolOptions, _Mapping]] = ...) -> None: ...

class UseDownstreamHttpConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AutoHttpConfig(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Http1ProtocolOptions(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Http2ProtocolOptions(_message.Message):
    __slots__ = ("initial_stream_window_size", "initial_connection_window_size")
    INITIAL_STREAM_WINDOW_SIZE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_CONNECTION_WINDOW_SIZE_FIELD_NUMBER: _ClassVar[int]
    initial_stream_window_size: _wrappers_pb2.UInt32Value
    initial_connection_window_size: _wrappers_pb2.UInt32Value
    def __init__(self, initial_stream_window_size: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., initial_connection_window_size: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ...) -> None: ...

class Listener(_message.Message):
    __slots__ = ("name", "address", "filter_chains", "metadata", "default_filter_chain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FILTER_CHAINS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FILTER_CHAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: Address
    filter_chains: _containers.RepeatedCompositeFieldContainer[FilterChain]
    metadata: Metadata
    default_filter_chain: FilterChain
    def __init__(self, name: _Optional[str] = ..., address: _Optional[_Union[Address, _Mapping]] = ..., filter_chains: _Optional[_Iterable[_Union[FilterChain, _Mapping]]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., default_filter_chain: _Optional[_Union[FilterChain, _Mapping]] = ...) -> None: ...

class FilterChain(_message.Message):
    __slots__ = ("filters", "metadata", "name")
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[Filter]
    metadata: Metadata
    name: str
    def __init__(self, filters: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("name", "typed_config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    typed_config: _any_pb2.Any
    def __init__(self, name: _Optional[str] = ..., typed_config: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class HttpConnectionManager(_message.Message):
    __slots__ = ("stat_prefix", "rds", "route_config", "http_filters", "access_log", "scheme_header_transformation")
    STAT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    RDS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    HTTP_FILTERS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_LOG_FIELD_NUMBER: _ClassVar[int]
    SCHEME_HEADER_TRANSFORMATION_FIELD_NUMBER: _ClassVar[int]
    stat_prefix: str
    rds: Rds
    route_config: RouteConfiguration
    http_filters: _containers.RepeatedCompositeFieldContainer[HttpFilter]
    access_log: _containers.RepeatedCompositeFieldContainer[AccessLog]
    scheme_header_transformation: SchemeHeaderTransformation
    def __init__(self, stat_prefix: _Optional[str] = ..., rds: _Optional[_Union[Rds, _Mapping]] = ..., route_config: _Optional[_Union[RouteConfiguration, _Mapping]] = ..., http_filters: _Optional[_Iterable[_Union[HttpFilter, _Mapping]]] = ..., access_log: _Optional[_Iterable[_Union[AccessLog, _Mapping]]] = ..., scheme_header_transformation: _Optional[_Union[SchemeHeaderTransformation, _Mapping]] = ...) -> None: ...

class Rds(_message.Message):
    __slots__ = ("config_source", "route_config_name")
    CONFIG_SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROUTE_CONFIG_NAME_FIELD_NUMBER: _ClassVar[int]
    config_source: ConfigSource
    route_config_name: str
    def __init__(self, config_source: _Optional[_Union[ConfigSource, _Mapping]] = ..., route_config_name: _Optional[str] = ...) -> None: ...

class HttpFilter(_message.Message):
    __slots__ = ("name", "typed_config", "disabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    typed_config: _any_pb2.Any
    disabled: bool
    def __init__(self, name: _Optional[str] = ..., typed_config: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., disabled: _Optional[bool] = ...) -> None: ...

class ConfigSource(_message.Message):
    __slots__ = ("ads", "resource_api_version")
    ADS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_API_VERSION_FIELD_NUMBER: _ClassVar[int]
    ads: AggregatedConfigSource
    resource_api_version: ApiVersion
    def __init__(self, ads: _Optional[_Union[AggregatedConfigSource, _Mapping]] = ..., resource_api_version: _Optional[_Union[ApiVersion, str]] = ...) -> None: ...

class AggregatedConfigSource(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SchemeHeaderTransformation(_message.Message):
    __slots__ = ("match_upstream",)
    MATCH_UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    match_upstream: bool
    def __init__(self, match_upstream: _Optional[bool] = ...) -> None: ...

class AccessLog(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Router(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpstreamCodec(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RouteConfiguration(_message.Message):
    __slots__ = ("name", "virtual_hosts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_HOSTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    virtual_hosts: _containers.RepeatedCompositeFieldContainer[VirtualHost]
    def __init__(self, name: _Optional[str] = ..., virtual_hosts: _Optional[_Iterable[_Union[VirtualHost, _Mapping]]] = ...) -> None: ...

class VirtualHost(_message.Message):
    __slots__ = ("name", "domains", "routes", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    domains: _containers.RepeatedScalarFieldContainer[str]
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    metadata: Metadata
    def __init__(self, name: _Optional[str] = ..., domains: _Optional[_Iterable[str]] = ..., routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("route", "metadata", "request_headers_to_add", "typed_per_filter_config", "name")
    class TypedPerFilterConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _any_pb2.Any
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HEADERS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    TYPED_PER_FILTER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    route: RouteAction
    metadata: Metadata
    request_headers_to_add: _containers.RepeatedCompositeFieldContainer[HeaderValueOption]
    typed_per_filter_config: _containers.MessageMap[str, _any_pb2.Any]
    name: str
    def __init__(self, route: _Optional[_Union[RouteAction, _Mapping]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., request_headers_to_add: _Optional[_Iterable[_Union[HeaderValueOption, _Mapping]]] = ..., typed_per_filter_config: _Optional[_Mapping[str, _any_pb2.Any]] = ..., name: _Optional[str] = ...) -> None: ...

class RouteAction(_message.Message):
    __slots__ = ("cluster", "cluster_header", "weighted_clusters", "host_rewrite_literal", "auto_host_rewrite", "host_rewrite_header", "host_rewrite_path_regex", "retry_policy")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_HEADER_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    HOST_REWRITE_LITERAL_FIELD_NUMBER: _ClassVar[int]
    AUTO_HOST_REWRITE_FIELD_NUMBER: _ClassVar[int]
    HOST_REWRITE_HEADER_FIELD_NUMBER: _ClassVar[int]
    HOST_REWRITE_PATH_REGEX_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    cluster_header: str
    weighted_clusters: WeightedCluster
    host_rewrite_literal: str
    auto_host_rewrite: _wrappers_pb2.BoolValue
    host_rewrite_header: str
    host_rewrite_path_regex: RegexMatchAndSubstitute
    retry_policy: RetryPolicy
    def __init__(self, cluster: _Optional[str] = ..., cluster_header: _Optional[str] = ..., weighted_clusters: _Optional[_Union[WeightedCluster, _Mapping]] = ..., host_rewrite_literal: _Optional[str] = ..., auto_host_rewrite: _Optional[_Union[_wrappers_pb2.BoolValue, _Mapping]] = ..., host_rewrite_header: _Optional[str] = ..., host_rewrite_path_regex: _Optional[_Union[RegexMatchAndSubstitute, _Mapping]] = ..., retry_policy: _Optional[_Union[RetryPolicy, _Mapping]] = ...) -> None: ...

class RegexMatchAndSubstitute(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WeightedCluster(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[ClusterWeight]
    def __init__(self, clusters: _Optional[_Iterable[_Union[ClusterWeight, _Mapping]]] = ...) -> None: ...

class ClusterWeight(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("per_try_idle_timeout",)
    PER_TRY_IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    per_try_idle_timeout: _duration_pb2.Duration
    def __init__(self, per_try_idle_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class FilterConfig(_message.Message):
    __slots__ = ("config", "disabled")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    config: _any_pb2.Any
    disabled: bool
    def __init__(self, config: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., disabled: _Optional[bool] = ...) -> None: ...

class ExternalProcessor(_message.Message):
    __slots__ = ("grpc_service", "failure_mode_allow", "processing_mode", "request_attributes", "message_timeout", "allow_mode_override", "metadata_options")
    GRPC_SERVICE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_MODE_ALLOW_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MODE_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    METADATA_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    grpc_service: GrpcService
    failure_mode_allow: bool
    processing_mode: ProcessingMode
    request_attributes: _containers.RepeatedScalarFieldContainer[str]
    message_timeout: _duration_pb2.Duration
    allow_mode_override: bool
    metadata_options: MetadataOptions
    def __init__(self, grpc_service: _Optional[_Union[GrpcService, _Mapping]] = ..., failure_mode_allow: _Optional[bool] = ..., processing_mode: _Optional[_Union[ProcessingMode, _Mapping]] = ..., request_attributes: _Optional[_Iterable[str]] = ..., message_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., allow_mode_override: _Optional[bool] = ..., metadata_options: _Optional[_Union[MetadataOptions, _Mapping]] = ...) -> None: ...

class ProcessingMode(_message.Message):
    __slots__ = ("request_header_mode", "response_header_mode", "request_body_mode", "response_body_mode", "request_trailer_mode", "response_trailer_mode")
    class HeaderSendMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[ProcessingMode.HeaderSendMode]
        SEND: _ClassVar[ProcessingMode.HeaderSendMode]
        SKIP: _ClassVar[ProcessingMode.HeaderSendMode]
    DEFAULT: ProcessingMode.HeaderSendMode
    SEND: ProcessingMode.HeaderSendMode
    SKIP: ProcessingMode.HeaderSendMode
    class BodySendMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[ProcessingMode.BodySendMode]
        STREAMED: _ClassVar[ProcessingMode.BodySendMode]
        BUFFERED: _ClassVar[ProcessingMode.BodySendMode]
        BUFFERED_PARTIAL: _ClassVar[ProcessingMode.BodySendMode]
        FULL_DUPLEX_STREAMED: _ClassVar[ProcessingMode.BodySendMode]
        GRPC: _ClassVar[ProcessingMode.BodySendMode]
    NONE: ProcessingMode.BodySendMode
    STREAMED: ProcessingMode.BodySendMode
    BUFFERED: ProcessingMode.BodySendMode
    BUFFERED_PARTIAL: ProcessingMode.BodySendMode
    FULL_DUPLEX_STREAMED: ProcessingMode.BodySendMode
    GRPC: ProcessingMode.BodySendMode
    REQUEST_HEADER_MODE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_HEADER_MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BODY_MODE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_BODY_MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TRAILER_MODE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TRAILER_MODE_FIELD_NUMBER: _ClassVar[int]
    request_header_mode: ProcessingMode.HeaderSendMode
    response_header_mode: ProcessingMode.HeaderSendMode
    request_body_mode: ProcessingMode.BodySendMode
    response_body_mode: ProcessingMode.BodySendMode
    request_trailer_mode: ProcessingMode.HeaderSendMode
    response_trailer_mode: ProcessingMode.HeaderSendMode
    def __init__(self, request_header_mode: _Optional[_Union[ProcessingMode.HeaderSendMode, str]] = ..., response_header_mode: _Optional[_Union[ProcessingMode.HeaderSendMode, str]] = ..., request_body_mode: _Optional[_Union[ProcessingMode.BodySendMode, str]] = ..., response_body_mode: _Optional[_Union[ProcessingMode.BodySendMode, str]] = ..., request_trailer_mode: _Optional[_Union[ProcessingMode.HeaderSendMode, str]] = ..., response_trailer_mode: _Optional[_Union[ProcessingMode.HeaderSendMode, str]] = ...) -> None: ...

class MetadataOptions(_message.Message):
    __slots__ = ("forwarding_namespaces", "receiving_namespaces")
    FORWARDING_NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    RECEIVING_NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    forwarding_namespaces: MetadataNamespaces
    receiving_namespaces: MetadataNamespaces
    def __init__(self, forwarding_namespaces: _Optional[_Union[MetadataNamespaces, _Mapping]] = ..., receiving_namespaces: _Optional[_Union[MetadataNamespaces, _Mapping]] = ...) -> None: ...

class MetadataNamespaces(_message.Message):
    __slots__ = ("untyped",)
    UNTYPED_FIELD_NUMBER: _ClassVar[int]
    untyped: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, untyped: _Optional[_Iterable[str]] = ...) -> None: ...

class ExtProcPerRoute(_message.Message):
    __slots__ = ("disabled",)
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    disabled: bool
    def __init__(self, disabled: _Optional[bool] = ...) -> None: ...

class GrpcService(_message.Message):
    __slots__ = ("envoy_grpc", "timeout", "retry_policy")
    ENVOY_GRPC_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    envoy_grpc: EnvoyGrpc
    timeout: _duration_pb2.Duration
    retry_policy: GrpcRetryPolicy
    def __init__(self, envoy_grpc: _Optional[_Union[EnvoyGrpc, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_policy: _Optional[_Union[GrpcRetryPolicy, _Mapping]] = ...) -> None: ...

class EnvoyGrpc(_message.Message):
    __slots__ = ("cluster_name", "authority")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    authority: str
    def __init__(self, cluster_name: _Optional[str] = ..., authority: _Optional[str] = ...) -> None: ...

class GrpcRetryPolicy(_message.Message):
    __slots__ = ("retry_back_off", "num_retries", "retry_on")
    RETRY_BACK_OFF_FIELD_NUMBER: _ClassVar[int]
    NUM_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_ON_FIELD_NUMBER: _ClassVar[int]
    retry_back_off: BackoffStrategy
    num_retries: _wrappers_pb2.UInt32Value
    retry_on: str
    def __init__(self, retry_back_off: _Optional[_Union[BackoffStrategy, _Mapping]] = ..., num_retries: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., retry_on: _Optional[str] = ...) -> None: ...

class BackoffStrategy(_message.Message):
    __slots__ = ("base_interval", "max_interval")
    BASE_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    base_interval: _duration_pb2.Duration
    max_interval: _duration_pb2.Duration
    def __init__(self, base_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HeaderMutation(_message.Message):
    __slots__ = ("mutations",)
    MUTATIONS_FIELD_NUMBER: _ClassVar[int]
    mutations: Mutations
    def __init__(self, mutations: _Optional[_Union[Mutations, _Mapping]] = ...) -> None: ...

class HeaderMutationPerRoute(_message.Message):
    __slots__ = ("mutations",)
    MUTATIONS_FIELD_NUMBER: _ClassVar[int]
    mutations: Mutations
    def __init__(self, mutations: _Optional[_Union[Mutations, _Mapping]] = ...) -> None: ...

class Mutations(_message.Message):
    __slots__ = ("request_mutations",)
    REQUEST_MUTATIONS_FIELD_NUMBER: _ClassVar[int]
    request_mutations: _containers.RepeatedCompositeFieldContainer[Mutation]
    def __init__(self, request_mutations: _Optional[_Iterable[_Union[Mutation, _Mapping]]] = ...) -> None: ...

class Mutation(_message.Message):
    __slots__ = ("append",)
    APPEND_FIELD_NUMBER: _ClassVar[int]
    append: HeaderValueOption
    def __init__(self, append: _Optional[_Union[HeaderValueOption, _Mapping]] = ...) -> None: ...

class HeaderValueOption(_message.Message):
    __slots__ = ("header", "append_action", "keep_empty_value")
    class HeaderAppendAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        APPEND_IF_EXISTS_OR_ADD: _ClassVar[HeaderValueOption.HeaderAppendAction]
        ADD_IF_ABSENT: _ClassVar[HeaderValueOption.HeaderAppendAction]
        OVERWRITE_IF_EXISTS_OR_ADD: _ClassVar[HeaderValueOption.HeaderAppendAction]
        OVERWRITE_IF_EXISTS: _ClassVar[HeaderValueOption.HeaderAppendAction]
    APPEND_IF_EXISTS_OR_ADD: HeaderValueOption.HeaderAppendAction
    ADD_IF_ABSENT: HeaderValueOption.HeaderAppendAction
    OVERWRITE_IF_EXISTS_OR_ADD: HeaderValueOption.HeaderAppendAction
    OVERWRITE_IF_EXISTS: HeaderValueOption.HeaderAppendAction
    HEADER_FIELD_NUMBER: _ClassVar[int]
    APPEND_ACTION_FIELD_NUMBER: _ClassVar[int]
    KEEP_EMPTY_VALUE_FIELD_NUMBER: _ClassVar[int]
    header: HeaderValue
    append_action: HeaderValueOption.HeaderAppendAction
    keep_empty_value: bool
    def __init__(self, header: _Optional[_Union[HeaderValue, _Mapping]] = ..., append_action: _Optional[_Union[HeaderValueOption.HeaderAppendAction, str]] = ..., keep_empty_value: _Optional[bool] = ...) -> None: ...

class HeaderValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class HeaderToMetadata(_message.Message):
    __slots__ = ("request_rules",)
    REQUEST_RULES_FIELD_NUMBER: _ClassVar[int]
    request_rules: _containers.RepeatedCompositeFieldContainer[HeaderRule]
    def __init__(self, request_rules: _Optional[_Iterable[_Union[HeaderRule, _Mapping]]] = ...) -> None: ...

class HeaderRule(_message.Message):
    __slots__ = ("header", "on_header_present", "remove")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ON_HEADER_PRESENT_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    header: str
    on_header_present: HeaderTarget
    remove: bool
    def __init__(self, header: _Optional[str] = ..., on_header_present: _Optional[_Union[HeaderTarget, _Mapping]] = ..., remove: _Optional[bool] = ...) -> None: ...

class HeaderTarget(_message.Message):
    __slots__ = ("metadata_namespace", "key")
    METADATA_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    metadata_namespace: str
    key: str
    def __init__(self, metadata_namespace: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class RateLimitFilter(_message.Message):
    __slots__ = ("domain", "timeout", "failure_mode_deny", "rate_limit_service", "enable_x_ratelimit_headers", "disable_x_envoy_ratelimited_header")
    class XRateLimitHeadersRFCVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OFF: _ClassVar[RateLimitFilter.XRateLimitHeadersRFCVersion]
        DRAFT_VERSION_03: _ClassVar[RateLimitFilter.XRateLimitHeadersRFCVersion]
    OFF: RateLimitFilter.XRateLimitHeadersRFCVersion
    DRAFT_VERSION_03: RateLimitFilter.XRateLimitHeadersRFCVersion
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_MODE_DENY_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMIT_SERVICE_FIELD_NUMBER: _ClassVar[int]
    ENABLE_X_RATELIMIT_HEADERS_FIELD_NUMBER: _ClassVar[int]
    DISABLE_X_ENVOY_RATELIMITED_HEADER_FIELD_NUMBER: _ClassVar[int]
    domain: str
    timeout: _duration_pb2.Duration
    failure_mode_deny: bool
    rate_limit_service: RateLimitServiceConfig
    enable_x_ratelimit_headers: RateLimitFilter.XRateLimitHeadersRFCVersion
    disable_x_envoy_ratelimited_header: bool
    def __init__(self, domain: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., failure_mode_deny: _Optional[bool] = ..., rate_limit_service: _Optional[_Union[RateLimitServiceConfig, _Mapping]] = ..., enable_x_ratelimit_headers: _Optional[_Union[RateLimitFilter.XRateLimitHeadersRFCVersion, str]] = ..., disable_x_envoy_ratelimited_header: _Optional[bool] = ...) -> None: ...

class RateLimitServiceConfig(_message.Message):
    __slots__ = ("grpc_service", "transport_api_version")
    GRPC_SERVICE_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_API_VERSION_FIELD_NUMBER: _ClassVar[int]
    grpc_service: GrpcService
    transport_api_version: ApiVersion
    def __init__(self, grpc_service: _Optional[_Union[GrpcService, _Mapping]] = ..., transport_api_version: _Optional[_Union[ApiVersion, str]] = ...) -> None: ...

class RateLimitPerRoute(_message.Message):
    __slots__ = ("rate_limits", "domain")
    RATE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    rate_limits: _containers.RepeatedCompositeFieldContainer[RateLimit]
    domain: str
    def __init__(self, rate_limits: _Optional[_Iterable[_Union[RateLimit, _Mapping]]] = ..., domain: _Optional[str] = ...) -> None: ...

class RateLimit(_message.Message):
    __slots__ = ("actions", "hits_addend", "apply_on_stream_done")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    HITS_ADDEND_FIELD_NUMBER: _ClassVar[int]
    APPLY_ON_STREAM_DONE_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedCompositeFieldContainer[RateLimitAction]
    hits_addend: HitsAddend
    apply_on_stream_done: bool
    def __init__(self, actions: _Optional[_Iterable[_Union[RateLimitAction, _Mapping]]] = ..., hits_addend: _Optional[_Union[HitsAddend, _Mapping]] = ..., apply_on_stream_done: _Optional[bool] = ...) -> None: ...

class HitsAddend(_message.Message):
    __slots__ = ("number", "format")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    number: _wrappers_pb2.UInt64Value
    format: str
    def __init__(self, number: _Optional[_Union[_wrappers_pb2.UInt64Value, _Mapping]] = ..., format: _Optional[str] = ...) -> None: ...

class RateLimitAction(_message.Message):
    __slots__ = ("request_headers", "generic_key", "header_value_match", "metadata")
    REQUEST_HEADERS_FIELD_NUMBER: _ClassVar[int]
    GENERIC_KEY_FIELD_NUMBER: _ClassVar[int]
    HEADER_VALUE_MATCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    request_headers: RequestHeaders
    generic_key: GenericKey
    header_value_match: HeaderValueMatch
    metadata: MetadataAction
    def __init__(self, request_headers: _Optional[_Union[RequestHeaders, _Mapping]] = ..., generic_key: _Optional[_Union[GenericKey, _Mapping]] = ..., header_value_match: _Optional[_Union[HeaderValueMatch, _Mapping]] = ..., metadata: _Optional[_Union[MetadataAction, _Mapping]] = ...) -> None: ...

class RequestHeaders(_message.Message):
    __slots__ = ("header_name", "descriptor_key")
    HEADER_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_KEY_FIELD_NUMBER: _ClassVar[int]
    header_name: str
    descriptor_key: str
    def __init__(self, header_name: _Optional[str] = ..., descriptor_key: _Optional[str] = ...) -> None: ...

class GenericKey(_message.Message):
    __slots__ = ("descriptor_value", "descriptor_key")
    DESCRIPTOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_KEY_FIELD_NUMBER: _ClassVar[int]
    descriptor_value: str
    descriptor_key: str
    def __init__(self, descriptor_value: _Optional[str] = ..., descriptor_key: _Optional[str] = ...) -> None: ...

class HeaderValueMatch(_message.Message):
    __slots__ = ("descriptor_value", "headers", "descriptor_key")
    DESCRIPTOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_KEY_FIELD_NUMBER: _ClassVar[int]
    descriptor_value: str
    headers: _containers.RepeatedCompositeFieldContainer[HeaderMatcher]
    descriptor_key: str
    def __init__(self, descriptor_value: _Optional[str] = ..., headers: _Optional[_Iterable[_Union[HeaderMatcher, _Mapping]]] = ..., descriptor_key: _Optional[str] = ...) -> None: ...

class MetadataAction(_message.Message):
    __slots__ = ("descriptor_key", "metadata_key")
    DESCRIPTOR_KEY_FIELD_NUMBER: _ClassVar[int]
    METADATA_KEY_FIELD_NUMBER: _ClassVar[int]
    descriptor_key: str
    metadata_key: MetadataKey
    def __init__(self, descriptor_key: _Optional[str] = ..., metadata_key: _Optional[_Union[MetadataKey, _Mapping]] = ...) -> None: ...

class HeaderMatcher(_message.Message):
    __slots__ = ("name", "string_match")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STRING_MATCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    string_match: StringMatcher
    def __init__(self, name: _Optional[str] = ..., string_match: _Optional[_Union[StringMatcher, _Mapping]] = ...) -> None: ...

class MetadataKey(_message.Message):
    __slots__ = ("key", "path")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    key: str
    path: _containers.RepeatedCompositeFieldContainer[PathSegment]
    def __init__(self, key: _Optional[str] = ..., path: _Optional[_Iterable[_Union[PathSegment, _Mapping]]] = ...) -> None: ...

class PathSegment(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

from protos import xds_pb2 as _xds_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExtensionResource(_message.Message):
    __slots__ = ("unstructured_bytes",)
    UNSTRUCTURED_BYTES_FIELD_NUMBER: _ClassVar[int]
    unstructured_bytes: bytes
    def __init__(self, unstructured_bytes: _Optional[bytes] = ...) -> None: ...

class PostRouteModifyRequest(_message.Message):
    __slots__ = ("route", "post_route_context")
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    POST_ROUTE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    route: _xds_pb2.Route
    post_route_context: PostRouteExtensionContext
    def __init__(self, route: _Optional[_Union[_xds_pb2.Route, _Mapping]] = ..., post_route_context: _Optional[_Union[PostRouteExtensionContext, _Mapping]] = ...) -> None: ...

class PostRouteExtensionContext(_message.Message):
    __slots__ = ("extension_resources", "hostnames")
    EXTENSION_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    HOSTNAMES_FIELD_NUMBER: _ClassVar[int]
    extension_resources: _containers.RepeatedCompositeFieldContainer[ExtensionResource]
    hostnames: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, extension_resources: _Optional[_Iterable[_Union[ExtensionResource, _Mapping]]] = ..., hostnames: _Optional[_Iterable[str]] = ...) -> None: ...

class PostRouteModifyResponse(_message.Message):
    __slots__ = ("route",)
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    route: _xds_pb2.Route
    def __init__(self, route: _Optional[_Union[_xds_pb2.Route, _Mapping]] = ...) -> None: ...

class PostClusterModifyRequest(_message.Message):
    __slots__ = ("cluster", "post_cluster_context")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    POST_CLUSTER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    cluster: _xds_pb2.Cluster
    post_cluster_context: PostClusterExtensionContext
    def __init__(self, cluster: _Optional[_Union[_xds_pb2.Cluster, _Mapping]] = ..., post_cluster_context: _Optional[_Union[PostClusterExtensionContext, _Mapping]] = ...) -> None: ...

class PostClusterExtensionContext(_message.Message):
    __slots__ = ("backend_extension_resources",)
    BACKEND_EXTENSION_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    backend_extension_resources: _containers.RepeatedCompositeFieldContainer[ExtensionResource]
    def __init__(self, backend_extension_resources: _Optional[_Iterable[_Union[ExtensionResource, _Mapping]]] = ...) -> None: ...

class PostClusterModifyResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: _xds_pb2.Cluster
    def __init__(self, cluster: _Optional[_Union[_xds_pb2.Cluster, _Mapping]] = ...) -> None: ...

class PostEndpointsModifyRequest(_message.Message):
    __slots__ = ("load_assignment",)
    LOAD_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    load_assignment: _xds_pb2.ClusterLoadAssignment
    def __init__(self, load_assignment: _Optional[_Union[_xds_pb2.ClusterLoadAssignment, _Mapping]] = ...) -> None: ...

class PostEndpointsModifyResponse(_message.Message):
    __slots__ = ("load_assignment",)
    LOAD_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    load_assignment: _xds_pb2.ClusterLoadAssignment
    def __init__(self, load_assignment: _Optional[_Union[_xds_pb2.ClusterLoadAssignment, _Mapping]] = ...) -> None: ...

class PostTranslateModifyRequest(_message.Message):
    __slots__ = ("post_translate_context", "clusters", "secrets", "listeners", "routes")
    POST_TRANSLATE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    post_translate_context: PostTranslateExtensionContext
    clusters: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Cluster]
    secrets: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Secret]
    listeners: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Listener]
    routes: _containers.RepeatedCompositeFieldContainer[_xds_pb2.RouteConfiguration]
    def __init__(self, post_translate_context: _Optional[_Union[PostTranslateExtensionContext, _Mapping]] = ..., clusters: _Optional[_Iterable[_Union[_xds_pb2.Cluster, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[_xds_pb2.Secret, _Mapping]]] = ..., listeners: _Optional[_Iterable[_Union[_xds_pb2.Listener, _Mapping]]] = ..., routes: _Optional[_Iterable[_Union[_xds_pb2.RouteConfiguration, _Mapping]]] = ...) -> None: ...

class PostTranslateExtensionContext(_message.Message):
    __slots__ = ("extension_resources",)
    EXTENSION_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    extension_resources: _containers.RepeatedCompositeFieldContainer[ExtensionResource]
    def __init__(self, extension_resources: _Optional[_Iterable[_Union[ExtensionResource, _Mapping]]] = ...) -> None: ...

class PostTranslateModifyResponse(_message.Message):
    __slots__ = ("clusters", "secrets", "listeners", "routes")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Cluster]
    secrets: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Secret]
    listeners: _containers.RepeatedCompositeFieldContainer[_xds_pb2.Listener]
    routes: _containers.RepeatedCompositeFieldContainer[_xds_pb2.RouteConfiguration]
    def __init__(self, clusters: _Optional[_Iterable[_Union[_xds_pb2.Cluster, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[_xds_pb2.Secret, _Mapping]]] = ..., listeners: _Optional[_Iterable[_Union[_xds_pb2.Listener, _Mapping]]] = ..., routes: _Optional[_Iterable[_Union[_xds_pb2.RouteConfiguration, _Mapping]]] = ...) -> None: ...

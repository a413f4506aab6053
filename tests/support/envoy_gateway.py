"""Configurations of Envoy as Envoy Gateway shows them to an extension server: written as documents, read as documents.

Both ways lead through the complete types, so a test neither trusts our own declarations nor hides what they leave out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from betterproto2 import Casing
from google.protobuf.message import Message

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    # Types that a value may have are known once they have been imported.
    import envoy_data_plane.envoy.extensions.access_loggers.file.v3
    import envoy_data_plane.envoy.extensions.compression.gzip.compressor.v3
    import envoy_data_plane.envoy.extensions.filters.http.api_key_auth.v3
    import envoy_data_plane.envoy.extensions.filters.http.buffer.v3
    import envoy_data_plane.envoy.extensions.filters.http.compressor.v3
    import envoy_data_plane.envoy.extensions.filters.http.cors.v3
    import envoy_data_plane.envoy.extensions.filters.http.credential_injector.v3
    import envoy_data_plane.envoy.extensions.filters.http.custom_response.v3
    import envoy_data_plane.envoy.extensions.filters.http.ext_authz.v3
    import envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3
    import envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3
    import envoy_data_plane.envoy.extensions.filters.http.header_to_metadata.v3
    import envoy_data_plane.envoy.extensions.filters.http.jwt_authn.v3
    import envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3
    import envoy_data_plane.envoy.extensions.filters.http.rbac.v3
    import envoy_data_plane.envoy.extensions.filters.http.router.v3
    import envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3
    import envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3
    import envoy_data_plane.envoy.extensions.filters.network.tcp_proxy.v3
    import envoy_data_plane.envoy.extensions.retry.priority.previous_priorities.v3
    import envoy_data_plane.envoy.extensions.transport_sockets.http_11_proxy.v3
    import envoy_data_plane.envoy.extensions.transport_sockets.raw_buffer.v3
    import envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 as tls_v3
    import envoy_data_plane.envoy.extensions.upstreams.http.v3  # noqa: F401 - what is imported is known
    from envoy_data_plane.envoy.config.cluster.v3 import Cluster
    from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment
    from envoy_data_plane.envoy.config.listener.v3 import Listener
    from envoy_data_plane.envoy.config.route.v3 import Route, RouteConfiguration

from protos import xds_pb2 as xds
from protos.extension_pb2 import PostTranslateModifyRequest, PostTranslateModifyResponse

Document = dict[str, Any]

_TYPES: dict[type[Message], Any] = {
    xds.Cluster: Cluster,
    xds.ClusterLoadAssignment: ClusterLoadAssignment,
    xds.Listener: Listener,
    xds.Route: Route,
    xds.RouteConfiguration: RouteConfiguration,
    xds.Secret: tls_v3.Secret,
}
_LISTS: dict[str, type[Message]] = {
    "clusters": xds.Cluster,
    "secrets": xds.Secret,
    "listeners": xds.Listener,
    "routes": xds.RouteConfiguration,
}
_TYPE = "type.googleapis.com/envoy."


def message(kind: type[Message], document: Mapping[str, Any]) -> Any:
    """A message of ours from a document in Envoy's form."""
    return kind.FromString(bytes(_TYPES[kind].from_dict(document)))


def document(made: Message) -> Document:
    """The document of a message of ours, with Envoy's own field names."""
    found = _TYPES[type(made)].parse(made.SerializeToString(deterministic=True))
    result: Document = _without_empty_types(found.to_dict(casing=Casing.SNAKE))
    return result


def request(**lists: Iterable[Mapping[str, Any]]) -> PostTranslateModifyRequest:
    """A request of the hook, its lists as documents."""
    made = {name: [message(_LISTS[name], each) for each in given] for name, given in lists.items()}
    return PostTranslateModifyRequest(**made)


def documents(response: PostTranslateModifyResponse) -> dict[str, list[Document]]:
    """Its answer, as documents."""
    return {name: [document(each) for each in getattr(response, name)] for name in _LISTS}


def again(response: PostTranslateModifyResponse) -> PostTranslateModifyRequest:
    """The request that shows the hook what it has answered."""
    return PostTranslateModifyRequest(**{name: getattr(response, name) for name in _LISTS})


def _without_empty_types(node: Any) -> Any:
    """An empty ``Any`` is ``{}``; Envoy refuses the ``{"@type": ""}`` that the encoder makes of it."""
    if isinstance(node, dict):
        if node == {"@type": ""}:
            return {}
        return {key: _without_empty_types(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_empty_types(value) for value in node]
    return node


# --- what Envoy Gateway writes ---


def typed(name: str, **fields: Any) -> Document:
    """A value of an Envoy type."""
    return {"@type": f"{_TYPE}{name}", **fields}


def http(kind: str, type_name: str = "", *, suffix: str = "", **fields: Any) -> Document:
    """An HTTP filter, by the last part of its name; types are called after them in general."""
    config = typed(type_name or f"extensions.filters.http.{kind}.v3.{kind.title().replace('_', '')}")
    return {"name": f"envoy.filters.http.{kind}{suffix}", "typedConfig": config, **fields}


ROUTER = http("router")
CUSTOM_RESPONSE = http("custom_response", disabled=True)
CORS = http("cors", disabled=True)
API_KEY = http("api_key_auth", disabled=True)
JWT = http("jwt_authn", "extensions.filters.http.jwt_authn.v3.JwtAuthentication", disabled=True)
EXT_AUTHZ = http("ext_authz", suffix="/securitypolicy/default/auth", disabled=True)
RBAC = http("rbac", "extensions.filters.http.rbac.v3.RBAC", disabled=True)


def chain(*filters: Document, routes: str = "default/gw/http", **fields: Any) -> Document:
    """A filter chain of HTTP."""
    manager = typed(
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        statPrefix="http-10080",
        rds={"configSource": {"ads": {}, "resourceApiVersion": "V3"}, "routeConfigName": routes},
        httpFilters=list(filters) or [ROUTER],
    )
    network = {"name": "envoy.filters.network.http_connection_manager", "typedConfig": manager}
    return {"name": routes, "filters": [network], **fields}


def passthrough(cluster: str = "tcp") -> Document:
    """A filter chain of TCP."""
    proxy = typed("extensions.filters.network.tcp_proxy.v3.TcpProxy", statPrefix="tcp", cluster=cluster)
    return {"name": "tls", "filters": [{"name": "envoy.filters.network.tcp_proxy", "typedConfig": proxy}]}


def listener(*chains: Document, name: str = "default/gw/http", port: int = 10080, **fields: Any) -> Document:
    """A listener; the last chain is the default one, as for listeners without TLS."""
    *others, default = chains or (chain(),)
    return {
        "name": name,
        "address": {"socketAddress": {"address": "0.0.0.0", "portValue": port}},
        "filterChains": others,
        "defaultFilterChain": default,
        **fields,
    }


def owned(name: str, namespace: str = "default", *, generated: bool = True, kind: str = "HTTPRoute") -> Document:
    """Metadata that names the resource behind an object."""
    annotations = {"annotations": {"ai-gateway-generated": "true"}} if generated else {}
    resource = {"kind": kind, "namespace": namespace, "name": name, **annotations}
    return {"filterMetadata": {"envoy-gateway": {"resources": [resource]}}}


def route(
    rule: str = "default/r/rule/0", *, to: str | None = "", generated: bool = True, host: str = "*", **fields: Any
) -> Document:
    """A route of a rule, ``<namespace>/<route>/rule/<index>``, to the rule's cluster or another one."""
    namespace, name, *_ = rule.split("/")
    action = {"route": {"cluster": to or f"httproute/{rule}"}} if to is not None else {}
    return {
        "name": f"httproute/{rule}/match/0/{host}",
        "match": {"prefix": "/"},
        "metadata": owned(name, namespace, generated=generated),
        **action,
        **fields,
    }


def mcp_route(rule: str, *, about: str = "", **fields: Any) -> Document:
    """A route that was made of an MCPRoute of its namespace, or is said to be about another one."""
    namespace, name, _, index = rule.split("/")
    named = {"name": "x-ai-eg-mcp-route", "stringMatch": {"exact": about or f"{namespace}/m"}}
    header = {"key": "X-AI-EG-MCP-Route", "value": about or f"{namespace}/m"}
    if name.startswith("ai-eg-mcp-br-"):
        fields = {"match": {"prefix": "/", "headers": [named]}, **fields}
    elif index == "0":
        told = [{"header": header, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"}]
        fields = {"requestHeadersToAdd": told, **fields}
    else:
        fields = {"to": None, "directResponse": {"status": 200}, **fields}
    return route(rule, generated=False, **fields)


def not_found(rule: str = "default/r/rule/1") -> Document:
    """The route that takes what no rule does."""
    return route(rule, to=None, directResponse={"status": 404, "body": {"inlineString": "no"}})


def route_config(*routes: Document, name: str = "default/gw/http", domain: str = "*") -> Document:
    host = {"name": f"{name}/{domain}", "domains": [domain], "routes": list(routes)}
    return {"name": name, "virtualHosts": [host]}


def cluster(rule: str = "default/r/rule/0", *localities: Document, **fields: Any) -> Document:
    """A cluster with its endpoints in it, as for names; without localities, one whose endpoints come on their own."""
    name = f"httproute/{rule}"
    made = {"name": name, "connectTimeout": "10s", "lbPolicy": "LEAST_REQUEST", "perConnectionBufferLimitBytes": 32768}
    if localities:
        made |= {"type": "STRICT_DNS", "loadAssignment": {"clusterName": name, "endpoints": list(localities)}}
    else:
        made |= {
            "type": "EDS",
            "edsClusterConfig": {"edsConfig": {"ads": {}, "resourceApiVersion": "V3"}, "serviceName": name},
        }
    return {**made, **fields}


def locality(host: str = "b.example", *, ref: str = "", port: int = 443, hostname: str = "", **fields: Any) -> Document:
    """A locality of one endpoint; ``ref`` is what Envoy Gateway names it after, ``<rule>/backend/<index>``."""
    endpoint = {"address": {"socketAddress": {"address": host, "portValue": port}}}
    if hostname:
        endpoint["hostname"] = hostname
    named = {"locality": {"region": f"httproute/{ref}"}} if ref else {}
    return {**named, "lbEndpoints": [{"endpoint": endpoint}], "loadBalancingWeight": 1, **fields}


# --- an Envoy that runs without Envoy Gateway ---


def bootstrap(
    response: PostTranslateModifyResponse, *assignments: xds.ClusterLoadAssignment, **fields: Any
) -> Document:
    """The configuration as one file: what Envoy Gateway would hand out piece by piece stands where it belongs."""
    lists = documents(response)
    configs = {config["name"]: config for config in lists["routes"]}
    endpoints = {each.cluster_name: document(each) for each in assignments}
    for listener_ in lists["listeners"]:
        for chain_ in (*listener_.get("filter_chains", ()), listener_.get("default_filter_chain", {"filters": ()})):
            for manager in (each["typed_config"] for each in chain_["filters"] if "rds" in each["typed_config"]):
                manager["route_config"] = configs[manager.pop("rds")["route_config_name"]]
    for cluster_ in lists["clusters"]:
        if cluster_.pop("eds_cluster_config", None) is not None:
            nowhere = {"cluster_name": cluster_["name"], "endpoints": []}
            cluster_ |= {"type": "STATIC", "load_assignment": endpoints.get(cluster_["name"], nowhere)}
    static = {"listeners": lists["listeners"], "clusters": lists["clusters"], "secrets": lists["secrets"]}
    return {"static_resources": static, **fields}

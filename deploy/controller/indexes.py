"""By what the objects of each kind are found, besides their names: what they are compiled for, and whose they are.

Read from what anybody may have written, before it is judged: whatever has another shape is found by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from deploy.controller.kinds import Key, Object, key_of
from deploy.controller.store import Index
from deploy.injector.names import GATEWAY_NAME_LABEL, GATEWAY_NAMESPACE_LABEL
from filter_config.sources.envoy_ai_gateway.fields import GATEWAY_GROUP, INFERENCE_GROUP
from filter_config.sources.envoy_ai_gateway.marks import marks_of
from filter_config.sources.graph import Mark

CONFIG_LABEL: Final = "aigateway.envoyproxy.io/gateway-hash"
"""Label of the Secrets of a Gateway: the hash that ends their names."""


AT_HOME: Final[Mark] = ("workloads-at-home",)
"""Workloads in the namespaces of their Gateways."""


def routes_of(kind: str, namespace: str, gateway: str) -> Mark:
    """AIGatewayRoutes and MCPRoutes by the Gateway that they name."""
    return ("routes-of", kind, namespace, gateway)


def routes_to_pool(namespace: str, name: str) -> Mark:
    """AIGatewayRoutes and HTTPRoutes by the InferencePools that they lead to."""
    return ("routes-to-pool", namespace, name)


def stranger(namespace: str, name: str) -> Mark:
    """The HTTPRoute of this name that was not made of the AIGatewayRoute of this name."""
    return ("stranger", namespace, name)


def pods_of(namespace: str, gateway: str) -> Mark:
    """Pods by Gateway."""
    return ("pods-of", namespace, gateway)


def workloads_of(namespace: str, gateway: str) -> Mark:
    """Deployments and DaemonSets by Gateway."""
    return ("workloads-of", namespace, gateway)


def secrets_of(digest: str) -> Mark:
    """Secrets with filter configs by the hash of their Gateway."""
    return ("secrets-of", digest)


def made_of(kind: str, namespace: str, name: str) -> Mark:
    """Objects by the resource that controls them."""
    return ("made-of", kind, namespace, name)


def mcp_routes_in(namespace: str) -> Mark:
    """MCPRoutes by namespace."""
    return ("mcp-routes-in", namespace)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def _namespace(value: Object) -> str:
    return value["metadata"].get("namespace") or ""


def _compiled(value: Object) -> Iterable[Mark]:
    return marks_of(key_of(value), value)


def _route(value: Object) -> Iterable[Mark]:
    here = _namespace(value)
    for ref in _mappings(_mapping(value.get("spec")).get("parentRefs")):
        yield routes_of(value["kind"], str(ref.get("namespace") or here), str(ref.get("name")))


def gateway_of(ref: Mapping[str, Any], here: str) -> Key | None:
    """The Gateway that a reference to a parent names; None when it names something else."""
    if (ref.get("group", GATEWAY_GROUP), ref.get("kind", "Gateway")) != (GATEWAY_GROUP, "Gateway"):
        return None
    return Key("Gateway", str(ref.get("namespace") or here), str(ref.get("name")))


def gateways_of(value: Object) -> Iterator[Key]:
    """The Gateways that a route names as its parents."""
    for ref in _mappings(_mapping(value.get("spec")).get("parentRefs")):
        gateway = gateway_of(ref, _namespace(value))
        if gateway is not None:
            yield gateway


def _pools(value: Object) -> Iterator[Mark]:
    for rule in _mappings(_mapping(value.get("spec")).get("rules")):
        for ref in _mappings(rule.get("backendRefs")):
            if (ref.get("group"), ref.get("kind")) == (INFERENCE_GROUP, "InferencePool"):
                yield routes_to_pool(str(ref.get("namespace") or _namespace(value)), str(ref.get("name")))


def _ai_route(value: Object) -> Iterable[Mark]:
    return [*_route(value), *_pools(value)]


def _http_route(value: Object) -> Iterable[Mark]:
    _, namespace, name = key_of(value)
    owners = list(_owner(value))
    own = made_of("AIGatewayRoute", namespace, name) in owners
    return [*owners, *_pools(value), *([] if own else [stranger(namespace, name)])]


def _mcp_route(value: Object) -> Iterable[Mark]:
    return [*_route(value), mcp_routes_in(_namespace(value))]


def _owner(value: Object) -> Iterable[Mark]:
    for owner in _mappings(value["metadata"].get("ownerReferences")):
        if owner.get("controller"):
            yield made_of(str(owner.get("kind")), _namespace(value), str(owner.get("name")))


def _secret(value: Object) -> Iterable[Mark]:
    digest = _mapping(value["metadata"].get("labels")).get(CONFIG_LABEL)
    return [*_owner(value), *([secrets_of(str(digest))] if digest else ())]


def _gateway_of(value: Object) -> tuple[str, str]:
    labels = _mapping(value["metadata"].get("labels"))
    return str(labels.get(GATEWAY_NAMESPACE_LABEL)), str(labels.get(GATEWAY_NAME_LABEL))


def _pod(value: Object) -> Iterable[Mark]:
    return [pods_of(*_gateway_of(value))]


def _workload(value: Object) -> Iterable[Mark]:
    home, gateway = _gateway_of(value)
    return [workloads_of(home, gateway), *([AT_HOME] if home == _namespace(value) else ())]


INDEXES: Final[Mapping[str, Index]] = {
    "AIGatewayRoute": _ai_route,
    "MCPRoute": _mcp_route,
    "BackendSecurityPolicy": _compiled,
    "QuotaPolicy": _compiled,
    "ReferenceGrant": _compiled,
    "HTTPRoute": _http_route,
    "HTTPRouteFilter": _owner,
    "SecurityPolicy": _owner,
    "BackendTrafficPolicy": _owner,
    "Secret": _secret,
    "Pod": _pod,
    "Deployment": _workload,
    "DaemonSet": _workload,
}

"""By what the objects of each kind are found, besides their names.

Read from what anybody may have written, before it is judged: whatever has another shape is found by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from deploy.controller.graph import Mark
from deploy.controller.kinds import Object
from deploy.controller.store import Index
from deploy.injector.names import GATEWAY_NAME_LABEL, GATEWAY_NAMESPACE_LABEL

CONFIG_LABEL: Final = "aigateway.envoyproxy.io/gateway-hash"
"""Label of the Secrets of a Gateway: the hash that ends their names."""


AT_HOME: Final[Mark] = ("workloads-at-home",)
"""Workloads in the namespaces of their Gateways."""


def policies_for(namespace: str, kind: str, name: str) -> Mark:
    """BackendSecurityPolicies by target."""
    return ("policies-for", namespace, kind, name)


def quotas_for(namespace: str, name: str) -> Mark:
    """QuotaPolicies by target."""
    return ("quotas-for", namespace, name)


def grants_of(namespace: str) -> Mark:
    """ReferenceGrants by namespace."""
    return ("grants-of", namespace)


def routes_of(kind: str, namespace: str, gateway: str) -> Mark:
    """AIGatewayRoutes and MCPRoutes by the Gateway that they name."""
    return ("routes-of", kind, namespace, gateway)


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


def _targets(value: Object) -> Iterator[Mapping[str, Any]]:
    return _mappings(_mapping(value.get("spec")).get("targetRefs"))


def _policy(value: Object) -> Iterable[Mark]:
    return [policies_for(_namespace(value), str(ref.get("kind")), str(ref.get("name"))) for ref in _targets(value)]


def _quota(value: Object) -> Iterable[Mark]:
    return [quotas_for(_namespace(value), str(ref.get("name"))) for ref in _targets(value)]


def _grant(value: Object) -> Iterable[Mark]:
    return [grants_of(_namespace(value))]


def _route(value: Object) -> Iterable[Mark]:
    here = _namespace(value)
    for ref in _mappings(_mapping(value.get("spec")).get("parentRefs")):
        yield routes_of(value["kind"], str(ref.get("namespace") or here), str(ref.get("name")))


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
    "AIGatewayRoute": _route,
    "MCPRoute": _mcp_route,
    "BackendSecurityPolicy": _policy,
    "QuotaPolicy": _quota,
    "ReferenceGrant": _grant,
    "HTTPRoute": _owner,
    "HTTPRouteFilter": _owner,
    "SecurityPolicy": _owner,
    "BackendTrafficPolicy": _owner,
    "Secret": _secret,
    "Pod": _pod,
    "Deployment": _workload,
    "DaemonSet": _workload,
}

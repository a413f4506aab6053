"""Which routes a gateway has: parent references, and what the listeners admit (Gateway API, AllowedRoutes).

The peer compiles every route that names a gateway. Here a route that no listener admits adds nothing to it, neither
models nor costs (contract, control plane 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from filter_config.sources.envoy_ai_gateway.context import HTTP_ROUTE, Context
from filter_config.sources.envoy_ai_gateway.fields import ParentReference
from filter_config.sources.envoy_ai_gateway.kubernetes import (
    Gateway,
    LabelExpression,
    LabelSelector,
    Listener,
    NamespaceObject,
)
from filter_config.sources.envoy_ai_gateway.load import Found

_HTTP: Final = frozenset({"HTTP", "HTTPS"})
# Kubernetes labels every namespace with its name.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"

Reason = Literal["", "name", "protocol", "namespace", "hostname"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """What a gateway admits of a route."""

    listeners: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()
    """Those of the route that a listener serves, in the route's order."""
    reason: str = ""
    """Why no listener admits the route."""


_REASONS: Final[dict[str, str]] = {
    "": "the gateway has no listeners",
    "name": "no listener has that name or port",
    "protocol": "no listener takes HTTP routes",
    "namespace": "no listener allows routes of namespace {namespace}",
    "hostname": "no listener serves any of the route's hostnames",
}
# The nearer a listener came to admitting the route, the more its reason tells.
_NEARNESS: Final[tuple[Reason, ...]] = ("", "name", "protocol", "namespace", "hostname")


def attach(
    context: Context,
    gateway: Found[Gateway],
    parents: Iterable[ParentReference],
    namespace: str,
    hostnames: tuple[str, ...],
) -> Attachment:
    """What a gateway admits of a route of a namespace that names it in ``parents``."""
    names: dict[str, None] = {}
    admitted: set[str] = set()
    nearest: Reason = ""
    for parent in parents:
        for listener in gateway.value.spec.listeners:
            refusal = _refusal(context, gateway, listener, parent, namespace)
            served = [host for host in hostnames if _overlap(listener.hostname, host)]
            if not refusal and hostnames and not served:
                refusal = "hostname"
            if refusal:
                nearest = max(nearest, refusal, key=_NEARNESS.index)
            else:
                names[listener.name] = None
                admitted.update(served)
    if not names:
        return Attachment(reason=_REASONS[nearest].format(namespace=namespace))
    return Attachment(listeners=tuple(names), hostnames=tuple(host for host in hostnames if host in admitted))


def _refusal(
    context: Context, gateway: Found[Gateway], listener: Listener, parent: ParentReference, namespace: str
) -> Reason:
    if parent.section_name not in (None, listener.name) or parent.port not in (None, listener.port):
        return "name"
    kinds = listener.allowed_routes.kinds
    if kinds and not any((kind.group, kind.kind) == HTTP_ROUTE for kind in kinds):
        return "protocol"
    if listener.protocol not in _HTTP:
        return "protocol"
    return "" if _allows(context, gateway, listener, namespace) else "namespace"


def _allows(context: Context, gateway: Found[Gateway], listener: Listener, namespace: str) -> bool:
    allowed = listener.allowed_routes.namespaces
    match allowed.from_:
        case "All":
            return True
        case "Same":
            return namespace == gateway.namespace
        case "Selector":
            return allowed.selector is not None and _selects(allowed.selector, _labels(context, namespace))
        case "None":
            return False


def _labels(context: Context, namespace: str) -> dict[str, str]:
    found = context.resources.get(NamespaceObject, "", namespace)
    return {**(found.meta.labels if found is not None else {}), _NAME_LABEL: namespace}


def _selects(selector: LabelSelector, labels: dict[str, str]) -> bool:
    exact = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return exact and all(_holds(expression, labels) for expression in selector.match_expressions)


def _holds(expression: LabelExpression, labels: dict[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":  # codespell:ignore notin
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


def _overlap(listener: str | None, route: str) -> bool:
    """Whether a hostname of a route has any host in common with a listener's, either of which may be a wildcard."""
    if listener is None or listener == route:
        return True
    if listener.startswith("*."):
        return route.endswith(listener[1:])
    return route.startswith("*.") and listener.endswith(route[1:])

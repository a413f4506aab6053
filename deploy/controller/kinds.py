"""The kinds of objects that the controller reads and writes, and where the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from filter_config.sources.envoy_ai_gateway.fields import (
    AI_GROUP,
    CORE_GROUP,
    ENVOY_GATEWAY_GROUP,
    GATEWAY_GROUP,
    INFERENCE_GROUP,
)
from filter_config.sources.envoy_ai_gateway.marks import Key

__all__ = ["AI_KINDS", "KINDS", "LEASE", "OWNED_BY_GATEWAY", "WORKLOADS", "Key", "Kind", "Object", "key_of"]

Object = dict[str, Any]
"""An object of Kubernetes as JSON has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of objects.

    Attributes:
        optional: the cluster may lack the kind, now or for ever.
        labels: selector of the objects that are watched.
        fields: selector by fields, likewise.
    """

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    optional: bool = False
    labels: str = ""
    fields: str = ""

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of a collection, an object or a part of one, below the server's root."""
        root = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        space = f"/namespaces/{namespace}" if namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{space}/{self.plural}{rest}"


OWNED_BY_GATEWAY: Final = "gateway.envoyproxy.io/owning-gateway-name"
"""Label of everything that Envoy Gateway makes for one Gateway."""
# Releases of Helm and tokens of service accounts are many and large, and no credential of a provider.
_USEFUL_SECRETS: Final = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"

_KINDS: Final = (
    Kind(group=AI_GROUP, version="v1beta1", name="AIGatewayRoute", plural="aigatewayroutes"),
    Kind(group=AI_GROUP, version="v1beta1", name="AIServiceBackend", plural="aiservicebackends"),
    Kind(group=AI_GROUP, version="v1beta1", name="BackendSecurityPolicy", plural="backendsecuritypolicies"),
    Kind(group=AI_GROUP, version="v1beta1", name="GatewayConfig", plural="gatewayconfigs"),
    Kind(group=AI_GROUP, version="v1beta1", name="MCPRoute", plural="mcproutes"),
    Kind(group=AI_GROUP, version="v1alpha1", name="QuotaPolicy", plural="quotapolicies", optional=True),
    Kind(group=GATEWAY_GROUP, version="v1", name="Gateway", plural="gateways"),
    Kind(group=GATEWAY_GROUP, version="v1", name="GatewayClass", plural="gatewayclasses", namespaced=False),
    Kind(group=GATEWAY_GROUP, version="v1", name="HTTPRoute", plural="httproutes"),
    Kind(group=GATEWAY_GROUP, version="v1beta1", name="ReferenceGrant", plural="referencegrants"),
    Kind(group=ENVOY_GATEWAY_GROUP, version="v1alpha1", name="Backend", plural="backends"),
    Kind(group=ENVOY_GATEWAY_GROUP, version="v1alpha1", name="HTTPRouteFilter", plural="httproutefilters"),
    Kind(group=ENVOY_GATEWAY_GROUP, version="v1alpha1", name="SecurityPolicy", plural="securitypolicies"),
    Kind(
        group=ENVOY_GATEWAY_GROUP,
        version="v1alpha1",
        name="BackendTrafficPolicy",
        plural="backendtrafficpolicies",
    ),
    Kind(group=INFERENCE_GROUP, version="v1", name="InferencePool", plural="inferencepools", optional=True),
    Kind(group=CORE_GROUP, version="v1", name="Secret", plural="secrets", fields=_USEFUL_SECRETS),
    Kind(group=CORE_GROUP, version="v1", name="Namespace", plural="namespaces", namespaced=False),
    Kind(group=CORE_GROUP, version="v1", name="Pod", plural="pods", labels=OWNED_BY_GATEWAY),
    Kind(group="apps", version="v1", name="Deployment", plural="deployments", labels=OWNED_BY_GATEWAY),
    Kind(group="apps", version="v1", name="DaemonSet", plural="daemonsets", labels=OWNED_BY_GATEWAY),
)
KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in _KINDS}
"""Everything that is watched, by the name of the kind, which no two groups share here."""
LEASE: Final = Kind(group="coordination.k8s.io", version="v1", name="Lease", plural="leases")

AI_KINDS: Final = frozenset(kind.name for kind in _KINDS if kind.group == AI_GROUP)
"""Kinds that get a status."""
WORKLOADS: Final = ("Deployment", "DaemonSet")


def key_of(value: Object) -> Key:
    """The key of an object that says its kind."""
    metadata = value["metadata"]
    return Key(value["kind"], metadata.get("namespace") or "", metadata["name"])

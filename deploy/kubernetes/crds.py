"""The CRDs of the six kinds that people write, in all served versions (contract, control plane 1).

NB: v1alpha1 knows ``credentialOverride`` here. The API server converts by changing ``apiVersion`` alone, so with the
field unknown to the old version, whoever reads and writes a policy through it would drop the field from storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml
from msgspec import Struct, inspect

from deploy.kubernetes.structural import described, struct_schema
from filter_config.sources.envoy_ai_gateway import resources
from filter_config.sources.envoy_ai_gateway.fields import AI_GROUP
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute

Object = dict[str, Any]

# How Gateway API marks a policy that concerns just the object that it names.
_DIRECT_POLICY: Final = (("gateway.networking.k8s.io/policy", "direct"),)
_OLD: Final = "v1alpha1"
_MAX_CONDITIONS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A kind, its name in URLs, and what is special about it. ``versions``: as served, the stored one first."""

    kind: type[Struct]
    plural: str
    versions: tuple[str, ...] = ("v1beta1", _OLD)
    short_names: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name of the CRD."""
        return f"{self.plural}.{AI_GROUP}"

    def to_object(self) -> Object:
        """The CRD."""
        kind = self.kind.__name__
        names = {"kind": kind, "listKind": f"{kind}List", "plural": self.plural, "singular": kind.lower()}
        if self.short_names:
            names["shortNames"] = list(self.short_names)  # type: ignore[assignment]  # a list among texts
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name, **({"labels": dict(self.labels)} if self.labels else {})},
            "spec": {
                "group": AI_GROUP,
                "names": names,
                "scope": "Namespaced",
                "versions": [self._version(version) for version in self.versions],
            },
        }

    def _version(self, version: str) -> Object:
        newer = self.versions[0]
        deprecated = {
            "deprecated": True,
            "deprecationWarning": f"{AI_GROUP}/{version} {self.kind.__name__} is deprecated; use {AI_GROUP}/{newer}",
        }
        return {
            "name": version,
            "served": True,
            "storage": version == newer,
            **(deprecated if version != newer else {}),
            "additionalPrinterColumns": [
                {"name": "Status", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": self.schema(version)},
        }

    def schema(self, version: str) -> Object:
        """The structural schema of a version."""
        info = inspect.type_info(self.kind)
        assert isinstance(info, inspect.StructType)
        (spec,) = [field for field in info.fields if field.name == "spec"]
        assert isinstance(spec.type, inspect.StructType)
        return {
            **described(self.kind),
            "type": "object",
            **({"required": ["spec"]} if spec.required else {}),
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": struct_schema(spec.type.cls, version),
                "status": _status(),
            },
        }


def _status() -> Object:
    """Kubernetes' own conditions. The last one is shown by ``kubectl get`` (contract, control plane 1.7)."""
    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": {"type": "string", "minLength": 1, "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    }
    return {
        "type": "object",
        "properties": {
            "conditions": {
                "type": "array",
                "maxItems": _MAX_CONDITIONS,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition,
            }
        },
    }


DEFINITIONS: Final = (
    Definition(kind=resources.AIGatewayRoute, plural="aigatewayroutes"),
    Definition(kind=resources.AIServiceBackend, plural="aiservicebackends"),
    Definition(kind=resources.BackendSecurityPolicy, plural="backendsecuritypolicies", labels=_DIRECT_POLICY),
    Definition(kind=resources.GatewayConfig, plural="gatewayconfigs", short_names=("gwconfig",)),
    Definition(kind=MCPRoute, plural="mcproutes"),
    Definition(kind=resources.QuotaPolicy, plural="quotapolicies", versions=(_OLD,), labels=_DIRECT_POLICY),
)
"""All kinds of the group (contract, control plane 0 and 1)."""


class _Dumper(yaml.SafeDumper):
    """Writes an object that occurs twice out twice: a reader of a manifest should not have to look for anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of no object
        return True


def to_yaml(value: Object) -> str:
    """An object as a YAML document, keys in the order given."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)

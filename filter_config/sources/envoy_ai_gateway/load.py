"""Documents to resources: known by kind, validated, and found by namespace and name.

A resource with a fault is known as such and never used: who refers to it learns that it is invalid, not that it is
missing. One that is being deleted is as good as gone (contract, control plane 2.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from filter_config.decode import did_you_mean, shown
from filter_config.sources.envoy_ai_gateway import kubernetes as k8s
from filter_config.sources.envoy_ai_gateway import resources as ai
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.fields import (
    AI_GROUP,
    CORE_GROUP,
    ENVOY_GATEWAY_GROUP,
    GATEWAY_GROUP,
    INFERENCE_GROUP,
)
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.reading import Finding, read
from filter_config.sources.envoy_ai_gateway.rules import check
from filter_config.sources.faults import Faults, Origin

if TYPE_CHECKING:
    from filter_config.sources.envoy_ai_gateway.fields import ObjectMeta

DEFAULT_NAMESPACE: Final = "default"

_SERVED: Final = ("v1beta1", "v1alpha1")

# Kinds by group and name, with the versions that have these fields.
_KINDS: Final[dict[tuple[str, str], tuple[type[msgspec.Struct], tuple[str, ...]]]] = {
    (AI_GROUP, "AIGatewayRoute"): (ai.AIGatewayRoute, _SERVED),
    (AI_GROUP, "AIServiceBackend"): (ai.AIServiceBackend, _SERVED),
    (AI_GROUP, "BackendSecurityPolicy"): (ai.BackendSecurityPolicy, _SERVED),
    (AI_GROUP, "GatewayConfig"): (ai.GatewayConfig, _SERVED),
    (AI_GROUP, "MCPRoute"): (MCPRoute, _SERVED),
    (AI_GROUP, "QuotaPolicy"): (ai.QuotaPolicy, ("v1alpha1",)),
    (GATEWAY_GROUP, "Gateway"): (k8s.Gateway, ("v1", "v1beta1")),
    (GATEWAY_GROUP, "ReferenceGrant"): (k8s.ReferenceGrant, ("v1", "v1beta1")),
    (GATEWAY_GROUP, "BackendTLSPolicy"): (k8s.BackendTLSPolicy, ("v1", "v1alpha3")),
    (ENVOY_GATEWAY_GROUP, "Backend"): (k8s.Backend, ("v1alpha1",)),
    (ENVOY_GATEWAY_GROUP, "BackendTrafficPolicy"): (k8s.BackendTrafficPolicy, ("v1alpha1",)),
    (INFERENCE_GROUP, "InferencePool"): (k8s.InferencePool, ("v1",)),
    (CORE_GROUP, "Secret"): (k8s.SecretObject, ("v1",)),
    (CORE_GROUP, "ConfigMap"): (k8s.ConfigMap, ("v1",)),
    (CORE_GROUP, "Namespace"): (k8s.NamespaceObject, ("v1",)),
}
_CLUSTER_SCOPED: Final = frozenset({"Namespace"})
_AI_KINDS: Final = tuple(kind for group, kind in _KINDS if group == AI_GROUP)
_GROUPS: Final = tuple(dict.fromkeys(group for group, _ in _KINDS if group))
# Of the same groups, and not misspelt.
_OTHERS: Final = frozenset({"GatewayClass", "BackendLBPolicy", "ClientTrafficPolicy", "InferencePoolImport"})

ResourceT = TypeVar("ResourceT")

FAULTY: Final = "has faults of its own"
"""Why a resource that is there cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[ResourceT]):
    """A resource and where it is from."""

    origin: Origin
    value: ResourceT
    valid: bool = True

    @property
    def meta(self) -> ObjectMeta:
        """The metadata."""
        meta: ObjectMeta = self.value.metadata  # type: ignore[attr-defined] # every kind of _KINDS has it
        return meta

    @property
    def namespace(self) -> str:
        """The namespace, which a document may leave to the default."""
        return self.origin.namespace

    @property
    def name(self) -> str:
        """The name."""
        return self.origin.name


@dataclass(slots=True)
class Resources:
    """All resources by kind, namespace and name."""

    # A kind maps to resources of its own. Several of one name contradict each other, and none of them is valid.
    _by_kind: dict[type[Any], dict[tuple[str, str], list[Found[Any]]]] = field(default_factory=dict)
    _unread: dict[type[Any], list[tuple[Origin, object]]] = field(default_factory=dict)

    def get(self, kind: type[ResourceT], namespace: str, name: str) -> Found[ResourceT] | None:
        """A resource that is valid and not being deleted."""
        for found in self._of(kind).get((namespace, name), ()):
            if found.valid and found.meta.deletion_timestamp is None:
                return found
        return None

    def all(self, kind: type[ResourceT]) -> list[Found[ResourceT]]:
        """The valid ones that are not being deleted, by namespace and name."""
        return [found for found in self.with_invalid(kind) if found.valid]

    def with_invalid(self, kind: type[ResourceT]) -> list[Found[ResourceT]]:
        """Those that are not being deleted, the ones with faults as far as they could be read."""
        entries = self._of(kind)
        return [found for key in sorted(entries) for found in entries[key] if found.meta.deletion_timestamp is None]

    def unread(self, kind: type[Any]) -> list[tuple[Origin, object]]:
        """The documents of a kind of which so little could be read that there is no resource, by namespace and name."""
        return sorted(self._unread.get(kind, ()), key=lambda entry: (entry[0].namespace, entry[0].name))

    def absence(self, kind: type[ResourceT], namespace: str, name: str) -> str:
        """Why :meth:`get` finds nothing, in words that follow the resource's name."""
        found = self._of(kind).get((namespace, name), [])
        unread = any((origin.namespace, origin.name) == (namespace, name) for origin, _ in self.unread(kind))
        if unread or any(not entry.valid for entry in found):
            return FAULTY
        return "is being deleted" if found else "does not exist"

    def add(self, found: Found[Any]) -> None:
        """Adds a resource."""
        self._of(type(found.value)).setdefault((found.namespace, found.name), []).append(found)

    def replace(self, found: Found[Any]) -> None:
        """Puts a resource into the place of the one that has its name."""
        self._of(type(found.value))[found.namespace, found.name] = [found]

    def add_unread(self, kind: type[msgspec.Struct], origin: Origin, value: object) -> None:
        """Keeps a document of which no resource could be made."""
        self._unread.setdefault(kind, []).append((origin, value))

    def _of(self, kind: type[ResourceT]) -> dict[tuple[str, str], list[Found[ResourceT]]]:
        return self._by_kind.setdefault(kind, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a document is as a resource, wherever it stands."""

    value: msgspec.Struct | None
    """None when so little could be read that there is no resource."""
    findings: tuple[Finding, ...]
    valid: bool


Judge: TypeAlias = Callable[[type[msgspec.Struct], str, object], Judged]
"""Judges a document by its struct and the name of its kind."""


def judge(struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
    """Reads a document and applies the rules of its kind. Depends on nothing else, so that it may be remembered."""
    resource, findings = read(struct, value)
    if resource is not None:
        findings.judge(check(kind, resource))
    return Judged(value=resource, findings=tuple(findings), valid=not findings.refused)


def load(documents: Iterable[Document], faults: Faults, *, judge: Judge = judge) -> Resources:
    """Resources of the known kinds; others are somebody else's, and are passed over."""
    resources = Resources()
    entries = (entry for document in documents if (entry := _identify(document, resources, faults)) is not None)
    for same in _by_identity(entries, faults):
        for struct, document, origin in same:
            judged = judge(struct, origin.kind, document.value)
            for finding in judged.findings:
                report = faults.warning if finding.warning else faults.error
                report(origin.at(finding.path), finding.message, finding.fix)
            if judged.value is None:
                resources.add_unread(struct, origin, document.value)
            else:
                resources.add(Found(origin=origin, value=judged.value, valid=judged.valid and len(same) == 1))
    return resources


def raw_targets(value: object) -> Iterator[tuple[str, str]]:
    """Kinds and names that a policy is about of which nothing else could be read."""
    spec = value.get("spec") if isinstance(value, dict) else None
    refs = spec.get("targetRefs") if isinstance(spec, dict) else None
    for ref in refs if isinstance(refs, list) else ():
        if isinstance(ref, dict):
            yield str(ref.get("kind")), str(ref.get("name"))


_Entry = tuple[type[msgspec.Struct], Document, Origin]


def _by_identity(entries: Iterable[_Entry], faults: Faults) -> Iterator[list[_Entry]]:
    """The documents of each resource: more than one where they contradict each other, so that none can be used.

    Which of two documents comes last must not decide, as their order says nothing.
    """
    by_identity: dict[tuple[object, str, str], list[_Entry]] = {}
    for entry in entries:
        kind, document, origin = entry
        same = by_identity.setdefault((kind, origin.namespace, origin.name), [])
        if any(other.value == document.value for _, other, _ in same):
            faults.warning(origin, "is there twice", "keep one")
        else:
            same.append(entry)
    for same in by_identity.values():
        for _, _, origin in same if len(same) > 1 else ():
            others = sorted(f"{other.file}:{other.line}" for _, _, other in same if other is not origin)
            faults.error(origin, f"is there twice with different content, also at {', '.join(others)}", "keep one")
        yield same


def _identify(document: Document, resources: Resources, faults: Faults) -> _Entry | None:
    value = document.value
    nowhere = Origin(file=document.file, line=document.line, path=document.path)
    if not isinstance(value, dict):
        faults.error(nowhere, "is no resource", "write a mapping with apiVersion, kind and metadata")
        return None
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        faults.error(nowhere, "is no resource: apiVersion or kind is missing", "write both")
        return None
    group, _, version = api_version.rpartition("/")
    origin = _origin(nowhere, kind, value.get("metadata"))
    known = _KINDS.get((group, kind))
    if known is None:
        if group == AI_GROUP:
            fix = did_you_mean(kind, _AI_KINDS) or f"write one of {', '.join(_AI_KINDS)}"
            faults.error(origin.at("kind"), f"{shown(kind)} is no kind of {AI_GROUP}", fix)
        else:
            _warn_of_likeness(api_version, kind, origin, faults)
        return None
    struct, versions = known
    if version not in versions:
        fix = " or ".join(f"{group}/{served}".lstrip("/") for served in versions)
        faults.error(origin.at("apiVersion"), f"{shown(api_version)} is not served", f"write {fix}")
        resources.add_unread(struct, origin, value)
        return None
    return struct, document, origin


def _warn_of_likeness(api_version: str, kind: str, origin: Origin, faults: Faults) -> None:
    """What is passed over is probably meant for somebody else, unless it looks as if it were meant for us."""
    group = api_version.rpartition("/")[0]
    if group in _GROUPS or (not group and "." not in api_version):
        kinds = tuple(known for of, known in _KINDS if of == group)
        fix = did_you_mean(kind, kinds) if kind not in _OTHERS else ""
        if fix:
            faults.warning(origin.at("kind"), f"{shown(kind)} is unknown here and passed over", fix)
    elif any(kind == known for _, known in _KINDS):
        fix = did_you_mean(group or api_version, _GROUPS)
        if fix:
            faults.warning(origin.at("apiVersion"), f"{shown(api_version)} is unknown here and passed over", fix)


def _origin(nowhere: Origin, kind: str, metadata: object) -> Origin:
    namespace, name = identity(kind, metadata)
    return Origin(file=nowhere.file, line=nowhere.line, kind=kind, namespace=namespace, name=name)


def identity(kind: str, metadata: object) -> tuple[str, str]:
    """Namespace and name that any metadata give a resource: a kind of the cluster has no namespace."""
    given = metadata if isinstance(metadata, dict) else {}
    name, namespace = given.get("name"), given.get("namespace")
    if kind in _CLUSTER_SCOPED:
        namespace = ""
    elif not isinstance(namespace, str) or not namespace:
        namespace = DEFAULT_NAMESPACE
    return namespace, name if isinstance(name, str) else ""

"""By what documents are found: what they are called, and what they are about.

Read from what anybody may have written, before it is judged: a policy with an error is about its targets all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from filter_config.sources.envoy_ai_gateway.kubernetes import BackendTLSPolicy, BackendTrafficPolicy
from filter_config.sources.envoy_ai_gateway.load import DEFAULT_NAMESPACE
from filter_config.sources.envoy_ai_gateway.resources import BackendSecurityPolicy, QuotaPolicy

Mark: TypeAlias = tuple[str, ...]
"""See :data:`deploy.controller.graph.Mark`."""

_CLUSTER_SCOPED: Final = frozenset({"Namespace"})


class Key(NamedTuple):
    """Kind, namespace and name of a resource. Kinds of a cluster have no namespace; one without a name has no name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def key_of(value: object) -> Key | None:
    """The key of a document, as ``load`` has it."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return None
    kind, metadata = value["kind"], value.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    name, namespace = given.get("name"), given.get("namespace")
    if kind in _CLUSTER_SCOPED:
        namespace = ""
    elif not isinstance(namespace, str) or not namespace:
        namespace = DEFAULT_NAMESPACE
    return Key(kind, namespace, name if isinstance(name, str) else "")


def policies_for(namespace: str, kind: str, name: str) -> Mark:
    """BackendSecurityPolicies by target."""
    return ("policies-for", namespace, kind, name)


def quotas_for(namespace: str, name: str) -> Mark:
    """QuotaPolicies by target."""
    return ("quotas-for", namespace, name)


def tls_for(namespace: str, backend: str) -> Mark:
    """BackendTLSPolicies by target."""
    return ("tls-for", namespace, backend)


def traffic_for(namespace: str, kind: str, name: str) -> Mark:
    """BackendTrafficPolicies by target."""
    return ("traffic-for", namespace, kind, name)


def grants_of(namespace: str) -> Mark:
    """ReferenceGrants by namespace."""
    return ("grants-of", namespace)


def marks_of(key: Key, resource: object, value: object) -> Iterator[Mark]:
    """The marks of a document, read as a resource as far as it can be."""
    here = key.namespace
    match resource:
        case BackendSecurityPolicy():
            yield from (policies_for(here, ref.kind, ref.name) for ref in resource.spec.target_refs)
        case QuotaPolicy():
            yield from (quotas_for(here, ref.name) for ref in resource.spec.target_refs)
        case BackendTLSPolicy():
            yield from (tls_for(here, ref.name) for ref in resource.spec.target_refs)
        case BackendTrafficPolicy(spec=spec):
            single = (spec.target_ref,) if spec.target_ref is not None else ()
            yield from (traffic_for(here, ref.kind, ref.name) for ref in (*single, *spec.target_refs))
        case None if key.kind == "BackendSecurityPolicy":
            yield from (policies_for(here, *target) for target in _raw_targets(value))
    if key.kind == "ReferenceGrant":
        yield grants_of(here)


def _raw_targets(value: object) -> Iterator[tuple[str, str]]:
    spec = value.get("spec") if isinstance(value, dict) else None
    refs = spec.get("targetRefs") if isinstance(spec, dict) else None
    for ref in refs if isinstance(refs, list) else ():
        if isinstance(ref, dict):
            yield str(ref.get("kind")), str(ref.get("name"))

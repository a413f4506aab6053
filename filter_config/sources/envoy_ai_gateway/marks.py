"""By what documents are found: what they are called, and what they are about.

Read from what anybody may have written, before it is judged: a policy of which nothing else can be read is about its
targets all the same, and whatever has another shape is about nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from filter_config.sources.envoy_ai_gateway.load import identity, raw_targets
from filter_config.sources.graph import Mark


class Key(NamedTuple):
    """Kind, namespace and name of an object. Objects of a cluster have an empty namespace."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def key_of(value: object) -> Key | None:
    """The key of a document; None when it does not say what it is. One without a name has an empty one."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return None
    return Key(value["kind"], *identity(value["kind"], value.get("metadata")))


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


def marks_of(key: Key, value: object) -> Iterator[Mark]:
    """The marks of a document besides its key."""
    here = key.namespace
    match key.kind:
        case "BackendSecurityPolicy":
            yield from (policies_for(here, *target) for target in raw_targets(value))
        case "QuotaPolicy":
            yield from (quotas_for(here, name) for _, name in raw_targets(value))
        case "BackendTLSPolicy":
            yield from (tls_for(here, name) for _, name in raw_targets(value))
        case "BackendTrafficPolicy":
            yield from (traffic_for(here, *target) for target in (*_raw_target(value), *raw_targets(value)))
        case "ReferenceGrant":
            yield grants_of(here)


def _raw_target(value: object) -> Iterator[tuple[str, str]]:
    """The one target of a policy that names it alone."""
    spec = value.get("spec") if isinstance(value, dict) else None
    ref = spec.get("targetRef") if isinstance(spec, dict) else None
    return raw_targets({"spec": {"targetRefs": [ref]}})

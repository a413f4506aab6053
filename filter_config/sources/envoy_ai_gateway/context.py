"""What every part of the compiler shares: the resources, who may refer to whom, and the list of faults."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

from filter_config.sources.envoy_ai_gateway.fields import AI_GROUP, GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.kubernetes import ReferenceGrant
from filter_config.sources.envoy_ai_gateway.load import Resources
from filter_config.sources.faults import Faults


class Referrer(NamedTuple):
    """A kind of objects that refer to others."""

    group: str
    kind: str


ROUTE: Final = Referrer(AI_GROUP, "AIGatewayRoute")
POLICY: Final = Referrer(AI_GROUP, "BackendSecurityPolicy")
GATEWAY: Final = Referrer(GATEWAY_GROUP, "Gateway")
HTTP_ROUTE: Final = Referrer(GATEWAY_GROUP, "HTTPRoute")
"""What a cluster makes of a route: it refers to the Backends."""


class Target(NamedTuple):
    """An object that is referred to."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Grants:
    """The references across namespaces that ReferenceGrants allow (contract, control plane 3.5), names honoured."""

    def __init__(self, resources: Resources) -> None:
        self._by_namespace: defaultdict[str, list[ReferenceGrant]] = defaultdict(list)
        for grant in resources.all(ReferenceGrant):
            self._by_namespace[grant.namespace].append(grant.value)

    def allow(self, referrer: Referrer, namespace: str, target: Target) -> bool:
        """Whether objects of a namespace may refer to a target. Within a namespace they always may."""
        if namespace == target.namespace:
            return True
        return any(
            any((source.group, source.kind, source.namespace) == (*referrer, namespace) for source in grant.spec.from_)
            and any(
                (to.group, to.kind) == (target.group, target.kind) and to.name in (None, "", target.name)
                for to in grant.spec.to
            )
            for grant in self._by_namespace.get(target.namespace, ())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run of the compiler."""

    resources: Resources
    grants: Grants
    faults: Faults


def grant_fix(referrer: Referrer, namespace: str, target: Target) -> str:
    """How a reference becomes allowed."""
    return (
        f"put a ReferenceGrant into namespace {target.namespace}: from {referrer.kind} ({referrer.group}) of "
        f"namespace {namespace}, to {target.kind} ({target.group or 'core'})"
    )

"""What the controller may ask, as the API server reads it off the manifests: RBAC, rule by rule.

The rules are those of the roles that its ServiceAccount is bound to. A role of the cluster holds everywhere, a role of
a namespace in that one only; a rule with names is about these objects alone, and hence about no list of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import deploy

BASE = Path(deploy.__file__).parent / "kubernetes" / "base"
HOME = "envoy-ai-gateway-system"
ACCOUNT = "ai-gateway-controller"

Object = dict[str, Any]


class Asked(NamedTuple):
    """A request as RBAC sees it; a part of an object is ``<resource>/<part>``."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.name or '*'}{where}"


class Grant(NamedTuple):
    """What a rule grants: one verb on one resource, in one namespace or in all, of some objects or of all."""

    verb: str
    group: str
    resource: str
    namespace: str | None
    names: tuple[str, ...]

    def covers(self, asked: Asked, homes: Iterable[str]) -> bool:
        """Whether a request is granted; what holds in the controller's namespace holds in each of ``homes``."""
        return (
            self[:3] == asked[:3]
            and (self.namespace is None or asked.namespace in ({self.namespace, *homes}))
            and (not self.names or asked.name in self.names)
        )


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Everything that is granted.

    Attributes:
        homes: namespaces that the controller may be in; tests have its Lease where they like.
    """

    grants: frozenset[Grant]
    homes: frozenset[str] = frozenset({HOME})

    def allow(self, asked: Asked) -> bool:
        return any(grant.covers(asked, self.homes) for grant in self.grants)

    def unused(self, asked: Iterable[Asked]) -> set[Grant]:
        """What is granted and was not asked for."""
        asked = set(asked)
        return {grant for grant in self.grants if not any(grant.covers(each, self.homes) for each in asked)}


def of_account(objects: Iterable[Object], account: str = ACCOUNT) -> frozenset[Grant]:
    """What a ServiceAccount is granted by manifests."""
    objects = list(objects)
    roles = {(value["kind"], value["metadata"]["name"]): value for value in objects if value["kind"].endswith("Role")}
    found = set()
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if account not in (subject["name"] for subject in binding["subjects"]):
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        namespace = binding["metadata"]["namespace"] if binding["kind"] == "RoleBinding" else None
        found |= {
            Grant(verb, group, resource, namespace, tuple(rule.get("resourceNames", ())))
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    return frozenset(found)


@cache
def rights(*homes: str) -> Rights:
    """What the manifests grant, in these namespaces as in the controller's own."""
    files = ("cluster-role.yaml", "role.yaml", "envoy-gateway-role.yaml")
    objects = [
        value
        for name in files
        for value in yaml.load_all((BASE / name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        if value
    ]
    return Rights(grants=of_account(objects), homes=frozenset({HOME, *homes}))

"""A cluster and a planner without a network between them: events in, writes out, until nothing is left to be done.

A write that the controller's roles do not allow fails the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deploy.controller.api import FIELD_MANAGER
from deploy.controller.kinds import KINDS, Key
from deploy.controller.options import ControllerOptions
from deploy.controller.planner import Planner
from deploy.controller.writes import Apply, Delete, Patch, Plan, Write
from deploy.injector.options import SidecarOptions
from tests.support import gateway_resources as resources
from tests.support.kube_cluster import Cluster, Object, Place, Refused, public
from tests.support.kube_rights import Asked, rights

NOW = datetime(2026, 2, 1, tzinfo=UTC)
SIDECAR = SidecarOptions(image="example.com/extproc:1")
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


def place_of(kind: str, namespace: str, name: str) -> Place:
    """Where an object of a kind is."""
    known = KINDS[kind]
    return Place(known.group, known.plural, namespace if known.namespaced else "", name)


def gateway_class(name: str = "eg", controller: str = CONTROLLER) -> Object:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": name},
        "spec": {"controllerName": controller},
    }


def gateway(name: str = "gw", namespace: str = "default", class_name: str = "eg", **meta: Any) -> Object:
    """A Gateway of Envoy Gateway."""
    value = resources.gateway(name, namespace, **meta)
    value["spec"]["gatewayClassName"] = class_name
    return value


def namespace(name: str = "default", **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def create(cluster: Cluster, value: Object) -> Object:
    """Somebody makes an object."""
    metadata = value["metadata"]
    return cluster.create(place_of(value["kind"], metadata.get("namespace", ""), metadata["name"]), value)


@dataclass
class World:
    """A cluster that is planned for.

    Attributes:
        writes: everything that was written, ever.
        plans: the last plan of each owner.
    """

    cluster: Cluster = field(default_factory=Cluster)
    options: ControllerOptions = field(default_factory=ControllerOptions)
    now: datetime = NOW

    def __post_init__(self) -> None:
        self.planner = Planner(options=self.options)
        self.writes: list[Write] = []
        self.plans: dict[Key, Plan] = {}
        self._seen = 0

    # --- what somebody does ---

    def put(self, *values: Object) -> None:
        """Makes objects, or puts others in their places."""
        for value in values:
            metadata = value["metadata"]
            place = place_of(value["kind"], metadata.get("namespace", ""), metadata["name"])
            if place in self.cluster.objects:
                self.cluster.replace(place, value)
            else:
                self.cluster.create(place, value)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        self.cluster.delete(place_of(kind, namespace, name))

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        return self.cluster.get(place_of(kind, namespace, name))

    def has(self, kind: str, name: str, namespace: str = "default") -> bool:
        return place_of(kind, namespace, name) in self.cluster.objects

    def names(self, kind: str) -> list[str]:
        """All objects of a kind, ``<namespace>/<name>``."""
        known = KINDS[kind]
        return [
            f"{value['metadata'].get('namespace', '')}/{value['metadata']['name']}"
            for value in self.cluster.list(known.group, known.plural)
        ]

    def conditions(self, kind: str, name: str, namespace: str = "default") -> dict[str, Object]:
        """The conditions of a resource by type."""
        status = self.get(kind, name, namespace).get("status", {})
        return {condition["type"]: condition for condition in status.get("conditions", ())}

    def accepted(self, kind: str, name: str, namespace: str = "default") -> str:
        """Why a resource is not accepted; empty when it is."""
        condition = self.conditions(kind, name, namespace)["Accepted"]
        return "" if condition["status"] == "True" else condition["message"]

    # --- what the controller does ---

    def observe(self) -> None:
        """The planner sees what has happened."""
        kinds = {(kind.group, kind.plural): kind for kind in KINDS.values()}
        for event in self.cluster.log[self._seen :]:
            kind = kinds[event.place.group, event.place.plural]
            value = {**public(event.object), "kind": kind.name}
            if event.type == "DELETED":
                key = Key(kind.name, event.place.namespace, event.place.name)
                self.planner.remove(key, uid=value["metadata"]["uid"])
            elif _selected(kind.labels, value):
                self.planner.put(value)
        self._seen = len(self.cluster.log)

    def settle(self, limit: int = 20) -> list[Write]:
        """Plans and writes until nothing is left; gives what was written."""
        written: list[Write] = []
        for _ in range(limit):
            self.observe()
            plans = self.planner.plan(self.now)
            self.plans.update({plan.owner: plan for plan in plans})
            writes = [write for plan in plans for write in plan.writes]
            if not writes:
                self.writes += written
                return written
            for plan in plans:
                self.planner.refused(plan.owner, self._write(plan.writes))
            written += writes
        raise AssertionError(f"still writing after {limit} turns: {writes}")

    def _write(self, writes: Iterable[Write]) -> str:
        refusal = ""
        for write in writes:
            if refusal and not (isinstance(write, Patch) and write.subresource):
                continue
            try:
                self._do(write)
            except Refused as refused:
                if refused.status not in (404, 409, 422):
                    raise
                if refused.status == 422:
                    refusal = f"{write.key}: {refused}"
        return refusal

    def _do(self, write: Write) -> None:
        place = place_of(*write.key)
        for asked in _asked(write, place, is_there=place in self.cluster.objects):
            if not rights().allow(asked):
                raise Refused(403, "Forbidden", f"no role of the controller allows to {asked}")
        match write:
            case Apply(value=value):
                self.cluster.apply(place, value, FIELD_MANAGER, force=True)
            case Patch(patch=patch, subresource=subresource):
                self.cluster.merge_patch(place, patch, subresource=subresource)
            case Delete(uid=uid):
                self.cluster.delete(place, uid=uid)

    def snapshot(self) -> dict[Place, Object]:
        """Everything that there is but for what counts and dates it."""
        return {place: _timeless(value) for place, value in sorted(self.cluster.objects.items(), key=str)}

    def restarted(self) -> World:
        """Another planner, which sees what there is and nothing of what was."""
        world = World(cluster=self.cluster, options=self.options, now=self.now)
        kinds = {(kind.group, kind.plural): kind for kind in KINDS.values()}
        for place, value in self.cluster.objects.items():
            kind = kinds[place.group, place.plural]
            if _selected(kind.labels, value):
                world.planner.put({**public(value), "kind": kind.name})
        world._seen = len(self.cluster.log)
        return world


def _asked(write: Write, place: Place, *, is_there: bool) -> Iterator[Asked]:
    match write:
        case Apply():
            yield Asked("patch", place.group, place.plural, place.namespace, place.name)
            if not is_there:
                yield Asked("create", place.group, place.plural, place.namespace)
        case Patch(subresource=part):
            resource = f"{place.plural}/{part}" if part else place.plural
            yield Asked("patch", place.group, resource, place.namespace, place.name)
        case Delete():
            yield Asked("delete", place.group, place.plural, place.namespace, place.name)


def _selected(label: str, value: Object) -> bool:
    return not label or label in (value["metadata"].get("labels") or {})


def _timeless(value: Object) -> Object:
    metadata = {
        name: part
        for name, part in value["metadata"].items()
        if name not in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
    }
    owners = [
        {name: part for name, part in owner.items() if name != "uid"} for owner in metadata.pop("ownerReferences", ())
    ]
    kept = {**value, "metadata": {**metadata, "ownerReferences": owners}}
    status = kept.pop("status", None) or {}
    parents = [{**each, "conditions": _untimed(each.get("conditions", ()))} for each in status.get("parents", ())]
    # An empty list says as much as none.
    told = {"conditions": _untimed(status.get("conditions", ())), "parents": parents}
    return {**kept, "status": {name: part for name, part in told.items() if part}}


def _untimed(conditions: Iterable[Object]) -> list[Object]:
    return [
        {name: part for name, part in condition.items() if name not in ("lastTransitionTime", "observedGeneration")}
        for condition in conditions
    ]

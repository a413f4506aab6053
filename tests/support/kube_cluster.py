"""The state of an API server, as far as controllers notice it: versions, server-side apply, conflicts, deletion.

Written from the API conventions of Kubernetes and its documentation of Server-Side Apply. Lists belong to one manager
as a whole but for owner references, which are told apart by uid. A write that changes nothing makes no new version and
no event. What refers to an owner that is gone goes after it.
"""

from __future__ import annotations

import base64
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "managedFields")


@dataclass(frozen=True)
class Place:
    """Where an object is."""

    group: str
    plural: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Event:
    version: int
    type: str
    place: Place
    object: Object


class Refused(Exception):
    """The server's no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Cluster:
    """Objects, and everything that ever happened to them."""

    def __init__(self) -> None:
        self.objects: dict[Place, Object] = {}
        self.log: list[Event] = []
        self.version = 0
        self.oldest = 0
        self.listeners: list[Callable[[], None]] = []
        self._ticks = itertools.count()
        self._uids = itertools.count(1)

    # --- reading ---

    def get(self, place: Place) -> Object:
        if place not in self.objects:
            raise Refused(404, "NotFound", f"{place.plural} {place.name!r} not found")
        return self.objects[place]

    def list(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        return [
            value
            for place, value in sorted(self.objects.items(), key=lambda item: (item[0].namespace, item[0].name))
            if (place.group, place.plural) == (group, plural) and namespace in ("", place.namespace)
        ]

    def since(self, version: int, group: str, plural: str, namespace: str = "") -> list[Event]:
        if version < self.oldest:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
        # Events are dense: the one of version n is at n - 1.
        return [
            event
            for event in self.log[version:]
            if (event.place.group, event.place.plural) == (group, plural) and namespace in ("", event.place.namespace)
        ]

    def compact(self) -> None:
        """Forgets the past: watches from before are too old."""
        self.oldest = self.version

    # --- writing ---

    def create(self, place: Place, value: Object, manager: str = "user", *, operation: str = "Update") -> Object:
        if place in self.objects:
            raise Refused(409, "AlreadyExists", f"{place.plural} {place.name!r} already exists")
        made = copy.deepcopy(value)
        made["metadata"] = {
            **{name: part for name, part in made.get("metadata", {}).items() if name not in _SERVER_FIELDS},
            "name": place.name,
            **({"namespace": place.namespace} if place.namespace else {}),
            "uid": f"uid-{next(self._uids)}",
            # What is restored keeps its age, and so does what a test wants to be old.
            "creationTimestamp": value.get("metadata", {}).get("creationTimestamp") or self._now(),
            "generation": 1,
            "managedFields": [_manager(manager, operation, value)],
        }
        if place.plural not in ("pods", "deployments"):
            # What Kubernetes itself says of these is put in with them.
            made.pop("status", None)
        return self._store(place, "ADDED", made)

    def replace(self, place: Place, value: Object, manager: str = "user") -> Object:
        before = self.get(place)
        self._check_version(before, value)
        metadata = {
            **{name: part for name, part in value["metadata"].items() if name not in _SERVER_FIELDS},
            **{name: before["metadata"][name] for name in _SERVER_FIELDS if name in before["metadata"]},
        }
        after = {**copy.deepcopy(value), "metadata": metadata}
        if "status" in before:
            after["status"] = before["status"]
        return self._update(place, before, after)

    def merge_patch(self, place: Place, patch: Object, *, subresource: str = "") -> Object:
        before = self.get(place)
        self._check_version(before, patch)
        wanted = copy.deepcopy(patch)
        if subresource == "status":
            wanted = {"status": wanted.get("status", {})}
        else:
            wanted.pop("status", None)
        return self._update(place, before, _merged(before, wanted))

    def set_status(self, place: Place, status: Object) -> Object:
        return self.merge_patch(place, {"status": status}, subresource="status")

    def apply(self, place: Place, value: Object, manager: str, *, force: bool = False) -> Object:
        if place not in self.objects:
            return self.create(place, value, manager, operation="Apply")
        before = self.objects[place]
        self._check_version(before, value)
        managers = before["metadata"].get("managedFields", [])
        mine = next((each for each in managers if each["manager"] == manager and each["operation"] == "Apply"), None)
        others = [each for each in managers if each is not mine]
        wanted = set(_leaves(_applied(value)))
        conflicts = [
            path
            for other in others
            for path in other["paths"]
            if path in wanted and _at(before, path) != _at(value, path)
        ]
        if conflicts and not force:
            raise Refused(409, "Conflict", f"Apply failed with {len(conflicts)} conflicts")
        after = copy.deepcopy(before)
        for path in (set(mine["paths"]) if mine is not None else set()) - wanted:
            if not any(path in other["paths"] for other in others):
                _remove(after, path)
        after = _merged_objects(after, copy.deepcopy(_applied(value)))
        kept = [{**other, "paths": [path for path in other["paths"] if path not in conflicts]} for other in others]
        after["metadata"]["managedFields"] = [*kept, _manager(manager, "Apply", value)]
        return self._update(place, before, after)

    def delete(self, place: Place, *, uid: str = "") -> None:
        value = self.get(place)
        if uid and value["metadata"]["uid"] != uid:
            raise Refused(409, "Conflict", "the UID in the precondition does not match")
        if value["metadata"].get("finalizers"):
            if "deletionTimestamp" not in value["metadata"]:
                metadata = {**value["metadata"], "deletionTimestamp": self._now()}
                self._store(place, "MODIFIED", {**value, "metadata": metadata})
            return
        self._gone(place, value)

    # --- how ---

    def _update(self, place: Place, before: Object, after: Object) -> Object:
        _default(after)
        _validate(place, after)
        if _content(before) == _content(after):
            return before
        if before.get("spec") != after.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers"):
            self._gone(place, after)
            return after
        return self._store(place, "MODIFIED", after)

    def _store(self, place: Place, event: str, value: Object) -> Object:
        _default(value)
        _validate(place, value)
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self.objects[place] = value
        self._tell(event, place, value)
        return value

    def _gone(self, place: Place, value: Object) -> None:
        del self.objects[place]
        self.version += 1
        last = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
        self._tell("DELETED", place, last)
        self._collect_garbage()

    def _collect_garbage(self) -> None:
        uids = {value["metadata"]["uid"] for value in self.objects.values()}
        for place, value in list(self.objects.items()):
            owners = value["metadata"].get("ownerReferences") or []
            if owners and place in self.objects and not any(owner["uid"] in uids for owner in owners):
                self.delete(place)

    def _tell(self, event: str, place: Place, value: Object) -> None:
        self.log.append(Event(self.version, event, place, copy.deepcopy(value)))
        for listener in self.listeners:
            listener()

    def _now(self) -> str:
        return (_EPOCH + timedelta(seconds=next(self._ticks))).strftime("%Y-%m-%dT%H:%M:%SZ")

    @staticmethod
    def _check_version(before: Object, value: Object) -> None:
        wanted = value.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", "the object has been modified; please apply your changes to the latest")


def public(value: Object) -> Object:
    """An object as the server shows it: without what only this module notes about managers."""
    managers = value["metadata"].get("managedFields")
    if managers is None:
        return value
    shown = [{name: part for name, part in each.items() if name != "paths"} for each in managers]
    return {**value, "metadata": {**value["metadata"], "managedFields": shown}}


# --- managers ---


def _manager(name: str, operation: str, value: Object) -> Object:
    paths = list(_leaves(_applied(value)))
    return {
        "manager": name,
        "operation": operation,
        "apiVersion": value.get("apiVersion", ""),
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(paths),
        "paths": paths,
    }


def _applied(value: Object) -> Object:
    """What of an object belongs to a manager."""
    metadata = {
        name: part
        for name, part in value.get("metadata", {}).items()
        if name not in (*_SERVER_FIELDS, "name", "namespace")
    }
    rest = {name: part for name, part in value.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    return {**rest, **({"metadata": metadata} if metadata else {})}


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if path == ("metadata", "ownerReferences"):
        for owner in value:
            yield (*path, f'k:{{"uid":"{owner["uid"]}"}}')
    elif isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    else:
        yield path


def _fields(paths: list[Path]) -> Object:
    fields: Object = {}
    for path in paths:
        at = fields
        for name in path:
            at = at.setdefault(name if name.startswith("k:") else f"f:{name}", {})
    return fields


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if name.startswith("k:") and isinstance(value, list):
            return next((item for item in value if f'"{item["uid"]}"' in name), None)
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _remove(value: Object, path: Path) -> None:
    parents = [value]
    for name in path[:-1]:
        if not isinstance(parents[-1], dict) or name not in parents[-1]:
            return
        parents.append(parents[-1][name])
    last = path[-1]
    if isinstance(parents[-1], list):
        parents[-1][:] = [item for item in parents[-1] if f'"{item["uid"]}"' not in last]
    elif isinstance(parents[-1], dict):
        parents[-1].pop(last, None)


# --- merging ---


def _merged(value: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), part)
    return merged


def _merged_objects(value: Any, applied: Any, path: Path = ()) -> Any:
    if path == ("metadata", "ownerReferences"):
        by_uid = {owner["uid"]: owner for owner in value or ()}
        by_uid.update({owner["uid"]: {**by_uid.get(owner["uid"], {}), **owner} for owner in applied})
        return list(by_uid.values())
    if isinstance(applied, dict) and isinstance(value, dict):
        return {
            **value,
            **{name: _merged_objects(value.get(name), part, (*path, name)) for name, part in applied.items()},
        }
    return applied


def _content(value: Object) -> Object:
    metadata = {name: part for name, part in value["metadata"].items() if name not in ("resourceVersion", "generation")}
    return {**value, "metadata": metadata}


# --- what CRDs say ---


def _default(value: Object) -> None:
    """What the server adds: the defaults of an HTTPRoute, which show up in lists, and a Secret's texts as data."""
    if value.get("kind") == "Secret" and "stringData" in value:
        texts = {key: base64.b64encode(text.encode()).decode() for key, text in value.pop("stringData").items()}
        value["data"] = {**value.get("data", {}), **texts}
    if value.get("kind") != "HTTPRoute":
        return
    spec = value.get("spec", {})
    for parent in spec.get("parentRefs", ()):
        parent.setdefault("group", "gateway.networking.k8s.io")
        parent.setdefault("kind", "Gateway")
    for rule in spec.get("rules", ()):
        rule.setdefault("matches", [{"path": {"type": "PathPrefix", "value": "/"}}])
        for match in rule["matches"]:
            match.setdefault("path", {}).setdefault("type", "PathPrefix")
            match["path"].setdefault("value", "/")
            for header in match.get("headers", ()):
                header.setdefault("type", "Exact")
        for ref in rule.get("backendRefs", ()):
            ref.setdefault("group", "")
            ref.setdefault("kind", "Service")
            ref.setdefault("weight", 1)


def _validate(place: Place, value: Object) -> None:
    problems = []
    if len(place.name) > 253:
        problems.append("metadata.name: must be no more than 253 characters")
    metadata = value["metadata"]
    problems += [
        f"metadata.labels: {label!r} must be no more than 63 characters"
        for label in (metadata.get("labels") or {}).values()
        if len(label) > 63
    ]
    if sum(bool(owner.get("controller")) for owner in metadata.get("ownerReferences") or ()) > 1:
        problems.append("metadata.ownerReferences: only one reference can have Controller set to true")
    if value.get("kind") == "HTTPRoute":
        rules = value.get("spec", {}).get("rules", [])
        problems += ["spec.rules: too many" for _ in rules[16:17]]
        problems += [
            f"spec.rules[{index}].backendRefs: must have at most 16 items"
            for index, rule in enumerate(rules)
            if len(rule.get("backendRefs", ())) > 16
        ]
    if problems:
        raise Refused(422, "Invalid", f"{value.get('kind')} {place.name!r} is invalid: {'; '.join(problems)}")

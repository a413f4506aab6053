"""What is there compared with what should be: no write without a difference, and only of what is ours.

An object that we applied carries a list of our fields (Server-Side Apply, ``managedFields``). It is as it should be
when each field that we want has the wanted value, and when none is ours that we do not want any more: the second is how
a label goes that a route has lost. Fields of others are theirs, except in a list: lists here belong to one manager as
a whole, so that an item more, or a field more in an item, is a difference. NB: hence defaults of the API server in
items of lists have to be written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deploy.controller.api import FIELD_MANAGER
from deploy.controller.kinds import Key, Object, key_of
from deploy.controller.store import Entry, View
from deploy.controller.writes import Apply, Delete, Write

# The lists that several managers share, by what tells their items apart.
_SHARED_LISTS: Final = {("metadata", "ownerReferences"): "uid"}
_IDENTITY: Final = (("metadata", "name"), ("metadata", "namespace"), ("apiVersion",), ("kind",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The objects of an owner, in the order in which they are to be written, and why some cannot be."""

    objects: tuple[Object, ...] = ()
    problems: tuple[str, ...] = ()


def owner_reference(entry: Entry) -> Object:
    """The reference by which an object is controlled by another, and goes with it."""
    value = entry.value
    return {
        "apiVersion": value["apiVersion"],
        "kind": value["kind"],
        "name": entry.key.name,
        "uid": entry.uid,
        "controller": True,
    }


def controller_of(value: Object) -> Mapping[str, Any]:
    """The reference to what controls an object; empty for none."""
    for owner in value["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return {}


def is_controlled_by(value: Object, owner: Key) -> bool:
    """Whether an object was made of a resource of this kind and name, perhaps of an earlier one."""
    found = controller_of(value)
    return (found.get("kind"), found.get("name")) == (owner.kind, owner.name)


def differs(wanted: Object, found: Object) -> bool:
    """Whether an object has to be applied."""
    if _lacks(wanted, found, ()):
        return True
    owned = _owned(found)
    return owned is None or any(_value_at(wanted, path) is None for path in owned if path not in _IDENTITY)


def _lacks(wanted: Any, found: Any, path: tuple[str, ...]) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return True
        return any(_lacks(value, found.get(name), (*path, name)) for name, value in wanted.items())
    if path in _SHARED_LISTS:
        by = {item.get(_SHARED_LISTS[path]): item for item in found or ()}
        return any(_lacks(item, by.get(item[_SHARED_LISTS[path]]), ()) for item in wanted)
    return bool(wanted != found)


def _owned(found: Object) -> list[tuple[str, ...]] | None:
    """The paths of our fields; None when we never applied the object."""
    for manager in found["metadata"].get("managedFields") or ():
        if (manager.get("manager"), manager.get("operation")) == (FIELD_MANAGER, "Apply"):
            return list(_paths(manager.get("fieldsV1") or {}, ()))
    return None


def _paths(fields: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The leaves of a ``fieldsV1``; the items of a list belong to its path."""
    below = {name[2:]: part for name, part in fields.items() if name.startswith("f:")}
    if not below:
        yield path
    for name, part in below.items():
        yield from _paths(part, (*path, name))


def _value_at(value: Any, path: Iterable[str]) -> Any:  # noqa: ANN401 - any JSON
    for name in path:
        if not isinstance(value, dict):
            # A value of ours as a whole, such as a list.
            return value
        value = value.get(name)
    return value


def settle(
    view: View, owner: Key, uid: str, wanted: Iterable[Object], made: Iterable[Entry]
) -> tuple[list[Write], list[str]]:
    """The writes that make objects of an owner what they should be, and why some cannot be written.

    Args:
        view: knows what is there.
        owner: controls the objects.
        uid: the owner's.
        wanted: objects that should be there, in the order in which they are to be written.
        made: objects of the owner that are there; those that are not wanted go.
    """
    writes: list[Write] = []
    refused: list[str] = []
    keys = set()
    for value in wanted:
        key = key_of(value)
        keys.add(key)
        found = view.live(*key)
        if found is None:
            writes.append(Apply(value=value))
        elif not is_controlled_by(found.value, owner):
            refused.append(f"{key} is there and was not made of {owner}; rename one of them")
        elif controller_of(found.value).get("uid") != uid:
            # Made of an earlier owner of this name. There can be one controller: the object goes, and comes anew.
            writes.append(Delete(key=key, uid=found.uid))
        elif not found.is_deleting and differs(value, found.value):
            writes.append(Apply(value=value))
    writes += (
        Delete(key=entry.key, uid=entry.uid) for entry in made if entry.key not in keys and not entry.is_deleting
    )
    return writes, refused

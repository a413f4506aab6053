"""The objects of the cluster as they were last seen, and what is found by what.

An object has two sides that change apart: its content, which others are made of, and the whole of it with its status,
which is compared with what should be there. Envoy Gateway writes the status of a Gateway whenever a route comes or
goes; nothing is compiled for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deploy.controller.api import FIELD_MANAGER
from deploy.controller.kinds import Key, Object, key_of
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.graph import Mark

Index = Callable[[Object], Iterable[Mark]]
"""By which marks the objects of a kind are found."""

_REMEMBERED: Final = 10_000
"""How many deleted objects are remembered, by uid."""
_NOISE: Final = ("resourceVersion", "managedFields", "generation", "finalizers", "ownerReferences", "selfLink")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """An object.

    Attributes:
        value: everything that is kept of it.
        document: its content, for the compiler.
        marks: by which it is found.
    """

    key: Key
    value: Object
    document: Document
    marks: frozenset[Mark]

    @property
    def metadata(self) -> Object:
        """Its metadata."""
        metadata: Object = self.value["metadata"]
        return metadata

    @property
    def uid(self) -> str:
        """Its uid; another object of the same name has another."""
        return str(self.metadata.get("uid") or "")

    @property
    def is_deleting(self) -> bool:
        """Whether it only waits for its finalizers."""
        return self.metadata.get("deletionTimestamp") is not None


class Store:
    """All objects. Reading is safe from any thread, writing is for one.

    Args:
        indexes: by kind.
    """

    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self._indexes = indexes or {}
        self._entries: dict[Key, Entry] = {}
        self._found: dict[Mark, dict[Key, Entry]] = {}
        self._kinds: dict[str, dict[Key, Entry]] = {}
        self._gone: dict[str, None] = {}

    def put(self, value: Object) -> set[Mark]:
        """Takes an object, unless it is older than the one that is there; gives what has changed."""
        key = key_of(value)
        before = self._entries.get(key)
        if value["metadata"].get("uid") in self._gone:
            return set()
        if before is not None and is_older(value, before.value):
            return set()
        content = _content(value)
        if before is not None and before.document.value == content:
            # The very same document: whoever remembers what was said of it need not say it again.
            document = before.document
        else:
            document = Document(file="", line=0, value=content)
        kept = _kept(value)
        entry = Entry(key=key, value=kept, document=document, marks=frozenset(self._index(value)))
        if before is not None and _same(before.value, kept):
            changed: set[Mark] = set()
        else:
            changed = {live(key)}
        if before is None or document is not before.document or entry.marks != before.marks:
            changed |= {key, *entry.marks, *(before.marks if before is not None else ())}
        self._replace(key, before, entry)
        return changed

    def remove(self, key: Key, *, uid: str = "") -> set[Mark]:
        """Forgets an object; gives what has changed.

        Args:
            key: of the object.
            uid: of the object that is known to be deleted, which never comes back: what still says otherwise is older.
                Empty when an object is only not seen any more.
        """
        if uid:
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
        before = self._entries.get(key)
        if before is None:
            # It came and went, and who had made it has to make it again.
            return {key, live(key)}
        if uid and before.uid and before.uid != uid:
            return set()
        self._replace(key, before, None)
        return {key, live(key), *before.marks}

    def get(self, key: Key) -> Entry | None:
        """An object."""
        return self._entries.get(key)

    def found(self, mark: Mark) -> list[Entry]:
        """The objects that are found by a mark, by namespace and name."""
        return _sorted(self._found.get(mark, {}))

    def of_kind(self, kind: str) -> list[Entry]:
        """All objects of a kind, likewise."""
        return _sorted(self._kinds.get(kind, {}))

    def _index(self, value: Object) -> Iterator[Mark]:
        index = self._indexes.get(value["kind"])
        if index is not None:
            yield from index(value)

    def _replace(self, key: Key, before: Entry | None, after: Entry | None) -> None:
        for mark in before.marks if before is not None else ():
            if after is None or mark not in after.marks:
                found = self._found[mark]
                del found[key]
                if not found:
                    del self._found[mark]
        if after is None:
            del self._entries[key]
            del self._kinds[key.kind][key]
            return
        for mark in after.marks:
            self._found.setdefault(mark, {})[key] = after
        self._entries[key] = after
        self._kinds.setdefault(key.kind, {})[key] = after


class View:
    """A store, and a note of everything that was asked of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads: set[Mark] = set()

    def get(self, kind: str, namespace: str, name: str) -> Entry | None:
        """An object of which the content counts."""
        key = Key(kind, namespace, name)
        self.reads.add(key)
        return self._store.get(key)

    def live(self, kind: str, namespace: str, name: str) -> Entry | None:
        """An object of which everything counts."""
        key = Key(kind, namespace, name)
        self.reads.add(live(key))
        return self._store.get(key)

    def found(self, mark: Mark) -> list[Entry]:
        """Objects of which the content counts."""
        self.reads.add(mark)
        return self._store.found(mark)

    def found_live(self, mark: Mark) -> list[Entry]:
        """Objects of which everything counts."""
        entries = self.found(mark)
        self.reads.update(live(entry.key) for entry in entries)
        return entries

    def note(self, mark: Mark) -> None:
        """Something else that counts."""
        self.reads.add(mark)


def live(key: Key) -> Mark:
    """The mark of everything of an object."""
    return ("live", *key)


def _sorted(entries: Mapping[Key, Entry]) -> list[Entry]:
    # A copy of the mapping first: it may be changed meanwhile.
    return [entry for _, entry in sorted(dict(entries).items())]


def _content(value: Object) -> Object:
    content = {name: part for name, part in value.items() if name not in ("status", "metadata")}
    content["metadata"] = {name: part for name, part in value["metadata"].items() if name not in _NOISE}
    return content


def _kept(value: Object) -> Object:
    """An object without what other managers own of it, which is half of it and is asked by nobody."""
    managers = value["metadata"].get("managedFields")
    if not managers:
        return value
    ours = [manager for manager in managers if manager.get("manager") == FIELD_MANAGER]
    return {**value, "metadata": {**value["metadata"], "managedFields": ours}}


def _same(one: Object, other: Object) -> bool:
    return _without_version(one) == _without_version(other)


def _without_version(value: Object) -> dict[str, Any]:
    metadata = {name: part for name, part in value["metadata"].items() if name != "resourceVersion"}
    return {**value, "metadata": metadata}


def is_older(value: Object, known: Object) -> bool:
    """Whether what comes was seen before something newer, as an answer to a write overtakes the watch.

    Versions are counted up by every server there is; where one is no number, what comes last counts. An object of
    another uid is another object.
    """
    new, old = value["metadata"], known["metadata"]
    if new.get("uid") != old.get("uid"):
        return False
    versions = (new.get("resourceVersion") or "", old.get("resourceVersion") or "")
    if not all(version.isascii() and version.isdigit() for version in versions):
        return False
    return int(versions[0]) < int(versions[1])

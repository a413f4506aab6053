"""Documents as they are now, by their keys and marks: what has changed since before, and where closures are found."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

import msgspec

from deploy.local.reading import Judging
from filter_config.sources.envoy_ai_gateway.closure import Documents
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.marks import Key
from filter_config.sources.graph import Mark


class Library:
    """All documents."""

    def __init__(self, judging: Judging) -> None:
        self.judging = judging
        self._documents: Mapping[Key, Documents] = {}
        self._marks: dict[Key, frozenset[Mark]] = {}
        self._marked: dict[Mark, dict[Key, None]] = {}

    def become(self, documents: Mapping[Key, Documents]) -> set[Mark]:
        """Takes all documents in the place of those before; gives what has changed."""
        before, self._documents = self._documents, documents
        changed = [key for key, there in documents.items() if _differ(before.get(key, ()), there)]
        gone = before.keys() - documents.keys()
        return {mark for key in (*changed, *gone) for mark in self._mark(key, documents.get(key, ()))}

    def documents(self, key: Key) -> Documents:
        """The documents of a key."""
        return self._documents.get(key, ())

    def found(self, mark: Mark) -> tuple[Key, ...]:
        """The keys with a mark."""
        return tuple(self._marked.get(mark, ()))

    def _mark(self, key: Key, documents: Documents) -> set[Mark]:
        """Finds a key by the marks of its documents from now on; gives what has changed."""
        old = self._marks.pop(key, frozenset())
        new = frozenset(mark for document in documents for mark in self.judging.facts(document).marks)
        if new:
            self._marks[key] = new
        for mark in old - new:
            found = self._marked[mark]
            del found[key]
            if not found:
                del self._marked[mark]
        for mark in new - old:
            self._marked.setdefault(mark, {})[key] = None
        return {key, *old, *new}


class View:
    """A library, and a note of everything that was asked of it, found or not."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.reads: set[Mark] = set()

    def documents(self, key: Key) -> Documents:
        """The documents of a key."""
        self.reads.add(key)
        return self._library.documents(key)

    def found(self, mark: Mark) -> tuple[Key, ...]:
        """The keys with a mark."""
        self.reads.add(mark)
        return self._library.found(mark)

    def resource(self, document: Document) -> msgspec.Struct | None:
        """A document as far as it can be read."""
        return self._library.judging.facts(document).resource


def _differ(before: Documents, after: Documents) -> bool:
    """Whether the values are others."""
    if len(before) != len(after):
        return True
    # Documents that have not moved are the very same.
    return not all(map(is_, before, after)) and not all(
        _is_same(one.value, other.value) for one, other in zip(before, after, strict=True)
    )


def _is_same(one: object, other: object) -> bool:
    """Whether values are equal and of the same types, which ``1`` and ``true`` are not."""
    return one is other or repr(one) == repr(other)

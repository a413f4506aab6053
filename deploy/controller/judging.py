"""What the rules say of a document, asked once for each that there is."""

from __future__ import annotations

from typing import Any

import msgspec

from deploy.controller.store import Entry
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.load import Judged, Resources, judge, load
from filter_config.sources.faults import Fault, Faults


class Judging:
    """Judges documents and remembers what was said, until :meth:`forget`."""

    def __init__(self) -> None:
        # By identity: the store gives the same value as long as nothing changes. The value is held with what was said
        # of it, so that no other one can come to have its identity.
        self._known: dict[int, tuple[object, Judged]] = {}

    def __call__(self, struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
        """See :data:`filter_config.sources.envoy_ai_gateway.load.Judge`."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, judge(struct, kind, value))
        return known[1]

    def resource(self, entry: Entry) -> Any:  # noqa: ANN401 - the struct of the entry's kind
        """The resource of an entry, see :meth:`read`."""
        return self.read(entry.document)

    def read(self, document: Document) -> msgspec.Struct | None:
        """The resource of a document as far as it can be read, valid or not; None when there is none."""
        known = self._known.get(id(document.value))
        if known is None:
            load((document,), Faults(), judge=self)
            known = self._known.get(id(document.value))
        return known[1].value if known is not None else None

    def is_valid(self, entry: Entry) -> bool:
        """Whether an entry is a resource without an error of its own."""
        self.resource(entry)
        known = self._known.get(id(entry.document.value))
        return known is not None and known[1].valid and known[1].value is not None

    def faults(self, entry: Entry) -> tuple[Fault, ...]:
        """What is wrong with an entry in itself."""
        faults = Faults()
        load((entry.document,), faults, judge=self)
        return faults.closed()

    def load(self, documents: tuple[Document, ...], faults: Faults) -> Resources:
        """The resources of some documents."""
        return load(documents, faults, judge=self)

    @property
    def known(self) -> int:
        """How many documents are remembered."""
        return len(self._known)

    def keep(self, documents: set[int]) -> None:
        """Forgets everything but the documents whose values have these identities."""
        self._known = {identity: known for identity, known in self._known.items() if identity in documents}

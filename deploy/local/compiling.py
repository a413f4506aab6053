"""Resources compiled again and again: what was read once is remembered, and what was good once is not lost.

Parsing and validating is most of the work, and an edit changes a document or two of many. So documents are remembered
by their bytes, and what the rules said of them with them.

A resource with an error harms only itself, as it does in a cluster: there the API server refuses the edit, and the
version before it stays. The same happens here: the last version without an error takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from filter_config.sources.envoy_ai_gateway.compiler import Compiled, CompiledGateway, compile_documents
from filter_config.sources.envoy_ai_gateway.documents import Document, Text, documents
from filter_config.sources.envoy_ai_gateway.load import DEFAULT_NAMESPACE, Judged, judge
from filter_config.sources.envoy_ai_gateway.variables import substituted
from filter_config.sources.faults import Fault, Faults

if TYPE_CHECKING:
    import msgspec

_MARK: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)

Identity = tuple[str, str, str]
"""Kind, namespace and name of a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the files as they are."""

    gateways: tuple[CompiledGateway, ...]
    faults: tuple[Fault, ...]
    kept: tuple[str, ...] = ()
    """Resources of which an earlier version is compiled, as theirs has an error: ``AIGatewayRoute default/chat``."""

    @property
    def errors(self) -> int:
        """How many of the faults are errors."""
        return sum(fault.severity == "error" for fault in self.faults)


class Compiler:
    """Compiles texts, and knows those that it compiled before.

    Args:
        environ: what the texts and their Secrets may refer to.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._reader = _Reader()
        self._judge = _Judge()
        # The last version of each resource that had no error, by file and identity.
        self._good: dict[str, dict[Identity, Document]] = {}

    def compile(self, texts: Sequence[Text], faults: Faults) -> Outcome:
        """The gateways of the texts; ``faults`` has those of the files that could not be read."""
        found = [
            document
            for text in texts
            for document in self._reader.documents(substituted(text, self._environ, faults), faults)
        ]
        compiled = self._compile(found, faults)
        errors = [fault for fault in compiled.faults if fault.severity == "error"]
        served, kept = self._with_good(found, errors) if errors else (found, ())
        self._remember(served, errors)
        if kept:
            again = self._compile(served, Faults())
            compiled = Compiled(gateways=again.gateways, faults=compiled.faults)
        self._reader.forget_unused()
        self._judge.forget_unused()
        return Outcome(gateways=compiled.gateways, faults=compiled.faults, kept=kept)

    def _compile(self, found: Iterable[Document], faults: Faults) -> Compiled:
        return compile_documents(found, faults, environ=self._environ, judge=self._judge)

    def _with_good(self, found: Sequence[Document], errors: Iterable[Fault]) -> tuple[list[Document], tuple[str, ...]]:
        """The documents with good versions in the places of bad ones, and the names of those resources."""
        bad, broken_files = _blamed(errors)
        good = {identity: document for known in self._good.values() for identity, document in known.items()}
        there = {_identity(document) for document in found}
        missing = {
            identity: document
            for file in broken_files
            for identity, document in self._good.get(file, {}).items()
            if identity not in there
        }
        wrong = {
            identity: good[identity]
            for document in found
            if (identity := _identity(document)) in bad and identity in good and good[identity].value != document.value
        }
        kept = {**missing, **wrong}
        documents = [document for document in found if _identity(document) not in wrong]
        return [*documents, *kept.values()], tuple(sorted(f"{kind} {space}/{name}" for kind, space, name in kept))

    def _remember(self, served: Iterable[Document], errors: Iterable[Fault]) -> None:
        """Replaces what is known: a resource that is gone is to stay away, one with an error is as good as it was."""
        bad, _ = _blamed(errors)
        known = {identity for documents in self._good.values() for identity in documents}
        good: dict[str, dict[Identity, Document]] = {}
        for document in served:
            identity = _identity(document)
            if identity is not None and (identity not in bad or identity in known):
                good.setdefault(document.file, {})[identity] = document
        self._good = good


def _blamed(errors: Iterable[Fault]) -> tuple[set[Identity], set[str]]:
    """The resources that have an error, and the files in which something cannot even be read."""
    resources, files = set(), set()
    for fault in errors:
        origin = fault.origin
        if origin.kind and origin.name:
            resources.add((origin.kind, origin.namespace, origin.name))
        else:
            files.add(origin.file)
    return resources, files


def _identity(document: Document) -> Identity | None:
    value = document.value
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(metadata, dict):
        return None
    kind, name, namespace = value.get("kind"), metadata.get("name"), metadata.get("namespace")
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    return kind, namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE, name


class _Reader:
    """Documents of texts, parsed once each."""

    def __init__(self) -> None:
        # By their bytes. Lines are counted from the start of the bytes.
        self._known: dict[bytes, tuple[Document, ...]] = {}
        self._used: dict[bytes, tuple[Document, ...]] = {}

    def documents(self, text: Text, faults: Faults) -> Iterator[Document]:
        """The documents of a text."""
        for before, chunk in _chunks(text.data):
            known = self._known.get(chunk)
            if known is None:
                found = Faults()
                known = tuple(documents(Text(name=text.name, data=chunk), found))
                if found.closed():
                    # Its messages name lines of the chunk; those of the file are wanted.
                    yield from documents(Text(name=text.name, data=b"\n" * before + chunk), faults)
                    continue
            self._used[chunk] = known
            for document in known:
                yield replace(document, file=text.name, line=document.line + before)

    def forget_unused(self) -> None:
        """Forgets what was not asked for since the last time."""
        self._known, self._used = self._used, {}


def _chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The text cut before each document mark, with the number of lines before each piece."""
    before = start = 0
    for mark in (*_MARK.finditer(data), None):
        end = mark.start() if mark is not None else len(data)
        if end > start:
            chunk = data[start:end]
            yield before, chunk
            before += chunk.count(b"\n")
        start = end


class _Judge:
    """What the rules said of a document, remembered as long as the document is."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Judged]] = {}
        self._used: dict[int, tuple[object, Judged]] = {}

    def __call__(self, struct: type[msgspec.Struct], kind: str, value: object) -> Judged:
        # The value is held with what was said of it, so that no other one can come to have its identity.
        known = self._known.get(id(value))
        if known is None:
            known = (value, judge(struct, kind, value))
        self._used[id(value)] = known
        return known[1]

    def forget_unused(self) -> None:
        """Forgets what was not asked for since the last time."""
        self._known, self._used = self._used, {}

"""Resources compiled again and again: what was good once is not lost.

A resource with an error harms only itself, as it does in a cluster: there the API server refuses the edit, and the
version before it stays. The same happens here: the last version without an error takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deploy.local.incremental import Incremental
from deploy.local.reading import Reader
from filter_config.sources.envoy_ai_gateway.compiler import Compiled, CompiledGateway
from filter_config.sources.envoy_ai_gateway.documents import Document, Text
from filter_config.sources.envoy_ai_gateway.marks import Key, key_of
from filter_config.sources.envoy_ai_gateway.variables import substituted
from filter_config.sources.faults import Fault, Faults


def as_it_is(fault: Fault) -> Fault:
    """The fault itself, where models know files and lines."""
    return fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the files as they are."""

    gateways: tuple[CompiledGateway, ...]
    faults: tuple[Fault, ...]
    kept: tuple[str, ...] = ()
    """Resources of which an earlier version is compiled, as theirs has an error: ``AIGatewayRoute default/chat``."""
    located: Callable[[Fault], Fault] = field(default=as_it_is, compare=False, repr=False)
    """Gives what is wrong with the gateways the files and lines of the resources, which the models do not have."""

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
        self._reader = Reader()
        self._incremental = Incremental(environ)
        # The last version of each resource that had no error.
        self._good: Sequence[Document] = ()

    def compile(self, texts: Sequence[Text], faults: Faults) -> Outcome:
        """The gateways of the texts; ``faults`` has those of the files that could not be read."""
        found = [
            document
            for text in texts
            for document in self._reader.documents(substituted(text, self._environ, faults), faults)
        ]
        compiled = self._incremental.compile(found, faults)
        errors = [fault for fault in compiled.faults if fault.severity == "error"]
        served, kept = self._with_good(found, errors) if errors else (found, ())
        self._remember(served, errors)
        if kept:
            again = self._incremental.compile(served, Faults())
            compiled = Compiled(gateways=again.gateways, faults=compiled.faults)
        self._reader.forget_unused()
        self._incremental.forget_unused()
        return Outcome(gateways=compiled.gateways, faults=compiled.faults, kept=kept, located=self._incremental.located)

    def _with_good(self, found: Sequence[Document], errors: Iterable[Fault]) -> tuple[list[Document], tuple[str, ...]]:
        """The documents with good versions in the places of bad ones, and the names of those resources."""
        bad, broken_files = _blamed(errors)
        good = {key: document for document in self._good if (key := _key(document)) is not None}
        there = {_key(document) for document in found}
        missing = {
            key: document for key, document in good.items() if document.file in broken_files and key not in there
        }
        wrong = {
            key: good[key]
            for document in found
            if (key := _key(document)) in bad and key in good and good[key].value != document.value
        }
        kept = {**missing, **wrong}
        documents = [document for document in found if _key(document) not in wrong]
        return [*documents, *kept.values()], tuple(sorted(map(str, kept)))

    def _remember(self, served: Sequence[Document], errors: Iterable[Fault]) -> None:
        """Replaces what is known: a resource that is gone is to stay away, one with an error is as good as it was."""
        bad, _ = _blamed(errors)
        if bad:
            known = {_key(document) for document in self._good}
            served = [document for document in served if (key := _key(document)) not in bad or key in known]
        self._good = served


def _blamed(errors: Iterable[Fault]) -> tuple[set[Key], set[str]]:
    """The resources that have an error, and the files in which something cannot even be read."""
    resources, files = set(), set()
    for fault in errors:
        origin = fault.origin
        if origin.kind and origin.name:
            resources.add(Key(origin.kind, origin.namespace, origin.name))
        else:
            files.add(origin.file)
    return resources, files


def _key(document: Document) -> Key | None:
    key = key_of(document.value)
    return key if key is not None and key.name else None

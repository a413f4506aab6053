"""The way in: files of resources to a filter config for each gateway, and everything that is wrong with them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from filter_config.load import DEVELOPMENT_VERSION
from filter_config.model import Config
from filter_config.sources.emit import encode
from filter_config.sources.envoy_ai_gateway.compile_gateways import compile_gateways
from filter_config.sources.envoy_ai_gateway.context import Context, Grants
from filter_config.sources.envoy_ai_gateway.documents import Document, Text, documents, read_files
from filter_config.sources.envoy_ai_gateway.load import Judge, judge, load
from filter_config.sources.envoy_ai_gateway.substitution import substitute
from filter_config.sources.envoy_ai_gateway.variables import substituted
from filter_config.sources.faults import Fault, Faults
from filter_config.sources.model import Gateway
from filter_config.sources.prune import prune


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGateway:
    """A gateway: its neutral model, and the filter config of its processor."""

    model: Gateway
    config: Config

    @property
    def payload(self) -> bytes:
        """The filter config as it is written, credentials in clear."""
        return encode(self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What came of a set of resources."""

    gateways: tuple[CompiledGateway, ...]
    """Those that have a route, by namespace and name."""
    faults: tuple[Fault, ...] = ()
    """Everything that is wrong, by file and line."""

    @property
    def ok(self) -> bool:
        """Whether everything has the effect that it says it has."""
        return all(fault.severity == "warning" for fault in self.faults)


def compile_files(
    paths: Iterable[Path | str],
    *,
    version: str = DEVELOPMENT_VERSION,
    stdin: BinaryIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> Compiled:
    """Compiles files, directories of them, and the standard input where a path is ``-``.

    Args:
        paths: YAML or JSON files of resources, in any order.
        version: the version of the processor that will read the filter configs.
        stdin: what ``-`` stands for.
        environ: variables for the texts and the Secrets that ask for some, see :mod:`.variables` and
            :mod:`.substitution`; None takes nothing from outside.
    """
    faults = Faults()
    return _compile(read_files(paths, faults, stdin=stdin), version, environ, faults)


def compile_texts(
    texts: Iterable[Text], *, version: str = DEVELOPMENT_VERSION, environ: Mapping[str, str] | None = None
) -> Compiled:
    """The same for files that have been read."""
    return _compile(texts, version, environ, Faults())


def compile_documents(
    found: Iterable[Document],
    faults: Faults,
    *,
    version: str = DEVELOPMENT_VERSION,
    environ: Mapping[str, str] | None = None,
    judge: Judge = judge,
) -> Compiled:
    """The same for documents that have been read; ``faults`` has what was found in doing so.

    Who compiles again and again may remember what ``judge`` said of a document.
    """
    with collector_paused():
        resources = load(found, faults, judge=judge)
        if environ is not None:
            substitute(resources, environ, faults)
        context = Context(resources=resources, grants=Grants(resources), faults=faults)
        gateways = tuple(_gateway(model, version, faults) for model in compile_gateways(context))
        return Compiled(gateways=gateways, faults=faults.closed())


def _compile(texts: Iterable[Text], version: str, environ: Mapping[str, str] | None, faults: Faults) -> Compiled:
    if environ is not None:
        texts = (substituted(text, environ, faults) for text in texts)
    found = (document for text in texts for document in documents(text, faults))
    return compile_documents(found, faults, version=version, environ=environ)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hundreds of thousands of values are made here and no cycles: looking for some takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _gateway(model: Gateway, version: str, faults: Faults) -> CompiledGateway:
    pruned = prune(model, version=version, faults=faults)
    config = pruned.emitted.config
    return CompiledGateway(model=pruned.gateway, config=config)

"""Documents compiled again and again, a route at a time, and only those for which something has changed.

Each route remembers what was read for it (see ``library``), and a change of that makes it due. What is compiled knows
no files and lines, so that nothing is due because something moved; faults get their places when they are told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import is_
from typing import Final, TypeAlias

import msgspec

from deploy.local.library import Library, View
from deploy.local.reading import Judging
from filter_config.load import DEVELOPMENT_VERSION
from filter_config.model import ZERO_TIME, Config
from filter_config.sources.emit import mcp_config
from filter_config.sources.envoy_ai_gateway.closure import Documents, closure_of
from filter_config.sources.envoy_ai_gateway.compile_gateways import compile_gateways
from filter_config.sources.envoy_ai_gateway.compiler import Compiled, CompiledGateway, collector_paused
from filter_config.sources.envoy_ai_gateway.context import Context, Grants
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.kubernetes import SecretObject
from filter_config.sources.envoy_ai_gateway.load import Found, load
from filter_config.sources.envoy_ai_gateway.marks import Key
from filter_config.sources.envoy_ai_gateway.substitution import substitute
from filter_config.sources.faults import Fault, Faults
from filter_config.sources.graph import Graph, Mark
from filter_config.sources.model import Gateway, join
from filter_config.sources.model_lists import model_lists
from filter_config.sources.prune import prune

_NOWHERE: Final = ""
"""File of all that is compiled. Its line is the place among the documents of its key, nearly always the first."""
_ROUTES: Final = frozenset({"AIGatewayRoute", "MCPRoute"})

Secrets: TypeAlias = Mapping[Key, SecretObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A route compiled alone.

    Attributes:
        age: by which routes are in order.
        shares: the gateways that admit it, by namespace and name, each as if it had no other route.
        faults: what is wrong, without files and lines.
    """

    age: tuple[datetime, str, str]
    shares: Mapping[tuple[str, str], CompiledGateway]
    faults: tuple[Fault, ...]


@dataclass(slots=True, kw_only=True)
class _Survey:
    """What there is.

    Attributes:
        loud: whether there is something to tell of documents in themselves, or of several of one name.
        substituted: Secrets with values from outside.
    """

    by_key: dict[Key, Documents] = field(default_factory=dict)
    loud: bool = False
    substituted: set[Key] = field(default_factory=set)

    def told(self, found: Iterable[Document], judging: Judging) -> list[Document]:
        """The documents of which there is something to tell."""
        if not self.loud:
            return []
        return [
            document
            for document in found
            if not (known := judging.facts(document)).quiet
            or (known.key is not None and len(self.by_key[known.key]) > 1)
        ]


class Incremental:
    """Compiles documents, and knows what became of those before.

    Args:
        environ: what Secrets may refer to.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._judging = Judging()
        self._library = Library(self._judging)
        self._graph = Graph()
        self._slices: dict[Key, Slice] = {}
        self._secrets: Secrets = {}
        self._gateways: dict[tuple[str, str], tuple[list[CompiledGateway], CompiledGateway]] = {}

    def compile(self, found: Sequence[Document], faults: Faults) -> Compiled:
        """What ``compile_documents`` makes of the documents, but for origins in the models and the uuid of configs.

        ``faults`` has what was found in reading them.
        """
        with collector_paused():
            survey = self._survey(found)
            load(survey.told(found, self._judging), faults, judge=self._judging.judge)
            self._take(survey, faults)
            for key in self._graph.due():
                assert isinstance(key, Key)
                self._make(key)
            for made in self._slices.values():
                for fault in made.faults:
                    tell(self.located(fault), faults)
            return Compiled(gateways=self._assembled(), faults=faults.closed())

    def located(self, fault: Fault) -> Fault:
        """A fault of what was compiled last, with the file and line of its resource."""
        origin = fault.origin
        there = self._library.documents(Key(origin.kind, origin.namespace, origin.name))
        if origin.file != _NOWHERE or origin.line >= len(there):
            return fault
        document = there[origin.line]
        return replace(fault, origin=replace(origin, file=document.file, line=document.line))

    def forget_unused(self) -> None:
        """Forgets the documents that were not compiled since the last time."""
        self._judging.forget_unused()

    # --- what there is ---

    def _survey(self, found: Iterable[Document]) -> _Survey:
        survey, facts = _Survey(), self._judging.facts
        for document in found:
            known = facts(document)
            if not known.quiet:
                survey.loud = True
            if known.key is None:
                continue
            there = survey.by_key.setdefault(known.key, (document,))
            if there[0] is not document:
                survey.by_key[known.key] = (*there, document)
                survey.loud = True
            if known.substituted:
                survey.substituted.add(known.key)
        return survey

    def _take(self, survey: _Survey, faults: Faults) -> None:
        """Takes all documents, and makes the routes due that lead to a change."""
        secrets = self._substituted(survey, faults)
        changed: set[Mark] = self._library.become(survey.by_key)
        changed.update(key for key in {*secrets, *self._secrets} if secrets.get(key) != self._secrets.get(key))
        self._secrets = secrets
        self._graph.touch(changed)
        for mark in changed:
            if isinstance(mark, Key) and mark.kind in _ROUTES:
                self._graph.want(mark)

    def _substituted(self, survey: _Survey, faults: Faults) -> Secrets:
        """The Secrets with values from outside, which may be others each time."""
        documents = [document for key in survey.substituted for document in survey.by_key[key]]
        resources = load(documents, Faults(), judge=self._judging.judge)
        substitute(resources, self._environ, faults)
        return {Key("Secret", found.namespace, found.name): found.value for found in resources.all(SecretObject)}

    # --- slices ---

    def _make(self, key: Key) -> None:
        if not self._library.documents(key):
            self._graph.forget(key)
            self._slices.pop(key, None)
            return
        view = View(self._library)
        self._slices[key] = _kept(self._slices.get(key), self._slice(key, closure_of(key, view)))
        self._graph.made(key, view.reads)

    def _slice(self, key: Key, closure: Mapping[Key, Documents]) -> Slice:
        documents = [
            replace(document, file=_NOWHERE, line=place)
            for there in closure.values()
            for place, document in enumerate(there)
        ]
        resources = load(documents, Faults(), judge=self._judging.judge)
        for found in resources.all(SecretObject):
            value = self._secrets.get(Key("Secret", found.namespace, found.name))
            if value is not None:
                resources.replace(Found(origin=found.origin, value=value))
        faults = Faults()
        context = Context(resources=resources, grants=Grants(resources), faults=faults)
        shares = {(made.namespace, made.name): _share(made, faults) for made in compile_gateways(context)}
        return Slice(age=(self._created(key), key.namespace, key.name), shares=shares, faults=faults.closed())

    def _created(self, key: Key) -> datetime:
        metadata = getattr(self._judging.facts(self._library.documents(key)[0]).resource, "metadata", None)
        created: datetime | None = metadata.creation_timestamp if metadata is not None else None
        return created or ZERO_TIME

    # --- gateways ---

    def _assembled(self) -> tuple[CompiledGateway, ...]:
        shares: dict[tuple[str, str], list[CompiledGateway]] = {}
        for made in sorted(self._slices.values(), key=lambda made: made.age):
            for gateway, share in made.shares.items():
                shares.setdefault(gateway, []).append(share)
        known = self._gateways
        self._gateways = {gateway: _joined(known.get(gateway), shares[gateway]) for gateway in sorted(shares)}
        return tuple(made for _, made in self._gateways.values())


def tell(fault: Fault, faults: Faults) -> None:
    """Tells a fault once more."""
    report = faults.error if fault.severity == "error" else faults.warning
    report(fault.origin, fault.message, fault.fix)


def _kept(before: Slice | None, after: Slice) -> Slice:
    """The slice with the very same routes and configs as before where they are equal: what is made of them stays."""
    if before is None:
        return after
    shares = {gateway: _kept_share(before.shares.get(gateway), share) for gateway, share in after.shares.items()}
    return replace(after, shares=shares)


def _kept_share(before: CompiledGateway | None, after: CompiledGateway) -> CompiledGateway:
    if before is None or before.config != after.config or before.model.routes != after.model.routes:
        return after
    return CompiledGateway(model=replace(after.model, routes=before.model.routes), config=before.config)


def _share(gateway: Gateway, faults: Faults) -> CompiledGateway:
    pruned = prune(gateway, version=DEVELOPMENT_VERSION, faults=faults)
    return CompiledGateway(model=pruned.gateway, config=pruned.emitted.config)


_Joined: TypeAlias = tuple[list[CompiledGateway], CompiledGateway]


def _joined(known: _Joined | None, shares: list[CompiledGateway]) -> _Joined:
    """The shares, which are in order of precedence, and the gateway of them: the same one for the same shares."""
    if known is not None and len(known[0]) == len(shares) and all(map(is_, known[0], shares)):
        return known
    first = shares[0]
    model = join([share.model for share in shares])
    config = Config(
        version=first.config.version,
        uuid=hashlib.sha256("".join(share.config.uuid for share in shares).encode()).hexdigest(),
        global_llm_request_costs=first.config.global_llm_request_costs,
        llm_request_costs=tuple(cost for share in shares for cost in share.config.llm_request_costs),
        backends=tuple(backend for share in shares for backend in share.config.backends),
        mcp_config=mcp_config(model.mcp),
    )
    return shares, CompiledGateway(
        model=model,
        config=_with_models(config, [share.config for share in shares]),
    )


def _with_models(config: Config, parts: Iterable[Config]) -> Config:
    lists = model_lists((part.models_by_host, ((model.name, model) for model in part.models)) for part in parts)
    models = tuple(lists.everywhere.values())
    if not lists.by_host:
        return msgspec.structs.replace(config, models=models)
    return msgspec.structs.replace(
        config,
        models=models,
        models_by_host={host: tuple(found.values()) for host, found in lists.by_host.items()},
        unscoped_models=tuple(lists.unscoped.values()),
    )

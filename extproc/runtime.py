"""A filter config made ready to serve: an immutable snapshot.

A stream takes the snapshot that is live when it starts and keeps it; a reload builds a new one beside it. So nothing
here changes after ``build_runtime`` but ``derived``, and nothing has to be locked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from extproc.auth.base import Authenticator, CredentialT
from extproc.auth.build import build_authenticator, credential_headers
from extproc.auth.sources import Cells, RefreshedCell, Source
from extproc.costs import CostRules, compile_costs
from extproc.endpoints.models import ModelCatalog
from extproc.errors import BackendFault
from extproc.mutation import BodyMutator, HeaderMutator
from extproc.translate.table import SERVED_SCHEMAS
from filter_config.load import Problem
from filter_config.model import Backend, Config, VersionedAPISchema

_log = structlog.get_logger(__name__)

# The parts of a config that its cost rules are made of.
_COSTS: Final = ("llm_request_costs", "global_llm_request_costs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBackend:
    """A backend, compiled.

    Attributes:
        name: full name, ``namespace/backend/route/…``.
        short_name: its first two segments.
        model_override: the backend's name for the model, or empty.
        body: ``None`` when no body mutation is configured.
        auth: ``None`` when the backend needs no credential.
        strips: request headers that must not reach the backend: what clients authenticate with, where the gateway
            authenticates, and every header in which a request may bring a credential, for whichever backend.
        fault: why the backend cannot be used; requests to it are answered with 503.
        made_of: its entry in the document, if another runtime may have it as it is: nothing of it is renewed, nothing
            is wrong with it.
    """

    name: str
    short_name: str
    schema: VersionedAPISchema
    model_override: str
    headers: HeaderMutator
    body: BodyMutator | None = None
    auth: Authenticator | None = None
    strips: tuple[str, ...] = ()
    fault: str | None = None
    made_of: Backend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Everything that streams need of one filter config.

    Attributes:
        digest: content hash of the document, hexadecimal.
        config: the document, for display.
        faults: backend name to the reason why it is disabled.
        secret_headers: lower-case names of headers whose values must not be shown.
        cells: the credentials that have to be fetched and renewed while this snapshot is in use.
        brought: lower-case names of headers in which requests may bring a credential, for whichever backend.
        derived: what others work out from this snapshot as requests come, and keep here so that it goes when the
            snapshot does. It says nothing that the snapshot does not, and must not lead back to it: a snapshot that
            is not used any more is to go at once, without the garbage collector.
    """

    digest: str
    config: Config
    backends: Mapping[str, RuntimeBackend]
    costs: CostRules
    models: ModelCatalog
    faults: Mapping[str, str]
    secret_headers: frozenset[str]
    cells: tuple[RefreshedCell[Any], ...] = ()
    brought: frozenset[str] = frozenset()
    derived: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)


def short_backend_name(name: str) -> str:
    """``namespace/backend`` of a full backend name; a name with fewer segments is its own short form."""
    return "/".join(name.split("/", 2)[:2])


def build_runtime(
    config: Config,
    *,
    digest: str,
    problems: Iterable[Problem] = (),
    known: Mapping[Hashable, RefreshedCell[Any]] | None = None,
    before: Runtime | None = None,
) -> Runtime:
    """Compile a filter config.

    Args:
        config: the decoded document.
        digest: its content hash.
        problems: what validation found; a fault of a backend disables that backend.
        known: cells that are in use already, by the keys of their sources; a source keeps its cell.
        before: the runtime in use; what is the same in both is not compiled again.

    Raises:
        ConfigRejected: the document cannot be used as a whole.
    """
    known_faults = {
        problem.backend: problem.message for problem in problems if problem.severity == "fault" and problem.backend
    }
    brought = frozenset(_credential_headers(config.backends))
    cells = _NotedCells(known)
    same = before.backends if before is not None and before.brought == brought else {}
    backends = {}
    for backend in config.backends:
        fault, there = known_faults.get(backend.name), same.get(backend.name)
        if there is None or fault is not None or there.made_of != backend:
            there = _compile(backend, fault, brought, cells)
        backends[backend.name] = there
    return Runtime(
        digest=digest,
        config=config,
        backends=backends,
        costs=_costs(config, before),
        models=ModelCatalog.compile(config),
        faults={name: backend.fault for name, backend in backends.items() if backend.fault},
        secret_headers=brought.union(*({name for name, _ in backend.headers.set} for backend in backends.values())),
        cells=cells.used,
        brought=brought,
    )


def _costs(config: Config, before: Runtime | None) -> CostRules:
    if before is not None and all(getattr(config, part) == getattr(before.config, part) for part in _COSTS):
        return before.costs
    return compile_costs(config.llm_request_costs, config.global_llm_request_costs)


class _NotedCells(Cells):
    """Cells that know how often they were asked for."""

    asked = 0

    def of(self, source: Source[CredentialT]) -> RefreshedCell[CredentialT]:
        self.asked += 1
        return super().of(source)


def _credential_headers(backends: Iterable[Backend]) -> Iterator[str]:
    """The headers in which requests may bring credentials."""
    for backend in backends:
        if backend.auth is not None:
            yield from credential_headers(backend.auth)


def _compile(backend: Backend, fault: str | None, brought: frozenset[str], cells: _NotedCells) -> RuntimeBackend:
    body: BodyMutator | None = None
    auth: Authenticator | None = None
    asked = cells.asked
    if backend.schema.name not in SERVED_SCHEMAS:
        _log.warning("no endpoint serves this schema", backend=backend.name, schema=backend.schema.name)
    try:
        if backend.http_body_mutation is not None:
            body = BodyMutator.compile(backend.http_body_mutation)
        if backend.auth is not None:
            auth = build_authenticator(backend.auth, cells)
    except BackendFault as error:
        fault = fault or str(error)
    return RuntimeBackend(
        name=backend.name,
        short_name=short_backend_name(backend.name),
        schema=backend.schema,
        model_override=backend.model_name_override,
        headers=HeaderMutator.compile(backend.http_header_mutation),
        body=body,
        auth=auth,
        strips=tuple(sorted(brought | (auth.strips if auth is not None else frozenset()))),
        fault=fault,
        made_of=backend if fault is None and cells.asked == asked else None,
    )

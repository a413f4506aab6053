"""A whole controller: the API server, the cache, the election and the loop.

``together`` runs it beside a webhook and an extension server: both take what they know from ``controller.facts`` and
from the models that ``gateways`` is called with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from deploy.controller.api import KubeApi
from deploy.controller.backoff import Backoff
from deploy.controller.cache import Cache
from deploy.controller.controller import Controller
from deploy.controller.errors import ControllerError
from deploy.controller.exchanges import Exchanges
from deploy.controller.kinds import Key
from deploy.controller.leader import Election, Elector
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.options import LEASE_NAME, ControllerOptions
from deploy.controller.rotator import Rotator
from deploy.injector.facts import KubernetesVersion
from filter_config.sources.model import Gateway

VERSION_SECONDS: Final = 600.0
"""How often the API server's version is asked for: a cluster is upgraded under a controller that goes on running."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How a controller takes part in its cluster.

    Attributes:
        identity: of this replica, unique.
        namespace: where the Lease is.
        namespaces: those that are watched; none stands for all.
        elect: whether there may be other replicas.
        writes: whether it writes at all; else it sees and compiles, for what asks it.
        exchanges: how credentials are had that have to be rotated; None: somebody else rotates.
    """

    controller: ControllerOptions = field(default_factory=ControllerOptions)
    identity: str
    namespace: str
    namespaces: tuple[str, ...] = ()
    elect: bool = True
    writes: bool = True
    exchanges: Exchanges | None = None


class ControllerService:
    """A controller with all that it takes."""

    def __init__(
        self,
        api: KubeApi,
        options: ServiceOptions,
        *,
        registry: CollectorRegistry | None = None,
        gateways: Callable[[Sequence[Gateway]], None] | None = None,
    ) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._api = api
        metrics = ControllerMetrics(self.registry)
        also = (options.controller.envoy_gateway_namespace,)
        self._cache = Cache(api, metrics, namespaces=options.namespaces, also=also)
        self._writes = options.writes
        self._elector: Elector | None = None
        if options.elect and options.writes:
            key = Key("Lease", options.namespace, LEASE_NAME)
            self._elector = Elector(api, Election(key=key, identity=options.identity), self._moved)
        self.controller = Controller(
            api, self._cache, options.controller, metrics=metrics, leads=self._leads, gateways=gateways
        )
        self._rotator: Rotator | None = None
        if options.exchanges is not None and options.writes:
            self._rotator = Rotator(
                store=self.controller.planner.store,
                server=api,
                exchanges=options.exchanges,
                metrics=metrics,
                leads=lambda: self.controller.ready.is_set() and self._leads(),
                seen=self._cache.changes.put,
                told=self.controller.tell,
            )
        self._tasks: list[asyncio.Task[None]] = []

    def _moved(self) -> None:
        self.controller.moved()

    def _leads(self) -> bool:
        return self._writes and (self._elector is None or self._elector.is_leading)

    @property
    def is_alive(self) -> bool:
        """Whether all of it is still at work."""
        return not any(task.done() for task in self._tasks)

    def readiness(self) -> str:
        """Why the cluster is not known yet; empty when it is."""
        if self.controller.ready.is_set():
            return ""
        missing = self._cache.missing()
        return f"not listed yet: {', '.join(missing)}" if missing else "not compiled yet"

    async def listed(self) -> None:
        """Waits until everything was listed once."""
        await self._cache.synced()

    def missing(self) -> list[str]:
        """The kinds that were not listed yet."""
        return self._cache.missing()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until ``stop`` is set, then ends what was begun and lets another replica lead.

        Raises:
            ExceptionGroup: a part of it failed; all of it has ended then.
        """
        parts: list[Awaitable[None]] = [self._cache.run(), self._ask_version()]
        if self._elector is not None:
            parts.append(self._elector.run())
        if self._rotator is not None:
            parts.append(self._rotator.run())
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks = [group.create_task(_forever(part)) for part in parts]
                try:
                    await self.controller.run(stop)
                    if self._elector is not None:
                        await self._elector.retire()
                finally:
                    for task in self._tasks:
                        task.cancel()
        finally:
            await self._api.close()

    async def _ask_version(self) -> None:
        backoff, failures = Backoff(), 0
        while True:
            try:
                version = KubernetesVersion.parse(*await self._api.version())
            except ControllerError as error:
                failures += 1
                _log.warning("version of the API server not known", error=str(error))
                await asyncio.sleep(backoff.seconds(failures))
                continue
            failures = 0
            self.controller.serve(version)
            await asyncio.sleep(VERSION_SECONDS)


async def _forever(part: Awaitable[None]) -> None:
    await part

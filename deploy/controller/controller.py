"""The loop: what changed to the planner, its plans to the writer, and everything again when something comes of it.

Planning is the work of a thread, as thousands of routes take a while the first time, and the loop has a lease to renew.
The store is changed by that thread alone. Every replica sees and compiles everything, so that the webhook and the
extension server of each know the cluster; only the leader writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal

import structlog

from deploy.controller.apply import Result, Server, Writer
from deploy.controller.backoff import Backoff
from deploy.controller.cache import Cache, Change, Gone
from deploy.controller.facts import StoreFacts
from deploy.controller.kinds import Key
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.options import ControllerOptions
from deploy.controller.planner import Planner
from deploy.controller.writes import Plan
from deploy.injector.facts import KubernetesVersion
from filter_config.sources.model import Gateway

COALESCE: Final = 0.02
"""Seconds that are waited for what comes together with a change."""
RESYNC: Final = 600.0
"""Seconds between two comparisons of everything with what should be there."""
GRACE: Final = 10.0
"""Seconds that writes have to end in, when the controller ends."""
_log = structlog.get_logger(__name__)


class Controller:
    """Keeps a cluster as its resources say.

    Args:
        server: where it writes.
        cache: what it sees.
        leads: whether this replica writes at the moment.
        gateways: called in the loop's thread with the models of all gateways, on every replica: when everything was
            compiled for the first time, and whenever one has changed.
    """

    def __init__(
        self,
        server: Server,
        cache: Cache,
        options: ControllerOptions,
        *,
        metrics: ControllerMetrics | None = None,
        leads: Callable[[], bool] = lambda: True,
        gateways: Callable[[Sequence[Gateway]], None] | None = None,
        backoff: Backoff | None = None,
        coalesce: float = COALESCE,
        resync: float = RESYNC,
    ) -> None:
        self.planner = Planner(options=options)
        self.metrics = metrics or ControllerMetrics()
        self._cache = cache
        self._writer = Writer(server, cache.changes, self.metrics, backoff=backoff)
        self._leads = leads
        self._gateways = gateways
        self._coalesce = coalesce
        self._resync = resync
        self._resync_at = 0.0
        self._led = False
        self.ready = asyncio.Event()
        """Set when everything was seen and compiled once."""
        self._models: tuple[Gateway, ...] = ()
        self._wake = cache.changes.arrived
        self._later: dict[Key, float] = {}
        self._writing: dict[Key, asyncio.Task[None]] = {}
        self._results: list[Result] = []
        self._told: dict[Key, str] = {}
        self._refused: set[Key] = set()
        self.version: KubernetesVersion | None = None
        self.facts = StoreFacts(self.planner.store, self.ready.is_set, lambda: self.version)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being written, and nothing has changed that was not looked at."""
        return self.ready.is_set() and not (self._writing or self._results or self._told or self._wake.is_set())

    def moved(self) -> None:
        """This replica may have begun or ceased to lead."""
        self._wake.set()

    def tell(self, policy: Key, problem: str) -> None:
        """Why a policy has no fresh credential, for its status; empty when it has."""
        self._told[policy] = problem
        self._wake.set()

    def resync(self) -> None:
        """Compares everything with what should be there, now."""
        self._resync_at = 0.0
        self._wake.set()

    def serve(self, version: KubernetesVersion | None) -> None:
        """Takes the API server's version, on which it depends what pods should be."""
        if version == self.version:
            return
        self.version = version
        native = version is not None and version.has_native_sidecars
        self.planner.options = replace(self.planner.options, native_sidecars=native)
        self.resync()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until ``stop`` is set, and ends the writes that were begun."""
        await _either(self._cache.synced(), stop)
        ended = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._turn()
                await self._wait(ended)
        finally:
            ended.cancel()
            await self._finish()

    # --- a turn ---

    async def _turn(self) -> None:
        begin = time.monotonic()
        leads = self._leads()
        if (leads and not self._led) or begin >= self._resync_at:
            again = True
            self._resync_at = begin + self._resync
        else:
            again = False
        self._led = leads
        self.metrics.leading.set(leads)
        if not leads:
            await self._abandon()
        changes = self._cache.changes.drain()
        results, self._results = self._results, []
        told, self._told = self._told, {}
        due = [owner for owner, at in self._later.items() if at <= begin]
        for owner in due:
            del self._later[owner]
        writing = frozenset(self._writing)
        plans = await asyncio.to_thread(
            self._plan, changes, results, told, due=due, writing=writing, again=again, leads=leads
        )
        self.metrics.passes.observe(time.monotonic() - begin)
        self._publish()
        # Last: who looks at it then asks for what was published, perhaps in another thread.
        self.ready.set()
        if self._leads():
            for plan in plans:
                self._begin(plan)
        elif leads:
            # Its time was over meanwhile, and these plans come to nothing. If it leads again, they are made again.
            self._led = False

    def _plan(
        self,
        changes: Mapping[Key, Change],
        results: Sequence[Result],
        told: Mapping[Key, str],
        *,
        due: Sequence[Key],
        writing: frozenset[Key],
        again: bool,
        leads: bool,
    ) -> list[Plan]:
        """In a thread of its own, the only one that changes planner and store."""
        planner = self.planner
        for key, change in changes.items():
            match change:
                case Gone(uid=uid):
                    planner.remove(key, uid=uid)
                case value:
                    planner.put(value)
        for result in results:
            planner.refused(result.owner, result.refusal)
        for policy, problem in told.items():
            planner.refused(policy, problem, source="rotation")
        for owner in due:
            planner.want(owner)
        if again:
            planner.resync()
        if not leads:
            planner.compile()
            return []
        return planner.plan(datetime.now(tz=UTC), writing=writing)

    def _publish(self) -> None:
        models = self.planner.gateways()
        # The first time also when there are none: who gives them on may begin to when all are known.
        if self._gateways is not None and not (self.ready.is_set() and _same(models, self._models)):
            self._gateways(models)
        self._models = models
        self.metrics.gateways.set(len(models))

    # --- writing ---

    def _begin(self, plan: Plan) -> None:
        if plan.problem:
            _log.error("gateway not as it should be", owner=str(plan.owner), problem=plan.problem)
        if plan.requeue_after is not None:
            self._later[plan.owner] = time.monotonic() + plan.requeue_after
        if plan.writes:
            self._writing[plan.owner] = asyncio.create_task(self._write(plan), name=f"write {plan.owner}")

    async def _write(self, plan: Plan) -> None:
        try:
            result = await self._writer.write(plan)
            if result.retry_after is not None:
                self._later[plan.owner] = time.monotonic() + result.retry_after
            self._results.append(result)
            self._count_refused(result)
        finally:
            del self._writing[plan.owner]
            # It may have become due in the meantime.
            self._wake.set()

    def _count_refused(self, result: Result) -> None:
        if result.refusal:
            self._refused.add(result.owner)
        else:
            self._refused.discard(result.owner)
        self.metrics.refused.set(len(self._refused))

    async def _abandon(self) -> None:
        """Ends the writes of a leader that leads no more: another one writes now."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _finish(self) -> None:
        tasks = list(self._writing.values())
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        await self._abandon()

    # --- waiting ---

    async def _wait(self, ended: asyncio.Task[Literal[True]]) -> None:
        """Until something changes or is due, or the end; then a little more, for what comes with it."""
        arrived = asyncio.create_task(self._wake.wait())
        due = min((self._resync_at, *self._later.values())) - time.monotonic()
        await asyncio.wait({arrived, ended}, timeout=max(due, 0.0), return_when=asyncio.FIRST_COMPLETED)
        arrived.cancel()
        if not ended.done():
            await asyncio.sleep(self._coalesce)


def _same(models: Sequence[Gateway], others: Sequence[Gateway]) -> bool:
    """Whether these are the very same models: an unchanged gateway is not made again."""
    return len(models) == len(others) and all(one is other for one, other in zip(models, others, strict=True))


async def _either(first: Coroutine[None, None, None], stop: asyncio.Event) -> None:
    """Waits for something, or the end."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(first), asyncio.create_task(stop.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()

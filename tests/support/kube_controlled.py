"""A controller and an API server, each at one end of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from deploy.controller.backoff import Backoff
from deploy.controller.cache import Cache
from deploy.controller.controller import Controller
from deploy.controller.kinds import KINDS, Key
from deploy.controller.leader import Election, Elector
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.options import LEASE_NAME, ControllerOptions
from deploy.injector.facts import KubernetesVersion
from tests.support.kube_cluster import Object
from tests.support.kube_server import KubeServer, client, running
from tests.support.kube_world import SIDECAR, create, place_of

SECONDS: Final = 60.0
"""How long a test waits for anything, far more than it takes."""
QUICK: Final = Backoff(first=0.005, most=0.02)
LEASE: Final = Key("Lease", "envoy-gateway-system", LEASE_NAME)

T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Runs a scenario, which ends in time or fails."""

    async def bounded() -> T:
        async with asyncio.timeout(2 * SECONDS):
            return await scenario

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for what other tasks bring about."""
    try:
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110 - what is waited for is of many kinds, and has no event
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


@dataclass
class Running:
    """A controller at work."""

    server: KubeServer
    controller: Controller
    cache: Cache
    elector: Elector | None
    stop: asyncio.Event
    ended: asyncio.Task[None]

    @property
    def writes(self) -> int:
        """How often it wrote, or tried to."""
        samples = [sample for metric in self.controller.metrics.writes.collect() for sample in metric.samples]
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def count(self, metric: Any, **labels: str) -> int:
        """A counter's value over the labels that are given."""
        samples = [sample for each in metric.collect() for sample in each.samples if sample.name.endswith("_total")]
        return int(sum(each.value for each in samples if labels.items() <= each.labels.items()))

    def knows_everything(self) -> bool:
        """Whether it has seen all that there is, and has nothing to do about it."""
        store = self.controller.planner.store
        if not self.controller.is_settled or len(self.cache.changes):
            return False
        there = {}
        for kind in KINDS.values():
            for value in self.server.cluster.list(kind.group, kind.plural):
                metadata = value["metadata"]
                if not kind.labels or kind.labels in (metadata.get("labels") or {}):
                    there[Key(kind.name, metadata.get("namespace", ""), metadata["name"])] = metadata["resourceVersion"]
        known = {entry.key: entry.metadata["resourceVersion"] for kind in KINDS for entry in store.of_kind(kind)}
        return known == there

    async def settled(self) -> None:
        """Waits until it knows everything, and still does a little later."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            calm = calm + 1 if self.knows_everything() else 0
            return calm > 3

        await until(is_calm, "a controller with nothing left to do")


@asynccontextmanager
async def controlling(
    server: KubeServer,
    *,
    identity: str = "",
    options: ControllerOptions | None = None,
    patient: float = 15.0,
    coalesce: float = 0.0,
    patience: float = 1.0,
) -> AsyncIterator[Running]:
    """A controller of a server; with an identity it leads only when it is elected."""
    api, metrics = client(server, timeout=patient), ControllerMetrics()
    cache = Cache(api, metrics, backoff=QUICK, absent_seconds=0.02)
    election = Election(key=LEASE, identity=identity, duration=3 * patience, deadline=2 * patience)
    elector: Elector | None = None

    def moved() -> None:
        controller.moved()

    if identity:
        elector = Elector(api, election, moved, retry=0.05 * patience)
    controller = Controller(
        api,
        cache,
        options or ControllerOptions(sidecar=SIDECAR),
        metrics=metrics,
        leads=(lambda: elector.is_leading) if elector is not None else (lambda: True),
        backoff=QUICK,
        coalesce=coalesce,
    )
    controller.serve(KubernetesVersion(1, 33))
    stop = asyncio.Event()
    tasks = [asyncio.create_task(each.run()) for each in (cache, elector) if each is not None]
    ended = asyncio.create_task(controller.run(stop))
    try:
        yield Running(server, controller, cache, elector, stop, ended)
    finally:
        stop.set()
        await ended
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await api.close()


@asynccontextmanager
async def scene(*values: Object, **how: Any) -> AsyncIterator[Running]:
    """A controller and a server with objects."""
    async with running() as server:
        for value in values:
            create(server.cluster, value)
        async with controlling(server, **how) as made:
            yield made


def put(server: KubeServer, *values: Object) -> None:
    """Somebody makes objects, or puts others in their places."""
    for value in values:
        metadata = value["metadata"]
        place = place_of(value["kind"], metadata.get("namespace", ""), metadata["name"])
        if place in server.cluster.objects:
            server.cluster.replace(place, value)
        else:
            create(server.cluster, value)

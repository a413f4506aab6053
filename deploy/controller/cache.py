"""Every kind listed and watched, and what has changed since somebody asked, each object once.

A watch goes on where it ended, from bookmarks too, and begins with a list when the server has forgotten that place. A
list tells what is gone as well, whatever was missed in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from deploy.controller.api import KubeApi
from deploy.controller.backoff import Backoff
from deploy.controller.errors import ApiFailed, ControllerError
from deploy.controller.kinds import KINDS, Key, Kind, Object, key_of
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.store import is_older

ABSENT_SECONDS: Final = 30.0
"""How long after an optional kind was not there it is looked for again."""
_RELIST_AFTER: Final = 5
"""Watches that fail in a row, after which everything is listed."""
_GONE: Final = 410
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """An object is not there any more; ``uid`` when it is known to have been deleted."""

    uid: str = ""


Change = Object | Gone


class Changes:
    """What has changed, the last state of each object only.

    Answers to writes tell it before the watch does, and may come long after it: one that the watch has gone past counts
    no more, and one of which it has told nothing yet is not forgotten when it begins anew with a list.
    """

    def __init__(self) -> None:
        self._pending: dict[Key, Change] = {}
        self._reflectors: dict[tuple[str, str], Reflector] = {}
        # Versions of what only answers have told.
        self._answers: dict[Key, str] = {}
        self.arrived = asyncio.Event()

    def follow(self, reflector: Reflector) -> None:
        """Somebody tells what becomes of answers."""
        self._reflectors[reflector.kind.name, reflector.namespace] = reflector

    def put(self, value: Object) -> None:
        """An object is there, as an answer says."""
        key, version = key_of(value), str(value["metadata"].get("resourceVersion") or "")
        reflector = self._reflectors.get((key.kind, "")) or self._reflectors.get((key.kind, key.namespace))
        if reflector is not None and not reflector.knows(key):
            if _is_until(version, reflector.version):
                # It was there, and is not any more.
                if key not in self._pending:
                    self.gone(key, str(value["metadata"].get("uid") or ""))
                return
            self._answers[key] = version
        self.observed(value)

    def only_answered(self, reflector: Reflector) -> set[Key]:
        """What was there until a moment of a reflector as far as answers say, and was seen by nobody."""
        return {
            key
            for key, version in self._answers.items()
            if key.kind == reflector.kind.name
            and reflector.namespace in ("", key.namespace)
            and _is_until(version, reflector.version)
        }

    def confirmed(self, key: Key) -> None:
        """A list or a watch has told of an object, or has shown that it is gone."""
        self._answers.pop(key, None)

    def observed(self, value: Object) -> None:
        """An object is there, as a list or a watch says."""
        key = key_of(value)
        known = self._pending.get(key)
        if isinstance(known, dict) and is_older(value, known):
            return
        if isinstance(known, Gone) and known.uid and known.uid == value["metadata"].get("uid"):
            return
        self._pending[key] = value
        self.arrived.set()

    def gone(self, key: Key, uid: str = "") -> None:
        """An object is gone."""
        self._pending[key] = Gone(uid=uid)
        self.arrived.set()

    def drain(self) -> dict[Key, Change]:
        """Everything since the last time."""
        drained, self._pending = self._pending, {}
        self.arrived.clear()
        return drained

    def __len__(self) -> int:
        return len(self._pending)


def _is_until(version: str, other: str) -> bool:
    """Whether a version is not later than another; not known of what is no number."""
    return all(each.isascii() and each.isdigit() for each in (version, other)) and int(version) <= int(other)


@dataclass(slots=True)
class Reflector:
    """Follows the objects of one kind, in one namespace or in all."""

    api: KubeApi
    kind: Kind
    changes: Changes
    metrics: ControllerMetrics
    namespace: str = ""
    backoff: Backoff = field(default_factory=Backoff)
    absent_seconds: float = ABSENT_SECONDS
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _known: set[Key] = field(default_factory=set)
    _version: str = ""

    def __post_init__(self) -> None:
        self.changes.follow(self)

    @property
    def version(self) -> str:
        """Until when it has seen everything; empty before the first list."""
        return self._version

    def knows(self, key: Key) -> bool:
        """Whether an object is there, as far as it has seen."""
        return key in self._known

    async def run(self) -> None:
        """Follows until it is cancelled."""
        failures = 0
        while True:
            try:
                await self._list()
                failures = 0
                await self._follow()
            except ControllerError as error:
                failures += 1
                if self._is_absent(error):
                    self._replace(())
                    await asyncio.sleep(self.absent_seconds)
                    continue
                self._tell(error, "list failed")
                await asyncio.sleep(self._pause(error, failures))

    def _is_absent(self, error: ControllerError) -> bool:
        return self.kind.optional and isinstance(error, ApiFailed) and error.status == 404

    async def _list(self) -> None:
        items: list[Object] = []
        page = await self.api.list(self.kind, self.namespace)
        items += page.items
        while page.next:
            page = await self.api.list(self.kind, self.namespace, after=page.next)
            items += page.items
        self.metrics.lists.labels(self.kind.name).inc()
        self._version = page.resource_version
        self._replace(items)

    def _replace(self, items: Iterable[Object]) -> None:
        now = set()
        for item in items:
            value = self._typed(item)
            now.add(key_of(value))
            self.changes.observed(value)
        for key in (self._known | self.changes.only_answered(self)) - now:
            self.changes.gone(key)
            self.changes.confirmed(key)
        for key in now:
            self.changes.confirmed(key)
        self._known = now
        self.synced.set()

    async def _follow(self) -> None:
        """Watches again and again, until the server no longer knows from where.

        Raises:
            ControllerError: watching fails and fails.
        """
        failures = 0
        while True:
            try:
                async with self.api.watch(self.kind, self.namespace, self._version) as events:
                    async for event in events:
                        failures = 0
                        self._take(event.type, event.object)
            except ApiFailed as error:
                self._tell(error, "watch failed")
                if error.status == _GONE:
                    # A server that always says so must not be asked all the time.
                    await asyncio.sleep(self.backoff.seconds(1))
                    return
                failures += 1
                await self._wait_or_give_up(error, failures)
            except ControllerError as error:
                self._tell(error, "watch failed")
                failures += 1
                await self._wait_or_give_up(error, failures)

    async def _wait_or_give_up(self, error: ControllerError, failures: int) -> None:
        if failures >= _RELIST_AFTER:
            raise error
        await asyncio.sleep(self._pause(error, failures))

    def _take(self, event: str, item: Object) -> None:
        version = item["metadata"].get("resourceVersion")
        if event != "BOOKMARK":
            value = self._typed(item)
            key = key_of(value)
            self.metrics.events.labels(self.kind.name, event).inc()
            self.changes.confirmed(key)
            if event == "DELETED":
                self._known.discard(key)
                self.changes.gone(key, str(value["metadata"].get("uid") or ""))
            else:
                self._known.add(key)
                self.changes.observed(value)
        # Last: what was not taken is to be told again.
        if version:
            self._version = str(version)

    def _typed(self, item: Object) -> Object:
        """An object with its kind, which items of a list do not say."""
        return {"apiVersion": self.kind.api_version, **item, "kind": self.kind.name}

    def _pause(self, error: ControllerError, failures: int) -> float:
        asked = error.retry_after if isinstance(error, ApiFailed) else None
        return max(self.backoff.seconds(failures), asked or 0.0)

    def _tell(self, error: ControllerError, what: str) -> None:
        self.metrics.watch_failures.labels(self.kind.name).inc()
        _log.warning(what, kind=self.kind.name, namespace=self.namespace or "*", error=str(error))


class Cache:
    """All kinds.

    Args:
        api: the API server.
        namespaces: those that are watched; none stands for all. Objects of the cluster are watched in any case.
        also: namespaces that are watched as well for what Envoy Gateway makes: Secrets, pods and workloads.
    """

    def __init__(
        self,
        api: KubeApi,
        metrics: ControllerMetrics,
        *,
        namespaces: Sequence[str] = (),
        also: Sequence[str] = (),
        kinds: Iterable[Kind] = tuple(KINDS.values()),
        backoff: Backoff | None = None,
        absent_seconds: float = ABSENT_SECONDS,
    ) -> None:
        self.changes = Changes()
        self.reflectors = [
            Reflector(
                api,
                kind,
                self.changes,
                metrics,
                namespace=namespace,
                backoff=backoff or Backoff(),
                absent_seconds=absent_seconds,
            )
            for kind in kinds
            for namespace in _spaces(kind, namespaces, also)
        ]

    async def run(self) -> None:
        """Follows everything until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"watch {reflector.kind.name} {reflector.namespace}")

    async def synced(self) -> None:
        """Waits until every kind was listed once."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    def missing(self) -> list[str]:
        """The kinds that were not listed yet."""
        return sorted({each.kind.name for each in self.reflectors if not each.synced.is_set()})


_MADE_BY_ENVOY_GATEWAY: Final = frozenset({"Secret", "Pod", "Deployment", "DaemonSet"})


def _spaces(kind: Kind, namespaces: Sequence[str], also: Sequence[str]) -> list[str]:
    if not namespaces or not kind.namespaced:
        return [""]
    extra = also if kind.name in _MADE_BY_ENVOY_GATEWAY else ()
    return sorted({*namespaces, *extra})

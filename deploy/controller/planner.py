"""The store to plans: what should be there, and what has to be written for it. No clock, no client, no order of events.

Three kinds of units are made in this order, each only when something that it was made of changed: a slice for each
route, a gateway of the slices that it admits, and a plan for each owner, a resource that something is written for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple

import structlog

from deploy.controller import assemble, config_secrets, gateways, http_routes, indexes, mcp, pools, rotation, statuses
from deploy.controller.assemble import Assembled
from deploy.controller.judging import Judging
from deploy.controller.kinds import AI_KINDS, Key, Object, key_of
from deploy.controller.options import ControllerOptions
from deploy.controller.ownership import Made, controller_of, settle
from deploy.controller.slices import Share, Slice, compile_slice
from deploy.controller.store import Entry, Store, View
from deploy.controller.writes import Plan, Write
from filter_config.model import ZERO_TIME
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute
from filter_config.sources.faults import Fault
from filter_config.sources.graph import Graph, Mark
from filter_config.sources.model import Gateway

ROUTES: Final = ("AIGatewayRoute", "MCPRoute")

# Kinds of which each object is planned for.
_OWNERS: Final = (*sorted(AI_KINDS), "Gateway", pools.KIND)
# Kinds whose documents are judged, and how many more than twice of them may be remembered.
_JUDGED: Final = (*sorted(AI_KINDS), "Gateway", "ReferenceGrant", "Backend", "InferencePool", "Secret", "Namespace")
_FEW: Final = 1000
_BROKEN: Final = "a fault of the controller, see its log"
_log = structlog.get_logger(__name__)


class Unit(NamedTuple):
    """Something that is made of the store and of units before it."""

    stage: Literal["slice", "gateway", "owner"]
    key: Key


@dataclass(slots=True)
class Planner:
    """Plans a cluster. For one thread; the store may be read by others.

    Args:
        options: how resources become objects.
    """

    options: ControllerOptions = field(default_factory=ControllerOptions)
    store: Store = field(default_factory=lambda: Store(indexes.INDEXES))
    _graph: Graph = field(default_factory=Graph)
    _judging: Judging = field(default_factory=Judging)
    _slices: dict[Key, Slice] = field(default_factory=dict)
    _gateways: dict[Key, Assembled] = field(default_factory=dict)
    _faults: dict[Key, dict[Key, tuple[Fault, ...]]] = field(default_factory=dict)
    _problems: dict[Key, dict[str, str]] = field(default_factory=dict)
    _broken: set[Key] = field(default_factory=set)
    _judged_after: int = 0
    made: dict[str, int] = field(default_factory=lambda: {"slice": 0, "gateway": 0, "owner": 0})
    """How many units of each stage were made, ever."""

    # --- what comes in ---

    def put(self, value: Object) -> None:
        """An object is there."""
        self._changed(key_of(value), self.store.put(value))

    def remove(self, key: Key, *, uid: str = "") -> None:
        """An object is gone, see :meth:`Store.remove`."""
        self._changed(key, self.store.remove(key, uid=uid))

    def refused(self, owner: Key, problem: str, *, source: str = "writes") -> None:
        """What cannot be done for an owner, such as what the API server would not take; empty when it can again."""
        known = self._problems.setdefault(owner, {})
        if known.get(source, "") != problem:
            known[source] = problem
            self._graph.touch([("refused", *owner)])
        if not any(known.values()):
            del self._problems[owner]

    def resync(self) -> None:
        """Makes every owner due, as if nothing had been written yet."""
        for key in self._owners():
            self._graph.want(Unit("owner", key))

    def want(self, owner: Key) -> None:
        """Makes an owner due."""
        self._graph.want(Unit("owner", owner))

    def _changed(self, key: Key, marks: set[Mark]) -> None:
        if not marks:
            return
        self._graph.touch(marks)
        entry = self.store.get(key)
        if key in marks:
            # It is new, perhaps, and then nothing of it has been made yet.
            if key.kind in ROUTES:
                self._graph.want(Unit("slice", key))
            if key.kind in _OWNERS:
                self._graph.want(Unit("owner", key))
            if key.kind == "MCPRoute":
                self._graph.want(Unit("owner", Key("Namespace", "", key.namespace)))
        if entry is not None and (owner := _owner_of_orphan(entry)) is not None and self.store.get(owner) is None:
            self._graph.want(Unit("owner", owner))

    def _owners(self) -> list[Key]:
        keys = [entry.key for kind in _OWNERS for entry in self.store.of_kind(kind)]
        spaces = {entry.key.namespace for entry in self.store.of_kind("MCPRoute")}
        return [*keys, *(Key("Namespace", "", space) for space in sorted(spaces))]

    # --- what comes out ---

    def compile(self) -> None:
        """Makes the filter configs that are due."""
        for key in self._due("slice"):
            self._make_slice(key)
        for key in self._due("gateway"):
            self._make_gateway(key)

    def plan(self, now: datetime, *, writing: frozenset[Key] = frozenset()) -> list[Plan]:
        """Makes everything that is due, and gives the plans of owners, but for those in ``writing``.

        An owner that is being written for is planned when that is over: what is seen of it is half of a change.
        """
        self.compile()
        plans = [self._make_plan(key, now) for key in self._due("owner") if key not in writing]
        self._forget_unused()
        return plans

    def gateways(self) -> tuple[Gateway, ...]:
        """The gateways that have a route, by namespace and name."""
        return tuple(self._gateways[key].model for key in sorted(self._gateways))

    def config(self, gateway: Key) -> Assembled | None:
        """The filter config of a gateway."""
        return self._gateways.get(gateway)

    def _due(self, stage: str) -> list[Key]:
        return [unit.key for unit in self._graph.due() if isinstance(unit, Unit) and unit.stage == stage]

    # --- slices and gateways ---

    def _make_slice(self, key: Key) -> None:
        self.made["slice"] += 1
        view = View(self.store)
        before = self._slices.get(key)
        after = None
        if self.store.get(key) is None:
            self._graph.forget(Unit("slice", key))
            self._broken.discard(key)
        else:
            after = self._compile(view, key, before)
            self._graph.made(Unit("slice", key), view.reads)
        # What an HTTPRoute is made of may change where the filter config does not.
        self._graph.touch([("slice", *key)])
        self._take_faults(key, before, after)
        shares = {gateway for each in (before, after) if each is not None for gateway in each.shares}
        for namespace, name in sorted(shares):
            if _share(before, (namespace, name)) != _share(after, (namespace, name)):
                self._graph.want(Unit("gateway", Key("Gateway", namespace, name)))
        if after is None:
            self._slices.pop(key, None)
        else:
            self._slices[key] = after

    def _compile(self, view: View, key: Key, before: Slice | None) -> Slice | None:
        options = self.options
        try:
            after = compile_slice(view, self._judging, key, version=options.version, controller=options.controller)
        except Exception:  # noqa: BLE001 - whatever the fault, it harms this route alone, and the route says so
            _log.error("route not compiled", route=str(key), exc_info=True)
            self._broken.add(key)
            return before
        self._broken.discard(key)
        return after

    def _take_faults(self, key: Key, before: Slice | None, after: Slice | None) -> None:
        old, new = _by_resource(before), _by_resource(after)
        for resource in old.keys() | new.keys():
            if old.get(resource) == new.get(resource):
                continue
            known = self._faults.setdefault(resource, {})
            if resource in new:
                known[key] = new[resource]
            else:
                del known[key]
            self._graph.touch([("faults", *resource)])

    def _make_gateway(self, key: Key) -> None:
        self.made["gateway"] += 1
        self._graph.forget(Unit("gateway", key))
        place = (key.namespace, key.name)
        found = [
            (self._precedence(route), slice_.shares[place])
            for route, slice_ in self._slices.items()
            if place in slice_.shares
        ]
        found.sort(key=lambda pair: pair[0])
        before = self._gateways.pop(key, None)
        if found:
            self._gateways[key] = assemble.assemble([share for _, share in found], version=self.options.version)
        after = self._gateways.get(key)
        if before is None or after is None or before != after:
            self._graph.touch([("config", *key)])

    def _precedence(self, route: Key) -> tuple[bool, datetime, str, str]:
        """AIGatewayRoutes before MCPRoutes, the oldest first (contract, control plane 2.11)."""
        entry = self.store.get(route)
        resource = self._judging.resource(entry) if entry is not None else None
        created = resource.metadata.creation_timestamp if resource is not None else None
        return (route.kind == "MCPRoute", created or ZERO_TIME, route.namespace, route.name)

    # --- owners ---

    def _make_plan(self, key: Key, now: datetime) -> Plan:
        self.made["owner"] += 1
        view = View(self.store)
        try:
            plan = _PLANS.get(key.kind, Planner._plan_status)(self, view, key, now)
        except Exception:  # noqa: BLE001 - whatever the fault, it harms this owner alone
            _log.error("owner not planned", owner=str(key), exc_info=True)
            plan = Plan(owner=key, problem=_BROKEN)
        if plan.writes or self.store.get(key) is not None or key.kind == "Namespace":
            self._graph.made(Unit("owner", key), view.reads)
        else:
            # It is gone, and so is all that was made of it.
            self._graph.forget(Unit("owner", key))
        return plan

    def _plan_status(self, view: View, key: Key, now: datetime) -> Plan:
        entry = view.live(*key)
        if entry is None:
            return Plan(owner=key)
        if entry.is_deleting:
            return Plan(owner=key, writes=tuple(statuses.release(entry)))
        return Plan(owner=key, writes=tuple(self._status(view, entry, now)))

    def _plan_policy(self, view: View, key: Key, now: datetime) -> Plan:
        """A policy, and the Secret of its rotation when it rotates no more."""
        plan = self._plan_status(view, key, now)
        entry = view.get(*key)
        if entry is None or entry.is_deleting or not self._judging.is_valid(entry):
            # A Secret goes with its policy.
            return plan
        if rotation.provider_of(self._judging.resource(entry).spec) is not None:
            return plan
        writes, _ = settle(view, key, entry.uid, (), view.found_live(indexes.made_of(*key)))
        return Plan(owner=key, writes=(*writes, *plan.writes))

    def _plan_ai_route(self, view: View, key: Key, now: datetime) -> Plan:
        return self._plan_route(view, key, now, self._ai_objects)

    def _plan_mcp_route(self, view: View, key: Key, now: datetime) -> Plan:
        return self._plan_route(view, key, now, self._mcp_objects)

    def _plan_route(self, view: View, key: Key, now: datetime, make: Callable[[View, Entry], Made | None]) -> Plan:
        """A route with the objects that it controls. One that cannot be read leaves them as they are."""
        entry = view.live(*key)
        made = view.found_live(indexes.made_of(*key))
        if entry is None or entry.is_deleting:
            uid = entry.uid if entry is not None else ""
            writes, _ = settle(view, key, uid, (), made)
            return Plan(owner=key, writes=tuple(writes or (statuses.release(entry) if entry is not None else ())))
        wanted = make(view, entry)
        if wanted is None:
            return Plan(owner=key, writes=tuple(self._status(view, entry, now)))
        writes, refused = settle(view, key, entry.uid, wanted.objects, made)
        return Plan(owner=key, writes=(*writes, *self._status(view, entry, now, (*wanted.problems, *refused))))

    def _ai_objects(self, view: View, entry: Entry) -> Made | None:
        key = entry.key
        view.note(("slice", *key))
        compiled = self._slices.get(key)
        if compiled is None:
            return None
        found = compiled.resources.get(AIGatewayRoute, key.namespace, key.name)
        if found is None:
            return None
        surroundings = http_routes.Surroundings(
            resources=compiled.resources,
            grants=compiled.grants,
            foreign=compiled.foreign,
            root_prefix=self.options.root_prefix,
        )
        return Made(objects=tuple(http_routes.objects(entry, found.value, surroundings)))

    def _mcp_objects(self, view: View, entry: Entry) -> Made | None:
        key = entry.key
        view.note(("slice", *key))
        compiled = self._slices.get(key)
        if compiled is None:
            return None
        found = compiled.resources.get(MCPRoute, key.namespace, key.name)
        return None if found is None else mcp.objects(view, entry, found.value, compiled.foreign)

    def _plan_gateway(self, view: View, key: Key, _now: datetime) -> Plan:
        view.note(("config", *key))
        return gateways.plan(view, self._judging, self.options, key, self._gateways.get(key))

    def _plan_pool(self, view: View, key: Key, now: datetime) -> Plan:
        return pools.plan(view, self._judging, key, now, self.options.controller)

    def _plan_namespace(self, view: View, key: Key, _now: datetime) -> Plan:
        return Plan(owner=key, writes=tuple(mcp.proxy(view, key.name)))

    def _status(self, view: View, entry: Entry, now: datetime, problems: Iterable[str] = ()) -> list[Write]:
        view.note(("refused", *entry.key))
        refused = [problem for _, problem in sorted(self._problems.get(entry.key, {}).items()) if problem]
        said = [*problems, *refused, *([_BROKEN] if entry.key in self._broken else ())]
        return statuses.writes(entry, self._faults_of(view, entry), said, now)

    def _faults_of(self, view: View, entry: Entry) -> list[Fault]:
        """Everything that is known to be wrong with a resource: in itself, and in what routes make of it."""
        view.note(("faults", *entry.key))
        found = dict.fromkeys(self._judging.faults(entry))
        for faults in self._faults.get(entry.key, {}).values():
            found.update(dict.fromkeys(faults))
        return statuses.in_order(found)

    def _forget_unused(self) -> None:
        """Forgets what was said of documents that are no more, when those are about the half."""
        if self._judging.known <= 2 * self._judged_after + _FEW:
            return
        kept = {id(entry.document.value) for kind in _JUDGED for entry in self.store.of_kind(kind)}
        self._judging.keep(kept)
        self._judged_after = self._judging.known


_PLANS: Final[Mapping[str, Callable[[Planner, View, Key, datetime], Plan]]] = {
    "AIGatewayRoute": Planner._plan_ai_route,  # noqa: SLF001 - the table of the class
    "BackendSecurityPolicy": Planner._plan_policy,  # noqa: SLF001
    "MCPRoute": Planner._plan_mcp_route,  # noqa: SLF001
    "Gateway": Planner._plan_gateway,  # noqa: SLF001
    "InferencePool": Planner._plan_pool,  # noqa: SLF001
    "Namespace": Planner._plan_namespace,  # noqa: SLF001
}


def _owner_of_orphan(entry: Entry) -> Key | None:
    """The owner of an object, when the object itself says whose it is."""
    if entry.key.kind == "Secret" and (gateway := config_secrets.gateway_of(entry)) is not None:
        return gateway
    found = controller_of(entry.value)
    if found.get("kind") in ROUTES:
        return Key(str(found["kind"]), entry.key.namespace, str(found.get("name")))
    return None


def _share(slice_: Slice | None, gateway: tuple[str, str]) -> Share | None:
    return slice_.shares.get(gateway) if slice_ is not None else None


def _by_resource(slice_: Slice | None) -> dict[Key, tuple[Fault, ...]]:
    found: dict[Key, list[Fault]] = {}
    for fault in slice_.faults if slice_ is not None else ():
        origin = fault.origin
        if origin.kind in AI_KINDS:
            found.setdefault(Key(origin.kind, origin.namespace, origin.name), []).append(fault)
    return {key: tuple(faults) for key, faults in found.items()}

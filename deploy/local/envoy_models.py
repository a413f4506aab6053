"""Routes of one gateway made for Envoy, each once for as long as it stays the very same route."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.envoy.compile import MadeRoute, Serving, make_route
from deploy.local.incremental import tell
from filter_config.sources.faults import Fault, Faults
from filter_config.sources.model import Gateway, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """``route`` is held, so that no other one can come to have its identity."""

    route: Route
    made: MadeRoute
    faults: tuple[Fault, ...]


class RouteMemory:
    """A :data:`deploy.envoy.compile.MakeRoute` that remembers. For one gateway and one ``Serving``."""

    def __init__(self) -> None:
        self._proxy = ""
        self._known: dict[int, _Known] = {}
        self._used: dict[int, _Known] = {}

    def __call__(self, gateway: Gateway, route: Route, serving: Serving, faults: Faults) -> MadeRoute:
        """The route, and the faults that it has."""
        if gateway.proxy != self._proxy:
            self._proxy, self._known, self._used = gateway.proxy, {}, {}
        known = self._used.get(id(route)) or self._known.get(id(route))
        if known is None:
            found = Faults()
            known = _Known(route=route, made=make_route(gateway, route, serving, found), faults=found.closed())
        self._used[id(route)] = known
        for fault in known.faults:
            tell(fault, faults)
        return known.made

    def forget_unused(self) -> None:
        """Forgets the routes that were not asked for since the last time."""
        self._known, self._used = self._used, {}

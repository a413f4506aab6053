"""From what is live to what is wanted, without a moment in which a request finds half of each.

The processor and Envoy take changes separately, and requests are under way meanwhile. So a backend that comes is known
to the processor before Envoy sends requests to it, and one that goes is known until the last of its requests is over:
in between, both serve the union. A backend that has become another one under the same name, API and address alike, gets
a new name, because no order of two steps would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from deploy.envoy import model as envoy
from filter_config import model as document
from filter_config.sources import model as neutral
from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway


def united(live: document.Config | None, wanted: document.Config) -> document.Config:
    """The filter config that serves requests of both; what both have is as wanted."""
    if live is None:
        return wanted
    names = {backend.name for backend in wanted.backends}
    backends = tuple(backend for backend in live.backends if backend.name not in names)
    if not backends:
        return wanted
    costed = {cost.route_name for cost in wanted.llm_request_costs}
    costs = tuple(cost for cost in live.llm_request_costs if cost.route_name not in costed)
    return msgspec.structs.replace(
        wanted,
        backends=(*wanted.backends, *backends),
        llm_request_costs=(*wanted.llm_request_costs, *costs),
    )


def with_clusters_of(live: envoy.Gateway | None, wanted: envoy.Gateway) -> envoy.Gateway:
    """The Envoy that is wanted, with the clusters that requests under way may still need."""
    if live is None:
        return wanted
    same = set(map(id, wanted.routes))
    others = [route for route in live.routes if id(route) not in same]
    names = {route.full_name for route in others}
    there = {
        route.cluster_name(index)
        for route in wanted.routes
        if route.full_name in names
        for index in range(len(route.rules))
    }
    leaving = tuple(kept for route in others if (kept := _without_clusters(route, there)).rules)
    # Virtual hosts name matches by the places of their routes, which stay: nothing leads to what is added at the end.
    return replace(wanted, routes=(*wanted.routes, *leaving)) if leaving else wanted


def _without_clusters(route: envoy.Route, there: set[str]) -> envoy.Route:
    rules = tuple(
        replace(rule, number=index if rule.number is None else rule.number)
        for index, rule in enumerate(route.rules)
        if rule.backends and route.cluster_name(index) not in there
    )
    return replace(route, rules=rules)


# --- names ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What stands behind a backend's name, and which one in a row of such it is."""

    number: int
    entry: document.Backend
    endpoint: neutral.Endpoint | None


class Revisions:
    """Names of the backends of one gateway, from edit to edit."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._proposed: dict[str, _Known] = {}

    def named(self, compiled: CompiledGateway) -> CompiledGateway:
        """The gateway with new names for backends that are not what they are in the one that is live."""
        entries = {entry.name: entry for entry in compiled.config.backends}
        known = {
            backend.id: self._next(backend, entries[backend.id])
            for route in compiled.model.routes
            for rule in route.rules
            for backend in rule.backends
            if backend.id in entries
        }
        self._proposed = known
        names = {name: f"{name}/revision/{found.number}" for name, found in known.items() if found.number}
        return _renamed(compiled, names) if names else compiled

    def settle(self) -> None:
        """What was named last is live."""
        self._known = self._proposed

    def _next(self, backend: neutral.Backend, entry: document.Backend) -> _Known:
        known = self._known.get(backend.id)
        if known is not None and known.entry is entry and known.endpoint is backend.endpoint:
            return known
        number = 0
        if known is not None:
            other = known.entry != entry and known.endpoint != backend.endpoint
            number = known.number + other
        return _Known(number=number, entry=entry, endpoint=backend.endpoint)


def _renamed(compiled: CompiledGateway, names: Mapping[str, str]) -> CompiledGateway:
    config = msgspec.structs.replace(
        compiled.config,
        backends=tuple(
            msgspec.structs.replace(backend, name=names[backend.name]) if backend.name in names else backend
            for backend in compiled.config.backends
        ),
    )
    # The others stay the very same, as most are.
    routes = tuple(
        _renamed_route(route, names)
        if any(backend.id in names for rule in route.rules for backend in rule.backends)
        else route
        for route in compiled.model.routes
    )
    return CompiledGateway(model=replace(compiled.model, routes=routes), config=config)


def _renamed_route(route: neutral.Route, names: Mapping[str, str]) -> neutral.Route:
    rules = tuple(
        replace(
            rule,
            backends=tuple(replace(backend, id=names.get(backend.id, backend.id)) for backend in rule.backends),
        )
        for rule in route.rules
    )
    return replace(route, rules=rules)

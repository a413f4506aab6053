"""Taking out of a model what the processor would refuse, so that one bad item never blocks the others.

The document that a model gives is judged by the processor's own rules, and each finding is told at the resource it
comes from. What would refuse the whole document (a cost expression) or disable a backend (a credential with a line
break) is left out; the rest is served (contract, control plane 2.7, 2.12 and 9.6).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from filter_config.problems import MAX_REPEATS, Findings, Problem
from filter_config.sources.emit import Emitted, emit
from filter_config.sources.faults import Faults, Origin
from filter_config.validate import validate

if TYPE_CHECKING:
    from filter_config.sources.model import Backend, Cost, Gateway, Route, Rule

_ENTRY: Final = re.compile(r"(backends|llmRequestCosts|globalLLMRequestCosts)\[(\d+)\](?:\.(.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A model without what cannot work, and the config it gives."""

    gateway: Gateway
    emitted: Emitted


def prune(gateway: Gateway, *, version: str, faults: Faults) -> Pruned:
    """Leaves out what the processor would refuse or disable; ``faults`` receives everything it has to say."""
    while True:
        emitted = emit(gateway, version=version, unserved=True)
        findings = Findings()
        validate(emitted.config, findings)
        refused = _report(findings, emitted, gateway.origin, faults)
        if not refused:
            assert not findings.refused  # an error is always about a cost
            return Pruned(gateway=gateway, emitted=emit(gateway, version=version))
        # Only so many errors are kept of one validation: there may be more.
        gateway = _without(gateway, refused)


def _report(findings: Findings, emitted: Emitted, otherwise: Origin, faults: Faults) -> set[int]:
    """Tells what was found; the identities of what cannot stay are returned."""
    refused: set[int] = set()
    for problem in findings.problems:
        item, origin = _item(problem, emitted, otherwise)
        if problem.severity == "warning":
            faults.warning(origin, problem.message, problem.fix)
            continue
        faults.error(origin, problem.message, problem.fix)
        if item is not None:
            refused.add(id(item))
    if findings.crowded:
        faults.warning(otherwise, f"more than {MAX_REPEATS} warnings: not all are shown")
    return refused


def _item(problem: Problem, emitted: Emitted, otherwise: Origin) -> tuple[Backend | Cost | None, Origin]:
    """What of the model a finding is about, and where that was said."""
    match = _ENTRY.match(problem.path)
    if match is None:
        return None, otherwise
    index, below = int(match[2]), match[3] or ""
    if match[1] == "backends":
        backend = emitted.backends[index]
        return backend, _backend_origin(backend, below)
    cost = (emitted.route_costs if match[1] == "llmRequestCosts" else emitted.costs)[index]
    return cost, cost.origin.below(cost.expression_field if below == "cel" else below)


def _backend_origin(backend: Backend, below: str) -> Origin:
    if below.startswith("auth") and backend.auth_origin is not None:
        return backend.auth_origin
    if backend.defined_at is not None and below.startswith("schema"):
        return backend.defined_at.at(f"spec.{below}")
    return backend.origin.below(below.replace("httpHeader", "header").replace("httpBody", "body"))


def _without(gateway: Gateway, refused: set[int]) -> Gateway:
    return replace(
        gateway,
        routes=tuple(_route(route, refused) for route in gateway.routes),
        costs=tuple(cost for cost in gateway.costs if id(cost) not in refused),
    )


def _route(route: Route, refused: set[int]) -> Route:
    return replace(
        route,
        rules=tuple(_rule(rule, refused) for rule in route.rules),
        costs=tuple(cost for cost in route.costs if id(cost) not in refused),
    )


def _rule(rule: Rule, refused: set[int]) -> Rule:
    return replace(rule, backends=tuple(backend for backend in rule.backends if id(backend) not in refused))

"""Cost rules: token usage in, numbers for Envoy's dynamic metadata out.

A rule that cannot be evaluated is reported and left out; it harms neither the answer nor the other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from extproc.errors import ConfigRejected
from extproc.usage import TokenUsage
from filter_config.cel import CELError, CostProgram, CostVariables, compile_cost
from filter_config.model import GlobalLLMRequestCost, LLMRequestCost

_COUNTS: dict[str, str] = {
    "InputToken": "input",
    "CachedInputToken": "cached_input",
    "CacheCreationInputToken": "cache_creation_input",
    "OutputToken": "output",
    "TotalToken": "total",
    "ReasoningToken": "reasoning",
}

Measure = Callable[[CostVariables], int]


class CostScope(Struct, frozen=True, kw_only=True):
    """The request that a cost is computed for.

    Attributes:
        model: the effective model, after a backend's override.
        backend: the full backend name; ``short_backend`` is its ``namespace/name`` part.
        route: ``namespace/name`` of the route, or empty.
    """

    model: str
    backend: str
    short_backend: str
    route: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    key: str
    measure: Measure
    backend: str = ""
    model: str = ""

    def applies(self, scope: CostScope) -> bool:
        return self.backend in ("", scope.short_backend) and self.model in ("", scope.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRules:
    """The compiled cost rules of one filter config.

    Attributes:
        route_rules: by the name of the route that they are for.
    """

    route_rules: Mapping[str, Sequence[_Rule]] = field(default_factory=dict)
    global_rules: tuple[_Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.route_rules or self.global_rules)

    def of(self, scope: CostScope) -> CostFormula:
        """The rules that apply to ``scope``.

        Route rules come first, the last match of a key wins; a global rule counts only where no route rule of its
        key applied (contract, cost evaluation 3.16).
        """
        applying = [rule for rule in self.route_rules.get(scope.route, ()) if rule.applies(scope)]
        if self.global_rules:
            matched = {rule.key for rule in applying}
            applying += [rule for rule in self.global_rules if rule.key not in matched]
        return CostFormula(scope, tuple(applying))


class CostFormula(Struct, frozen=True):
    """The rules of one scope, in order."""

    scope: CostScope
    rules: tuple[_Rule, ...]

    def evaluate(self, usage: TokenUsage, on_error: Callable[[str, CELError], None]) -> dict[str, int]:
        """Every cost, by metadata key.

        A failing rule is handed to ``on_error`` and writes nothing; a global rule does not stand in for a route rule
        that failed, it would charge by the wrong formula.
        """
        variables = _variables(usage, self.scope)
        costs: dict[str, int] = {}
        for rule in self.rules:
            try:
                costs[rule.key] = rule.measure(variables)
            except CELError as error:
                on_error(rule.key, error)
        return costs


def _variables(usage: TokenUsage, scope: CostScope) -> CostVariables:
    """What expressions see. A part is never more than its whole, or their difference would have no value in CEL."""
    input_, output = usage.input or 0, usage.output or 0
    cached, created, reasoning = usage.cached_input or 0, usage.cache_creation_input or 0, usage.reasoning or 0
    if cached or created:
        cached = min(cached, input_)
        created = min(created, input_ - cached)
    return CostVariables(
        model=scope.model,
        backend=scope.backend,
        route_name=scope.route,
        input_tokens=input_,
        cached_input_tokens=cached,
        cache_creation_input_tokens=created,
        output_tokens=output,
        total_tokens=usage.total or 0,
        reasoning_tokens=min(reasoning, output) if reasoning else 0,
    )


def compile_costs(route_costs: Iterable[LLMRequestCost], global_costs: Iterable[GlobalLLMRequestCost]) -> CostRules:
    """Compile the rules of a filter config.

    Raises:
        ConfigRejected: a CEL expression does not compile, or a route rule names no route (contract 2.7).
    """
    global_rules = tuple(_Rule(key=cost.metadata_key, measure=_compile(cost, "global cost")) for cost in global_costs)
    route_rules: dict[str, list[_Rule]] = {}
    for cost in route_costs:
        if not cost.route_name:
            raise ConfigRejected(
                f'route-scoped LLMRequestCost with metadataKey="{cost.metadata_key}" must have non-empty RouteName'
            )
        rule = _Rule(key=cost.metadata_key, measure=_compile(cost, "cost"), backend=cost.backend, model=cost.model)
        route_rules.setdefault(cost.route_name, []).append(rule)
    return CostRules(route_rules=route_rules, global_rules=global_rules)


def _compile(cost: LLMRequestCost | GlobalLLMRequestCost, what: str) -> Measure:
    program: CostProgram | None = None
    # A `cel` beside another type is compiled too, so that a broken one is found at load (contract 2.4).
    if cost.cel or cost.type == "CEL":
        try:
            program = compile_cost(cost.cel)
        except CELError as error:
            raise ConfigRejected(f"cannot create CEL program for {what}: {error}") from error
    if cost.type == "CEL" and program is not None:
        return program.evaluate
    return _counter(cost.type)


def _counter(cost_type: str) -> Measure:
    count = _COUNTS.get(cost_type)
    if count is None:

        def refuse(_: CostVariables) -> int:
            raise CELError(f"unknown cost type: {cost_type}")

        return refuse
    name = f"{count}_tokens"

    def measure(variables: CostVariables) -> int:
        value: int = getattr(variables, name)
        return value

    return measure

"""Cost rules and quotas (contract, control plane 2.7 and 2.8).

An expression is tried by :mod:`filter_config.sources.prune`, as the processor will try it, and an invalid one is left
out alone. Quota costs come before those of the route, and their key is reserved where there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from filter_config.decode import shown
from filter_config.model import CostType
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    GatewayConfig,
    PerModelQuota,
    QuotaBucketRule,
    QuotaPolicy,
    QuotaValue,
    RequestCost,
)
from filter_config.sources.faults import Origin
from filter_config.sources.model import Bucket, ClientSelector, Cost, Quota

QUOTA_KEY: Final = "quota_cost"
"""The metadata key that Envoy's quota filter charges."""

_DEFAULT_EXPRESSION: Final = "total_tokens"
_UNITS: Final[dict[str, Literal["second", "minute", "hour", "day"]]] = {
    "1s": "second",
    "1m": "minute",
    "1h": "hour",
    "1d": "day",
}
_SELECTOR_KINDS: Final[dict[str, Literal["exact", "regex", "distinct"]]] = {
    "Exact": "exact",
    "RegularExpression": "regex",
    "Distinct": "distinct",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What requests of a route cost, and the budgets that pay."""

    costs: tuple[Cost, ...] = ()
    quotas: tuple[Quota, ...] = ()


def global_costs(config: Found[GatewayConfig]) -> tuple[Cost, ...]:
    """The costs of a gateway."""
    at = "spec.globalLLMRequestCosts"
    items = config.value.spec.global_llm_request_costs
    return tuple(_cost(item, config.origin.at(f"{at}[{index}]")) for index, item in enumerate(items))


def _cost(item: RequestCost, origin: Origin) -> Cost:
    expression = item.cel or "" if item.type == CostType.CEL else ""
    return Cost(key=item.metadata_key, type=item.type.value, expression=expression, origin=origin)


class Costs:
    """Compiles what is charged for routes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._policies: dict[str, list[Found[QuotaPolicy]]] = {}
        for policy in context.resources.all(QuotaPolicy):
            self._policies.setdefault(policy.namespace, []).append(policy)

    def charges(self, route: Found[AIGatewayRoute]) -> Charges:
        """The costs of a route, those of quotas first."""
        quotas = tuple(self._quotas(route)) if self._policies else ()
        costs = tuple(_quota_costs(quotas))
        return Charges(
            costs=(*costs, *self._own(route, reserved=bool(costs))), quotas=tuple(quota for quota, _ in quotas)
        )

    def _own(self, route: Found[AIGatewayRoute], *, reserved: bool) -> Iterator[Cost]:
        """The route's own costs in order; of those with the same key the last one counts."""
        by_key: dict[str, Cost] = {}
        for index, item in enumerate(route.value.spec.llm_request_costs):
            origin = route.origin.at(f"spec.llmRequestCosts[{index}]")
            if reserved and item.metadata_key == QUOTA_KEY:
                message = f"{shown(QUOTA_KEY)} is what quotas are charged with; this cost is left out"
                self._context.faults.error(origin.below("metadataKey"), message, "choose another key")
                continue
            earlier = by_key.pop(item.metadata_key, None)
            if earlier is not None:
                message = f"{shown(item.metadata_key)} is there again below, and the last one counts"
                self._context.faults.warning(earlier.origin.below("metadataKey"), message, "keep one")
            by_key[item.metadata_key] = _cost(item, origin)
        yield from by_key.values()

    # --- quotas ---

    def _quotas(self, route: Found[AIGatewayRoute]) -> Iterator[tuple[Quota, str]]:
        """The quotas of a route's backends, policies by namespace and name, with the expressions of their costs."""
        refs = [ref for rule in route.value.spec.rules for ref in rule.backend_refs]
        services = {
            (target.namespace, target.name)
            for target in (target_of(ref, route.namespace) for ref in refs)
            if target.kind == "AIServiceBackend"
        }
        overrides = {ref.model_name_override for ref in refs if ref.model_name_override}
        for namespace in sorted({namespace for namespace, _ in services}):
            for policy in self._policies.get(namespace, ()):
                # Targets that the route does not use are not charged for it.
                targets = dict.fromkeys(ref.name for ref in policy.value.spec.target_refs)
                names = tuple(name for name in targets if (namespace, name) in services)
                if names:
                    self._warn_of_service_quota(policy)
                    yield from _policy_quotas(policy, names, route.namespace, overrides)

    def _warn_of_service_quota(self, policy: Found[QuotaPolicy]) -> None:
        if policy.value.spec.service_quota is not None:
            at = policy.origin.at("spec.serviceQuota")
            self._context.faults.warning(at, "is not charged, as in the peer", "write perModelQuotas")


def _policy_quotas(
    policy: Found[QuotaPolicy], names: tuple[str, ...], route_namespace: str, overrides: set[str]
) -> Iterator[tuple[Quota, str]]:
    for index, entry in enumerate(policy.value.spec.per_model_quotas):
        if overrides and entry.model_name not in overrides:
            continue
        yield (
            Quota(
                policy=f"{policy.namespace}/{policy.name}",
                origin=policy.origin.at(f"spec.perModelQuotas[{index}].quota"),
                # The processor knows a backend by the namespace of its route (contract, control plane 2.3).
                backends=tuple(f"{route_namespace}/{name}" for name in names),
                model=entry.model_name,
                buckets=tuple(_bucket(rule) for rule in entry.quota.bucket_rules),
                default=_default(entry),
            ),
            entry.quota.cost_expression or _DEFAULT_EXPRESSION,
        )


def _quota_costs(quotas: Iterable[tuple[Quota, str]]) -> Iterator[Cost]:
    """One cost for each model and backend; the first policy gives it."""
    charged: set[tuple[str, str]] = set()
    for quota, expression in quotas:
        for backend in quota.backends:
            if (quota.model, backend) not in charged:
                charged.add((quota.model, backend))
                yield Cost(
                    key=QUOTA_KEY,
                    type=CostType.CEL.value,
                    expression=expression,
                    expression_field="costExpression",
                    backend=backend,
                    model=quota.model,
                    origin=quota.origin,
                )


def _bucket(rule: QuotaBucketRule) -> Bucket:
    selectors = tuple(
        ClientSelector(
            name=header.name, value=header.value or "", kind=_SELECTOR_KINDS[header.type], invert=header.invert
        )
        for selector in rule.client_selectors
        for header in selector.headers
    )
    return Bucket(
        limit=rule.quota.limit, unit=_UNITS[rule.quota.duration], selectors=selectors, shadow=rule.shadow_mode
    )


def _default(entry: PerModelQuota) -> Bucket | None:
    value: QuotaValue | None = entry.quota.default_bucket
    return None if value is None else Bucket(limit=value.limit, unit=_UNITS[value.duration])

"""Cost rules and quotas (contract, control plane 2.7 and 2.8).

An expression is tried by :mod:`filter_config.sources.prune`, as the processor will try it, and an invalid one is left
out alone. Quota costs come before those of the route, and their keys are reserved where there are any.

Whether a model is served is asked of each reference to a backend: one that says no model serves whatever is asked for,
also beside another that says one, in its rule or in the next. The quota of a service is for its models that have none
of their own, all of them together; their requests have a cost of their own, as its expression is another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from filter_config.decode import shown
from filter_config.model import CostType
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    GatewayConfig,
    QuotaBucketRule,
    QuotaPolicy,
    QuotaValue,
    RequestCost,
)
from filter_config.sources.faults import Origin
from filter_config.sources.model import Bucket, ClientSelector, Cost, Quota

QUOTA_KEY: Final = "quota_cost"
"""The metadata key that Envoy's quota filter charges to the quota of a model."""
SERVICE_QUOTA_KEY: Final = "service_quota_cost"
"""The one that it charges to the quota of a service."""

_DEFAULT_EXPRESSION: Final = "total_tokens"
_NOTHING: Final = "0u"
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
        costs = (*_model_costs(quotas), *_service_costs(quotas))
        own = self._own(route, reserved={cost.key for cost in costs})
        return Charges(costs=(*costs, *own), quotas=tuple(quota for quota, _ in quotas))

    def _own(self, route: Found[AIGatewayRoute], *, reserved: Collection[str]) -> Iterator[Cost]:
        """The route's own costs in order; of those with the same key the last one counts."""
        by_key: dict[str, Cost] = {}
        for index, item in enumerate(route.value.spec.llm_request_costs):
            origin = route.origin.at(f"spec.llmRequestCosts[{index}]")
            if item.metadata_key in reserved:
                message = f"{shown(item.metadata_key)} is what quotas are charged with; this cost is left out"
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
        served: dict[str, dict[str, set[str]]] = {}
        for ref in (ref for rule in route.value.spec.rules for ref in rule.backend_refs):
            target = target_of(ref, route.namespace)
            if target.kind == "AIServiceBackend":
                models = served.setdefault(target.namespace, {}).setdefault(target.name, set())
                models.add(ref.model_name_override or "")
        for namespace in sorted(served):
            for policy in self._policies.get(namespace, ()):
                yield from _policy_quotas(policy, served[namespace], route.namespace)


def _policy_quotas(
    policy: Found[QuotaPolicy], served: Mapping[str, set[str]], route_namespace: str
) -> Iterator[tuple[Quota, str]]:
    """The quotas of a policy.

    Args:
        policy: in the namespace of the backends.
        served: the models that the route asks its backends for, by the names of these; ``""`` is any.
        route_namespace: by which the processor knows a backend (contract, control plane 2.3).
    """
    # Targets that the route does not use are not charged for it.
    names = [name for name in dict.fromkeys(ref.name for ref in policy.value.spec.target_refs) if name in served]

    def quota(field: str, concerned: Iterable[str], **parts: Any) -> Quota:  # noqa: ANN401 - fields of a Quota
        backends = tuple(f"{route_namespace}/{name}" for name in concerned)
        origin = policy.origin.at(f"spec.{field}")
        return Quota(policy=f"{policy.namespace}/{policy.name}", origin=origin, backends=backends, **parts)

    for index, entry in enumerate(policy.value.spec.per_model_quotas):
        concerned = [name for name in names if served[name] & {"", entry.model_name}]
        if concerned:
            buckets = tuple(_bucket(rule) for rule in entry.quota.bucket_rules)
            parts = {"model": entry.model_name, "buckets": buckets, "default": _default(entry.quota.default_bucket)}
            expression = entry.quota.cost_expression or _DEFAULT_EXPRESSION
            yield quota(f"perModelQuotas[{index}].quota", concerned, **parts), expression
    whole = policy.value.spec.service_quota
    # A limit of 0 is none, as in the peer.
    if whole is not None and whole.quota.limit > 0 and names:
        expression = whole.cost_expression or _DEFAULT_EXPRESSION
        yield quota("serviceQuota", names, model="", default=_default(whole.quota)), expression


def _model_costs(quotas: Iterable[tuple[Quota, str]]) -> Iterator[Cost]:
    """One cost for each model and backend; the first policy gives it."""
    charged: set[tuple[str, str]] = set()
    for quota, expression in quotas:
        for backend in quota.backends if quota.model else ():
            if (quota.model, backend) not in charged:
                charged.add((quota.model, backend))
                yield _quota_cost(QUOTA_KEY, quota, backend, expression)


def _service_costs(quotas: Iterable[tuple[Quota, str]]) -> Iterator[Cost]:
    """One cost for each backend, and after it, as the last one counts, nothing for the models with their own quotas."""
    given = list(quotas)
    charged: dict[str, Cost] = {}
    for quota, expression in given:
        for backend in quota.backends if not quota.model else ():
            charged.setdefault(backend, _quota_cost(SERVICE_QUOTA_KEY, quota, backend, expression))
    own = {(quota.model, backend): quota for quota, _ in given if quota.model for backend in quota.backends}
    yield from charged.values()
    for (_, backend), quota in own.items():
        if backend in charged:
            yield _quota_cost(SERVICE_QUOTA_KEY, quota, backend, _NOTHING)


def _quota_cost(key: str, quota: Quota, backend: str, expression: str) -> Cost:
    return Cost(
        key=key,
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


def _default(value: QuotaValue | None) -> Bucket | None:
    return None if value is None else Bucket(limit=value.limit, unit=_UNITS[value.duration])

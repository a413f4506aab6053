"""BackendTrafficPolicies: how often an attempt is repeated, and what clients may spend.

A policy is about a rule, a route or a gateway; of those that say something the nearest to the rule counts, and of two
about the same the older. The HTTPRoute that policies name is called like the AIGatewayRoute that it is made of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, Literal

from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.durations import seconds
from filter_config.sources.envoy_ai_gateway.fields import GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.kubernetes import (
    BackendTrafficPolicy,
    BackendTrafficPolicySpec,
    Gateway,
    LimitCost,
    LimitRule,
    LimitSelector,
    RetryPolicy,
)
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute
from filter_config.sources.faults import Origin
from filter_config.sources.model import METADATA_NAMESPACE, Bucket, Budget, ClientSelector, Retry

_KINDS: Final[dict[str, Literal["exact", "regex", "distinct"]]] = {
    "Exact": "exact",
    "RegularExpression": "regex",
    "Distinct": "distinct",
}
_UNITS: Final[dict[str, Literal["second", "minute", "hour", "day"]]] = {
    "Second": "second",
    "Minute": "minute",
    "Hour": "hour",
    "Day": "day",
}

_Policies = list[Found[BackendTrafficPolicy]]


class Traffic:
    """What policies say of rules."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._by_target: defaultdict[tuple[str, str, str, str], _Policies] = defaultdict(list)
        for policy in context.resources.all(BackendTrafficPolicy):
            spec = policy.value.spec
            single = (spec.target_ref,) if spec.target_ref is not None else ()
            for ref in (*single, *spec.target_refs):
                if ref.group == GATEWAY_GROUP:
                    self._by_target[policy.namespace, ref.kind, ref.name, ref.section_name or ""].append(policy)

    def concerns(self, gateway: Found[Gateway]) -> bool:
        """Whether a policy is about a gateway, so that its routes may differ from those of another."""
        return (gateway.namespace, "Gateway", gateway.name, "") in self._by_target

    def retry(self, gateway: Found[Gateway], route: Found[AIGatewayRoute], rule: str | None) -> Retry | None:
        """The retry of a rule at a gateway."""
        policy = self._nearest(gateway, route, rule, lambda spec: spec.retry is not None)
        return None if policy is None or policy.value.spec.retry is None else _retry(policy.value.spec.retry)

    def budgets(
        self, gateway: Found[Gateway], route: Found[AIGatewayRoute], rule: str | None, index: int
    ) -> tuple[Budget, ...]:
        """What requests of a rule may spend at a gateway. Budgets that nobody shares are the rule's own."""
        policy = self._nearest(gateway, route, rule, lambda spec: spec.rate_limit is not None)
        if policy is None:
            return ()
        return tuple(self._budgets(policy, f"{route.namespace}/{route.name}/rule/{index}"))

    def _nearest(
        self,
        gateway: Found[Gateway],
        route: Found[AIGatewayRoute],
        rule: str | None,
        says: Callable[[BackendTrafficPolicySpec], bool],
    ) -> Found[BackendTrafficPolicy] | None:
        wanted = [
            *([(route.namespace, "HTTPRoute", route.name, rule)] if rule else []),
            (route.namespace, "HTTPRoute", route.name, ""),
            (gateway.namespace, "Gateway", gateway.name, ""),
        ]
        for target in wanted:
            policies = [policy for policy in self._by_target.get(target, ()) if says(policy.value.spec)]
            if policies:
                return min(policies, key=lambda found: (_created(found), found.name))
        return None

    # --- budgets ---

    def _budgets(self, policy: Found[BackendTrafficPolicy], own: str) -> Iterator[Budget]:
        limit = policy.value.spec.rate_limit
        assert limit is not None
        if limit.local is not None:
            at = policy.origin.at("spec.rateLimit.local")
            self._context.faults.warning(at, "local rate limits are not enforced here", "write a global one")
        for index, rule in enumerate(limit.global_.rules if limit.global_ is not None else ()):
            origin = policy.origin.at(f"spec.rateLimit.global.rules[{index}]")
            problem = _problem(rule)
            if problem:
                self._context.faults.error(origin, f"{problem}; the rule is left out")
                continue
            scope = f"{policy.namespace}/{policy.name}" if rule.shared or limit.global_shared else own
            yield _budget(rule, origin, f"{scope}/limit/{index}")


def _problem(rule: LimitRule) -> str:
    """Why a rule cannot be enforced; empty: it can."""
    for selector in rule.client_selectors:
        for field in ("source_cidr", "path", "methods", "query_params"):
            if getattr(selector, field):
                return f"a client selector by {field.replace('_', ' ')} is not known here"
    for cost in (rule.cost.request, rule.cost.response) if rule.cost is not None else ():
        if cost is None or cost.from_ == "Number":
            continue
        if cost.metadata is None:
            return "a cost from metadata names no key"
        if cost.metadata.namespace != METADATA_NAMESPACE:
            return f"costs are in the metadata namespace {METADATA_NAMESPACE}, not in {cost.metadata.namespace}"
    if rule.cost is not None and rule.cost.request is not None and rule.cost.request.from_ == "Metadata":
        return "what a request costs is only known when it is done"
    return ""


def _budget(rule: LimitRule, origin: Origin, scope: str) -> Budget:
    before = rule.cost.request if rule.cost is not None else None
    after = rule.cost.response if rule.cost is not None else None
    return Budget(
        id=scope,
        origin=origin,
        bucket=Bucket(
            limit=rule.limit.requests,
            unit=_UNITS[rule.limit.unit],
            selectors=tuple(_selectors(rule.client_selectors)),
            shadow=rule.shadow_mode,
        ),
        request_cost=1 if before is None else before.number or 0,
        response_cost=0 if after is None or after.from_ == "Metadata" else after.number or 0,
        response_key=_key(after),
    )


def _key(cost: LimitCost | None) -> str:
    return cost.metadata.key if cost is not None and cost.from_ == "Metadata" and cost.metadata is not None else ""


def _selectors(selectors: tuple[LimitSelector, ...]) -> Iterator[ClientSelector]:
    """All conditions of all selectors must hold."""
    for selector in selectors:
        for header in selector.headers:
            yield ClientSelector(
                name=header.name, value=header.value or "", kind=_KINDS[header.type], invert=bool(header.invert)
            )


# --- retries ---


def _created(policy: Found[BackendTrafficPolicy]) -> str:
    created = policy.meta.creation_timestamp
    return created.isoformat() if created is not None else ""


def _retry(policy: RetryPolicy) -> Retry:
    on, per = policy.retry_on, policy.per_retry
    back_off = per.back_off if per is not None else None
    return Retry(
        attempts=policy.num_retries,
        attempts_per_priority=policy.num_attempts_per_priority,
        triggers=on.triggers if on is not None else (),
        status_codes=on.http_status_codes if on is not None else (),
        per_try_timeout=_optional(per.timeout if per is not None else None),
        base_interval=_optional(back_off.base_interval if back_off is not None else None),
        max_interval=_optional(back_off.max_interval if back_off is not None else None),
    )


def _optional(duration: str | None) -> float | None:
    return seconds(duration) if duration is not None else None

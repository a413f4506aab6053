"""AIGatewayRoutes to routes: rules, models, times and retries (contract, control plane 1.1, 2.4 and 3.4)."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from filter_config.model import ZERO_TIME
from filter_config.sources.envoy_ai_gateway.compile_backends import Backends, Place
from filter_config.sources.envoy_ai_gateway.compile_costs import Costs
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.durations import seconds
from filter_config.sources.envoy_ai_gateway.fields import GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.kubernetes import BackendTrafficPolicy, RetryPolicy
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute, RouteMatch, RouteRule
from filter_config.sources.model import MODEL_HEADER, Backend, HeaderMatch, Match, Model, Retry, Route, Rule

_DEFAULT_TIMEOUT: Final = 60.0


class Routes:
    """Compiles routes, each once, for whichever gateways it is attached to."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backends = Backends(context)
        self._costs = Costs(context)
        self._retries = Retries(context)
        self._built: dict[tuple[str, str], Route] = {}

    def compile(self, route: Found[AIGatewayRoute]) -> Route:
        """The route with all its hostnames; a gateway may admit fewer."""
        key = (route.namespace, route.name)
        if key not in self._built:
            self._built[key] = self._build(route)
        return self._built[key]

    def _build(self, route: Found[AIGatewayRoute]) -> Route:
        charges = self._costs.charges(route)
        rules = tuple(self._rule(route, index, rule) for index, rule in enumerate(route.value.spec.rules))
        self._warn_of_confusion(route, rules)
        return Route(
            namespace=route.namespace,
            name=route.name,
            origin=route.origin,
            hostnames=route.value.spec.hostnames,
            rules=rules,
            costs=charges.costs,
            quotas=charges.quotas,
            created_at=route.meta.creation_timestamp or ZERO_TIME,
        )

    def _rule(self, route: Found[AIGatewayRoute], index: int, rule: RouteRule) -> Rule:
        backends = []
        for number, ref in enumerate(rule.backend_refs):
            backend = self._backends.compile(ref, Place(route=route, rule=index, ref=number))
            if backend is not None:
                backends.append(backend)
        times = rule.timeouts
        request = times.request if times is not None else None
        attempt = times.backend_request if times is not None else None
        return Rule(
            origin=route.origin.at(f"spec.rules[{index}]"),
            index=index,
            name=rule.name or "",
            matches=tuple(_match(match) for match in rule.matches),
            models=_models(route, rule),
            backends=tuple(backends),
            request_timeout=seconds(request) if request is not None else _DEFAULT_TIMEOUT,
            backend_timeout=seconds(attempt) if attempt is not None else None,
            idle_timeout=(seconds(rule.stream_idle_timeout) or None) if rule.stream_idle_timeout is not None else None,
            retry=self._retries.of(route, rule.name),
        )

    def _warn_of_confusion(self, route: Found[AIGatewayRoute], rules: tuple[Rule, ...]) -> None:
        """Costs and metrics know a backend by the route's namespace and its name alone."""
        seen: dict[str, Backend] = {}
        for backend in (backend for rule in rules for backend in rule.backends):
            other = seen.setdefault(backend.name, backend)
            if other.namespace != backend.namespace:
                message = (
                    f"{backend.namespace}/{backend.name} and {other.namespace}/{other.name} have the same short name "
                    f"{route.namespace}/{backend.name} in quotas and metrics"
                )
                self._context.faults.warning(backend.origin, message, "rename one of the backends")


def _match(match: RouteMatch) -> Match:
    return Match(
        headers=tuple(
            HeaderMatch(name=header.name, value=header.value, kind="exact" if header.type == "Exact" else "regex")
            for header in match.headers
        )
    )


def _models(route: Found[AIGatewayRoute], rule: RouteRule) -> tuple[Model, ...]:
    """The models that a rule matches by name; header names have no case."""
    created = rule.models_created_at or route.meta.creation_timestamp or ZERO_TIME
    return tuple(
        Model(name=header.value, owned_by=rule.models_owned_by, created_at=created)
        for match in rule.matches
        for header in match.headers
        if header.type == "Exact" and header.name.lower() == MODEL_HEADER
    )


# --- retries ---


class Retries:
    """Retries of BackendTrafficPolicies: of a rule, else of its route, else of a gateway it is attached to."""

    def __init__(self, context: Context) -> None:
        self._by_target: defaultdict[tuple[str, str, str, str], list[Found[BackendTrafficPolicy]]] = defaultdict(list)
        for policy in context.resources.all(BackendTrafficPolicy):
            spec = policy.value.spec
            single = (spec.target_ref,) if spec.target_ref is not None else ()
            for ref in (*single, *spec.target_refs):
                if ref.group == GATEWAY_GROUP and spec.retry is not None:
                    self._by_target[policy.namespace, ref.kind, ref.name, ref.section_name or ""].append(policy)

    def of(self, route: Found[AIGatewayRoute], rule: str | None) -> Retry | None:
        """The retry of a rule. The HTTPRoute that policies name is called like the route."""
        parents = [(ref.namespace or route.namespace, ref.name) for ref in route.value.spec.parent_refs]
        wanted = [
            *([(route.namespace, "HTTPRoute", route.name, rule)] if rule else []),
            (route.namespace, "HTTPRoute", route.name, ""),
            *((namespace, "Gateway", name, "") for namespace, name in parents),
        ]
        for target in wanted:
            policies = self._by_target.get(target)
            if policies:
                policy = min(policies, key=lambda found: (_created(found), found.name))
                assert policy.value.spec.retry is not None
                return _retry(policy.value.spec.retry)
        return None


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

"""AIGatewayRoutes to routes: rules, models, times and retries (contract, control plane 1.1, 2.4 and 3.4)."""

from __future__ import annotations

from typing import Final

from filter_config.model import ZERO_TIME
from filter_config.sources.envoy_ai_gateway.compile_backends import Backends, Place
from filter_config.sources.envoy_ai_gateway.compile_costs import Costs
from filter_config.sources.envoy_ai_gateway.compile_traffic import Traffic
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.durations import seconds
from filter_config.sources.envoy_ai_gateway.kubernetes import Gateway
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute, RouteMatch, RouteRule
from filter_config.sources.model import MODEL_HEADER, Backend, HeaderMatch, Match, Model, Route, Rule

_DEFAULT_TIMEOUT: Final = 60.0


class Routes:
    """Compiles routes, each once for all gateways that it is attached to, unless policies are about one of these."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backends = Backends(context)
        self._costs = Costs(context)
        self._traffic = Traffic(context)
        self._built: dict[tuple[str, str, tuple[str, str] | None], Route] = {}

    def compile(self, route: Found[AIGatewayRoute], gateway: Found[Gateway]) -> Route:
        """The route at a gateway, with all its hostnames; the gateway may admit fewer."""
        own = (gateway.namespace, gateway.name) if self._traffic.concerns(gateway) else None
        key = (route.namespace, route.name, own)
        if key not in self._built:
            self._built[key] = self._build(route, gateway)
        return self._built[key]

    def _build(self, route: Found[AIGatewayRoute], gateway: Found[Gateway]) -> Route:
        charges = self._costs.charges(route)
        rules = tuple(self._rule(route, gateway, index, rule) for index, rule in enumerate(route.value.spec.rules))
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

    def _rule(self, route: Found[AIGatewayRoute], gateway: Found[Gateway], index: int, rule: RouteRule) -> Rule:
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
            retry=self._traffic.retry(gateway, route, rule.name),
            budgets=self._traffic.budgets(gateway, route, rule.name, index),
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

"""Routes: from the model that the processor found to the cluster that serves it.

Every virtual host ends in a catch-all that answers 404. It is not decoration: before the processor has read the body
no request carries a model, so the catch-all is where most requests first match, and it is what enables the processor
for them (contract, control plane 3.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.core.v3 import DataSource
from envoy_data_plane.envoy.config.route.v3 import (
    DirectResponseAction,
    HeaderMatcher,
    RetryPolicy,
    RetryPolicyRetryHostPredicate,
    RetryPolicyRetryPriority,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.config.route.v3 import Route as EnvoyRoute
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from envoy_data_plane.envoy.extensions.retry.priority.previous_priorities.v3 import PreviousPrioritiesConfig
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher

from deploy.envoy import ext_proc, names, rate_limit
from deploy.envoy.model import HeaderMatch
from deploy.envoy.wire import metadata, pack, seconds

if TYPE_CHECKING:
    from envoy_data_plane.google.protobuf import Any as PackedMessage

    from deploy.envoy.model import Gateway, Retry, Route, Rule

ROUTE_CONFIG: Final = "llm"
_ANY_HOST: Final = "*"
_PRIVATE_HEADERS: Final = ("x-forwarded-for", "x-envoy-external-address")
"""The client's address, which Envoy adds and which a provider has no claim to."""


def route_configuration(gateway: Gateway) -> RouteConfiguration:
    """One virtual host per hostname. A host serves its own routes first, then those that name no host."""
    hosts = dict.fromkeys(host for route in gateway.routes for host in route.hostnames if host != _ANY_HOST)
    unscoped = [route for route in gateway.routes if not route.hostnames or _ANY_HOST in route.hostnames]
    virtual_hosts = [
        _virtual_host(gateway, host, [route for route in gateway.routes if host in route.hostnames] + unscoped)
        for host in hosts
    ]
    virtual_hosts.append(_virtual_host(gateway, _ANY_HOST, unscoped))
    return RouteConfiguration(name=ROUTE_CONFIG, virtual_hosts=virtual_hosts, ignore_port_in_host_matching=True)


def _virtual_host(gateway: Gateway, host: str, routes: list[Route]) -> VirtualHost:
    matched = [
        entry
        for route in routes
        for index, rule in enumerate(route.rules)
        for entry in _rule_routes(gateway, route, index, rule)
    ]
    return VirtualHost(
        name="any-host" if host == _ANY_HOST else host,
        domains=[host],
        routes=[*matched, _not_found(gateway)],
        request_body_buffer_limit=gateway.buffer_limit,
    )


def _rule_routes(gateway: Gateway, route: Route, index: int, rule: Rule) -> list[EnvoyRoute]:
    models = [[HeaderMatch(name=names.MODEL_HEADER, value=model)] for model in rule.models] or [[]]
    action = RouteAction(
        cluster=route.cluster_name(index),
        auto_host_rewrite=True,
        timeout=seconds(rule.timeout),
        retry_policy=_retry_policy(rule.retry) if rule.retry is not None else None,
    )
    filters = _filters(gateway)
    if gateway.rate_limit is not None:
        filters |= rate_limit.per_route(route.budgets)
    return [
        EnvoyRoute(
            name=f"{route.cluster_name(index)}/match/{position}",
            match=RouteMatch(prefix="/", headers=[_header_matcher(match) for match in (*model, *rule.headers)]),
            route=action,
            metadata=metadata({names.XDS_NAMESPACE: {names.ROUTE_NAME_KEY: route.full_name}}),
            typed_per_filter_config=filters,
            request_headers_to_remove=list(_PRIVATE_HEADERS),
        )
        for position, model in enumerate(models)
    ]


def _not_found(gateway: Gateway) -> EnvoyRoute:
    return EnvoyRoute(
        name="route-not-found",
        match=RouteMatch(prefix="/"),
        direct_response=DirectResponseAction(status=404, body=DataSource(inline_string=names.NOT_FOUND_BODY)),
        typed_per_filter_config=_filters(gateway),
    )


def _filters(gateway: Gateway) -> dict[str, PackedMessage]:
    return ext_proc.enable() if gateway.processor is not None else {}


def _header_matcher(match: HeaderMatch) -> HeaderMatcher:
    value = StringMatcher(exact=match.value)
    if match.kind == "regex":
        value = StringMatcher(safe_regex=RegexMatcher(regex=match.value))
    return HeaderMatcher(name=match.name, string_match=value)


def _retry_policy(retry: Retry) -> RetryPolicy:
    """Attempt n+1 goes to a priority that attempts 1 to n have not tried, and to a host that they have not tried."""
    return RetryPolicy(
        retry_on=",".join(retry.triggers),
        num_retries=retry.attempts - 1,
        retriable_status_codes=list(retry.status_codes),
        per_try_timeout=None if retry.per_try_timeout is None else seconds(retry.per_try_timeout),
        per_try_idle_timeout=None if retry.per_try_idle_timeout is None else seconds(retry.per_try_idle_timeout),
        retry_priority=RetryPolicyRetryPriority(
            name="envoy.retry_priorities.previous_priorities",
            typed_config=pack(PreviousPrioritiesConfig(update_frequency=1)),
        ),
        retry_host_predicate=[
            RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts", typed_config=pack(PreviousHostsPredicate())
            )
        ],
        host_selection_retry_max_attempts=5,
    )

"""Routes: from the model that the processor found to the cluster that serves it.

Every virtual host ends in a catch-all that answers 404. It is not decoration: before the processor has read the body
no request carries a model, so the catch-all is where most requests first match, and it is what enables the processor
for them (contract, control plane 3.4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.core.v3 import DataSource
from envoy_data_plane.envoy.config.route.v3 import (
    DirectResponseAction,
    HeaderMatcher,
    RetryPolicy,
    RetryPolicyRetryBackOff,
    RetryPolicyRetryHostPredicate,
    RetryPolicyRetryPriority,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
)
from envoy_data_plane.envoy.config.route.v3 import Route as EnvoyRoute
from envoy_data_plane.envoy.config.route.v3 import VirtualHost as EnvoyVirtualHost
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from envoy_data_plane.envoy.extensions.retry.priority.previous_priorities.v3 import PreviousPrioritiesConfig
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher

from deploy.envoy import ext_proc, names, rate_limit
from deploy.envoy.model import Answer, Place, VirtualHost
from deploy.envoy.wire import metadata, pack, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envoy_data_plane.google.protobuf import Any as PackedMessage

    from deploy.envoy.model import Gateway, HeaderMatch, Listener, Match, Retry, Rule

_ANY_HOST: Final = "*"
_PRIVATE_HEADERS: Final = ("x-forwarded-for", "x-envoy-external-address")
"""The client's address, which Envoy adds and which a provider has no claim to."""
_NOT_FOUND: Final = Answer(status=404, body=names.NOT_FOUND_BODY)
_BASE_INTERVAL: Final = 0.025
"""Envoy's default, in seconds."""
_SHORTEST: Final = 0.001
"""Envoy counts pauses in milliseconds, and refuses none."""


def route_configuration(gateway: Gateway, listener: Listener | None = None) -> RouteConfiguration:
    """The routes of a listener, by default of the first."""
    listener = gateway.listener if listener is None else listener
    hosts = _derived_hosts(gateway) if listener.hosts is None else listener.hosts
    return RouteConfiguration(
        name=listener.name,
        virtual_hosts=[_virtual_host(gateway, host) for host in hosts],
        ignore_port_in_host_matching=True,
    )


def _derived_hosts(gateway: Gateway) -> Iterator[VirtualHost]:
    """One virtual host per hostname. A host serves its own routes first, then those that name no host."""
    routes = list(enumerate(gateway.routes))
    hosts = dict.fromkeys(host for route in gateway.routes for host in route.hostnames if host != _ANY_HOST)
    unscoped = [index for index, route in routes if not route.hostnames or _ANY_HOST in route.hostnames]
    for host in hosts:
        own = [index for index, route in routes if host in route.hostnames]
        yield VirtualHost(domain=host, places=_all_places(gateway, own + unscoped))
    yield VirtualHost(domain=_ANY_HOST, places=_all_places(gateway, unscoped))


def _all_places(gateway: Gateway, routes: list[int]) -> tuple[Place, ...]:
    return tuple(
        Place(route=route, rule=rule, match=match)
        for route in routes
        for rule, found in enumerate(gateway.routes[route].rules)
        for match in range(len(found.alternatives))
    )


def _virtual_host(gateway: Gateway, host: VirtualHost) -> EnvoyVirtualHost:
    return EnvoyVirtualHost(
        name="any-host" if host.domain == _ANY_HOST else host.domain,
        domains=[host.domain],
        routes=[*(_route(gateway, place) for place in host.places), _not_found(gateway)],
        request_body_buffer_limit=gateway.buffer_limit,
    )


def _route(gateway: Gateway, place: Place) -> EnvoyRoute:
    route = gateway.routes[place.route]
    rule = route.rules[place.rule]
    cluster = route.cluster_name(place.rule)
    filters = _filters(gateway)
    if gateway.rate_limit is not None:
        filters |= rate_limit.per_route(route.budgets) | rate_limit.quotas_per_route(rule.quotas)
    return EnvoyRoute(
        name=f"{cluster}/match/{place.match}",
        match=_match(rule.alternatives[place.match]),
        route=_forward(rule, cluster) if rule.answer is None else None,
        direct_response=_direct(rule.answer) if rule.answer is not None else None,
        metadata=metadata({names.XDS_NAMESPACE: {names.ROUTE_NAME_KEY: route.full_name}}),
        typed_per_filter_config=filters,
        request_headers_to_remove=list(_PRIVATE_HEADERS),
    )


def _forward(rule: Rule, cluster: str) -> RouteAction:
    return RouteAction(
        cluster=cluster,
        auto_host_rewrite=True if rule.rewrite_host else None,
        timeout=seconds(rule.timeout),
        retry_policy=_retry_policy(rule.retry) if rule.retry is not None else None,
    )


def _direct(answer: Answer) -> DirectResponseAction:
    return DirectResponseAction(status=answer.status, body=DataSource(inline_string=answer.body))


def _not_found(gateway: Gateway) -> EnvoyRoute:
    return EnvoyRoute(
        name="route-not-found",
        match=RouteMatch(prefix="/"),
        direct_response=_direct(_NOT_FOUND),
        typed_per_filter_config=_filters(gateway),
    )


def _filters(gateway: Gateway) -> dict[str, PackedMessage]:
    return ext_proc.enable() if gateway.processor is not None else {}


def _match(match: Match) -> RouteMatch:
    headers = [_header_matcher(header) for header in match.headers]
    segments = match.path_prefix.rstrip("/")
    if segments:
        return RouteMatch(path_separated_prefix=segments, headers=headers)
    return RouteMatch(prefix="/", headers=headers)


def _header_matcher(match: HeaderMatch) -> HeaderMatcher:
    value = StringMatcher(exact=match.value)
    if match.kind == "regex":
        # Envoy takes no empty expression.
        value = StringMatcher(safe_regex=RegexMatcher(regex=match.value or "^$"))
    return HeaderMatcher(name=match.name, string_match=value)


def _retry_policy(retry: Retry) -> RetryPolicy:
    """Attempt n+1 goes to a priority that attempts 1 to n have not tried, and to a host that they have not tried.

    A policy of one attempt only bounds it.
    """
    policy = RetryPolicy(
        retry_on=",".join(retry.triggers),
        num_retries=retry.attempts - 1,
        retriable_status_codes=list(retry.status_codes),
        per_try_timeout=None if retry.per_try_timeout is None else seconds(retry.per_try_timeout),
        per_try_idle_timeout=None if retry.per_try_idle_timeout is None else seconds(retry.per_try_idle_timeout),
        retry_back_off=_back_off(retry),
    )
    if retry.attempts > 1:
        policy.retry_priority = RetryPolicyRetryPriority(
            name="envoy.retry_priorities.previous_priorities",
            typed_config=pack(PreviousPrioritiesConfig(update_frequency=retry.attempts_per_priority)),
        )
        policy.retry_host_predicate = [
            RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts", typed_config=pack(PreviousHostsPredicate())
            )
        ]
        policy.host_selection_retry_max_attempts = 5
    return policy


def _back_off(retry: Retry) -> RetryPolicyRetryBackOff | None:
    """The pauses. Envoy wants a base where there is a maximum, and none that is longer than it."""
    base, longest = retry.base_interval, retry.max_interval
    if base is None and longest is None:
        return None
    base = min(_BASE_INTERVAL if base is None else base, longest or math.inf)
    return RetryPolicyRetryBackOff(
        base_interval=seconds(max(base, _SHORTEST)),
        max_interval=None if longest is None else seconds(max(longest, _SHORTEST)),
    )

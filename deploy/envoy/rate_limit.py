"""Token budgets: what Envoy's rate limit filter asks before a request, and what it charges after it.

Each budget is two entries with the same descriptor. The first asks with ``hits_addend`` 0, so that a client without
budget gets 429 and a request itself costs nothing; the second charges the cost that the processor has put in dynamic
metadata, once, when the stream is done. Metadata is read at that time only, so writing it twice charges once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from envoy_data_plane.envoy.config.core.v3 import ApiVersion, GrpcService, GrpcServiceEnvoyGrpc
from envoy_data_plane.envoy.config.ratelimit.v3 import RateLimitServiceConfig
from envoy_data_plane.envoy.config.route.v3 import (
    RateLimit,
    RateLimitAction,
    RateLimitActionGenericKey,
    RateLimitActionRequestHeaders,
    RateLimitHitsAddend,
)
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import RateLimit as RateLimitFilter
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import (
    RateLimitPerRoute,
    RateLimitXRateLimitHeadersRfcVersion,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter

from deploy.envoy import names
from deploy.envoy.model import HeaderDescriptor, StaticDescriptor
from deploy.envoy.wire import pack, seconds

if TYPE_CHECKING:
    from envoy_data_plane.google.protobuf import Any as PackedMessage

    from deploy.envoy.model import Descriptor, RateLimitService, TokenBudget


def rate_limit_filter(service: RateLimitService) -> HttpFilter:
    """The filter of the listener; it must come after the processor's filter, whose routing decides the budgets."""
    config = RateLimitFilter(
        domain=service.domain,
        timeout=seconds(service.timeout),
        failure_mode_deny=service.deny_on_failure,
        enable_x_ratelimit_headers=RateLimitXRateLimitHeadersRfcVersion.DRAFT_VERSION_03,
        rate_limit_service=RateLimitServiceConfig(
            grpc_service=GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=names.RATE_LIMIT_CLUSTER)),
            transport_api_version=ApiVersion.V3,
        ),
    )
    return HttpFilter(name=names.RATE_LIMIT_FILTER, typed_config=pack(config))


def per_route(budgets: tuple[TokenBudget, ...]) -> dict[str, PackedMessage]:
    """Per-filter configuration of a route that has budgets; nothing for one that has none.

    It must be here: among a route's own ``rate_limits`` Envoy ignores ``hits_addend`` without a word, and every
    request costs 1 when it starts and 1 when it ends (docs/howto/envoy.md).
    """
    if not budgets:
        return {}
    return {names.RATE_LIMIT_FILTER: pack(RateLimitPerRoute(rate_limits=rate_limits(budgets)))}


def rate_limits(budgets: tuple[TokenBudget, ...]) -> list[RateLimit]:
    """The entries of a route: every question before every charge."""
    asked = [
        RateLimit(actions=_actions(budget), hits_addend=RateLimitHitsAddend(number=0)) for budget in _distinct(budgets)
    ]
    charged = [
        RateLimit(
            actions=_actions(budget),
            hits_addend=RateLimitHitsAddend(format=names.dynamic_metadata(budget.cost_key)),
            apply_on_stream_done=True,
        )
        for budget in budgets
    ]
    return asked + charged


def _distinct(budgets: tuple[TokenBudget, ...]) -> list[TokenBudget]:
    """Budgets that differ in their bucket; two costs that are paid from one bucket need one question."""
    return list({budget.descriptors: budget for budget in budgets}.values())


def _actions(budget: TokenBudget) -> list[RateLimitAction]:
    return [_action(descriptor) for descriptor in budget.descriptors]


def _action(descriptor: Descriptor) -> RateLimitAction:
    match descriptor:
        case HeaderDescriptor(header=header, key=key):
            return RateLimitAction(
                request_headers=RateLimitActionRequestHeaders(header_name=header, descriptor_key=key)
            )
        case StaticDescriptor(key=key, value=value):
            return RateLimitAction(generic_key=RateLimitActionGenericKey(descriptor_key=key, descriptor_value=value))
        case _:
            assert_never(descriptor)

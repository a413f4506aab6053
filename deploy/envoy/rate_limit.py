"""Token budgets and quotas: what Envoy's rate limit filter asks before a request, and what it charges after it.

Each budget is two entries with the same descriptor. The first asks with ``hits_addend`` 0, so that a client without
budget gets 429 and a request itself costs nothing; the second charges the cost that the processor has put in dynamic
metadata, once, when the stream is done. Metadata is read at that time only, so writing it twice charges once. A quota
differs in that its charge goes to the backend that has served the request (contract, control plane 6.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as HeaderMutationRule
from envoy_data_plane.envoy.config.core.v3 import (
    ApiVersion,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    HeaderValue,
    HeaderValueOption,
    HeaderValueOptionHeaderAppendAction,
)
from envoy_data_plane.envoy.config.ratelimit.v3 import RateLimitServiceConfig
from envoy_data_plane.envoy.config.route.v3 import (
    HeaderMatcher,
    RateLimit,
    RateLimitAction,
    RateLimitActionGenericKey,
    RateLimitActionHeaderValueMatch,
    RateLimitActionMetaData,
    RateLimitActionRequestHeaders,
    RateLimitHitsAddend,
)
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import (
    HeaderMutation,
    HeaderMutationPerRoute,
    Mutations,
)
from envoy_data_plane.envoy.extensions.filters.http.header_to_metadata.v3 import Config as HeaderToMetadata
from envoy_data_plane.envoy.extensions.filters.http.header_to_metadata.v3 import ConfigKeyValuePair, ConfigRule
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import RateLimit as RateLimitFilter
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import (
    RateLimitPerRoute,
    RateLimitXRateLimitHeadersRfcVersion,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher
from envoy_data_plane.envoy.type.metadata.v3 import MetadataKey, MetadataKeyPathSegment

from deploy.envoy import names
from deploy.envoy.model import Charge, HeaderDescriptor, HeaderEqualsDescriptor, MetadataDescriptor, StaticDescriptor
from deploy.envoy.wire import pack, seconds

if TYPE_CHECKING:
    from envoy_data_plane.google.protobuf import Any as PackedMessage

    from deploy.envoy.model import Descriptor, Quotas, RateLimitService, TokenBudget


def rate_limit_filter(service: RateLimitService) -> HttpFilter:
    """The filter of the listener; it must come after the processor's filter, whose routing decides the budgets."""
    return HttpFilter(name=names.RATE_LIMIT_FILTER, typed_config=pack(_filter(service, service.domain)))


def quota_filters(service: RateLimitService) -> list[HttpFilter]:
    """The same for quotas: what notes who asks, and what limits.

    None of them is disabled by default: the chain is made for the route that a request matches first. Without
    configuration of a route they do nothing.
    """
    config = _filter(service, names.QUOTA_DOMAIN)
    config.disable_x_envoy_ratelimited_header = True
    return [
        HttpFilter(name=names.QUOTA_FLAGS_FILTER, typed_config=pack(HeaderMutation(mutations=Mutations()))),
        HttpFilter(name=names.QUOTA_NOTES_FILTER, typed_config=pack(HeaderToMetadata())),
        HttpFilter(name=names.QUOTA_FILTER, typed_config=pack(config)),
    ]


def _filter(service: RateLimitService, domain: str) -> RateLimitFilter:
    return RateLimitFilter(
        domain=domain,
        timeout=seconds(service.timeout),
        failure_mode_deny=service.deny_on_failure,
        enable_x_ratelimit_headers=RateLimitXRateLimitHeadersRfcVersion.DRAFT_VERSION_03,
        rate_limit_service=RateLimitServiceConfig(
            grpc_service=GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=names.RATE_LIMIT_CLUSTER)),
            transport_api_version=ApiVersion.V3,
        ),
    )


def quotas_per_route(quotas: Quotas | None) -> dict[str, PackedMessage]:
    """Per-filter configuration of a route whose backends have quotas."""
    if quotas is None:
        return {}
    # Envoy wants all that is taken at once before all that is taken in the end.
    entries = [_entry(charge) for charge in sorted(quotas.charges, key=lambda charge: charge.done)]
    limits = RateLimitPerRoute(domain=names.QUOTA_DOMAIN, rate_limits=entries)
    return {**_flags(quotas), **_notes(quotas), names.QUOTA_FILTER: pack(limits)}


def _flags(quotas: Quotas) -> dict[str, PackedMessage]:
    """Outcomes of conditions as headers, whatever a client has sent under these names."""
    if not quotas.flags:
        return {}
    mutations = [
        HeaderMutationRule(
            append=HeaderValueOption(
                header=HeaderValue(key=flag.header, value=f"%CEL({flag.condition})%"),
                append_action=HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
            )
        )
        for flag in quotas.flags
    ]
    per_route = HeaderMutationPerRoute(mutations=Mutations(request_mutations=mutations))
    return {names.QUOTA_FLAGS_FILTER: pack(per_route)}


def _notes(quotas: Quotas) -> dict[str, PackedMessage]:
    """These headers, which go no further, and those of clients, as metadata."""
    rules = [_note(flag.header, remove=True) for flag in quotas.flags]
    rules += [_note(header, remove=False) for header in quotas.headers]
    return {names.QUOTA_NOTES_FILTER: pack(HeaderToMetadata(request_rules=rules))} if rules else {}


def _note(header: str, *, remove: bool) -> ConfigRule:
    noted = ConfigKeyValuePair(metadata_namespace=names.DYNAMIC_NAMESPACE, key=names.header_note(header))
    return ConfigRule(header=header, on_header_present=noted, remove=remove)


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
    # Two costs that are paid from one bucket need one question.
    asked = [Charge(descriptors=each) for each in dict.fromkeys(budget.descriptors for budget in budgets)]
    charged = [Charge(descriptors=each.descriptors, cost_key=each.cost_key, done=True) for each in budgets]
    return [_entry(charge) for charge in (*asked, *charged)]


def _entry(charge: Charge) -> RateLimit:
    hits = RateLimitHitsAddend(number=charge.hits)
    if charge.cost_key:
        hits = RateLimitHitsAddend(format=names.dynamic_metadata(charge.cost_key))
    return RateLimit(
        actions=[_action(descriptor) for descriptor in charge.descriptors],
        hits_addend=hits,
        apply_on_stream_done=charge.done,
    )


def _action(descriptor: Descriptor) -> RateLimitAction:
    match descriptor:
        case HeaderDescriptor(header=header, key=key):
            return RateLimitAction(
                request_headers=RateLimitActionRequestHeaders(header_name=header, descriptor_key=key)
            )
        case StaticDescriptor(key=key, value=value):
            return RateLimitAction(generic_key=RateLimitActionGenericKey(descriptor_key=key, descriptor_value=value))
        case MetadataDescriptor(key=key, metadata_key=metadata_key):
            where = MetadataKey(key=names.DYNAMIC_NAMESPACE, path=[MetadataKeyPathSegment(key=metadata_key)])
            return RateLimitAction(metadata=RateLimitActionMetaData(descriptor_key=key, metadata_key=where))
        case HeaderEqualsDescriptor(header=header, key=key, value=value):
            equal = HeaderMatcher(name=header, string_match=StringMatcher(exact=value))
            return RateLimitAction(
                header_value_match=RateLimitActionHeaderValueMatch(
                    descriptor_key=key, descriptor_value=value, headers=[equal]
                )
            )
        case _:
            assert_never(descriptor)

"""Quotas on routes: what ``deploy.envoy.quotas`` says of a rule, written in the messages of the hooks.

A request asks at no cost before it is served and pays when it is done. Conditions and headers are noted when it comes,
so a client's bucket is the same at both times, and inverted conditions count as they should (contract, control plane
6.11).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.wrappers_pb2 import UInt64Value

from deploy.envoy import names
from deploy.envoy.model import (
    Charge,
    Descriptor,
    HeaderDescriptor,
    HeaderEqualsDescriptor,
    MetadataDescriptor,
    Quotas,
    StaticDescriptor,
)
from deploy.envoy.quotas import rule_quotas
from deploy.extension_server.chains import header_rule
from deploy.extension_server.endpoints import find_rule
from deploy.extension_server.filters import mutations
from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.names import RuleName
from deploy.extension_server.routes import destinations
from deploy.extension_server.wire import pack
from filter_config.sources.faults import Faults
from protos import xds_pb2 as xds


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEditor:
    """Quotas of one hook; those of a rule are made once, however many matches it has."""

    knowledge: Knowledge
    findings: Findings
    _made: dict[RuleName, dict[str, Packed]] = field(default_factory=dict)

    def edit(self, route: xds.Route) -> bool:
        """Write the quotas of the rule that a route forwards to; whether it has some."""
        limited = False
        for name in destinations(route):
            if name not in self._made:
                self._made[name] = self._of_rule(name)
            for filter_name, config in self._made[name].items():
                route.typed_per_filter_config[filter_name].CopyFrom(config)
                limited = True
        return limited

    def _of_rule(self, name: RuleName) -> dict[str, Packed]:
        route, rule = self.knowledge.route(name.namespace, name.route), find_rule(self.knowledge, name)
        if route is None or rule is None or not route.quotas:
            return {}
        faults = Faults()
        # Budgets of clients are Envoy Gateway's own affair: it serves the policies that they come from.
        quotas = rule_quotas(route, replace(rule, budgets=()), faults)
        self.findings.add_faults(faults)
        return per_route(quotas) if quotas is not None else {}


def per_route(quotas: Quotas) -> dict[str, Packed]:
    """Per-filter configuration of a route whose backends have quotas."""
    # Envoy wants all that is taken at once before all that is taken in the end.
    limits = [_entry(charge) for charge in sorted(quotas.charges, key=lambda charge: charge.done)]
    found = {names.QUOTA_FILTER: pack(xds.RateLimitPerRoute(domain=names.QUOTA_DOMAIN, rate_limits=limits))}
    if quotas.flags:
        # Whatever a client has sent under these names.
        flags = [_flag(flag.header, flag.condition) for flag in quotas.flags]
        found[names.QUOTA_FLAGS_FILTER] = pack(xds.HeaderMutationPerRoute(mutations=mutations(*flags)))
    rules = [header_rule(flag.header, names.header_note(flag.header), remove=True) for flag in quotas.flags]
    rules += [header_rule(header, names.header_note(header)) for header in quotas.headers]
    if rules:
        found[names.QUOTA_NOTES_FILTER] = pack(xds.HeaderToMetadata(request_rules=rules))
    return found


def _flag(header: str, condition: str) -> xds.HeaderValueOption:
    return xds.HeaderValueOption(
        header=xds.HeaderValue(key=header, value=f"%CEL({condition})%"),
        append_action=xds.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def _entry(charge: Charge) -> xds.RateLimit:
    if charge.cost_key:
        hits = xds.HitsAddend(format=names.dynamic_metadata(charge.cost_key))
    else:
        hits = xds.HitsAddend(number=UInt64Value(value=charge.hits))
    return xds.RateLimit(
        actions=[_action(descriptor) for descriptor in charge.descriptors],
        hits_addend=hits,
        apply_on_stream_done=charge.done,
    )


def _action(descriptor: Descriptor) -> xds.RateLimitAction:
    match descriptor:
        case HeaderDescriptor(header=header, key=key):
            return xds.RateLimitAction(request_headers=xds.RequestHeaders(header_name=header, descriptor_key=key))
        case StaticDescriptor(key=key, value=value):
            return xds.RateLimitAction(generic_key=xds.GenericKey(descriptor_key=key, descriptor_value=value))
        case MetadataDescriptor(key=key, metadata_key=metadata_key):
            where = xds.MetadataKey(key=names.DYNAMIC_NAMESPACE, path=[xds.PathSegment(key=metadata_key)])
            return xds.RateLimitAction(metadata=xds.MetadataAction(descriptor_key=key, metadata_key=where))
        case HeaderEqualsDescriptor(header=header, key=key, value=value):
            equal = xds.HeaderMatcher(name=header, string_match=xds.StringMatcher(exact=value))
            return xds.RateLimitAction(
                header_value_match=xds.HeaderValueMatch(descriptor_key=key, descriptor_value=value, headers=[equal])
            )
        case _:
            assert_never(descriptor)

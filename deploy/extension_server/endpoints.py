"""Which backend each endpoint of a rule's cluster belongs to, written where the processor reads it.

Envoy Gateway gives each reference of a rule a locality and names it in its region: a locality is found by that name,
and by its place only when there are as many as there are references. Where neither tells, nothing is written, and the
processor refuses what it gets from there: an endpoint never gets the credential of another backend (contract, control
plane 6.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from deploy.envoy import names
from deploy.envoy.model import is_ip
from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.names import RuleName, of_cluster, ref_of_backend
from deploy.extension_server.wire import label
from filter_config.sources.model import Backend, Rule
from protos import xds_pb2 as xds

# Thousands of endpoints have few hosts.
_is_ip: Final = lru_cache(1 << 12)(is_ip)


def modify_endpoints(assignment: xds.ClusterLoadAssignment, knowledge: Knowledge, findings: Findings) -> None:
    """PostEndpointsModify: the same for endpoints that reach Envoy on their own, as those with IP addresses do."""
    name = of_cluster(assignment.cluster_name)
    rule = find_rule(knowledge, name) if name is not None else None
    if name is not None and rule is not None:
        label_endpoints(assignment, name, rule, findings)


def find_rule(knowledge: Knowledge, name: RuleName) -> Rule | None:
    """The rule of an AIGatewayRoute that an object serves."""
    route = knowledge.route(name.namespace, name.route)
    return next((rule for rule in route.rules if rule.index == name.rule), None) if route is not None else None


def backend_at(rule: Rule, ref: int) -> Backend | None:
    """The backend of a reference, by its place in the resource."""
    return next((backend for backend in rule.backends if ref_of_backend(backend.id) == ref), None)


def label_endpoints(assignment: xds.ClusterLoadAssignment, name: RuleName, rule: Rule, findings: Findings) -> None:
    """Write backend, host and priority of every locality whose backend is known."""
    found = _backends(assignment.endpoints, name, rule)
    if found is None:
        findings.add(
            f"cluster {assignment.cluster_name}",
            f"{len(assignment.endpoints)} localities that no backend of the rule can be told for; they serve nothing",
        )
        return
    ranks = _ranks([backend for backend in found if backend is not None], rule)
    for locality, backend in zip(assignment.endpoints, found, strict=True):
        if backend is None:
            findings.add(
                f"cluster {assignment.cluster_name}",
                f"locality {locality.locality.region} is of no backend that is known; it serves nothing",
            )
            continue
        if ranks:
            locality.priority = ranks[backend.priority]
        for endpoint in locality.lb_endpoints:
            _label(endpoint, backend)


def _label(endpoint: xds.LbEndpoint, backend: Backend) -> None:
    label(endpoint.metadata, names.XDS_NAMESPACE, names.BACKEND_NAME_KEY, backend.id)
    host = endpoint.endpoint.hostname or endpoint.endpoint.address.socket_address.address
    if host and (endpoint.endpoint.hostname or not _is_ip(host)):
        label(endpoint.metadata, names.XDS_NAMESPACE, names.UPSTREAM_HOST_KEY, host)


def _backends(localities: Sequence[xds.LocalityLbEndpoints], name: RuleName, rule: Rule) -> list[Backend | None] | None:
    """The backend of each locality; None when nothing tells."""
    if name.ref is not None:
        return [backend_at(rule, name.ref)] * len(localities)
    regions = [of_cluster(locality.locality.region) for locality in localities]
    if any(region is not None and region.ref is not None for region in regions):
        return [_backend_of(region, name, rule) for region in regions]
    used = [backend for backend in rule.backends if backend.weight]
    complete = [ref_of_backend(backend.id) for backend in rule.backends] == list(range(len(rule.backends)))
    return list(used) if complete and len(used) == len(localities) else None


def _backend_of(region: RuleName | None, name: RuleName, rule: Rule) -> Backend | None:
    if region is None or region.ref is None:
        return None
    same = (region.namespace, region.route, region.rule) == (name.namespace, name.route, name.rule)
    return backend_at(rule, region.ref) if same else None


def _ranks(found: Sequence[Backend], rule: Rule) -> dict[int, int]:
    """Priorities without gaps, as Envoy wants them. A rule that gives none leaves Envoy Gateway's fallbacks alone."""
    if not any(backend.priority for backend in rule.backends):
        return {}
    return {priority: rank for rank, priority in enumerate(sorted({backend.priority for backend in found}))}

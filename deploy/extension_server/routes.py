"""Routes of AIGatewayRoutes: which they are, the processor's filter that they enable, and how long they wait.

Envoy Gateway names the resources behind a route in its metadata (contract, control plane 6.5, 6.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.struct_pb2 import Value

from deploy.envoy import names
from deploy.extension_server.endpoints import find_rule
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.names import GENERATED, MCP_PREFIX, OWNER_NAMESPACE, RuleName, of_cluster, of_route
from deploy.extension_server.wire import duration, label, labels, pack
from protos import xds_pb2 as xds

_ENABLED: Final = pack(xds.FilterConfig(config=Packed()))
"""A route that configures a disabled filter enables it; there is nothing else to configure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A resource that Envoy Gateway names behind an object."""

    kind: str
    namespace: str
    name: str
    generated: bool
    """Whether it was made of an AIGatewayRoute."""


def owners(metadata: xds.Metadata) -> list[Owner]:
    """The resources behind an object, in order."""
    found = labels(metadata, OWNER_NAMESPACE)
    if found is None or "resources" not in found.fields:
        return []
    return [_owner(value.struct_value.fields) for value in found.fields["resources"].list_value.values]


def _owner(fields: Mapping[str, Value]) -> Owner:
    return Owner(
        kind=_text(fields, "kind"),
        namespace=_text(fields, "namespace"),
        name=_text(fields, "name"),
        generated="annotations" in fields and GENERATED in fields["annotations"].struct_value.fields,
    )


def _text(fields: Mapping[str, Value], key: str) -> str:
    return fields[key].string_value if key in fields else ""


def is_generated(found: Iterable[Owner], knowledge: Knowledge, *, standalone: bool) -> bool:
    """Whether a route with these owners was made of an AIGatewayRoute.

    Its annotation says so, and without a cluster, where none arrive, the name that both resources have.
    """
    if any(owner.generated for owner in found):
        return True
    return standalone and any(
        not owner.name.startswith(MCP_PREFIX) and knowledge.route(owner.namespace, owner.name) for owner in found
    )


def route_name(route: xds.Route, config: xds.RouteConfiguration, found: Iterable[Owner]) -> str:
    """What the processor gets to know as the name of the AIGatewayRoute."""
    for owner in found:
        if owner.namespace and owner.name:
            return f"{owner.namespace}/{owner.name}"
    rule = of_route(route.name) or of_route(config.name)
    name = next((owner.name for owner in found if owner.name), "")
    return name or (f"{rule.namespace}/{rule.route}" if rule else route.name)


def enable_processor(route: xds.Route, config: xds.RouteConfiguration, found: Iterable[Owner]) -> None:
    """Have the processor see the requests of a route, and tell it which route it is."""
    route.typed_per_filter_config[names.EXT_PROC_FILTER].CopyFrom(_ENABLED)
    label(route.metadata, names.XDS_NAMESPACE, names.ROUTE_NAME_KEY, route_name(route, config, found))


def limit_idle_time(route: xds.Route, knowledge: Knowledge) -> None:
    """Give up an attempt that says nothing for as long as its rule allows."""
    name = of_route(route.name) if route.HasField("route") else None
    rule = find_rule(knowledge, name) if name is not None else None
    if rule is not None and rule.idle_timeout:
        route.route.retry_policy.per_try_idle_timeout.CopyFrom(duration(rule.idle_timeout))


def destinations(route: xds.Route) -> Iterable[RuleName]:
    """The rules whose clusters a route forwards to, each once."""
    action = route.route
    match action.WhichOneof("cluster_specifier"):
        case "cluster":
            clusters = [action.cluster]
        case "weighted_clusters":
            clusters = [each.name for each in action.weighted_clusters.clusters]
        case _:
            clusters = []
    found = [name for name in map(of_cluster, clusters) if name is not None]
    return dict.fromkeys(RuleName(namespace=name.namespace, route=name.route, rule=name.rule) for name in found)


def gateways(metadata: xds.Metadata) -> Iterator[tuple[str, str]]:
    """The gateways among the resources behind an object."""
    return ((owner.namespace, owner.name) for owner in owners(metadata) if owner.kind == "Gateway")

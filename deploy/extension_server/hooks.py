"""The hooks of the service by name: what each takes, and the function that answers.

Two hooks of the service are not among them; Envoy Gateway must not call those (contract, control plane 6.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from deploy.extension_server.endpoints import modify_endpoints
from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.options import Options
from deploy.extension_server.pools import modify_cluster, modify_route
from deploy.extension_server.translate import modify_translation
from protos import extension_pb2 as wire

SERVICE: Final = "envoygateway.extension.EnvoyGatewayExtension"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One of them. ``answer`` may change its request, and never raises for what is in it."""

    request: type[Message]
    answer: Callable[[Any, Knowledge, Options, Findings], Message]


def _cluster(
    request: wire.PostClusterModifyRequest, _knowledge: Knowledge, _options: Options, findings: Findings
) -> wire.PostClusterModifyResponse:
    cluster = request.cluster
    resources = request.post_cluster_context.backend_extension_resources
    modify_cluster(cluster, resources, findings, resource=f"cluster {cluster.name}")
    return wire.PostClusterModifyResponse(cluster=cluster)


def _route(
    request: wire.PostRouteModifyRequest, _knowledge: Knowledge, _options: Options, findings: Findings
) -> wire.PostRouteModifyResponse:
    route = request.route
    modify_route(route, request.post_route_context.extension_resources, findings, resource=f"route {route.name}")
    return wire.PostRouteModifyResponse(route=route)


def _endpoints(
    request: wire.PostEndpointsModifyRequest, knowledge: Knowledge, _options: Options, findings: Findings
) -> wire.PostEndpointsModifyResponse:
    modify_endpoints(request.load_assignment, knowledge, findings)
    return wire.PostEndpointsModifyResponse(load_assignment=request.load_assignment)


HOOKS: Final[Mapping[str, Hook]] = {
    "PostTranslateModify": Hook(request=wire.PostTranslateModifyRequest, answer=modify_translation),
    "PostClusterModify": Hook(request=wire.PostClusterModifyRequest, answer=_cluster),
    "PostRouteModify": Hook(request=wire.PostRouteModifyRequest, answer=_route),
    "PostEndpointsModify": Hook(request=wire.PostEndpointsModifyRequest, answer=_endpoints),
}
NOT_ANSWERED: Final = ("PostVirtualHostModify", "PostHTTPListenerModify")

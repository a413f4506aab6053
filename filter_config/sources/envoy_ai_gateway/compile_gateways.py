"""Gateways with everything attached to them: the root of the compiler (contract, control plane 2.1, 2.4 and 2.11).

Pure: the same resources in any order give the same gateways. Routes are in order of precedence: the oldest first, then
by namespace and name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from filter_config.model import ZERO_TIME
from filter_config.sources.envoy_ai_gateway.attachment import Attachment, attach
from filter_config.sources.envoy_ai_gateway.compile_costs import global_costs
from filter_config.sources.envoy_ai_gateway.compile_listeners import compile_listeners
from filter_config.sources.envoy_ai_gateway.compile_mcp import compile_mcp
from filter_config.sources.envoy_ai_gateway.compile_routes import Routes
from filter_config.sources.envoy_ai_gateway.context import Context
from filter_config.sources.envoy_ai_gateway.fields import ParentReference
from filter_config.sources.envoy_ai_gateway.kubernetes import Gateway
from filter_config.sources.envoy_ai_gateway.load import FAULTY, Found
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute, GatewayConfig
from filter_config.sources.model import MCP, Route
from filter_config.sources.model import Gateway as GatewayModel

CONFIG_ANNOTATION: Final = "aigateway.envoyproxy.io/gateway-config"

KindT = TypeVar("KindT", AIGatewayRoute, MCPRoute)


def compile_gateways(context: Context) -> list[GatewayModel]:
    """The gateways that have a route, by namespace and name."""
    routes = _attached(context, AIGatewayRoute)
    mcp_routes = _attached(context, MCPRoute)
    compiler = Routes(context)
    return [
        _gateway(context, compiler, gateway, routes[key], mcp_routes[key])
        for gateway in context.resources.all(Gateway)
        if (key := (gateway.namespace, gateway.name)) in routes or key in mcp_routes
    ]


_Attached = defaultdict[tuple[str, str], list[tuple[Found[KindT], Attachment]]]


def _attached(context: Context, kind: type[KindT]) -> _Attached[KindT]:
    """The routes of each gateway in order of precedence, with what the gateway admits of them."""
    attached: _Attached[KindT] = defaultdict(list)
    routes = context.resources.all(kind)
    routes.sort(key=lambda found: (found.meta.creation_timestamp or ZERO_TIME, found.namespace, found.name))
    for route in routes:
        spec = route.value.spec
        if not spec.parent_refs:
            context.faults.warning(
                route.origin.at("spec.parentRefs"), "the route is attached to nothing", "name a Gateway"
            )
        for (namespace, name), places in _parents(spec.parent_refs, route.namespace).items():
            at = route.origin.at(f"spec.parentRefs[{places[0]}]")
            gateway = context.resources.get(Gateway, namespace, name)
            if gateway is None:
                reason = context.resources.absence(Gateway, namespace, name)
                fix = "mend it" if reason == FAULTY else "add it, or name another"
                context.faults.error(at, f"Gateway {namespace}/{name} {reason}", fix)
                continue
            parents = [spec.parent_refs[place] for place in places]
            attachment = attach(context, gateway, parents, route.namespace, spec.hostnames)
            if attachment.reason:
                message = f"Gateway {namespace}/{name} does not admit the route: {attachment.reason}"
                context.faults.error(at, message, "mend the listener's allowedRoutes or hostname, or the reference")
            else:
                attached[namespace, name].append((route, attachment))
    return attached


def _parents(refs: Iterable[ParentReference], namespace: str) -> dict[tuple[str, str], list[int]]:
    """The places in which a route names each gateway."""
    places: dict[tuple[str, str], list[int]] = {}
    for index, ref in enumerate(refs):
        places.setdefault((ref.namespace or namespace, ref.name), []).append(index)
    return places


def _gateway(
    context: Context,
    compiler: Routes,
    gateway: Found[Gateway],
    routes: list[tuple[Found[AIGatewayRoute], Attachment]],
    mcp_routes: list[tuple[Found[MCPRoute], Attachment]],
) -> GatewayModel:
    config = _config(context, gateway)
    proxy = config.value.spec.forward_proxy if config is not None else None
    mcp = [compile_mcp(route, context) for route, _ in mcp_routes]
    return GatewayModel(
        namespace=gateway.namespace,
        name=gateway.name,
        origin=gateway.origin,
        listeners=compile_listeners(context, gateway),
        routes=tuple(_admitted(compiler.compile(route, gateway), attachment) for route, attachment in routes),
        costs=global_costs(config) if config is not None else (),
        mcp=MCP(routes=tuple(mcp)) if mcp else None,
        proxy=proxy.address if proxy is not None else "",
    )


def _admitted(route: Route, attachment: Attachment) -> Route:
    return replace(route, hostnames=attachment.hostnames, listeners=attachment.listeners)


def _config(context: Context, gateway: Found[Gateway]) -> Found[GatewayConfig] | None:
    name = gateway.meta.annotations.get(CONFIG_ANNOTATION, "")
    if not name:
        return None
    config = context.resources.get(GatewayConfig, gateway.namespace, name)
    if config is None:
        reason = context.resources.absence(GatewayConfig, gateway.namespace, name)
        at = gateway.origin.at(f"metadata.annotations[{CONFIG_ANNOTATION}]")
        context.faults.warning(at, f"GatewayConfig {gateway.namespace}/{name} {reason}, and none is used", "add it")
    return config

"""From the neutral model of a gateway to the description that the builders of this package take.

The model says what a gateway does; ``Serving`` says where this Envoy does it. What cannot be done here is reported and
left out, and never harms the rest: a rule without a backend answers for itself, so that its requests do not fall to
another rule (Gateway API, HTTPRouteRule.backendRefs).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from deploy.envoy import model
from deploy.envoy.certificates import certificate_problem
from deploy.envoy.endpoints import Lookup, backends
from deploy.envoy.hosts import virtual_hosts
from deploy.envoy.matching import match_problem
from deploy.envoy.quotas import rule_quotas
from filter_config.sources import model as neutral
from filter_config.sources.faults import Faults

HEADER_ATTRIBUTES: Final = (("agent-session-id", "session.id"),)
"""Headers that the access log shows when nobody asks for others (contract, control plane 6.10)."""

_SCHEMES: Final = frozenset({"HTTP", "HTTPS"})
_NO_BACKEND: Final = model.Answer(status=500, body="The rule that takes this request has no backend.")
_POOL_ONLY: Final = model.Answer(status=503, body="The pool that takes this request is not served by this gateway.")

_TRIGGERS: Final = ("connect-failure", "refused-stream", "unavailable", "cancelled", "retriable-status-codes")
_STATUS_CODES: Final = (503,)
_BY_CODE: Final = "retriable-status-codes"


def lookup(name: str) -> str:
    """The first address of a name.

    Raises:
        OSError: it has none.
    """
    return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])


class Unservable(ValueError):
    """A gateway has no listener that an Envoy could open. The message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What the neutral model does not know: addresses, and services beside Envoy."""

    processor: model.Processor
    bind_host: str = "127.0.0.1"
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports by the name of the listener, where it is not the listener's own; 0 is one of Envoy's choice."""
    rate_limit: model.RateLimitService | None = None
    """Who keeps quotas; None: nobody, and none are enforced."""
    access_log: model.AccessLog | None = None
    admin: model.SocketAddress | None = None
    ca_file: str = model.CA_FILE
    """The certificates of the system, as Envoy sees them."""
    lookup: Lookup = lookup
    """How the name of a proxy is looked up: Envoy wants an address."""
    header_attributes: tuple[tuple[str, str], ...] = HEADER_ATTRIBUTES
    """Headers of requests that become dynamic metadata, with their keys."""
    exclusive: bool = False
    trust_request_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRoute:
    """A route for Envoy, and the route that it was made of, without the matches that Envoy would refuse."""

    judged: neutral.Route
    route: model.Route


def make_route(gateway: neutral.Gateway, route: neutral.Route, serving: Serving, faults: Faults) -> MadeRoute:
    """A route of a gateway.

    Of the gateway it depends on the proxy and of ``serving`` on the certificates, so that it may be remembered.
    """
    judged = _judged(route, faults)
    return MadeRoute(judged=judged, route=_route(gateway, judged, serving, faults))


MakeRoute: TypeAlias = Callable[[neutral.Gateway, neutral.Route, Serving, Faults], MadeRoute]
"""See :func:`make_route`."""


def envoy_gateway(
    gateway: neutral.Gateway, serving: Serving, faults: Faults | None = None, *, make_route: MakeRoute = make_route
) -> model.Gateway:
    """The Envoy of a gateway.

    Args:
        gateway: the model.
        serving: where it is served.
        faults: receives what cannot be served.
        make_route: how a route is made, for those who remember routes.

    Raises:
        Unservable: no listener is left.
    """
    faults = Faults() if faults is None else faults
    made = [make_route(gateway, route, serving, faults) for route in gateway.routes]
    listeners = tuple(_listeners(gateway, tuple(each.judged for each in made), serving, faults))
    if not listeners:
        raise Unservable(f"gateway {gateway.id} has no listener for HTTP that can be served")
    if gateway.mcp is not None:
        faults.warning(gateway.origin, "MCP routes are not served by this Envoy")
    return model.Gateway(
        listener=listeners[0],
        further_listeners=listeners[1:],
        routes=tuple(each.route for each in made),
        processor=_processor(gateway, serving.processor),
        rate_limit=serving.rate_limit,
        access_log=serving.access_log,
        admin=serving.admin,
        header_attributes=serving.header_attributes,
    )


def _processor(gateway: neutral.Gateway, processor: model.Processor) -> model.Processor:
    """The processor with the dynamic metadata that credentials are read from (contract, control plane 2.8.2)."""
    overrides = [
        backend.auth.credential_override
        for route in gateway.routes
        for rule in route.rules
        for backend in rule.backends
        if backend.auth is not None
    ]
    wanted = {each.dynamic_metadata_namespace for each in overrides if each is not None}
    namespaces = dict.fromkeys([*processor.forwarding_namespaces, *sorted(wanted - {""})])
    return replace(processor, forwarding_namespaces=tuple(namespaces))


# --- listeners ---


def _listeners(
    gateway: neutral.Gateway, routes: tuple[neutral.Route, ...], serving: Serving, faults: Faults
) -> Iterator[model.Listener]:
    """One for each port, however many listeners of the gateway share it."""
    for (port, _), group in _by_port(gateway, serving, faults).items():
        yield model.Listener(
            name=f"{gateway.id}/{group[0].name}",
            address=model.SocketAddress(host=serving.bind_host, port=port),
            exclusive=serving.exclusive,
            trust_request_id=serving.trust_request_id,
            hosts=virtual_hosts(group, routes),
            tls=tuple(_server_tls(group)),
        )


def _by_port(
    gateway: neutral.Gateway, serving: Serving, faults: Faults
) -> dict[tuple[int, int], list[neutral.Listener]]:
    """Listeners by the port they are served on, and for a port of Envoy's choice by the one they asked for."""
    groups: dict[tuple[int, int], list[neutral.Listener]] = {}
    for listener in gateway.listeners:
        if listener.protocol not in _SCHEMES:
            continue
        port = serving.ports.get(listener.name, listener.port)
        group = groups.setdefault((port, 0 if port else listener.port), [])
        problem = _listener_problem(listener, group)
        if problem:
            faults.error(gateway.origin, f"listener {listener.name}: {problem}; it is left out")
        else:
            group.append(listener)
    return {key: group for key, group in groups.items() if group}


def _listener_problem(listener: neutral.Listener, group: list[neutral.Listener]) -> str:
    if listener.protocol == "HTTPS" and not listener.certificates:
        return "no certificate is known"
    for certificate in listener.certificates:
        problem = certificate_problem(certificate.chain_pem, certificate.key.reveal())
        if problem:
            return problem
    if group and group[0].protocol != listener.protocol:
        return f"port {listener.port} is that of listener {group[0].name}, whose protocol is {group[0].protocol}"
    if listener.protocol == "HTTPS" and any(other.hostname == listener.hostname for other in group):
        return f"another listener of port {listener.port} has the same hostname"
    return ""


def _server_tls(group: list[neutral.Listener]) -> Iterator[model.ServerTLS]:
    for listener in group:
        if listener.certificates:
            yield model.ServerTLS(
                server_name=listener.hostname,
                certificates=tuple(
                    model.Certificate(chain_pem=certificate.chain_pem, key_pem=certificate.key.reveal())
                    for certificate in listener.certificates
                ),
            )


# --- routes ---


def _judged(route: neutral.Route, faults: Faults) -> neutral.Route:
    """The route without matches that Envoy would refuse, and with it the whole configuration."""
    return replace(route, rules=tuple(_judged_rules(route, faults)))


def _judged_rules(route: neutral.Route, faults: Faults) -> Iterator[neutral.Rule]:
    for rule in route.rules:
        kept = []
        for index, match in enumerate(rule.matches):
            problem = match_problem(match)
            if problem:
                faults.error(rule.origin.below(f"matches[{index}]"), f"{problem}; the match is left out")
            else:
                kept.append(match)
        # A rule without matches takes everything: one that has lost them all must not become one.
        if kept or not rule.matches:
            yield replace(rule, matches=tuple(kept))


def _route(gateway: neutral.Gateway, route: neutral.Route, serving: Serving, faults: Faults) -> model.Route:
    return model.Route(
        name=route.name,
        namespace=route.namespace,
        hostnames=route.hostnames,
        rules=tuple(_rule(gateway, route, rule, serving, faults) for rule in route.rules),
    )


def _rule(
    gateway: neutral.Gateway, route: neutral.Route, rule: neutral.Rule, serving: Serving, faults: Faults
) -> model.Rule:
    served = backends(rule, proxy=gateway.proxy, ca_file=serving.ca_file, lookup=serving.lookup, faults=faults)
    answer = None if any(backend.weight for backend in served) else _answer(rule)
    return model.Rule(
        backends=served,
        matches=tuple(_match(match) for match in rule.matches or (neutral.Match(),)),
        retry=_retry(rule),
        timeout=rule.request_timeout,
        rewrite_host=rule.rewrite_host,
        answer=answer,
        quotas=rule_quotas(route, rule, faults) if answer is None else None,
        number=rule.index,
    )


def _match(match: neutral.Match) -> model.Match:
    return model.Match(
        headers=tuple(
            model.HeaderMatch(name=header.name, value=header.value, kind=header.kind) for header in match.headers
        ),
        path_prefix=match.path_prefix,
    )


def _answer(rule: neutral.Rule) -> model.Answer:
    known = [backend for backend in rule.backends if backend.weight]
    return _POOL_ONLY if known and all(backend.pool is not None for backend in known) else _NO_BACKEND


def _retry(rule: neutral.Rule) -> model.Retry | None:
    """Retries and what bounds an attempt: for Envoy a matter of the same policy (contract, control plane 6.9)."""
    retry = rule.retry
    bounds = [rule.backend_timeout, retry.per_try_timeout if retry is not None else None]
    per_try = min((bound for bound in bounds if bound), default=None)
    if retry is None:
        if per_try is None and rule.idle_timeout is None:
            return None
        retry = neutral.Retry(attempts=0)
    codes, triggers = retry.status_codes, retry.triggers
    if not codes and not triggers:
        codes, triggers = _STATUS_CODES, _TRIGGERS
    elif codes and _BY_CODE not in triggers:
        triggers = (*triggers, _BY_CODE)
    return model.Retry(
        attempts=1 + retry.attempts,
        triggers=triggers if retry.attempts else (),
        status_codes=codes if retry.attempts else (),
        per_try_timeout=per_try,
        per_try_idle_timeout=rule.idle_timeout,
        attempts_per_priority=retry.attempts_per_priority or 1,
        base_interval=retry.base_interval,
        max_interval=retry.max_interval,
    )

"""Which matches a host tries, on which listener, in which order.

Of several listeners on one port the one whose hostname is nearest takes a request, whether or not it has a route for
it; a hostname of a route that lies outside of its listener's is none there (Gateway API, Listener.hostname).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from deploy.envoy.model import Place, VirtualHost
from filter_config.sources.model import Listener, Route
from filter_config.sources.routing import ANY_HOST, admits, hosts, precedence


def virtual_hosts(listeners: Sequence[Listener], routes: Sequence[Route]) -> tuple[VirtualHost, ...]:
    """The virtual hosts of the listeners of one port; routes are in order of precedence."""
    by_hostname: dict[str, list[Listener]] = {}
    for listener in listeners:
        by_hostname.setdefault(listener.hostname.lower() or ANY_HOST, []).append(listener)
    return tuple(
        host
        for hostname, group in sorted(by_hostname.items(), key=lambda item: (item[0] == ANY_HOST, item[0]))
        for host in _hosts_of(hostname, group, routes, nearer=_within(hostname, by_hostname))
    )


def _hosts_of(
    hostname: str, listeners: Iterable[Listener], routes: Sequence[Route], *, nearer: Sequence[str]
) -> Iterator[VirtualHost]:
    """The hosts that listeners of one hostname serve: those of their routes, and the rest under ``hostname``."""
    served: list[Route] = []
    places: dict[int, int] = {}
    for index, route in enumerate(routes):
        if any(admits(listener, route) for listener in listeners):
            # Which route is nearer to a host is told by its own hostnames, whatever the listener's is.
            lower = tuple(host.lower() for host in route.hostnames)
            served.append(route if route.hostnames == lower else replace(route, hostnames=lower))
            places[id(served[-1])] = index
    within = [host for host in hosts(served) if _covers(hostname, host)]
    own = [host for host in within if not any(_covers(other, host) for other in nearer)]
    for domain in dict.fromkeys([*own, hostname]):
        yield VirtualHost(
            domain=domain,
            places=tuple(
                Place(route=places[id(entry.route)], rule=_rule(entry.route, entry.rule), match=entry.index)
                for entry in precedence(served, domain)
            ),
        )


def _rule(route: Route, rule: object) -> int:
    return next(index for index, other in enumerate(route.rules) if other is rule)


def _within(hostname: str, others: Iterable[str]) -> list[str]:
    """Those that are nearer to a part of the hosts of ``hostname``."""
    return [other for other in others if other != hostname and _covers(hostname, other)]


def _covers(wide: str, host: str) -> bool:
    """Whether every host of ``host`` is one of ``wide``; both may be wildcards."""
    return wide in (ANY_HOST, host) or (wide.startswith("*.") and len(host) >= len(wide) and host.endswith(wide[1:]))

"""Which rule takes a request: the precedence of the Gateway API, said once for every emitter and for explanations.

Routes that name the request's host go before those with a wildcard that covers it, these before routes for every host.
Among them the longer path prefix wins, then more header matches, then more exact ones, as in Envoy Gateway, then the
older route, its name, and the order in which rules and matches were written (Gateway API, HTTPRouteRule.matches).
Routes come in the order of their age.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from filter_config.sources.model import HeaderMatch, Listener, Match, Route, Rule

ANY_HOST: Final = "*"
_EVERYTHING: Final = Match()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One way into a rule: it is taken when the match holds."""

    route: Route
    rule: Rule
    match: Match
    index: int
    """Place of the match in its rule; 0 for a rule that takes everything."""


def precedence(routes: Iterable[Route], host: str) -> list[Entry]:
    """The ways into the rules of a virtual host, the first that holds decides.

    Args:
        routes: in order of age.
        host: an exact host, a wildcard such as ``*.example.com``, or ``*`` for the host of all other requests.
    """
    ranked = [(rank, route) for route in routes if (rank := _rank(route.hostnames, host)) is not None]
    entries = [(rank, entry) for rank, route in ranked for entry in _entries(route)]
    # Sorting is stable, so what is equal stays in the order of age and of writing.
    entries.sort(key=lambda ranked: (ranked[0], *_generality(ranked[1].match)))
    return [entry for _, entry in entries]


def hosts(routes: Iterable[Route]) -> list[str]:
    """The virtual hosts that routes need, without ``*``, which there always is."""
    return list(dict.fromkeys(host for route in routes for host in route.hostnames if host != ANY_HOST))


def virtual_host(known: Iterable[str], host: str) -> str:
    """The virtual host that takes a request for ``host``: itself, else the longest wildcard, else ``*``."""
    name = _without_port(host).lower()
    covering = [pattern for pattern in known if pattern.lower() == name or _covers(pattern, name)]
    return max(covering, key=lambda pattern: (pattern.lower() == name, len(pattern)), default=ANY_HOST)


def holds(match: Match, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request meets all conditions. Header names are in lower case, values are matched as a whole."""
    if not _within(path.partition("?")[0], match.path_prefix):
        return False
    return all(_header_holds(condition, headers) for condition in match.headers)


def admits(listener: Listener, route: Route) -> bool:
    """Whether a route is served on a listener."""
    return not route.listeners or listener.name in route.listeners


def _entries(route: Route) -> Iterator[Entry]:
    for rule in route.rules:
        for index, match in enumerate(rule.matches or (_EVERYTHING,)):
            yield Entry(route=route, rule=rule, match=match, index=index)


def _generality(match: Match) -> tuple[int, int, int]:
    """How little a match asks for."""
    exact = sum(header.kind == "exact" for header in match.headers)
    return (-len(match.path_prefix), -len(match.headers), -exact)


def _rank(hostnames: tuple[str, ...], host: str) -> tuple[int, int] | None:
    """How far a route's hostnames are from ``host``; None when they do not cover it."""
    if not hostnames or ANY_HOST in hostnames:
        everywhere: tuple[int, int] | None = (2, 0)
    else:
        everywhere = None
    if host in hostnames:
        return (0, 0)
    covering = [pattern for pattern in hostnames if _covers(pattern, host)]
    return (1, -max(map(len, covering))) if covering else everywhere


def _covers(pattern: str, host: str) -> bool:
    """Whether a wildcard stands for one or more labels of ``host``."""
    return pattern.startswith("*.") and len(host) >= len(pattern) and host.lower().endswith(pattern[1:].lower())


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


def _within(path: str, prefix: str) -> bool:
    """A prefix stands for whole segments of a path."""
    bare = prefix.rstrip("/")
    return path == bare or path.startswith(bare + "/")


def _header_holds(condition: HeaderMatch, headers: Mapping[str, str]) -> bool:
    value = headers.get(condition.name.lower())
    if value is None:
        return False
    return value == condition.value if condition.kind == "exact" else re.fullmatch(condition.value, value) is not None

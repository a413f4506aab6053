"""Which rule takes a request: the precedence of the Gateway API, said once for every emitter and for explanations.

Routes that name the request's host go before those with a wildcard that covers it, these before routes for every host.
Among them the longer path prefix wins, then more header matches, then more exact ones, as in Envoy Gateway, then the
older route, its name, and the order in which rules and matches were written (Gateway API, HTTPRouteRule.matches).
Routes come in the order of their age.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import re2  # type: ignore[import-untyped] # it ships no types

from filter_config.sources.model import HeaderMatch, Listener, Match, Route, Rule

ANY_HOST: Final = "*"
_EVERYTHING: Final = Match()
# The engine of Envoy, which reads bytes, not characters, and must not write to the standard error.
_OPTIONS: Final = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


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


def listeners_for(listeners: Iterable[Listener], host: str) -> list[Listener]:
    """Those of the listeners of one port that take requests for ``host``: of the nearest hostname, or none at all."""
    by_hostname: dict[str, list[Listener]] = {}
    for listener in listeners:
        by_hostname.setdefault(listener.hostname.lower() or ANY_HOST, []).append(listener)
    return by_hostname.get(virtual_host(by_hostname, host), [])


def domain(hostname: str, routes: Iterable[Route], host: str) -> str:
    """The virtual host that takes a request for ``host`` on a listener of ``hostname`` with these routes.

    What routes name outside of the listener's hostname is none there (Gateway API, Listener.hostname).
    """
    wide = hostname.lower() or ANY_HOST
    within = [name for name in hosts(routes) if wide in (ANY_HOST, name.lower()) or _covers(wide, name)]
    return virtual_host([*within, wide], host)


def holds(match: Match, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request meets all conditions. Header names are in lower case, values are matched as a whole."""
    if not _within(path.partition("?")[0], match.path_prefix):
        return False
    return all(_header_holds(condition, headers) for condition in match.headers)


def pattern_problem(pattern: str) -> str:
    """Why Envoy would not take a regular expression; empty: it does."""
    try:
        re2.compile(pattern.encode(), _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return ""


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
    if condition.kind == "exact":
        return value == condition.value
    pattern = _pattern(condition.value)
    return pattern is not None and pattern.fullmatch(value.encode()) is not None


@cache
def _pattern(expression: str) -> Any:  # noqa: ANN401 - re2 ships no types
    """None where it is none: Envoy gets no such match."""
    return None if pattern_problem(expression) else re2.compile(expression.encode(), _OPTIONS)

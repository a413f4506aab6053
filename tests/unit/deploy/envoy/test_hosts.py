"""Which routes a host has: listeners are apart, and nearer hosts come first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.envoy.hosts import virtual_hosts
from filter_config.sources.routing import precedence
from tests.support.neutral import HTTP, match, route, rule


def listener(name="http", hostname=""):
    return replace(HTTP, name=name, hostname=hostname)


def hosts(listeners, *routes):
    """The names of the routes that each domain tries, in order."""
    found = virtual_hosts(listeners, routes)
    assert len({host.domain for host in found}) == len(found)
    return {host.domain: [routes[place.route].name for place in host.places] for host in found}


CASES = {
    "no route": ([listener()], [], {"*": []}),
    "every host": ([listener()], [route(name="a")], {"*": ["a"]}),
    "a host": (
        [listener()],
        [route(name="a", hostnames=("h.example",)), route(name="b")],
        {"h.example": ["a", "b"], "*": ["b"]},
    ),
    "a wildcard": (
        [listener()],
        [route(name="wide", hostnames=("*.example",)), route(name="near", hostnames=("h.example",))],
        {"*.example": ["wide"], "h.example": ["near", "wide"], "*": []},
    ),
    "a listener with a host": (
        [listener(hostname="h.example")],
        [route(name="a"), route(name="b", hostnames=("other.example",))],
        {"h.example": ["a"]},
    ),
    "a host within a listener's wildcard": (
        [listener(hostname="*.example")],
        [route(name="a", hostnames=("h.example", "h.test"))],
        {"h.example": ["a"], "*.example": []},
    ),
    "a wildcard around a listener's host": (
        [listener(hostname="h.example")],
        [route(name="a", hostnames=("*.example",))],
        {"h.example": ["a"]},
    ),
    "case": ([listener(hostname="H.Example")], [route(name="a", hostnames=("h.EXAMPLE",))], {"h.example": ["a"]}),
    "listeners with routes of their own": (
        [listener("one", "one.example"), listener("all")],
        [route(name="a", listeners=("one",)), route(name="b", listeners=("all",))],
        {"one.example": ["a"], "*": ["b"]},
    ),
    "a nearer listener takes its hosts, with or without routes": (
        [listener("one", "one.example"), listener("all")],
        [route(name="b", hostnames=("one.example", "two.example"), listeners=("all",))],
        {"one.example": [], "two.example": ["b"], "*": []},
    ),
    "a nearer wildcard takes hosts below it": (
        [listener("near", "*.example"), listener("all")],
        [route(name="b", hostnames=("h.example",), listeners=("all",))],
        {"*.example": [], "*": []},
    ),
    "two listeners of one hostname": (
        [listener("a"), listener("b")],
        [route(name="x", listeners=("b",)), route(name="y", listeners=("a",))],
        {"*": ["x", "y"]},
    ),
}


@pytest.mark.parametrize(("listeners", "routes", "expected"), CASES.values(), ids=CASES)
def test_hosts(listeners, routes, expected):
    assert hosts(listeners, *routes) == expected


def test_places_are_those_of_the_routes_however_they_are_ordered():
    many = route(
        rule(model="a"),
        rule(matches=(match("a", x_team="red"), match("b"))),
        rule(matches=(match("a", path="/long"),)),
    )

    (host,) = virtual_hosts([listener()], [route(name="first"), many])

    # Longer paths first, then more headers, then the order of writing.
    places = [(place.route, place.rule, place.match) for place in host.places]
    assert places == [(1, 2, 0), (1, 1, 0), (0, 0, 0), (1, 0, 0), (1, 1, 1)]


NAMES = st.sampled_from(["", "a.example", "b.example", "*.example", "*.b.example", "c.b.example", "test"])
ROUTES = st.lists(
    st.builds(
        lambda hostnames, listeners, index: route(name=f"r{index}", hostnames=hostnames, listeners=listeners),
        st.lists(NAMES.filter(bool), unique=True, max_size=3).map(tuple),
        st.lists(st.sampled_from(["l0", "l1", "l2"]), unique=True, min_size=1).map(tuple),
        st.integers(0, 9),
    ),
    max_size=4,
)


@given(st.lists(NAMES, unique=True, min_size=1, max_size=3), ROUTES)
def test_a_host_has_the_routes_of_the_nearest_listener_that_cover_it(hostnames, routes):
    listeners = [listener(f"l{index}", hostname) for index, hostname in enumerate(hostnames)]

    for host in virtual_hosts(listeners, routes):
        owners = [each for each in listeners if covers(each.hostname or "*", host.domain)]
        nearest = max(owners, key=lambda each: (each.hostname == host.domain, len(each.hostname)))
        mine = [each for each in routes if nearest.name in each.listeners]
        expected = [entry.route.name for entry in precedence(mine, host.domain)]
        found = [routes[place.route].name for place in host.places]
        assert found == expected


def covers(wide, host):
    return wide in ("*", host) or (wide.startswith("*.") and host.endswith(wide[1:]))

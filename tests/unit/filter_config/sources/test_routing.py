"""Which rule takes a request (Gateway API, precedence of matches)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_config.sources.faults import Origin
from filter_config.sources.model import HeaderMatch, Listener, Match, Route, Rule
from filter_config.sources.routing import admits, holds, hosts, precedence, virtual_host

HERE = Origin(file="-")


def header(name: str, value: str, kind: str = "exact") -> HeaderMatch:
    return HeaderMatch(name=name, value=value, kind=kind)


def match(*headers: HeaderMatch, path: str = "/") -> Match:
    return Match(headers=headers, path_prefix=path)


def route(name: str, *rules: tuple[Match, ...], hostnames: tuple[str, ...] = (), listeners: tuple[str, ...] = ()):
    return Route(
        namespace="ns",
        name=name,
        origin=HERE,
        hostnames=hostnames,
        listeners=listeners,
        rules=tuple(Rule(origin=HERE, index=index, matches=matches) for index, matches in enumerate(rules)),
    )


def order(routes: list[Route], host: str = "*") -> list[tuple[str, int, int]]:
    return [(entry.route.name, entry.rule.index, entry.index) for entry in precedence(routes, host)]


MODEL = header("x-ai-eg-model", "m")
TENANT = header("x-tenant", "a")

ORDERS = {
    "older routes first": (
        [route("old", (match(MODEL),)), route("new", (match(MODEL),))],
        "*",
        [("old", 0, 0), ("new", 0, 0)],
    ),
    "rules and matches as written": (
        [route("r", (match(MODEL), match(TENANT)), (match(MODEL),))],
        "*",
        [("r", 0, 0), ("r", 0, 1), ("r", 1, 0)],
    ),
    "more headers first, whatever the age": (
        [route("old", (match(MODEL),)), route("new", (match(MODEL, TENANT),))],
        "*",
        [("new", 0, 0), ("old", 0, 0)],
    ),
    "longer paths before more headers": (
        [route("r", (match(MODEL, TENANT),), (match(path="/v1"),))],
        "*",
        [("r", 1, 0), ("r", 0, 0)],
    ),
    "a rule without matches is last": (
        [route("r", (), (match(MODEL),))],
        "*",
        [("r", 1, 0), ("r", 0, 0)],
    ),
    "the host's own routes first": (
        [
            route("every", (match(MODEL, TENANT),)),
            route("wild", (match(MODEL, TENANT),), hostnames=("*.x.com",)),
            route("own", (match(MODEL),), hostnames=("a.x.com",)),
        ],
        "a.x.com",
        [("own", 0, 0), ("wild", 0, 0), ("every", 0, 0)],
    ),
    "the longer wildcard first": (
        [
            route("short", (match(MODEL),), hostnames=("*.com",)),
            route("long", (match(MODEL),), hostnames=("*.x.com",)),
        ],
        "a.x.com",
        [("long", 0, 0), ("short", 0, 0)],
    ),
    "routes of other hosts are none": (
        [route("own", (match(MODEL),), hostnames=("a.com",)), route("other", (match(MODEL),), hostnames=("b.com",))],
        "*",
        [],
    ),
}


@pytest.mark.parametrize("case", ORDERS)
def test_order(case):
    routes, host, expected = ORDERS[case]
    assert order(routes, host) == expected


HOSTS = {
    "exact": ("a.x.com", "a.x.com"),
    "exact with a port": ("a.x.com:8080", "a.x.com"),
    "other case": ("A.X.com", "a.x.com"),
    "wildcard": ("b.x.com", "*.x.com"),
    "two labels": ("c.b.x.com", "*.x.com"),
    "the longest wildcard": ("q.deep.x.com", "*.deep.x.com"),
    "the wildcard's own domain": ("x.com", "*"),
    "unknown": ("y.org", "*"),
    "none": ("", "*"),
    "an address": ("[::1]:80", "*"),
}


@pytest.mark.parametrize("case", HOSTS)
def test_virtual_host(case):
    host, expected = HOSTS[case]
    assert virtual_host(["a.x.com", "*.x.com", "*.deep.x.com"], host) == expected


HOLDS = {
    "everything": (match(), "/anything", {}, True),
    "header": (match(MODEL), "/", {"x-ai-eg-model": "m"}, True),
    "another value": (match(MODEL), "/", {"x-ai-eg-model": "mm"}, False),
    "no header": (match(MODEL), "/", {}, False),
    "names have no case": (match(header("X-Tenant", "a")), "/", {"x-tenant": "a"}, True),
    "regex": (match(header("x-ai-eg-model", "gpt-.*", "regex")), "/", {"x-ai-eg-model": "gpt-4"}, True),
    "a regex takes the whole value": (match(header("x-t", "a", "regex")), "/", {"x-t": "ab"}, False),
    "prefix": (match(path="/v1"), "/v1/chat?x=1", {}, True),
    "the prefix itself": (match(path="/v1/"), "/v1", {}, True),
    "half a segment": (match(path="/v1"), "/v12", {}, False),
    "all must hold": (match(MODEL, TENANT), "/", {"x-ai-eg-model": "m"}, False),
}


@pytest.mark.parametrize("case", HOLDS)
def test_conditions(case):
    condition, path, headers, expected = HOLDS[case]
    assert holds(condition, path, headers) is expected


def test_hosts_are_listed_once():
    routes = [route("a", hostnames=("x.com", "*")), route("b", hostnames=("y.com", "x.com"))]
    assert hosts(routes) == ["x.com", "y.com"]


def test_a_route_names_the_listeners_that_admit_it():
    listener = Listener(name="http", port=80, protocol="HTTP")
    assert admits(listener, route("a"))
    assert admits(listener, route("a", listeners=("http",)))
    assert not admits(listener, route("a", listeners=("other",)))


@given(st.lists(st.sampled_from(["/", "/v1", "/v1/chat"]), max_size=6))
def test_no_way_is_lost(paths):
    routes = [route(str(number), (match(path=path),)) for number, path in enumerate(paths)]
    found = order(routes)
    assert sorted(found) == [(str(number), 0, 0) for number in range(len(paths))]

"""A forward proxy on the way to backends (contract, control plane 6.8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.proxy import parse
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

RULE = "default/r/rule/0"
TLS = {
    "name": "envoy.transport_sockets.tls",
    "typedConfig": eg.typed("extensions.transport_sockets.tls.v3.UpstreamTlsContext", sni="b.example"),
}
MATCHED = {"name": "tls/0", "match": {"name": "tls/0"}, "transportSocket": TLS}


def lookup(name):
    known = {"proxy.example": "192.0.2.7"}
    if name not in known:
        raise OSError(f"{name} has no address")
    return known[name]


OPTIONS = Options(lookup=lookup)


@pytest.fixture
def through(knowledge):
    """``through(proxy, …)``: a route that is attached to gateways with these proxies, ``gw``, ``gw1`` and so on."""

    def gateways(*proxies):
        known = knowledge(res.gateway(), res.route("r", res.rule("b")), *res.served("b"))
        (made,) = known.gateways("default", "r")
        return Snapshot(replace(made, name=f"gw{number or ''}", proxy=proxy) for number, proxy in enumerate(proxies))

    return gateways


def cluster(**fields):
    return eg.cluster(RULE, eg.locality(ref=f"{RULE}/backend/0"), **fields)


def sockets(found):
    """The proxy and the inner socket of the default transport and of each that is matched."""
    given = [
        found["transport_socket"],
        *(each["transport_socket"] for each in found.get("transport_socket_matches", ())),
    ]
    return [
        (
            each["typed_config"]["@type"].rpartition(".")[2],
            *each["typed_config"]["default_proxy_address"]["socket_address"].values(),
            each["typed_config"]["transport_socket"]["name"].rpartition(".")[2],
        )
        for each in given
    ]


PROXIED = "Http11ProxyUpstreamTransport"
TRANSPORTS = {
    "clear text": (cluster(), ["raw_buffer"]),
    "TLS for all": (cluster(transportSocket=TLS), ["tls"]),
    "TLS for some, the others in clear text": (cluster(transportSocketMatches=[MATCHED]), ["raw_buffer", "tls"]),
    "TLS for all and some": (cluster(transportSocket=TLS, transportSocketMatches=[MATCHED]), ["tls", "tls"]),
}


@pytest.mark.parametrize(("given", "inner"), TRANSPORTS.values(), ids=TRANSPORTS)
def test_every_transport_goes_through_the_proxy(translate, through, given, inner):
    result = translate(through("192.0.2.9:3128"), options=OPTIONS, clusters=[given])

    assert sockets(result.cluster(RULE)) == [(PROXIED, "192.0.2.9", 3128, name) for name in inner]


def test_a_name_is_looked_up(translate, through):
    result = translate(through("proxy.example:8080"), options=OPTIONS, clusters=[cluster()])

    assert sockets(result.cluster(RULE)) == [(PROXIED, "192.0.2.7", 8080, "raw_buffer")]


UNUSABLE = {
    "a name without an address": "gone.example:3128",
    "no port": "proxy.example",
    "no host": ":3128",
    "a port that is none": "proxy.example:70000",
    "a scheme": "http://proxy.example:3128",
}


@pytest.mark.parametrize("proxy", UNUSABLE.values(), ids=UNUSABLE)
def test_a_proxy_that_cannot_be_used_closes_the_way(translate, through, proxy):
    """Nothing goes out beside it, and nothing else suffers."""
    result = translate(through(proxy), options=OPTIONS, clusters=[cluster(), {"name": "other", "type": "EDS"}])

    assert sockets(result.cluster(RULE)) == [(PROXIED, "127.0.0.1", 1, "raw_buffer")]
    assert [resource for resource, _ in result.findings] == [f"forward proxy {proxy}"]
    assert result.cluster("other") == {"name": "other", "type": "EDS"}


GATEWAYS = {
    "the one that is translated": (("192.0.2.1:1", "192.0.2.2:2"), ["default/gw1/http"], ("192.0.2.2", 2)),
    "both, with the same": (("192.0.2.1:1", "192.0.2.1:1"), ["default/gw/http", "default/gw1/http"], ("192.0.2.1", 1)),
    "one that has none": (("192.0.2.1:1", ""), ["default/gw1/http"], None),
}


@pytest.mark.parametrize(("proxies", "configs", "expected"), GATEWAYS.values(), ids=GATEWAYS)
def test_the_proxy_is_that_of_the_gateway(translate, through, proxies, configs, expected):
    routes = [eg.route_config(eg.route(), name=name) for name in configs]

    result = translate(through(*proxies), options=OPTIONS, clusters=[cluster()], routes=routes)

    found = result.cluster(RULE)
    assert ("transport_socket" in found) is (expected is not None)
    if expected is not None:
        assert sockets(found) == [(PROXIED, *expected, "raw_buffer")]
    assert result.findings == []


def test_a_gateway_is_known_by_metadata_where_listeners_have_other_names(translate, through):
    given = eg.listener(name="tcp-10080", metadata=eg.owned("gw1", generated=False, kind="Gateway"))

    result = translate(through("192.0.2.1:1", "192.0.2.2:2"), options=OPTIONS, clusters=[cluster()], listeners=[given])

    assert sockets(result.cluster(RULE)) == [(PROXIED, "192.0.2.2", 2, "raw_buffer")]


def test_gateways_that_share_an_envoy_and_differ_are_told(translate, through):
    routes = [eg.route_config(name=name) for name in ("default/gw/http", "default/gw1/http")]

    result = translate(through("192.0.2.1:1", "192.0.2.2:2"), options=OPTIONS, clusters=[cluster()], routes=routes)

    assert sockets(result.cluster(RULE)) == [(PROXIED, "192.0.2.1", 1, "raw_buffer")]
    assert [("different forward proxies" in message) for _, message in result.findings] == [True]


ADDRESSES = {
    "a name": ("p:1", "p", 1),
    "IPv4": ("10.0.0.1:65535", "10.0.0.1", 65535),
    "IPv6": ("[::1]:3128", "::1", 3128),
}


@pytest.mark.parametrize(("text", "host", "port"), ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_is_read(text, host, port):
    found = parse(text)

    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize("text", ["", "p", "p:", ":1", "p:0", "p:65536", "::1:3128", "[x]:1", "p:1/", "p:\uff11"])
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match="is not host:port"):
        parse(text)

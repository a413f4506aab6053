"""Where backends are, as Envoy is told: addresses, TLS by address, and what stands between."""

from __future__ import annotations

import pytest

from deploy.envoy.endpoints import backends
from deploy.envoy.model import CA_FILE, Endpoint, PipeAddress, SocketAddress, UpstreamTLS
from filter_config.sources import model as neutral
from filter_config.sources.faults import Faults
from filter_config.sources.model import Address
from tests.support.certificates import Authority
from tests.support.neutral import backend, rule

PROXY = SocketAddress(host="10.0.0.1", port=3128)
NAMED = Address(host="api.example", port=443)
BARE = Address(host="10.0.0.9", port=443)
RENAMED = Address(host="10.0.0.9", port=443, hostname="api.example")
SOCKET = Address(pipe="/run/model.sock")


def no_lookup(name):
    raise OSError(f"no address of {name}")


def made(*given, proxy="", lookup=no_lookup):
    """The backends, and what was said."""
    faults = Faults()
    found = backends(rule(*given), proxy=proxy, ca_file=CA_FILE, lookup=lookup, faults=faults)
    return found, [f"{fault.severity}: {fault.message}" for fault in faults.closed()]


def only(*given, **arguments):
    (found,), said = made(*given, **arguments)
    assert said == []
    return found


def test_all_addresses_are_kept_in_order():
    found = only(backend("b", NAMED, RENAMED))

    assert found.endpoints == (
        Endpoint(address=SocketAddress(host="api.example", port=443)),
        Endpoint(address=SocketAddress(host="10.0.0.9", port=443), hostname="api.example"),
    )


TLS = {
    "the name that is given": (NAMED, {"server_name": "other.example"}, "other.example"),
    "the name of the address": (NAMED, {}, "api.example"),
    "the name in the Host header": (RENAMED, {}, "api.example"),
    "an address": (BARE, {}, "10.0.0.9"),
    "a socket": (SOCKET, {}, ""),
}


@pytest.mark.parametrize(("address", "fields", "name"), TLS.values(), ids=TLS)
def test_the_certificate_is_for_a_name(address, fields, name):
    found = only(backend("b", address, tls=neutral.UpstreamTLS(**fields)))

    assert found.tls == UpstreamTLS(server_name=name)


def test_trust_is_kept(tmp_path):
    pem = Authority(tmp_path).ca.read_text()
    tls = neutral.UpstreamTLS(server_name="a.example", ca_pem=pem, verify=False)

    assert only(backend("b", tls=tls)).tls == UpstreamTLS(server_name="a.example", ca_pem=pem, verify=False)


@pytest.mark.parametrize("pem", ["pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "é"])
def test_trust_in_what_cannot_be_read_is_no_trust(pem):
    found, said = made(backend("b", tls=neutral.UpstreamTLS(ca_pem=pem)))

    assert (found, said) == ((), ["error: the certificates to trust cannot be read; the backend is left out"])


def test_an_endpoint_that_is_not_known_is_none():
    assert made(backend(endpoint=None)) == ((), [])


# --- sockets ---


def test_a_socket():
    assert only(backend("b", SOCKET, BARE)).address == PipeAddress(path="/run/model.sock")


SOCKET_FAULT = "error: a unix domain socket of backend s beside a DNS name in one rule; it is left out"


def test_a_socket_beside_a_name_is_left_out():
    found, said = made(backend("s", SOCKET), backend("n", NAMED))

    assert [each.name for each in found] == ["n"]
    assert said == [SOCKET_FAULT]


def test_a_backend_keeps_its_other_addresses():
    (found,), said = made(backend("s", SOCKET, NAMED))

    assert [endpoint.address for endpoint in found.endpoints] == [SocketAddress(host="api.example", port=443)]
    assert said == [SOCKET_FAULT]


# --- proxies ---


def test_a_backend_without_a_proxy_is_asked_directly():
    assert only(backend()).proxy is None


def test_a_backends_own_proxy_comes_before_the_gateways():
    assert only(backend(proxy="10.0.0.1:3128"), proxy="10.0.0.2:8080").proxy == PROXY
    assert only(backend(), proxy="10.0.0.1:3128").proxy == PROXY
    assert only(backend(), proxy="[2001:db8::1]:3128").proxy == SocketAddress(host="2001:db8::1", port=3128)


def test_a_proxys_name_is_looked_up():
    found = only(backend(), proxy="proxy.example:3128", lookup={"proxy.example": "10.0.0.1"}.__getitem__)

    assert found.proxy == PROXY


@pytest.mark.parametrize("proxy", ["proxy.example:3128", "10.0.0.1:http", "3128"])
def test_without_its_proxy_a_backend_is_not_asked(proxy):
    found, said = made(backend(), proxy=proxy)

    assert found == ()
    assert said == [f"error: the proxy {proxy} has no address, and without it the backend is not asked"]


SECURE = neutral.UpstreamTLS(server_name="api.example")
BEHIND = {
    "a name with TLS": (NAMED, SECURE, "198.18.0.1", "api.example"),
    "an address with TLS": (BARE, SECURE, "10.0.0.9", None),
    "a renamed address with TLS": (RENAMED, SECURE, "10.0.0.9", "api.example"),
    "a name in clear text": (NAMED, None, "198.18.0.1", "api.example:443"),
    "a name on the usual port": (Address(host="api.example", port=80), None, "198.18.0.1", "api.example"),
    "an address in clear text": (BARE, None, "10.0.0.9", "10.0.0.9:443"),
    "an IPv6 address in clear text": (Address(host="::1", port=81), None, "::1", "[::1]:81"),
}


@pytest.mark.parametrize(("address", "tls", "host", "hostname"), BEHIND.values(), ids=BEHIND)
def test_a_proxy_is_told_where_to_go(address, tls, host, hostname):
    found = only(backend("b", address, tls=tls), proxy="10.0.0.1:3128")

    assert (found.address, found.hostname) == (SocketAddress(host=host, port=address.port), hostname)


def test_each_name_behind_a_proxy_has_an_address_of_its_own():
    found, said = made(backend("a", NAMED, NAMED), backend("b", NAMED), proxy="10.0.0.1:3128")

    assert said == []
    hosts = [endpoint.address.host for each in found for endpoint in each.endpoints]
    assert hosts == ["198.18.0.1", "198.18.0.2", "198.18.0.3"]


def test_names_behind_a_proxy_go_with_sockets():
    found, said = made(backend("s", SOCKET), backend("n", NAMED), proxy="10.0.0.1:3128")

    assert ([each.name for each in found], said) == (["s", "n"], [])

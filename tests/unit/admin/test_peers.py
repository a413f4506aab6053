from __future__ import annotations

import pytest

from extproc.admin.peers import Peers

LOCAL = {"host": "127.0.0.1:1064"}
# Setting, address of the client, its headers, and what the refusal says; nothing where there is none.
REQUESTS = {
    "loopback": ("loopback", "127.0.0.1", LOCAL, ""),
    "another loopback address": ("loopback", "127.8.8.8", LOCAL, ""),
    "loopback of IPv6": ("loopback", "::1", {"host": "[::1]:1064"}, ""),
    "loopback as a socket for both families sees it": ("loopback", "::ffff:127.0.0.1", LOCAL, ""),
    "under the name of every machine": ("loopback", "127.0.0.1", {"host": "localhost:1064"}, ""),
    "under a name that browsers resolve to loopback": ("loopback", "127.0.0.1", {"host": "App.LocalHost"}, ""),
    "a neighbour": ("loopback", "10.0.0.7", LOCAL, "10.0.0.7 is not among the peers"),
    "a neighbour, mapped": ("loopback", "::ffff:10.0.0.7", LOCAL, "10.0.0.7 is not among the peers"),
    "a link-local neighbour": ("loopback", "fe80::1%eth0", LOCAL, "fe80::1 is not among the peers"),
    "nobody": ("loopback", "", LOCAL, "the address of the client is not known"),
    "a page elsewhere, by DNS rebinding": ("loopback", "127.0.0.1", {"host": "evil.example:1064"}, "the Host header"),
    "no host": ("loopback", "127.0.0.1", {}, "the Host header"),
    "a name that only begins like an address": (
        "loopback",
        "127.0.0.1",
        {"host": "127.0.0.1.evil.example"},
        "the Host",
    ),
    "a name that only ends like the right one": ("loopback", "127.0.0.1", {"host": "evillocalhost"}, "the Host"),
    "a proxy here": (
        "loopback",
        "127.0.0.1",
        LOCAL | {"x-forwarded-for": "10.0.0.7"},
        "the request came through a proxy",
    ),
    "a proxy here that says it otherwise": (
        "loopback",
        "127.0.0.1",
        LOCAL | {"via": "1.1 x"},
        "the request came through",
    ),
    "a neighbour in a network that may": ("10.0.0.0/8", "10.0.0.7", {"host": "pod.example"}, ""),
    "a neighbour beside it": ("10.0.0.0/8, fd00::/8", "11.0.0.7", {}, "11.0.0.7 is not among"),
    "a neighbour in the second": ("10.0.0.0/8, fd00::/8", "fd00::7", {}, ""),
    "loopback where networks may": ("10.0.0.0/8", "127.0.0.1", {"host": "console.example", "via": "1.1 x"}, ""),
    "anybody": ("any", "203.0.113.9", {"host": "console.example"}, ""),
    "anybody by IPv6": ("any", "2001:db8::1", {"host": "console.example"}, ""),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_who_may_see_the_console(name):
    setting, address, headers, reason = REQUESTS[name]
    refusal = Peers.parse(setting).refusal(address, headers)
    assert refusal.startswith(reason)
    assert bool(refusal) == bool(reason)


@pytest.mark.parametrize("text", ["here", "10.0.0.0/40", "10.0.0.7/8", "10.0.0.0/8,,", "any,10.0.0.0/8"])
def test_what_is_no_network_is_refused(text):
    with pytest.raises(ValueError):
        Peers.parse(text)

"""Routes are made once, and what is wrong with them is told each time."""

from __future__ import annotations

from dataclasses import replace

from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.model import Processor, SocketAddress
from deploy.local.envoy_models import RouteMemory
from filter_config.sources.faults import Faults
from tests.support.gateway_resources import compiled, gateway, only, route, rule, served

SERVING = Serving(processor=Processor(address=SocketAddress(host="127.0.0.1", port=1)), lookup=lambda _: "127.0.0.9")


def model(*routes):
    return only(compiled(gateway(), *served("b"), *routes)).model


def made(memory, wanted):
    faults = Faults()
    result = envoy_gateway(wanted, SERVING, faults, make_route=memory)
    memory.forget_unused()
    return result, [fault.message for fault in faults.closed()]


BAD = {"matches": [{"headers": [{"name": "x", "value": "(", "type": "RegularExpression"}]}]}


def test_a_route_that_stays_the_same_is_made_once():
    memory = RouteMemory()
    wanted = model(route("r", rule("b")), route("s", rule("b", model="n")))
    first, _ = made(memory, wanted)

    other = replace(wanted.routes[1], name="t")
    second, _ = made(memory, replace(wanted, routes=(wanted.routes[0], other)))

    assert second.routes[0] is first.routes[0]
    assert second == envoy_gateway(replace(wanted, routes=(wanted.routes[0], other)), SERVING)


def test_what_is_wrong_is_told_each_time():
    memory, wanted = RouteMemory(), model(route("r", rule("b"), {**rule("b"), **BAD}))

    told = [made(memory, wanted)[1] for _ in range(3)]

    assert told[0] == told[1] == told[2]
    assert len(told[0]) == 1


def test_another_proxy_of_the_gateway_is_another_way_for_all_routes():
    memory, wanted = RouteMemory(), model(route("r", rule("b")))
    made(memory, wanted)

    result, _ = made(memory, replace(wanted, proxy="proxy.example.com:3128"))

    assert result == envoy_gateway(replace(wanted, proxy="proxy.example.com:3128"), SERVING)
    assert result.routes[0].rules[0].backends[0].proxy == SocketAddress(host="127.0.0.9", port=3128)

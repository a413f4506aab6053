from __future__ import annotations

import socket

import pytest

from deploy.local import listening
from deploy.local.listening import Ports, PortUnusable
from filter_config.sources.faults import Origin
from filter_config.sources.model import Gateway, Listener

HOST = "127.0.0.1"


def gateway(*listeners):
    made = tuple(
        Listener(name=f"l{index}", port=port, protocol=protocol) for index, (port, protocol) in enumerate(listeners)
    )
    return Gateway(namespace="default", name="gw", origin=Origin(file="f"), listeners=made)


@pytest.fixture
def free():
    with socket.create_server((HOST, 0)) as bound:
        return bound.getsockname()[1]


def test_a_listener_has_its_own_port(free):
    assert Ports(HOST).of(gateway((free, "HTTP"), (9, "TCP"))) == {"l0": free}


def test_the_first_one_may_be_given_another(free):
    with socket.create_server((HOST, 0)) as bound:
        other = bound.getsockname()[1]
    ports = Ports(HOST, first=other)

    assert ports.of(gateway((80, "HTTP"), (80, "HTTP"), (free, "HTTP"))) == {"l0": other, "l1": other, "l2": free}


def test_any_port_stays_the_same_one():
    ports = Ports(HOST, first=0)
    found = ports.of(gateway((80, "HTTP")))

    assert found["l0"] > 0
    with socket.create_server((HOST, found["l0"])):
        # It is ours by now.
        assert ports.of(gateway((80, "HTTP"))) == found


def test_a_port_that_is_taken():
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortUnusable, match=f"listener l0: port {port} is taken"):
            Ports(HOST).of(gateway((port, "HTTP")))


def test_a_port_that_only_root_may_have_is_moved_up(monkeypatch):
    def bound(host, port):
        if port < 1024:
            raise PermissionError(13, "Permission denied")
        return port

    monkeypatch.setattr(listening, "_bound", bound)

    assert Ports(HOST).of(gateway((80, "HTTP"), (443, "HTTPS"))) == {"l0": 10080, "l1": 10443}


def test_an_address_that_is_not_here():
    with pytest.raises(
        PortUnusable, match=r"^listener l0: 192\.0\.2\.1 port 1975 cannot be listened on: Cannot assign"
    ):
        Ports("192.0.2.1").of(gateway((1975, "HTTP")))

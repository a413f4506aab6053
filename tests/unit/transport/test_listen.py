from __future__ import annotations

import asyncio
import socket

import pytest

from extproc.transport.base import ListenError
from extproc.transport.listen import SocketFile, bind_tcp, parse_tcp, reachable

ADDRESSES = {
    "a name": ("localhost:80", ("localhost", 80)),
    "an IPv4 address": ("127.0.0.1:0", ("127.0.0.1", 0)),
    "an IPv6 address": ("[::1]:1063", ("::1", 1063)),
    "no host": (":1063", ("", 1063)),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_host_and_port(case):
    address, expected = ADDRESSES[case]
    assert parse_tcp(address) == expected


REACHED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]", "10.0.0.1": "10.0.0.1"}


@pytest.mark.parametrize("host", REACHED)
def test_where_a_server_is_reached(host):
    assert reachable(host) == REACHED[host]


@pytest.mark.parametrize("target", ["127.0.0.1", "::1"])
def test_without_a_host_both_versions_of_ip_are_served(target):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with bind_tcp(":0") as bound:
        bound.listen()
        with socket.create_connection((target, bound.getsockname()[1]), timeout=5):
            pass


def test_two_servers_do_not_share_a_port():
    with bind_tcp("127.0.0.1:0") as bound:
        bound.listen()
        with pytest.raises(ListenError, match="already in use"):
            bind_tcp(f"127.0.0.1:{bound.getsockname()[1]}")


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0"])
def test_a_reply_does_not_wait_for_the_acknowledgement_of_the_last(address):
    """On asyncio's own loop, too, which knows TCP by the number alone."""

    async def accepted() -> int:
        found = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("socket")
            found.set_result(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        bound = bind_tcp(address)
        async with await asyncio.start_server(connected, sock=bound):
            _, writer = await asyncio.open_connection("127.0.0.1", bound.getsockname()[1])
            without_delay = await found
            writer.close()
            await writer.wait_closed()
            return without_delay

    assert asyncio.run(accepted())


def test_a_host_that_does_not_exist():
    with pytest.raises(ListenError, match=r"^listen tcp no\.such\.invalid:80: "):
        bind_tcp("no.such.invalid:80")


def test_a_file_that_another_has_taken_over_is_left(tmp_path):
    address = f"unix://{tmp_path}/run.sock"
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        old, new = SocketFile(address), SocketFile(address)
        old.take_over(first.bind, 0o600)
        new.take_over(second.bind, 0o600)
        old.remove()
        assert (tmp_path / "run.sock").exists()
        new.remove()
        new.remove()
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_never_there_is_not_removed(tmp_path):
    path = tmp_path / "run.sock"
    path.touch()
    SocketFile(f"unix://{path}").remove()
    assert path.exists()


def test_nothing_is_left_behind_when_the_path_cannot_be_taken(tmp_path):
    (tmp_path / "run.sock").mkdir()
    with socket.socket(socket.AF_UNIX) as bound, pytest.raises(ListenError, match="Is a directory"):
        SocketFile(f"unix://{tmp_path}/run.sock").take_over(bound.bind, 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["run.sock"]

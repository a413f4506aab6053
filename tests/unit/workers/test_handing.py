"""Sockets arrive in order, whole, and none is lost or left open."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from extproc.workers.handing import Giver, Handed, Lost, Taker, Use


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def named(name):
    """A socket from which its name can be read."""
    given, other = socket.socketpair()
    other.sendall(name)
    other.close()
    return given


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def read(handed):
    with handed.socket as received:
        return received.recv(100)


def test_more_than_the_kernel_holds_arrives_in_order(ends):
    count = 400
    names = [str(number).encode() for number in range(count)]

    async def story():
        giver, taker = Giver(ends[0]), Taker(ends[1])
        for number, name in enumerate(names):
            giver.give(Handed(Use.TO_OWNER if number % 2 else Use.CONNECTION, named(name), number, number + 1))
        assert giver._waiting, "some had to wait"
        received = []
        async with asyncio.timeout(20):
            while len(received) < count:
                handed = taker.take()
                if handed is None:
                    await asyncio.sleep(0)
                    continue
                received.append((handed.use, read(handed), handed.worker, handed.incarnation))
        assert giver._waiting == type(giver._waiting)()
        assert taker.take() is None
        giver.close()
        with pytest.raises(EOFError):
            taker.take()
        return received

    uses = [Use.TO_OWNER if number % 2 else Use.CONNECTION for number in range(count)]
    assert asyncio.run(story()) == [
        (use, name, n, n + 1) for n, (use, name) in enumerate(zip(uses, names, strict=True))
    ]


def test_what_a_worker_that_died_did_not_get_is_given_back(ends):
    async def story():
        giver = Giver(ends[0])
        giver.give(Handed(Use.CONNECTION, named(b"sent")))
        ends[1].close()
        giver.give(Handed(Use.CONNECTION, named(b"first")))
        giver.give(Handed(Use.CONNECTION, named(b"second")))
        left = giver.close()
        assert [read(handed) for handed in left] == [b"first", b"second"]
        late = named(b"late")
        giver.give(Handed(Use.CONNECTION, late))
        assert late.fileno() == -1
        assert giver.close() == []

    asyncio.run(story())


def test_a_worker_with_too_many_files_learns_what_it_lost(ends, monkeypatch):
    async def story():
        giver, taker = Giver(ends[0]), Taker(ends[1])
        giver.give(Handed(Use.CONNECTION, named(b"x")))
        # What the kernel gives when there is no room for the descriptor.
        monkeypatch.setattr(socket, "recv_fds", lambda end, size, _: (end.recv(size), [], socket.MSG_CTRUNC, None))
        assert taker.take() == Lost(Use.CONNECTION)
        giver.close()

    asyncio.run(story())


def test_a_socket_is_closed_here_when_it_has_left(ends):
    async def story():
        giver, taker = Giver(ends[0]), Taker(ends[1])
        before = open_files()
        given = named(b"x")
        giver.give(Handed(Use.CONNECTION, given))
        assert given.fileno() == -1
        assert read(taker.take()) == b"x"
        assert open_files() == before
        giver.close()

    asyncio.run(story())

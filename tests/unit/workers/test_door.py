"""The address of a fleet: who waits, who is let in, and what it does when it cannot accept."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from structlog.testing import capture_logs

from extproc.transport.base import ListenError
from extproc.workers import door as module
from extproc.workers.door import Door
from tests.unit.workers.waiting import until


def connect(address):
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def test_connections_wait_in_the_kernel_while_it_is_shut():
    async def story():
        taken = []
        door = Door(taken.append)
        address = door.listen("127.0.0.1:0", socket_mode=0o700)
        with connect(address), connect(address):
            for _ in range(20):
                await asyncio.sleep(0)
            assert taken == []
            door.open()
            door.open()
            await until(lambda: len(taken) == 2)
            door.shut()
            with connect(address):
                for _ in range(20):
                    await asyncio.sleep(0)
                assert len(taken) == 2
                door.open()
                await until(lambda: len(taken) == 3)
        assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in taken)
        door.close()
        door.close()
        with pytest.raises(ConnectionRefusedError):
            connect(address)
        for each in taken:
            each.close()

    asyncio.run(story())


def test_a_socket_file_has_its_mode_and_goes_with_its_owner(tmp_path):
    path = tmp_path / "s"
    door, successor = Door(socket.socket.close), Door(socket.socket.close)
    assert door.listen(f"unix://{path}", socket_mode=0o600) == f"unix:{path}"
    assert path.stat().st_mode & 0o777 == 0o600
    successor.listen(f"unix://{path}", socket_mode=0o640)
    door.close()
    door.remove()
    assert path.stat().st_mode & 0o777 == 0o640
    successor.close()
    successor.remove()
    assert not path.exists()


@pytest.mark.parametrize("address", ["127.0.0.1", "unix:///no/such/place/s", "300.0.0.1:1"])
def test_an_address_that_cannot_be_used(address):
    with pytest.raises(ListenError):
        Door(socket.socket.close).listen(address, socket_mode=0o700)


class Full:
    """A listening socket of a process that may open no more files, for a while."""

    def __init__(self, bound):
        self._bound = bound
        self.refusals = 1

    def __getattr__(self, name):
        return getattr(self._bound, name)

    def accept(self):
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._bound.accept()


def test_a_process_with_too_many_files_waits_and_goes_on(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0.001)

    async def story():
        taken = []
        door = Door(taken.append)
        address = door.listen("127.0.0.1:0", socket_mode=0o700)
        door._bound = full = Full(door._bound)
        door.open()
        with capture_logs() as logs, connect(address):
            await until(lambda: taken)
        assert full.refusals == 0
        assert [line["event"] for line in logs] == ["cannot accept connections"]
        door.close()
        taken[0].close()

    asyncio.run(story())

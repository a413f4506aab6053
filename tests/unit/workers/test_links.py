"""Links on real sockets: nothing is held without bound, and what is held arrives in the end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from extproc.exchange.owners import Owner
from extproc.workers.links import Links, OwnerLink
from extproc.workers.relay import MAX_WAITING
from tests.unit.workers.exchange.joined import Answers
from tests.unit.workers.test_relay import Core, Opener, frame, numbers, question
from tests.unit.workers.waiting import until

OTHER = Owner(group="0a1b2c3d", worker=2, incarnation=3)
MEBIBYTE = 2**20


class Envoy:
    """Connections that take as much as they are told to."""

    def __init__(self):
        self.waiting = 0
        self.flushed = 0

    def flush(self):
        self.flushed += 1


class Worker:
    """One end: a core, and its links."""

    def __init__(self, look=lambda: None):
        self.core, self.envoy, self.relayed = Core(), Envoy(), 0
        self.links = Links(Opener(self.core), lambda: self.envoy, look=look, counted=self._count)

    def _count(self):
        self.relayed += 1


def link(stranger, owner):
    asks, answers = socket.socketpair()
    stranger.links.to_owner(asks, OTHER.worker, OTHER.incarnation)
    owner.links.from_stranger(answers)


def ask(worker, number, size=0):
    answers = Answers()
    call = worker.links(OTHER, answers)
    answers.over = call.close
    call.message(question(number, size=size))
    return answers


def test_calls_are_relayed_and_answered_at_once():
    async def story():
        stranger, owner = Worker(), Worker()
        link(stranger, owner)
        # Before the event loop has made anything of the sockets.
        answers = [ask(stranger, number) for number in range(50)]
        await until(lambda: all(each.sent for each in answers))
        assert [numbers(each) for each in answers] == [[number] for number in range(50)]
        assert (stranger.relayed, stranger.core.fed) == (50, [])
        assert stranger.envoy.flushed
        for each in answers:
            each.finish(0)
        await until(lambda: owner.core.open == 0)
        stranger.links.close()
        owner.links.close()

    asyncio.run(story())


def test_an_owner_handles_no_more_than_the_stranger_takes():
    async def story():
        loop = asyncio.get_running_loop()
        core = Core()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the name of the method says it
        owner = OwnerLink(Opener(core))
        await loop.create_unix_connection(lambda: owner, sock=theirs)
        count, size = 64, 256 * 1024
        asked = b"".join(frame(1, number, question(number, size=size)) for number in range(1, count + 1))
        sending = asyncio.create_task(loop.sock_sendall(ours, asked))
        # It reads until its replies are not taken, and then stands still.
        steps = 0
        while steps < 500:
            before = len(core.fed)
            await asyncio.sleep(0)
            steps = steps + 1 if len(core.fed) == before else 0
        assert owner.waiting <= MEBIBYTE + 2 * size
        assert 0 < len(core.fed) < count
        received = 0
        async with asyncio.timeout(20):
            while received < len(asked) - count:
                received += len(await loop.sock_recv(ours, MEBIBYTE))
                if len(core.fed) == count and not owner.waiting:
                    break
        await sending
        assert core.fed == list(range(1, count + 1))
        ours.close()
        await until(lambda: core.open == 0)

    asyncio.run(story())


def test_a_stranger_reads_no_replies_while_its_own_connections_are_full():
    async def story():
        stranger, owner = Worker(), Worker()
        link(stranger, owner)
        first = ask(stranger, 1)
        await until(lambda: first.sent)
        stranger.envoy.waiting = MAX_WAITING + 1
        # The reply that says so is the last one that is read.
        last = ask(stranger, 2)
        await until(lambda: last.sent)
        more = [ask(stranger, number, 64 * 1024) for number in range(3, 43)]
        await until(lambda: len(owner.core.fed) > 5)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not any(each.sent for each in more)
        stranger.envoy.waiting = 0
        await until(lambda: all(each.sent for each in more))
        assert [numbers(each) for each in more] == [[number] for number in range(3, 43)]
        stranger.links.close()
        owner.links.close()

    asyncio.run(story())


def test_a_call_for_an_owner_that_is_gone_ends_at_once():
    async def story():
        stranger, owner = Worker(), Worker()
        link(stranger, owner)
        waiting = ask(stranger, 1)
        await until(lambda: waiting.sent)
        owner.links.close()
        await until(lambda: waiting.end)
        late = ask(stranger, 2)
        assert [each.end[0] for each in (waiting, late)] == [14, 14]
        assert owner.core.open == 0
        # Its successor is not it.
        asks, answers = socket.socketpair()
        stranger.links.to_owner(asks, OTHER.worker, OTHER.incarnation + 1)
        assert ask(stranger, 3).end[0] == 14
        answers.close()
        stranger.links.close()

    asyncio.run(story())


def test_a_link_that_was_handed_over_and_not_looked_at_is_found():
    async def story():
        looked = []

        def look():
            looked.append(True)
            link(stranger, owner)

        stranger, owner = Worker(look), Worker()
        answers = ask(stranger, 1)
        await until(lambda: answers.sent)
        assert looked == [True]
        stranger.links.close()
        owner.links.close()

    asyncio.run(story())


@pytest.mark.parametrize("nonsense", [frame(9, 1), frame(4, 1, b"x")], ids=["unknown kind", "an answer"])
def test_nonsense_ends_the_link_and_its_calls(nonsense):
    async def story():
        ours, theirs = socket.socketpair()
        core = Core()
        owner = OwnerLink(Opener(core))
        await asyncio.get_running_loop().create_unix_connection(lambda: owner, sock=theirs)
        ours.sendall(frame(1, 1, question(1)) + nonsense)
        await until(lambda: core.fed == [1] and core.open == 0)
        ours.settimeout(10)
        while ours.recv(1000):
            pass
        ours.close()

    asyncio.run(story())

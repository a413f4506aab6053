"""At most one leads at any time, whatever clocks say and whoever is late."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.controller.errors import ApiFailed
from deploy.controller.kinds import Key
from deploy.controller.leader import Election, Elector

KEY = Key("Lease", "system", "lease")
WALL = datetime(2026, 1, 1, tzinfo=UTC)


class Server:
    """One Lease, with versions."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def write(self, value: dict[str, Any], read: dict[str, Any] | None) -> dict[str, Any] | None:
        """The write of somebody who has read this; None when the Lease has changed since."""
        if self.lease is not read:
            return None
        self.version += 1
        self.lease = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


def turn(server: Server, election: Election, now: float) -> None:
    read = server.lease
    step = election.step(read, now, WALL + timedelta(seconds=now))
    if step.act != "wait":
        written = server.write(step.value, read)
        if written is not None:
            election.written(written, now)


def test_the_first_one_leads_and_the_second_waits():
    server, one, two = Server(), Election(key=KEY, identity="1"), Election(key=KEY, identity="2")
    for now in range(0, 60, 2):
        turn(server, one, now)
        turn(server, two, now)
    assert one.is_leading(59)
    assert not two.is_leading(59)
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 0
    assert server.lease["spec"]["renewTime"] == "2026-01-01T00:00:58.000000Z"


def test_who_is_silent_is_followed_after_the_duration_and_has_stopped_before():
    server, one, two = Server(), Election(key=KEY, identity="1"), Election(key=KEY, identity="2")
    turn(server, one, 0)
    turn(server, two, 0)
    assert one.is_leading(9.9)
    assert not one.is_leading(10)
    turn(server, two, 14.9)
    assert not two.is_leading(14.9)
    turn(server, two, 15)
    assert two.is_leading(15)
    turn(server, one, 16)
    assert not one.is_leading(16)


def test_a_released_lease_is_taken_at_once():
    server, one, two = Server(), Election(key=KEY, identity="1"), Election(key=KEY, identity="2")
    turn(server, one, 0)
    assert server.lease is not None
    server.write(one.released(server.lease), server.lease)
    assert not one.is_leading(0.1)
    turn(server, two, 0.2)
    assert two.is_leading(0.2)


def test_who_comes_back_under_its_name_goes_on():
    server = Server()
    turn(server, Election(key=KEY, identity="1"), 0)
    again = Election(key=KEY, identity="1")
    turn(server, again, 1)
    assert again.is_leading(1)


def test_labels_of_the_lease_stay():
    server, one = Server(), Election(key=KEY, identity="1")
    turn(server, one, 0)
    assert server.lease is not None
    server.lease["metadata"]["labels"] = {"a": "b"}
    turn(server, one, 1)
    assert server.lease["metadata"]["labels"] == {"a": "b"}


def test_a_time_that_was_over_is_noticed_by_who_leads_again():
    """A renewal that is sent before the end and answered after it: for a moment between the candidate did not lead."""
    clock = [0.0]

    class Slow(Server):
        async def get(self, *_: Any) -> dict[str, Any]:
            if self.lease is None:
                raise ApiFailed(404, "none")
            return self.lease

        async def create(self, _kind: Any, value: dict[str, Any]) -> Any:
            return self.write(value, self.lease)

        async def replace(self, _kind: Any, _key: Any, value: dict[str, Any]) -> Any:
            clock[0] += 4.0
            return self.write(value, self.lease)

    moves: list[bool] = []
    election = Election(key=KEY, identity="1", deadline=10.0)
    elector = Elector(Slow(), election, lambda: moves.append(elector._leads), clock=lambda: clock[0])

    async def scenario() -> None:
        for now in (0.0, 9.0):
            clock[0] = now
            await elector._turn()
            elector._tell()

    asyncio.run(scenario())
    assert elector.is_leading
    assert moves == [True, False, True]


@settings(max_examples=200, deadline=None)
@given(
    turns=st.lists(
        st.tuples(st.integers(0, 2), st.floats(0.1, 9.0), st.sampled_from(["all", "read", "lost"])), max_size=60
    ),
    skews=st.tuples(*[st.integers(-10_000, 10_000)] * 3),
)
def test_never_do_two_lead(turns: list[tuple[int, float, str]], skews: tuple[int, ...]):
    server = Server()
    elections = [Election(key=KEY, identity=str(number)) for number in range(3)]
    now = 0.0
    for who, pause, luck in turns:
        # Until the next turn there is time to lead in.
        now += pause
        assert sum(election.is_leading(now) for election in elections) <= 1
        election, read = elections[who], server.lease
        step = election.step(read, now, WALL + timedelta(seconds=now + skews[who]))
        if step.act == "wait" or luck == "read":
            continue
        written = server.write(step.value, read)
        # An answer may get lost after the write was done.
        if written is not None and luck == "all":
            election.written(written, now)
        assert sum(each.is_leading(now) for each in elections) <= 1

"""A worker by itself: configs that it takes or not, what it tells, and what it is handed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest

from extproc.errors import ConfigRejected
from extproc.exchange.owners import Owner
from extproc.runtime import build_runtime
from extproc.telemetry.metrics import Metrics
from extproc.telemetry.snapshot import EMPTY, Snapshot
from extproc.workers.fleet import Fleet
from extproc.workers.handing import Giver, Handed, Lost, Taker, Use
from extproc.workers.messages import (
    ANSWERS,
    ORDERS,
    Ask,
    Channel,
    Close,
    Configure,
    Configured,
    Counts,
    Leave,
    Ready,
    Refused,
    Report,
    Start,
    framed,
)
from extproc.workers.seat import State
from extproc.workers.worker import Worker
from filter_config.load import Problem
from tests.unit.workers.fleets import runtime_of, settings_for
from tests.unit.workers.waiting import until

OWNER = Owner(group="0a1b2c3d", worker=1, incarnation=1)
START = Start(settings=settings_for(2), owner=OWNER)
CONFIG = runtime_of().config


class Build:
    """Builds what it may."""

    def __init__(self, refuse=(), break_on=()):
        self.built = []
        self._refuse = refuse
        self._break_on = break_on
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, config, *, digest, problems):
        self.gate.wait(10)
        self.built.append(digest)
        if digest in self._refuse:
            raise ConfigRejected("no memory for so many backends")
        if digest in self._break_on:
            raise ZeroDivisionError("planted")
        return build_runtime(config, digest=digest, problems=problems)


@contextlib.contextmanager
def working(build=build_runtime):
    """A worker, what it has told, and the supervisor's end of what it is handed."""
    ours, theirs = socket.socketpair()
    told = []
    worker = Worker(START, {}, taker=Taker(theirs), tell=told.append, build=build)
    with ours, theirs:
        yield worker, told, ours


def configure(digest):
    return Configure(digest=digest, config=CONFIG)


@pytest.mark.parametrize(
    ("build", "reason"),
    {
        "refused": (Build(refuse=["b"]), "no memory for so many backends"),
        "a fault": (Build(break_on=["b"]), "internal error: ZeroDivisionError"),
    }.values(),
    ids=["refused", "a fault"],
)
def test_a_config_that_cannot_be_built_leaves_the_last_good_one(build, reason):
    async def story():
        with working(build) as (worker, told, _):
            assert not worker.is_serving()
            for number, digest in enumerate("abc", 1):
                worker.obey(configure(digest))
                await until(lambda number=number: len(told) == number)
                assert worker.processor.runtime.digest == ("a" if digest == "b" else digest)
            assert told == [Configured(digest="a"), Refused(digest="b", reason=reason), Configured(digest="c")]
            assert worker.is_serving()

    asyncio.run(story())


def report(number, count, *, more=True):
    metrics = Metrics({})
    for _ in range(count):
        metrics.outcome("chat", "success")
    return Report(metrics=metrics.snapshot(), number=number, more=more)


def test_reports_in_parts_do_not_mix():
    fleet = Fleet(settings_for(2), metrics=Metrics({}), environ={}, on_failure=pytest.fail)
    seat = fleet.seats[0]
    told = [report(0, 2), report(9, 5), Counts(gone=3), Report(metrics=EMPTY, number=9, more=False)]
    for each in told:
        assert seat.snapshot == EMPTY
        fleet._hear(seat, each)
    assert seat.snapshot.scalars["extproc_attempts"][0][1] == 5
    fleet._hear(seat, Report(metrics=EMPTY, more=False))
    assert seat.snapshot.scalars["extproc_attempts"][0][1] == 2
    assert (seat.counts.gone, seat.parts) == (3, {})


def test_only_the_newest_config_is_built():
    async def story():
        build = Build()
        build.gate.clear()
        with working(build) as (worker, told, _):
            for digest in "abcd":
                worker.obey(configure(digest))
                await asyncio.sleep(0)
            build.gate.set()
            await until(lambda: told[-1:] == [Configured(digest="d")])
            assert build.built == ["a", "d"]

    asyncio.run(story())


def test_it_tells_what_it_counts():
    async def story():
        with working() as (worker, told, _):
            worker.metrics.outcome("chat", "success")
            for number in range(250):
                worker.metrics.streams["router"].messages[f"phase {number}"].observe(0.5)
            worker.obey(Ask(number=7))
            await until(lambda: told[-1:] == [Report(metrics=EMPTY, number=7, more=False)])
            counts, *reports = told
            assert counts == Counts()
            assert [report.number for report in reports] == [7] * 5, "scalars, two full parts, the rest, the end"
            assert Snapshot.whole(report.metrics for report in reports) == worker.metrics.snapshot()
            told.clear()
            worker.obey(configure("a"))
            await until(worker.is_serving)
            worker.obey(Leave())
            assert not worker.is_serving()
            told.clear()
            worker.obey(Close())
            await until(lambda: len(told) > 2)
            assert set(told) == {Counts(closed=True)}
            worker.stopped.set()

    asyncio.run(story())


def test_a_connection_that_is_over_before_it_is_taken_is_counted_as_gone():
    async def story():
        with working() as (worker, told, ours):
            given, peer = socket.socketpair()
            peer.close()
            giver = Giver(ours)
            giver.give(Handed(Use.CONNECTION, given))
            worker.take()
            await until(lambda: told)
            assert told == [Counts(gone=1)]
            giver.close()

    asyncio.run(story())


def test_a_connection_that_was_lost_on_its_way_is_counted_as_gone():
    async def story():
        with working() as (worker, told, _):
            worker._take(Lost(Use.FROM_STRANGER))
            worker._take(Lost(Use.CONNECTION))
            await until(lambda: told)
            assert told == [Counts(gone=1)]

    asyncio.run(story())


def test_the_supervisor_shows_a_worker_that_refused_a_config():
    metrics = Metrics({})
    fleet = Fleet(settings_for(2), metrics=metrics, environ={}, on_failure=pytest.fail)
    first, second = fleet.seats
    for seat in fleet.seats:
        seat.state = State.SERVING
        fleet._hear(seat, Configured(digest="old"))
    fleet._runtime = runtime_of(digest="new")
    fleet._hear(first, Configured(digest="new"))
    fleet._hear(second, Refused(digest="new", reason="no memory"))

    assert [(worker["hash"], worker["refused"]) for worker in fleet.describe()["workers"]] == [
        ("new", None),
        ("old", {"hash": "new", "reason": "no memory"}),
    ]
    assert fleet.serves
    assert fleet.readiness()["workers"] == {"wanted": 2, "serving": 2, "with_another_config": 1}
    assert ((("result", "refused_by_worker"),), 1) in metrics.snapshot().scalars["extproc_config_reloads"]
    fleet._hear(second, Configured(digest="newer"))
    assert fleet.describe()["workers"][1]["refused"] is None


def test_a_worker_that_refuses_its_first_config_is_not_let_serve():
    fleet = Fleet(settings_for(2), metrics=Metrics({}), environ={}, on_failure=pytest.fail)
    seat = fleet.seats[0]
    killed = []
    seat.kill = lambda: killed.append(seat)
    seat.state = State.STARTING
    fleet._hear(seat, Refused(digest="new", reason="no memory"))
    assert (killed, seat.state) == ([seat], State.STARTING)


MESSAGES = {
    "start": (START, ORDERS),
    "configure": (
        Configure(
            digest="d",
            config=CONFIG,
            problems=(Problem(severity="fault", path="", message="why", backend="a/b"),),
        ),
        ORDERS,
    ),
    "ready": (Ready(), ANSWERS),
    "report": (None, ANSWERS),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_arrives_as_it_was_said(name):
    message, decoder = MESSAGES[name]
    if message is None:
        metrics = Metrics({})
        metrics.streams["router"].messages["request_headers"].observe(0.5)
        metrics.streams["router"].open.add()
        with working() as (worker, told, _):
            worker.metrics.absorb(metrics.snapshot())
            asyncio.run(worker.report(3))
            message = told[2]
            assert message.metrics.histograms

    async def story():
        ours, theirs = socket.socketpair()
        channel = await Channel.on(ours, ANSWERS)
        other = await Channel.on(theirs, decoder)
        channel.send(message)
        channel.send_framed(framed(message))
        received = await other.receive(), await other.receive()
        await channel.close()
        assert await other.receive() is None
        # What is said to a process that is gone is not heard, and does no harm.
        other.send(message)
        await other.close()
        return received

    assert asyncio.run(story()) == (message, message)

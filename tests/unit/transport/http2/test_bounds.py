"""Allowances, deadlines, signs of life and other counts, each by itself."""

from __future__ import annotations

import pytest

from extproc.transport.http2.allowance import Allowance
from extproc.transport.http2.deadlines import Deadlines
from extproc.transport.http2.life import Life, Verdict
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.recent import RecentStreams


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_an_allowance_runs_out_and_is_full_again_after_its_window():
    clock = Clock()
    allowance = Allowance(3, 10.0, clock)
    assert [allowance.spend(0) for _ in range(5)] == [True, True, True, False, False]
    clock.now += 10.0
    assert [allowance.spend(0) for _ in range(4)] == [True, True, True, False]


def test_what_is_earned_is_given_back_but_not_hoarded():
    allowance = Allowance(3, 10.0, Clock())
    assert all(allowance.spend(0) for _ in range(3))
    assert [allowance.spend(earned) for earned in (1, 2, 2)] == [True, True, False]
    assert [allowance.spend(1_000_000) for _ in range(4)] == [True, True, True, False]


def test_a_dear_event_costs_at_most_all():
    clock = Clock()
    allowance = Allowance(3, 10.0, clock)
    assert allowance.spend(0, cost=100)
    assert not allowance.spend(0)


def test_deadlines_come_in_order():
    clock = Clock()
    deadlines = Deadlines(clock)
    assert not deadlines
    for seconds, stream in ((3.0, 1), (1.0, 3), (2.0, 5)):
        deadlines.add(seconds, stream)
    assert deadlines.first == 1001.0
    assert list(deadlines.due(1002.0)) == [3, 5]
    assert list(deadlines.due(1002.0)) == []
    assert deadlines.first == 1003.0


def test_deadlines_of_streams_that_are_over_do_not_pile_up():
    """A client with an hour for each call, and a million calls."""
    deadlines = Deadlines(Clock())
    most = 0
    for stream in range(1, 20_001, 2):
        deadlines.add(3600.0, stream)
        deadlines.thin_out({stream}, 1)
        most = max(most, len(deadlines._heap))
    assert most <= 67
    assert list(deadlines.due(1e9))[-1] == 19_999


def test_a_peer_that_does_not_begin_is_gone():
    life = Life(Limits(preface_seconds=5.0), 0.0)
    life.heard = True
    assert life.look_at == 5.0
    assert life.look(5.0, started=False) is Verdict.GONE


def test_a_peer_is_asked_once_and_then_gone():
    life = Life(Limits(preface_seconds=5.0, keepalive_seconds=30.0, keepalive_timeout=20.0), 0.0)
    life.heard = True
    assert life.look(5.0, started=True) is Verdict.FINE
    assert life.look_at == 35.0
    assert life.look(35.0, started=True) is Verdict.ASK
    assert life.look_at == 55.0
    life.heard = True
    assert life.look(55.0, started=True) is Verdict.FINE
    assert life.look(85.0, started=True) is Verdict.ASK
    assert life.look(105.0, started=True) is Verdict.GONE


def test_at_least_so_many_streams_are_remembered():
    recent = RecentStreams(100)
    for stream in range(1000):
        recent.add(stream)
        assert all(known in recent for known in range(max(0, stream - 99), stream + 1))
        assert len(recent._new) + len(recent._old) <= 200


WRONG = {
    "frames smaller than the protocol allows": {"max_frame_size": 16_383},
    "frames larger than can be said": {"max_frame_size": 2**24},
    "no window for a stream": {"stream_window": 0},
    "a window larger than can be said": {"connection_window": 2**31},
}


@pytest.mark.parametrize("case", WRONG)
def test_bounds_that_the_protocol_cannot_express(case):
    with pytest.raises(ValueError, match=next(iter(WRONG[case]))):
        Limits(**WRONG[case])

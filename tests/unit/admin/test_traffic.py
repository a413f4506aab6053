"""From slots to the figures of a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.admin.traffic import MAX_ROWS, WINDOWS, Gathering, Phases
from extproc.telemetry.ledger import OTHER, SLOT_SECONDS, SLOWEST, Entry, Ledger

NOW = 1_800_000_007.0


def entry(ago=0.0, **fields):
    values = {
        "at": NOW - ago,
        "model": "m",
        "asked": "m",
        "backend": "b",
        "route": "r",
        "operation": "chat",
        "outcome": "success",
        "status": 200,
        "seconds": 2.0,
        "prepared": 0.001,
        "headers": 0.5,
        "first_byte": 0.6,
        "streamed": True,
        "request_id": "id",
        "costs": {},
        "input": 0,
        "cached": 0,
        "output": 0,
        "reasoning": 0,
    }
    return Entry(**values | fields)


def gathered(entries, window="5m"):
    ledger = Ledger()
    for each in entries:
        ledger.record(each)
    gathering = Gathering(window, NOW)
    for slot in ledger.slots(*gathering.slots):
        gathering.add(slot)
    return gathering.result()


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_ends_with_now_and_begins_where_it_says(window):
    traffic = gathered([entry()], window)
    size = WINDOWS[window]
    assert traffic.overall.series.attempts == [0] * (size.points - 1) + [1]
    assert traffic.first % traffic.step == 0
    end = traffic.first + traffic.points * traffic.step
    assert end - traffic.step <= NOW < end
    assert {"5m": 300, "15m": 900, "1h": 3600}[window] == size.seconds


@pytest.mark.parametrize("window", WINDOWS)
def test_what_is_older_is_left_out(window):
    size = WINDOWS[window]
    assert gathered([entry(size.seconds + size.step)], window).overall.attempts == 0
    assert gathered([entry(size.seconds - size.step)], window).overall.attempts == 1


def test_nothing_gives_empty_figures():
    traffic = gathered([])
    assert traffic.overall.attempts == 0
    assert (traffic.overall.latency, traffic.overall.first_token) == (None, None)
    assert traffic.latency.p50 == [None] * traffic.points
    assert traffic.by == {"model": [], "backend": [], "route": []}
    assert traffic.slowest == []


OUTCOMES = {
    "success": "succeeded",
    "failed": "errors",
    "refused": "errors",
    "retried": "retried",
    "client_cancelled": "cancelled",
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_is_counted_as_one_thing(outcome):
    row = gathered([entry(outcome=outcome)]).overall
    kinds = {"succeeded", "errors", "retried", "cancelled"}
    assert {kind: getattr(row, kind) for kind in kinds} == {kind: kind == OUTCOMES[outcome] for kind in kinds}
    assert row.attempts == 1


def test_every_outcome_of_an_attempt_is_known():
    from extproc.exchange.accounts import Outcome

    assert set(Outcome) == set(OUTCOMES)


def test_rows_are_ordered_by_attempts_and_the_rest_is_other():
    entries = [entry(model=f"m{n:02}") for n in range(MAX_ROWS + 3) for _ in range(MAX_ROWS + 3 - n)]
    rows = gathered(entries).by["model"]
    assert [row.name for row in rows] == [*(f"m{n:02}" for n in range(MAX_ROWS)), OTHER]
    assert rows[-1].attempts == 3 + 2 + 1
    assert sum(row.attempts for row in rows) == len(entries)


def test_what_the_ledger_counted_as_other_comes_last():
    rows = gathered([entry(model=OTHER)] * 3 + [entry(model="m")]).by["model"]
    assert [(row.name, row.attempts) for row in rows] == [("m", 1), (OTHER, 3)]


def test_costs_have_a_series_each():
    row = gathered([entry(costs={"a": 1}), entry(20, costs={"a": 2, "b": 5})]).overall
    assert row.costs == {"a": 3, "b": 5}
    assert {key: [value for value in values if value] for key, values in row.series.costs.items()} == {
        "a": [2, 1],
        "b": [5],
    }


PHASES = {
    "a stream": ({}, Phases(processor=0.001, headers=0.499, first_byte=0.1, streaming=1.4)),
    "an error": ({"first_byte": None}, Phases(processor=0.001, headers=0.499, first_byte=None, streaming=None)),
    "no answer": (
        {"headers": None, "first_byte": None},
        Phases(processor=0.001, headers=None, first_byte=None, streaming=None),
    ),
    "never sent": (
        {"prepared": None, "headers": None, "first_byte": None},
        Phases(processor=None, headers=None, first_byte=None, streaming=None),
    ),
}


@pytest.mark.parametrize("name", PHASES)
def test_phases_are_the_times_between_marks(name):
    fields, phases = PHASES[name]
    assert gathered([entry(**fields)]).slowest[0].phases == phases


def test_the_slowest_of_the_whole_window_are_shown_slowest_first():
    entries = [entry(n * SLOT_SECONDS % 290, seconds=float(n)) for n in range(100)]
    assert [slow.seconds for slow in gathered(entries).slowest] == [float(99 - n) for n in range(SLOWEST)]


@given(st.lists(st.builds(entry, ago=st.integers(0, 280), model=st.text(max_size=3), input=st.integers(0, 99))))
def test_rows_and_series_add_up_to_the_whole(entries):
    traffic = gathered(entries)
    assert traffic.overall.attempts == len(entries) == sum(traffic.overall.series.attempts)
    for rows in traffic.by.values():
        assert sum(row.attempts for row in rows) == len(entries)
        assert sum(row.tokens.input for row in rows) == traffic.overall.tokens.input
        assert len({row.name for row in rows}) == len(rows)

"""The ledger: what it counts, what it keeps, and that parts of it add up in any order."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extproc.telemetry.ledger import (
    MAX_COSTS,
    MAX_KEYS,
    MAX_NAME,
    OTHER,
    SLOT_SECONDS,
    SLOTS,
    SLOWEST,
    Entry,
    Ledger,
    Slot,
    Tally,
    percentile,
    step_of,
)

NOW = 1_800_000_000.0
FIRST = int(NOW) // SLOT_SECONDS
ENTRY = Entry(
    at=NOW,
    model="m",
    asked="asked",
    backend="b",
    route="r",
    operation="chat",
    outcome="success",
    status=200,
    seconds=2.0,
    prepared=0.001,
    headers=0.5,
    first_byte=0.6,
    streamed=True,
    request_id="id",
    costs={"cost": 18},
    input=11,
    cached=4,
    output=7,
    reasoning=2,
)


def entry(**fields):
    return replace(ENTRY, **fields)


def recorded(*entries):
    ledger = Ledger()
    for each in entries:
        ledger.record(each)
    return ledger


def everything(ledger, first=FIRST - 10_000, last=FIRST + 10_000):
    """All slots, with nothing left of the order in which their content came."""
    return unordered(ledger.slots(first, last))


def unordered(slots):
    return {
        slot.number: (slot.tallies, sorted(slot.slowest, key=lambda each: (each.seconds, each.at, each.request_id)))
        for slot in slots
    }


def only(ledger):
    (slot,) = ledger.slots(FIRST - 10_000, FIRST + 10_000)
    return slot


def travelled(slots):
    """Slots as they arrive in another process."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(slots), type=list[Slot])


def test_an_entry_is_counted_under_its_model_backend_and_route():
    (key, tally), *others = only(recorded(ENTRY)).tallies.items()
    assert not others
    assert key == ("m", "b", "r")
    assert tally == Tally(
        costs={"cost": 18},
        latency={step_of(2.0): 1},
        first_token={step_of(0.6): 1},
        input=11,
        cached=4,
        output=7,
        reasoning=2,
    )


# What is recorded, and whether it counts as a latency and as a time to the first token.
TIMED = {
    "a stream": ({}, 1, 1),
    "an answer in one piece": ({"streamed": False}, 1, 0),
    "an empty stream": ({"first_byte": None}, 1, 0),
    "a failure": ({"outcome": "failed"}, 0, 0),
    "a stream that the client left": ({"outcome": "client_cancelled"}, 0, 0),
    "an attempt that was retried": ({"outcome": "retried"}, 0, 0),
}


@pytest.mark.parametrize("name", TIMED)
def test_times_are_those_of_answers(name):
    fields, latencies, first_tokens = TIMED[name]
    tally = only(recorded(entry(**fields))).tallies["m", "b", "r"]
    assert (sum(tally.latency.values()), sum(tally.first_token.values())) == (latencies, first_tokens)
    assert tally.attempts == 1


class Ended:
    """An entry as what has ended shows itself to the ledger."""

    def __init__(self, made):
        self.made = made
        self.ended_at, self.elapsed, self.first_byte = made.at, made.seconds, made.first_byte
        # Nobody reported what is zero.
        self.usage = SimpleNamespace(
            input=made.input or None,
            cached_input=made.cached or None,
            output=made.output or None,
            reasoning=made.reasoning or None,
        )

    def charged(self):
        return self.made.costs


COUNT = st.integers(0, 3)
ENTRIES = st.lists(
    st.builds(
        entry,
        at=st.floats(-20, 60).map(lambda seconds: NOW + seconds) | st.sampled_from([-1.0, 0.0, 14.9]),
        seconds=st.floats(0, 1e7),
        first_byte=st.none() | st.floats(0, 10),
        request_id=st.text("ab", max_size=2),
        costs=st.dictionaries(st.sampled_from("xy"), COUNT, max_size=2),
        input=COUNT,
        cached=COUNT,
        output=COUNT,
        reasoning=COUNT,
    ),
    max_size=25,
)


@given(ENTRIES, st.sampled_from(["success", "failed"]), st.booleans())
def test_many_that_are_alike_are_counted_as_each_by_itself(entries, outcome, streamed):
    entries = [replace(each, outcome=outcome, streamed=streamed) for each in entries]
    ledger = Ledger()
    ended = [Ended(each) for each in entries]
    ledger.record_alike(("m", "b", "r"), outcome, ended, lambda each: each.made, streamed=streamed)
    assert unordered(ledger.take()) == unordered(recorded(*entries).take())


def test_of_those_that_are_not_slow_no_entry_is_made():
    ledger = recorded(*(entry(seconds=5.0) for _ in range(SLOWEST)))
    ended = [Ended(entry(seconds=4.0)) for _ in range(50)]
    ledger.record_alike(("m", "b", "r"), "success", ended, lambda each: pytest.fail("not needed"), streamed=True)
    assert only(ledger).tallies["m", "b", "r"].succeeded == SLOWEST + 50


def test_time_is_cut_into_slots():
    ledger = recorded(*(entry(at=NOW + seconds) for seconds in (0, SLOT_SECONDS - 1, SLOT_SECONDS, 3 * SLOT_SECONDS)))
    counts = {slot.number - FIRST: slot.tallies["m", "b", "r"].attempts for slot in ledger.slots(FIRST, FIRST + 5)}
    assert counts == {0: 2, 1: 1, 3: 1}
    assert [slot.number - FIRST for slot in ledger.slots(FIRST + 1, FIRST + 2)] == [1]


def test_more_keys_than_a_slot_takes_are_counted_as_other_and_the_next_slot_starts_anew():
    ledger = recorded(*(entry(model=f"model {number}") for number in range(MAX_KEYS + 5)))
    tallies = only(ledger).tallies
    assert len(tallies) == MAX_KEYS + 1
    assert tallies[OTHER, OTHER, OTHER].attempts == 5
    ledger.record(entry(model="late", at=NOW + SLOT_SECONDS))
    assert next(iter(ledger.slots(FIRST + 1, FIRST + 1))).tallies.keys() == {("late", "b", "r")}


def test_names_are_cut_wherever_they_are_kept():
    long = "x" * 100_000
    slot = only(recorded(*[entry(model=long, asked=long, backend=long, route=long, request_id=long)] * 2))
    cut = long[:MAX_NAME]
    assert slot.tallies.keys() == {(cut, cut, cut)}
    assert slot.tallies[cut, cut, cut].attempts == 2
    for kept in slot.slowest:
        assert (kept.model, kept.asked, kept.backend, kept.route, kept.request_id) == (cut,) * 5


def test_more_cost_keys_than_are_told_apart_are_added_up():
    slot = only(recorded(*(entry(costs={f"cost {number}": 3}) for number in range(MAX_COSTS + 4))))
    costs = slot.tallies["m", "b", "r"].costs
    assert len(costs) == MAX_COSTS + 1
    assert costs[OTHER] == 12


def test_the_slowest_of_a_slot_are_kept_whole():
    seconds = [float(number * 37 % 101) for number in range(101)]
    slot = only(recorded(*(entry(seconds=each) for each in seconds)))
    assert sorted(kept.seconds for kept in slot.slowest) == sorted(seconds)[-SLOWEST:]


def test_only_an_hour_is_kept():
    ledger = recorded(*(entry(at=NOW + number * SLOT_SECONDS) for number in range(3 * SLOTS)))
    kept = [slot.number for slot in ledger.slots(FIRST, FIRST + 4 * SLOTS)]
    assert kept == list(range(FIRST + 2 * SLOTS, FIRST + 3 * SLOTS))


@given(st.lists(st.integers(-2_000, 2_000), max_size=600))
def test_no_clock_can_make_it_grow(jumps):
    ledger = Ledger()
    for jump in jumps:
        ledger.record(entry(at=NOW + jump * SLOT_SECONDS))
        assert len(everything(ledger)) <= SLOTS
        assert [*ledger.slots(FIRST + jump, FIRST + jump)], "what was just recorded is there"


def test_what_was_taken_is_not_there_any_more():
    ledger = recorded(ENTRY)
    taken = ledger.take()
    before = copy.deepcopy(taken)
    assert ledger.take() == []
    ledger.record(ENTRY)
    assert taken == before
    assert only(ledger).tallies["m", "b", "r"].attempts == 1


NAMES = st.sampled_from(["m1", "m2", "m3"])
ENTRIES = st.lists(
    st.builds(
        entry,
        at=st.integers(0, 3 * SLOT_SECONDS).map(lambda seconds: NOW + seconds),
        model=NAMES,
        backend=NAMES,
        outcome=st.sampled_from(["success", "failed", "retried", "refused", "client_cancelled"]),
        # Whole numbers, so that equally slow ones occur.
        seconds=st.integers(1, 9).map(float),
        first_byte=st.none() | st.floats(0, 1),
        request_id=st.uuids().map(str),
        costs=st.dictionaries(st.sampled_from(["c1", "c2"]), st.integers(0, 2**53), max_size=2),
        input=st.integers(0, 2**53),
    ),
    max_size=60,
)


@given(ENTRIES, st.lists(st.integers(0, 2), min_size=60, max_size=60), st.permutations([0, 1, 2]), st.booleans())
def test_three_processes_in_any_order_and_any_grouping_are_as_one(entries, owners, order, pairwise):
    parts = [Ledger() for _ in range(3)]
    for each, owner in zip(entries, owners, strict=False):
        parts[owner].record(each)
    merged = Ledger()
    if pairwise:
        # Two are merged first, and what came of it with the third.
        pair = Ledger()
        for index in order[:2]:
            pair.absorb(travelled(parts[index].take()))
        merged.absorb(travelled(parts[order[2]].take()))
        merged.absorb(travelled(pair.take()))
    else:
        for index in order:
            merged.absorb(travelled(parts[index].take()))
    assert everything(merged) == everything(recorded(*entries))


@given(st.lists(st.integers(0, 200), max_size=300), st.permutations([0, 1, 2]))
def test_beyond_the_caps_sums_are_still_right_in_any_order(models, order):
    parts, merged = [Ledger() for _ in range(3)], Ledger()
    for number, model in enumerate(models):
        parts[number % 3].record(entry(model=str(model)))
    for index in order:
        merged.absorb(parts[index].take())
    for slot in merged.slots(FIRST, FIRST):
        assert len(slot.tallies) <= MAX_KEYS + 1
        assert len(slot.slowest) <= SLOWEST
        assert sum(tally.attempts for tally in slot.tallies.values()) == len(models)
        assert sum(tally.costs["cost"] for tally in slot.tallies.values()) == 18 * len(models)


@given(st.lists(st.floats(1e-4, 3_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_right_within_five_percent(values, share):
    distribution = {}
    for value in values:
        distribution[step_of(value)] = distribution.get(step_of(value), 0) + 1
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert percentile(distribution, share) == pytest.approx(exact, rel=0.05)


def test_a_percentile_of_nothing_is_none():
    assert percentile({}, 0.5) is None


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-9, 1e6, 1e300, math.inf])
def test_no_duration_is_out_of_range(seconds):
    assert percentile({step_of(seconds): 1}, 0.5) > 0

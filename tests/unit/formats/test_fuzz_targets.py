"""A short run of the fuzz targets on their seeds, on damaged seeds and on any octets, so that they do not rot."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import fuzz_encoding, fuzz_eventstream, fuzz_jsonedit, fuzz_messages, fuzz_sse

TARGETS = {
    "jsonedit": fuzz_jsonedit,
    "sse": fuzz_sse,
    "eventstream": fuzz_eventstream,
    "encoding": fuzz_encoding,
    "messages": fuzz_messages,
}
SEEDS = {
    f"{name} {number}": (target, seed) for name, target in TARGETS.items() for number, seed in enumerate(target.SEEDS)
}
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@pytest.mark.parametrize(("target", "seed"), SEEDS.values(), ids=SEEDS)
def test_a_seed_is_accepted(target, seed):
    assert target.one_input(seed) is None


@each_target
@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=200))
def test_any_octets_are_accepted(target, data):
    assert target.one_input(data) is None


@each_target
@settings(deadline=None, max_examples=150)
@given(number=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_a_damaged_seed_is_accepted(target, number, seed):
    chance = random.Random(seed)
    data = bytearray(target.SEEDS[number % len(target.SEEDS)])
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                data[place:place] = chance.choice([b'"', b"\\", b"{", b"]", b",", b":", b"\n", b"\r", b" "])
            case 2 if len(data) > 1:
                del data[place : place + chance.randrange(1, 4)]
            case _:
                data += data[place : place + 20]

    assert target.one_input(bytes(data)) is None

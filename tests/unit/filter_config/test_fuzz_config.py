"""The fuzz target for a moment: seeds, pieces of seeds, and noise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_config import SEEDS, one_input


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds(seed):
    one_input(seed)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=120))
def test_noise(data):
    one_input(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_broken_seeds(data):
    seed = data.draw(st.sampled_from(SEEDS))
    start = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(start, len(seed)))
    put = data.draw(
        st.sampled_from([b"", b"[", b"{", b"}", b"'", b'"', b"\n", b": ", b"&x ", b"*x", b"\xff", b"<<", b"-", b"~"])
    )
    one_input(seed[:start] + put + seed[end:])

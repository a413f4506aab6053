"""A short run of the fuzz target on its seeds and on damaged ones, so that it does not rot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzz_gemini_schema


@pytest.mark.parametrize("seed", fuzz_gemini_schema.SEEDS)
def test_a_seed_is_accepted(seed):
    fuzz_gemini_schema.one_input(seed)


@given(seed=st.sampled_from(fuzz_gemini_schema.SEEDS), place=st.integers(0, 200), other=st.binary(max_size=8))
def test_a_damaged_seed_is_accepted(seed, place, other):
    fuzz_gemini_schema.one_input(seed[:place] + other + seed[place + len(other) :])

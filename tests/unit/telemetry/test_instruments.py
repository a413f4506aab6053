"""Values of a histogram are in their buckets, and in the sum, whenever one looks."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from extproc.telemetry.instruments import Distribution

BOUNDS = (1, 2, 4, 8)
VALUES = st.integers(0, 10) | st.sampled_from([0.5, 1.5, 8.0, 1e9])


def counted(values):
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        # A value on a boundary belongs to the bucket that ends there.
        counts[bisect_left(BOUNDS, value)] += 1
    return counts


@given(st.lists(VALUES, max_size=300), st.lists(VALUES, max_size=5))
def test_every_value_is_in_its_bucket(many, few):
    series = Distribution(BOUNDS)
    for value in many:
        series.observe(value)
    assert list(series.counts) == counted(many)
    assert series.total == sum(many)
    for value in few:
        series.observe(value)
    assert series.count == len(many) + len(few)
    assert list(series.counts) == counted(many + few)


@given(st.lists(VALUES, max_size=100), st.lists(VALUES, max_size=100))
def test_what_another_process_has_observed_is_added(own, others):
    series = Distribution(BOUNDS)
    for value in own:
        series.observe(value)
    series.add(counted(others), sum(others))
    assert list(series.counts) == counted(own + others)
    assert series.total == sum(own) + sum(others)


def test_few_values_wait_to_be_sorted():
    series = Distribution(BOUNDS)
    for _ in range(10_000):
        series.observe(3)
        assert len(series._new) <= 64
    assert list(series.counts) == [0, 0, 10_000, 0, 0]

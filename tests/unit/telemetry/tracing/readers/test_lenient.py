"""What strangers send is read as far as it goes."""

from __future__ import annotations

import math

import pytest
from msgspec import Raw

from extproc.telemetry.tracing.readers import lenient


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_json_that_is_none_is_shown_as_it_stands():
    assert lenient.spelled(Raw(b"{ \xff")) == "{ \ufffd"


def test_a_value_that_is_nested_too_deep_has_no_text():
    assert lenient.encoded(nested(100_000)) == ""
    assert lenient.as_raw(nested(100_000)) is None


NUMBERS = {
    "an integer": (3, 3, 3.0),
    "a whole fraction": (3.0, 3, 3.0),
    "a fraction": (3.5, None, 3.5),
    "a text": ("3", 3, 3.0),
    "no number": ("three", None, None),
    "a truth": (True, None, None),
    "nothing": (None, None, None),
    "infinity": (math.inf, None, None),
    "the largest": (2**63 - 1, 2**63 - 1, float(2**63 - 1)),
    "too large": (2**63, None, float(2**63)),
    "beyond doubles": (10**400, None, None),
}


@pytest.mark.parametrize(("value", "integer", "number"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_what_attributes_can_hold(value, integer, number):
    assert lenient.as_integer(value) == integer
    assert lenient.as_number(value) == number

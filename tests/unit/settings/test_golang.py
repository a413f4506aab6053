"""The expected texts were printed by Go itself (strconv, time)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.golang import format_duration, format_float, parse_bool, parse_duration, parse_int, quote

FLOATS = {
    0.0: "0",
    1.0: "1",
    -1.5: "-1.5",
    0.1: "0.1",
    123456.0: "123456",
    999999.0: "999999",
    1048576.0: "1.048576e+06",
    12345678.5: "1.23456785e+07",
    16777216.0: "1.6777216e+07",
    1e20: "1e+20",
    123456789012345678.0: "1.2345678901234568e+17",
    0.0001: "0.0001",
    0.00012345: "0.00012345",
    0.00001: "1e-05",
    1.5e-7: "1.5e-07",
    1e-300: "1e-300",
    math.inf: "+Inf",
    -math.inf: "-Inf",
}


@pytest.mark.parametrize("value", FLOATS)
def test_floats_read_as_go_prints_them(value):
    assert format_float(value) == FLOATS[value]


def test_not_a_number():
    assert format_float(math.nan) == "NaN"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_float_reads_back_the_same(value):
    assert float(format_float(value)) == value


QUOTED = {
    "a b": '"a b"',
    "": '""',
    'say "hi" \\': '"say \\"hi\\" \\\\"',
    "\x01\n\t": '"\\x01\\n\\t"',
    "\x7f": '"\\x7f"',
    "é": '"é"',
    "\u2028": '"\\u2028"',
    "\u00a0": '"\\u00a0"',
    "\U0001f600": '"\U0001f600"',
}


@pytest.mark.parametrize("text", QUOTED)
def test_quotes(text):
    assert quote(text) == QUOTED[text]


BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


@pytest.mark.parametrize("text", BOOLEANS)
def test_booleans(text):
    assert parse_bool(text) is BOOLEANS[text]


@pytest.mark.parametrize("text", ["", "yes", "tRUE", "2", " true"])
def test_not_booleans(text):
    with pytest.raises(ValueError, match=r"^parse error$"):
        parse_bool(text)


INTEGERS = {
    "0": 0,
    "-0": 0,
    "42": 42,
    "+42": 42,
    "-7": -7,
    "0x10": 16,
    "0X1f": 31,
    "0b101": 5,
    "0o17": 15,
    "017": 15,
    "0_17": 15,
    "1_000_000": 1_000_000,
    "0x_ff": 255,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
}


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text):
    assert parse_int(text) == INTEGERS[text]


NOT_INTEGERS = {
    "": "parse error",
    "abc": "parse error",
    "1.5": "parse error",
    "1__0": "parse error",
    "_1": "parse error",
    "1_": "parse error",
    "0x": "parse error",
    "08": "parse error",
    " 1": "parse error",
    "\u0661": "parse error",
    "9223372036854775808": "value out of range",
}


@pytest.mark.parametrize("text", NOT_INTEGERS)
def test_not_integers(text):
    with pytest.raises(ValueError, match=f"^{NOT_INTEGERS[text]}$"):
        parse_int(text)


DURATIONS = {
    "0": 0.0,
    "-0": 0.0,
    "120s": 120.0,
    "1m30s": 90.0,
    "250ms": 0.25,
    "1.5h": 5400.0,
    ".5s": 0.5,
    "1.s": 1.0,
    "-5s": -5.0,
    "1us": 1e-6,
    "1µs": 1e-6,
    "1μs": 1e-6,
    "100ns": 1e-7,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_durations(text):
    assert parse_duration(text) == pytest.approx(DURATIONS[text], abs=1e-12)


@pytest.mark.parametrize("text", ["", "5", "s", "1d", "1m 30s", "--1s", "1.5.5s", "9999999999h", "+-0"])
def test_not_durations(text):
    with pytest.raises(ValueError, match=r"^parse error$"):
        parse_duration(text)


PRINTED_DURATIONS = {
    0: "0s",
    5: "5s",
    90: "1m30s",
    0.25: "250ms",
    0.0015: "1.5ms",
    3600: "1h0m0s",
    3661.5: "1h1m1.5s",
    1e-9: "1ns",
    -5: "-5s",
    1.5e-6: "1.5µs",
}


@pytest.mark.parametrize("seconds", PRINTED_DURATIONS)
def test_printed_durations(seconds):
    assert format_duration(seconds) == PRINTED_DURATIONS[seconds]

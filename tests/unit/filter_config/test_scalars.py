"""Scalars: what a plain text means, and what a number or boolean reads where text is wanted."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_config.scalars import double_text, float_text, resolve_plain, scalar_text

PLAIN = {
    "true": True, "True": True, "TRUE": True, "yes": True, "Yes": True, "YES": True, "on": True, "On": True, "ON": True,
    "y": True, "Y": True,
    "false": False, "False": False, "FALSE": False, "no": False, "No": False, "NO": False, "off": False, "Off": False,
    "OFF": False, "n": False, "N": False,
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "0": 0, "7": 7, "-7": -7, "+7": 7, "1_000": 1000,
    "010": 8, "0o10": 8, "-010": -8, "0x10": 16, "0X1f": 31, "0b101": 5,
    "08": 8.0, "1.0": 1.0, "1.": 1.0, ".5": 0.5, "-1.5e3": -1500.0, "1e3": 1000.0, "1E-2": 0.01,
    "18446744073709551615": 18446744073709551615, "-9223372036854775808": -9223372036854775808,
    "18446744073709551616": 1.8446744073709552e19,
    ".inf": math.inf, "-.INF": -math.inf, "+.Inf": math.inf,
    # text
    "yEs": "yEs", "oN": "oN", "truee": "truee", "nope": "nope", "TrUe": "TrUe",
    "2024-01-02": "2024-01-02", "2024-01-02T03:04:05Z": "2024-01-02T03:04:05Z", "12:30:45": "12:30:45",
    "190:20": "190:20", "1.2.3": "1.2.3", "v1": "v1", "-": "-", "+": "+", ".": ".", "._5": "._5", "0x": "0x",
    "0b2": "0b2", "1e": "1e",
    "e3": "e3", "1e999": "1e999", "infinity": "infinity", "nan": "nan", "0x1p-2": "0x1p-2", "\uff11": "\uff11",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), PLAIN.items(), ids=[text or "empty" for text in PLAIN])
def test_plain(text, value):
    resolved = resolve_plain(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_not_a_number():
    assert math.isnan(resolve_plain(".nan"))


TEXTS = {
    "1.0": (1.0, "1"),
    "1.10": (1.10, "1.1"),
    "hexadecimal": (0x10, "16"),
    "exponent": (1e3, "1000"),
    "largest without exponent": (100000.0, "100000"),
    "smallest with exponent": (1000000.0, "1e+06"),
    "digits with exponent": (1234567.0, "1.234567e+06"),
    "small": (0.0001, "0.0001"),
    "smaller": (0.00001, "1e-05"),
    "fraction": (0.15, "0.15"),
    "negative": (-2.5, "-2.5"),
    "zero": (0.0, "0"),
    "negative zero": (-0.0, "-0"),
    "long digit string": (12345678901234567890123.0, "1.2345679e+22"),
    "long integer": (12345678901234567890123, "1.2345679e+22"),
    "largest unsigned": (18446744073709551615, "18446744073709551615"),
    "beyond 32 bits": (1e300, "+Inf"),
    "below 32 bits": (-1e300, "-Inf"),
    "no number": (math.nan, "NaN"),
    "largest single": (struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], "3.4028235e+38"),
    "three digits of exponent": (1e-45, "1e-45"),
    "true": (True, "true"),
    "false": (False, "false"),
}


@pytest.mark.parametrize(("value", "text"), TEXTS.values(), ids=TEXTS)
def test_text_of_a_number(value, text):
    assert scalar_text(value) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_reads_back_as_the_same_single(value):
    text = float_text(value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_reads_back_as_the_same_double(value):
    text = double_text(value)
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)


@given(st.text(alphabet="0123456789+-._eExXobnaftrueyosN~ ", max_size=12))
def test_every_text_has_a_value_and_every_number_a_text(text):
    value = resolve_plain(text)
    if isinstance(value, bool | int | float):
        assert isinstance(scalar_text(value), str)
    else:
        assert value is None or value == text

"""A pattern filled in is the message with those names, whatever their lengths."""

from __future__ import annotations

import re

import pytest
from envoy_data_plane.envoy.config.core.v3 import Metadata
from envoy_data_plane.google.protobuf import Any, Struct
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.patterns import Pattern, field

MARKS = re.compile(rb"zq-[a-c]-qz")


def message(a, b, c):
    """Names at several depths, also packed, beside numbers and plain texts."""
    inner = Metadata(filter_metadata={"plain": Struct.from_dict({"one": f"{a}/{b}", "two": 2.5, "three": [b, True]})})
    return Metadata(
        filter_metadata={"x": Struct.from_dict({"c": c, "n": None})},
        typed_filter_metadata={"y": Any.pack(inner), "z": Any.pack(Struct.from_dict({"plain": "text"}))},
    )


@given(st.tuples(*[st.text(st.characters(codec="utf-8"), max_size=400)] * 3))
def test_it_is_the_message_with_those_names(names):
    pattern = Pattern(bytes(message("zq-a-qz", "zq-b-qz", "zq-c-qz")), MARKS)

    filled = pattern.filled(
        dict(zip((b"zq-a-qz", b"zq-b-qz", b"zq-c-qz"), (name.encode() for name in names), strict=True))
    )

    assert filled == bytes(message(*names))


def test_a_message_without_marks_stays_as_it_is():
    data = bytes(message("a", "b", "c"))

    assert Pattern(data, MARKS).filled({}) == data


BROKEN = {
    "cut off in a number": b"\x08\x80",
    "cut off in a text": b"\x0a\x05ab",
    "a group": b"\x0b\x0c",
    "a mark within a text": field(1, b"text zq-a-qz"),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match=r"cut off|wire type"):
        Pattern(data, MARKS)

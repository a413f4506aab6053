"""The scanner agrees with a plain byte-by-byte one, on valid text and on any other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.formats import jsonscan

# Sizes just around those at which the scanner changes its way: short strings, windows, repetitions of a pattern.
SIZES = [1, 31, 33, 127, 128, 129, 255, 256, 257, 1023, 1025, 4097, 65535, 65537]


def slow_container_end(data, opening):
    depth, position, in_string = 0, opening, False
    while position < len(data):
        byte = data[position : position + 1]
        position += 1
        if in_string:
            if byte == b"\\":
                position += 1
            elif byte == b'"':
                in_string = False
        elif byte == b'"':
            in_string = True
        elif byte in (b"{", b"["):
            depth += 1
        elif byte in (b"}", b"]"):
            depth -= 1
            if not depth:
                return position
    return len(data)


pieces = st.one_of(
    st.sampled_from(
        [b"[", b"]", b"{", b"}", b'"', b"\\", b",", b":", b"a", b'\\"', b'"\\\\"', b'"]"', b"[]", b"[[1]]"]
    ),
    st.builds(
        bytes.__mul__, st.sampled_from([b"a", b"[", b"]", b'"x"', b"\\", b"[1],", b'\\"']), st.sampled_from(SIZES[:12])
    ),
)


@settings(deadline=None)
@given(parts=st.lists(pieces, max_size=12))
def test_a_container_ends_where_the_plain_scanner_says(parts):
    data = b"[" + b"".join(parts)

    assert jsonscan.container_end(data, 0) == slow_container_end(data, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "filling", [b"1,", b"[1],", b'"s",', b'{"a":[[[[1]]]]},', b'"\\"",', b'"' + b"x" * 300 + b'",']
)
def test_a_container_of_any_size_ends_at_its_bracket(filling, size):
    data = b"[" + filling * (size // len(filling) + 1) + b"1]"

    assert jsonscan.container_end(data + b"]]", 0) == len(data)


@pytest.mark.parametrize("size", SIZES)
def test_a_string_of_any_size_with_brackets_and_escapes_is_one_value(size):
    text = json.dumps('a]}"\\' * size).encode()

    assert jsonscan.value_end(text + b',"', 0) == len(text)


@pytest.mark.parametrize("backslashes", range(8))
def test_a_quote_is_escaped_by_an_odd_number_of_backslashes(backslashes):
    text = b'"' + b"\\" * backslashes + b'"'

    assert jsonscan.value_end(text + b"]", 0) == (len(text) if backslashes % 2 == 0 else len(text) + 1)


def test_depth_is_no_matter():
    data = b"[" * 200_000 + b"]" * 200_000

    assert jsonscan.container_end(data, 0) == len(data)


VALUES = {
    "a number": (b"12.5e3,", 6),
    "a literal": (b"true}", 4),
    "a literal before a blank": (b"null ]", 4),
    "a string": (b'"a,b",', 5),
    "an object": (b'{"a":[1,2]},', 11),
    "nothing": (b",", 0),
    "no text at all": (b"", 0),
    "an open string": (b'"abc', 4),
    "an open object": (b'{"a":', 5),
}


@pytest.mark.parametrize(("data", "end"), VALUES.values(), ids=VALUES)
def test_a_value_ends(data, end):
    assert jsonscan.value_end(data, 0) == end


@settings(deadline=None)
@given(count=st.sampled_from([0, 1, 255, 256, 257, 511, 512, 700]), index=st.integers(-1, 720), data=st.data())
def test_an_element_is_found_by_its_index(count, index, data):
    values = data.draw(st.sampled_from([["x"], [[1, 2]], [{"a": [[[1]]]}], ["y" * 200, 1], [1, '"', None]]))
    elements = [values[i % len(values)] for i in range(count)]
    text = data.draw(st.sampled_from([json.dumps(elements), json.dumps(elements, indent=1)])).encode()

    found, passed = jsonscan.element(text, 0, index)

    if index < count and (count or index >= 0):
        assert json.loads(text[found.start : found.end]) == elements[index]
    else:
        assert (found, passed) == (None, count)


SPELLINGS = {
    "as it is": ("model", rb'{"model":1}'),
    "one escape": ("model", rb'{"mod\u0065l":1}'),
    "all escapes, both cases": ("mode\N{LATIN SMALL LETTER L}", rb'{"\u006D\u006f\u0064\u0065\u006C":1}'),
    "not ASCII": ("é", '{"é":1}'.encode()),
    "not ASCII, escaped": ("é", rb'{"\u00E9":1}'),
    "a surrogate pair": ("\N{GRINNING FACE}", rb'{"\ud83D\uDE00":1}'),
    "beyond the basic plane": ("\N{GRINNING FACE}", '{"\N{GRINNING FACE}":1}'.encode()),
    "a lone surrogate": ("\ud83d", rb'{"\ud83d":1}'),
    "a quote": ('a"b', rb'{"a\"b":1}'),
    "a backslash": ("a\\b", rb'{"a\\b":1}'),
    "a slash, escaped": ("a/b", rb'{"a\/b":1}'),
    "a slash": ("a/b", rb'{"a/b":1}'),
    "a line feed": ("a\nb", rb'{"a\nb":1}'),
    "pattern characters": ("a.*[b](", rb'{"a.*[b](":1}'),
    "empty": ("", rb'{"":1}'),
    "long": ("k" * 500, b'{"%b":1}' % (b"k" * 500)),
}


@pytest.mark.parametrize(("key", "data"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_is_found_in_each_spelling(key, data):
    found, closing = jsonscan.members(data, 0, key)

    assert [data[member.start : member.end] for member in found] == [b"1"]
    assert closing == len(data) - 1


OTHERS = {
    "a longer key": b'{"models":1}',
    "a shorter key": b'{"mode":1}',
    "another case": b'{"Model":1}',
    "a value": b'{"a":"model","b":["model"]}',
    "a deeper key": b'{"a":{"model":1},"b":[{"model":1}]}',
    "text in a string": b'{"a":"\\"model\\":1"}',
    "another escape": rb'{"mod\u0066l":1}',
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_another_key_is_not_found(data):
    assert jsonscan.members(data, 0, "model") == ([], len(data) - 1)

"""What is written is what is read, by any reader of YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config.document import read_document
from filter_config.sources.block_yaml import dump

# Words, numbers and times of some reader, and what looks like syntax.
TRICKY = (
    *("", " ", "null", "~", "yes", "On", "1", "1.0", "0x1", "1_0", "2026-01-01", "2026-01-01T00:00:00Z", "12:30:45"),
    *(
        "a: b",
        "a #b",
        "#",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "<<",
        "=",
        "...",
        "---",
        "-",
        "? a",
        "{}",
        "[]",
    ),
    *("a\nb", "a ", " a", "a  b", "'", '"', "\\", "\t", ".inf", ".nan", "e1", "true"),
    *("é", "\x7f", "\x85", "\u2028", "\ufeff", "\U0001f600"),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(TRICKY)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**53), 2**53),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.dictionaries(TEXTS, VALUES, max_size=6))
def test_every_reader_reads_what_was_written(value):
    written = dump(value)
    assert yaml.safe_load(written) == value
    assert read_document(written).value == value


def test_keys_are_sorted_and_lists_are_not_indented():
    value = {"b": [{"z": 1, "a": [True, []]}, "x", {}], "a": {"c": "two words", "b": {}}}
    assert dump(value).decode() == ("a:\n  b: {}\n  c: two words\nb:\n- a:\n  - true\n  - []\n  z: 1\n- x\n- {}\n")


QUOTED = {
    "yes": '"yes"',
    "1": '"1"',
    "null": '"null"',
    "a:b": '"a:b"',
    "a": "a",
    "a/b-c.d": "a/b-c.d",
    "\u2028": '"\\u2028"',
}


@pytest.mark.parametrize(("text", "expected"), QUOTED.items(), ids=map(repr, QUOTED))
def test_a_text_is_bare_only_when_nobody_can_mistake_it(text, expected):
    assert dump({"k": text}).decode() == f"k: {expected}\n"

"""Bytes to builtins: JSON, and YAML 1.1 as the peer reads it."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config import document
from filter_config.document import DocumentError, read_document

VALUES = {
    "json": (b'{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
    "json: a key that is a word of YAML stays text": (b'{"y": "yes", "no": 1}', {"y": "yes", "no": 1}),
    "json: last of two keys": (b'{"a": 1, "a": 2}', {"a": 2}),
    "json with a byte order mark": (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    "flow mapping that is no json": (b"{a: b, c: [d]}", {"a": "b", "c": ["d"]}),
    "json with a number beyond floats": (b'{"a": 1e999}', {"a": "1e999"}),
    "utf-16": ("\ufeffa: b".encode("utf-16-le"), {"a": "b"}),
    "empty": (b"", None),
    "comment only": (b"# nothing\n", None),
    "null": (b"null", None),
    "first document only": (b"a: 1\n---\nb: 2\n", {"a": 1}),
    "first document, whatever follows": (b"--- \na: 1\n--- \nb: }", {"a": 1}),
    "words as values": (b"a: yes\nb: off\nc: ~\nd: n", {"a": True, "b": False, "c": None, "d": False}),
    "words as keys": (b"y: 1\nno: 2", {"true": 1, "false": 2}),
    "numbers as keys": (b"010: 1\n1.50: 2\n0x10: 3\n1e3: 4", {"8": 1, "1.5": 2, "16": 3, "1000": 4}),
    "quoted is text": (b"a: 'yes'\nb: \"1\"\n'y': 1", {"a": "yes", "b": "1", "y": 1}),
    "block text": (b"a: |\n  1\n  2\nb: >-\n  x\n  y", {"a": "1\n2\n", "b": "x y"}),
    "anchors": (b"a: &x {k: 1}\nb: *x\nc: [*x]", {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}]}),
    "anchor on a scalar": (b"a: &x 5\nb: *x", {"a": 5, "b": 5}),
    "anchor redefined": (b"a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    "alias as a key": (b"a: &x k\n*x : 1", {"a": "k", "k": 1}),
    "merge": (b"a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}),
    "merge after the keys": (b"a: &x {l: 2}\nb: {l: 3, <<: *x}", {"a": {"l": 2}, "b": {"l": 3}}),
    "merge of several": (
        b"a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}",
        {"a": {"k": 1}, "b": {"k": 2, "l": 2}, "c": {"k": 1, "l": 2}},
    ),
    "merge twice": (b"a: {<<: {k: 1}, <<: {k: 2}}", {"a": {"k": 2}}),
    "merged mapping with an anchor": (b"a: &x {<<: {k: 1}}\nb: *x", {"a": {"k": 1}, "b": {"k": 1}}),
    "quoted merge key is a key": (b"a: {'<<': 1}", {"a": {"<<": 1}}),
    "merge sign as a value": (b"a: <<", {"a": "<<"}),
    "tags": (
        b"a: !!str 010\nb: !!int '7'\nc: !!float 1\nd: !!bool yes\ne: !!null ''\nf: !own x",
        {"a": "010", "b": 7, "c": 1.0, "d": True, "e": None, "f": "x"},
    ),
    "binary": (b"a: !!binary aGVsbG8=", {"a": "hello"}),
    "tagged collections": (b"a: !!map {b: 1}\nc: !own [1]", {"a": {"b": 1}, "c": [1]}),
    "empty value": (b"a:\nb: []\nc: {}", {"a": None, "b": [], "c": {}}),
}


@pytest.mark.parametrize(("data", "value"), VALUES.values(), ids=VALUES)
def test_value(data, value):
    assert read_document(data).value == value


ERRORS = {
    "unclosed": (b'{"a": ', "line 2, column 1: "),
    "garbage": (b"{wefaf3q20,9u,f02", "line "),
    "tab": (b"a:\n\t- b", "line 2, column 1: while scanning for the next token: found character that cannot start"),
    "control character": (b"a: \x00", "control characters are not allowed"),
    "not utf-8": (b"a: \xff\xff", "invalid leading UTF-8 octet"),
    "unknown alias": (b"a: *b", "line 1, column 4: found undefined alias"),
    "alias of itself": (b"a: &x [*x]", "line 1, column 8: an anchor's value contains its own alias"),
    "redefined while open": (b"a: &x 1\nb: &x [*x]", "an anchor's value contains its own alias"),
    "null key": (b"~: 1", "line 1, column 1: a mapping's key is null"),
    "list as a key": (b"[1]: 1", "a mapping's key is a list"),
    "mapping as a key": (b"? {a: 1}\n: 1", "a mapping's key is a mapping"),
    "merge of a scalar": (b"<<: 1", "line 1, column 5: map merge requires"),
    "tag that does not fit": (b"a: !!int x", "line 1, column 4: value does not fit its tag !!int"),
    "bad base64": (b"a: !!binary '&'", "no base64"),
    "base64 beyond ASCII": ("a: !!binary 'é'".encode(), "no base64"),
}


@pytest.mark.parametrize(("data", "reason"), ERRORS.values(), ids=ERRORS)
def test_error(data, reason):
    with pytest.raises(DocumentError) as error:
        read_document(data)
    assert reason in str(error.value)


def test_an_error_never_quotes_the_document():
    with pytest.raises(DocumentError) as error:
        read_document(b"key: sk-secret\n  bad: [sk-secret\n")
    assert "sk-secret" not in str(error.value)


def test_repeated_keys_are_told_with_their_lines():
    read = read_document(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert read.value == {"a": 3, "b": {"c": 2}}
    assert read.repeated_keys == ((4, "c"), (5, "a"))


def test_nested_aliases_do_not_explode():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(DocumentError, match="document contains excessive aliasing"):
        read_document("\n".join(lines).encode())


def test_merged_aliases_do_not_explode():
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(100)) + "}"]
    text = lines[0] + "\nb: [" + ", ".join(["{<<: *a0}"] * 5000) + "]"
    with pytest.raises(DocumentError, match="document contains excessive aliasing"):
        read_document(text.encode())


def test_ordinary_use_of_aliases_is_not_limited():
    text = "a: &a {k: 1, l: 2}\nb: [" + ", ".join(["*a"] * 10_000) + "]"
    assert len(read_document(text.encode()).value["b"]) == 10_000


def test_deep_nesting_costs_no_recursion():
    # libyaml gives up on very deep flow collections; block collections may be as deep as they like.
    depth = 500
    text = "".join(" " * level + "- \n" for level in range(depth)) + " " * depth + "x"
    value = read_document(text.encode()).value
    for _ in range(depth):
        (value,) = value
    assert value == "x"


def test_without_the_c_parser_the_result_is_the_same(monkeypatch):
    data = b"a: &x {k: yes, l: [1, 2.5, '3']}\nb: {<<: *x, m: 010}\n"
    expected = read_document(data)
    monkeypatch.setattr(document, "_PARSER", yaml.SafeLoader)
    assert read_document(data) == expected


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), TREES, max_size=4))
def test_json_is_read_as_json(tree):
    assert read_document(json.dumps(tree).encode()).value == tree


PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn")), max_size=12)


@settings(max_examples=50)
@given(
    st.dictionaries(
        PRINTABLE,
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63) | PRINTABLE,
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
            max_leaves=10,
        ),
        max_size=4,
    ),
)
def test_what_a_yaml_writer_quotes_is_read_back(tree):
    # Quoted throughout, since the writer's idea of what needs quotes is another YAML than ours.
    text = yaml.safe_dump(tree, default_style='"', allow_unicode=True)
    quoted = json.loads(json.dumps(tree))
    assert read_document(text.encode()).value == quoted

"""The patches that are built, and the small implementation of RFC 6902 that the tests apply them with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.injector.patch import append, pointer, put
from tests.unit.deploy.injector.json_patch import PatchRefused, apply

# Appendix A of RFC 6902, as far as these operations go: document, operation, document after.
RFC = {
    "A.1 adding an object member": ({"foo": "bar"}, ("add", "/baz", "qux"), {"baz": "qux", "foo": "bar"}),
    "A.2 adding an array element": ({"foo": ["bar", "baz"]}, ("add", "/foo/1", "qux"), {"foo": ["bar", "qux", "baz"]}),
    "A.3 removing an object member": ({"baz": "qux", "foo": "bar"}, ("remove", "/baz"), {"foo": "bar"}),
    "A.4 removing an array element": ({"foo": ["a", "b", "c"]}, ("remove", "/foo/1"), {"foo": ["a", "c"]}),
    "A.5 replacing a value": ({"baz": "qux", "foo": "bar"}, ("replace", "/baz", "boo"), {"baz": "boo", "foo": "bar"}),
    "A.8 testing a value": ({"baz": "qux", "foo": ["a", 2]}, ("test", "/foo/1", 2), {"baz": "qux", "foo": ["a", 2]}),
    "A.10 adding a nested member": ({"foo": "bar"}, ("add", "/child", {"g": {}}), {"foo": "bar", "child": {"g": {}}}),
    "A.14 escapes": ({"/": 9, "~1": 10}, ("test", "/~01", 10), {"/": 9, "~1": 10}),
    "A.16 adding an array value": ({"foo": ["bar"]}, ("add", "/foo/-", ["a"]), {"foo": ["bar", ["a"]]}),
}


def operation(op, path, *value):
    return {"op": op, "path": path, **({"value": value[0]} if value else {})}


@pytest.mark.parametrize(("before", "given_operation", "after"), RFC.values(), ids=RFC.keys())
def test_examples_of_the_rfc(before, given_operation, after):
    assert apply(before, [operation(*given_operation)]) == after


REFUSED = {
    "A.9 a test that fails": ({"baz": "qux"}, ("test", "/baz", "bar")),
    "A.12 a parent that is not there": ({"foo": "bar"}, ("add", "/baz/bat", "qux")),
    "an index behind the end": ({"foo": ["bar"]}, ("add", "/foo/2", "qux")),
    "an index with a zero in front": ({"foo": ["bar"]}, ("add", "/foo/00", "qux")),
    "a bad escape": ({"foo": "bar"}, ("add", "/~2", "qux")),
    "no pointer": ({"foo": "bar"}, ("add", "foo", "qux")),
}


@pytest.mark.parametrize(("before", "given_operation"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_rfc_refuses(before, given_operation):
    with pytest.raises(PatchRefused):
        apply(before, [operation(*given_operation)])


@given(st.lists(st.text("~/01a"), min_size=1), st.text("ab/~"))
def test_a_member_is_put_where_the_pointer_says(tokens, key):
    document = {key: 1} if key else {}
    for token in reversed(tokens):
        document = {token: document}

    after = apply(document, put(pointer(*tokens), {key: 1}, "new/~key", 2))

    for token in tokens:
        after = after[token]
    assert after["new/~key"] == 2


APPENDS = {
    "no list yet": (None, [1, 2], [{"op": "add", "path": "/a", "value": [1, 2]}]),
    "to a list": ([0], [1], [{"op": "add", "path": "/a/-", "value": 1}]),
    "to an empty list": ([], [1], [{"op": "add", "path": "/a/-", "value": 1}]),
    "nothing": (None, [], []),
}


@pytest.mark.parametrize(("existing", "items", "operations"), APPENDS.values(), ids=APPENDS.keys())
def test_appending(existing, items, operations):
    assert list(append("/a", existing, items)) == operations


def test_a_member_that_is_as_it_should_be_needs_no_operation():
    assert list(put("/a", {"k": 1}, "k", 1)) == []
    assert list(put("/a", None, "k", 1)) == [{"op": "add", "path": "/a", "value": {"k": 1}}]

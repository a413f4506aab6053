"""Whatever comes, a stand-in answers: with what it said, or with an error of the provider. It never breaks."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.deploy.demo.providers.conversations import APIS, THINKING, after_the_call, with_tools

NAMES = st.sampled_from(["type", "role", "text", "content", "name", "id", "parts", "thinking", "items", "enum"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    """The path of every value in a document."""
    yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, (*path, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from places(member, (*path, index))


def replaced(document, path, value):
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def requests(schema):
    api = APIS[schema]
    whole = api.request | with_tools(schema) | THINKING.get(schema, {})
    return [whole, api.request | after_the_call(schema)]


@pytest.mark.parametrize("schema", APIS)
@settings(max_examples=150, deadline=None)
@given(drawn=st.data())
def test_a_request_with_something_else_in_it(schema, drawn):
    document = drawn.draw(st.sampled_from(requests(schema)))
    path = drawn.draw(st.sampled_from(list(places(document))))
    body = json.dumps(replaced(document, path, drawn.draw(JSON))).encode()

    reply = APIS[schema].ask(body=body, stream=drawn.draw(st.booleans()))

    assert reply.status in (200, 400)
    assert reply.body


@pytest.mark.parametrize("schema", APIS)
@given(body=st.binary(max_size=60))
def test_any_bytes(schema, body):
    assert APIS[schema].ask(body=body).status == 400


@pytest.mark.parametrize("schema", APIS)
def test_a_body_that_is_nested_too_deep(schema):
    assert APIS[schema].ask(body=b'{"messages":' + b"[" * 100_000).status == 400

"""What a request for embeddings may look like (contract, embeddings 10.1 and 17.1)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.embeddings import PATH, Embeddings
from extproc.endpoints.embeddings_request import Input, Item, decode_embeddings_request, read_input
from extproc.endpoints.text_or_tokens import Kind
from extproc.errors import MalformedRequest

ENDPOINT = Embeddings()
PREFIX = f"malformed request: failed to parse JSON for {PATH}: "


def parse(body: bytes):
    return ENDPOINT.parse(body, content_type="application/json", metering=True)


def input_of(document) -> Input:
    request = decode_embeddings_request(json.dumps({"input": document}, indent=1).encode())
    return read_input(request.input)


FORMS = {
    # input: its kind, and each text with task type and title
    "a text": ("a", Kind.TEXT, [("a", None, None)]),
    "an empty text": ("", Kind.TEXT, [("", None, None)]),
    "texts": (["a", "b"], Kind.TEXTS, [("a", None, None), ("b", None, None)]),
    "an empty list is one of texts": ([], Kind.TEXTS, []),
    "tokens": ([1, 2], Kind.TOKENS, []),
    "a token that is negative": ([-1], Kind.TOKENS, []),
    "lists of tokens": ([[1], []], Kind.BATCHED_TOKENS, []),
    "an item": ({"content": "a", "task_type": "T", "title": "t"}, Kind.ITEM, [("a", "T", "t")]),
    "an item of texts": ({"content": ["a", "b"], "title": "t"}, Kind.ITEM, [("a", None, "t"), ("b", None, "t")]),
    "an item with a member that is new": ({"content": "a", "new": 1}, Kind.ITEM, [("a", None, None)]),
    "items": (
        [{"content": "a", "task_type": None}, {"content": ["b"]}],
        Kind.ITEMS,
        [("a", None, None), ("b", None, None)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_input_is_taken_and_read(name):
    document, kind, items = FORMS[name]
    parsed = parse(json.dumps({"model": "m", "input": document, "stream": True}).encode())
    assert (parsed.model, parsed.stream, parsed.rewritten) == ("m", False, False)
    found = input_of(document)
    assert found.kind is kind
    assert [(item.content, item.task_type, item.title) for item in found.items] == items
    assert found.texts == [text for text, _, _ in items]


TAKEN = {
    "no input at all": b'{"model":"m"}',
    "messages": b'{"model":"m","messages":[{"role":"user","content":"a"}]}',
    "messages of the future": b'{"model":"m","messages":{"x":[{"role":"new"}]}}',
    "null messages": b'{"model":"m","messages":null}',
    "no model": b'{"input":"a"}',
    "a null model": b'{"model":null,"input":"a"}',
    "options of another type": b'{"model":"m","input":"a","dimensions":"256","encoding_format":7,"title":[1]}',
    "white space": b' { "model" : "m" , "input" : \n [ \t "a" ] } ',
    "a token beyond 64 bits": b'{"model":"m","input":[99999999999999999999999]}',
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_backend_may_take_is_not_refused(name):
    parsed = parse(TAKEN[name])
    assert parsed.body == TAKEN[name]
    assert parsed.stream is False


TYPE = "invalid input type (must be string, object, or array)"
ELEMENT = "invalid input array element"
REFUSED = {
    "a number": ("1", TYPE),
    "null": ("null", TYPE),
    "a boolean": ("true", TYPE),
    "an object of nothing": ("{}", TYPE),
    "an object without content": ('{"text":"a"}', TYPE),
    "an object of an empty text": ('{"content":""}', TYPE),
    "an object of no texts": ('{"content":[]}', TYPE),
    "an object of a number": ('{"content":1}', "cannot unmarshal input as object: "),
    "an object of mixed texts": ('{"content":["a",1]}', "cannot unmarshal input as object: "),
    "an array of nulls": ("[null]", ELEMENT),
    "an array of booleans": ("[false]", ELEMENT),
    "an array with an empty object": ('[{"content":"a"},{}]', ELEMENT),
    "an array with an object of an empty text": ('[{"content":""}]', ELEMENT),
    "texts, and a number": ('["a",1]', "cannot unmarshal input as array of strings: "),
    "texts, and a null": ('["a",null]', "cannot unmarshal input as array of strings: "),
    "tokens, and a text": ('[1,"a"]', "cannot unmarshal input as array of tokens: "),
    "tokens that are none": ("[1.5]", "cannot unmarshal input as array of tokens: "),
    "lists of texts": ('[["a"]]', "cannot unmarshal input as array of token arrays: "),
    "objects, and a text": ('[{"content":"a"},"b"]', "cannot unmarshal input as array of objects: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_input_of_no_form_is_refused(name):
    text, message = REFUSED[name]
    with pytest.raises(MalformedRequest) as refused:
        parse(b'{"model":"m","input": %s }' % text.encode())
    assert str(refused.value).startswith(PREFIX + message)


@pytest.mark.parametrize("body", [b'{"input":"a","messages":[]}', b'{"input":null,"messages":null}'])
def test_input_and_messages_exclude_each_other(body):
    with pytest.raises(MalformedRequest) as refused:
        parse(body)
    assert str(refused.value) == PREFIX + "embedding request must have either 'input' or 'messages', not both"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"a"', b"{} x", b'{"model":1}', b'{"input":' + b"[" * 100_000])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(MalformedRequest, match="failed to parse JSON for /v1/embeddings: "):
        parse(body)


def test_a_multipart_body_is_refused():
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        ENDPOINT.parse(b"{}", content_type="Multipart/Form-Data; boundary=x", metering=False)


def test_an_error_is_told_in_openais_shape():
    assert ENDPOINT.operation is Operation.EMBEDDINGS
    assert json.loads(ENDPOINT.error_body(MalformedRequest('a "b"'))) == {
        "type": "error",
        "error": {"type": "BadRequest", "code": "400", "message": 'malformed request: a "b"'},
    }


def test_an_item_of_several_texts_is_one_for_each():
    item = Item(content=["a", "b"], task_type="T")
    assert list(item.split()) == [Item(content="a", task_type="T"), Item(content="b", task_type="T")]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "title"]), inner),
    max_leaves=6,
)


@given(JSON)
def test_what_is_taken_can_be_read(document):
    try:
        parse(json.dumps({"input": document}).encode())
    except MalformedRequest:
        return
    found = input_of(document)
    assert all(isinstance(text, str) for text in found.texts)

"""Header maps are read as the wire library reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange import headers, names
from extproc.exchange.attributes import read_target
from extproc.exchange.headers import header_map, read_headers
from protos.ext_proc_pb2 import HeaderMap, HeaderValue

NAME = st.sampled_from([":path", "x-a", "x-b", "cookie"]) | st.text(max_size=8)
VALUE = st.binary(max_size=8) | st.sampled_from([b"", b"/v1", b"\xff", "é".encode(), b"x" * 200, b"x" * 20_000])
HEADERS = st.lists(st.builds(HeaderValue, key=NAME, value=VALUE, raw_value=VALUE), max_size=6)
NO_MESSAGE = b"\x0a\x05x"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Nothing is known at the start of a test."""
    monkeypatch.setattr(headers, "_known", headers._Known())


def message(*encoded: bytes) -> bytes:
    return HeaderMap(headers=encoded).SerializeToString()


@given(HEADERS)
def test_every_header_is_read_and_the_last_of_a_name_counts(listed):
    expected = {each.key: (each.raw_value or each.value).decode("utf-8", "replace") for each in listed}
    encoded = [each.SerializeToString() for each in listed]
    assert read_headers(message(*encoded)) == (expected, encoded)
    assert read_headers(message(*encoded)) == (expected, encoded)


def test_lines_of_a_list_are_put_together():
    made = header_map([("anthropic-beta", b"a"), ("x-a", b"1"), ("anthropic-beta", b"b"), ("x-a", b"2")])
    assert read_headers(made)[0] == {"anthropic-beta": "a,b", "x-a": "2"}


@pytest.mark.parametrize(
    "encoded",
    [NO_MESSAGE, message(NO_MESSAGE), message(b"\x0a\x01\xff"), message(b"\xff")],
    ids=["map is cut", "cut", "name is no text", "no field"],
)
def test_what_is_no_header_ends_the_stream(encoded):
    with pytest.raises(StreamFailure, match="cannot be decoded") as caught:
        read_headers(encoded)
    assert caught.value.code == StreamFailure.INTERNAL


def test_attributes_that_are_none_end_the_stream():
    with pytest.raises(StreamFailure, match="cannot be decoded"):
        read_target({names.ATTRIBUTES: NO_MESSAGE}, {})


def test_what_is_remembered_is_bounded_in_number_and_size():
    known = headers._known
    for number in range(headers._KNOWN_HEADERS + 10):
        assert read_headers(header_map([("x-request-id", b"%d" % number)]))[0] == {"x-request-id": str(number)}
    assert 0 < len(known) <= headers._KNOWN_HEADERS
    known.clear()
    long = b"x" * headers._KNOWN_BYTES
    assert read_headers(header_map([("x-a", long)]))[0]["x-a"] == long.decode()
    assert not known


@pytest.mark.parametrize("name", [names.INTERNAL_REQUEST_ID, "authorization", "cookie", "x-api-key"])
def test_neither_credentials_are_remembered_nor_what_comes_once(name):
    for value in (b"1", b"2"):
        assert read_headers(header_map([(name, value)]))[0] == {name: value.decode()}
    assert not headers._known


def test_what_was_read_before_is_not_decoded_again(monkeypatch):
    made = header_map([("x-a", b"1"), ("x-a", b"2")])
    first = read_headers(made)
    monkeypatch.setattr(headers, "HeaderValue", None)
    assert read_headers(made) == first
    assert first[0] == {"x-a": "2"}

"""Header maps are read as the wire library reads them, however often a header came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange import headers, names
from extproc.exchange.attributes import read_target
from extproc.exchange.headers import read_headers
from protos.ext_proc_pb2 import HeaderValue, HttpHeaders

NAME = st.sampled_from([":path", "x-a", "x-b", "cookie"]) | st.text(max_size=8)
VALUE = st.binary(max_size=8) | st.sampled_from([b"", b"/v1", b"\xff", "é".encode(), b"x" * 200, b"x" * 20_000])
HEADERS = st.lists(st.builds(HeaderValue, key=NAME, value=VALUE, raw_value=VALUE), max_size=6)
NO_MESSAGE = b"\x0a\x05x"


def message(*encoded: bytes) -> HttpHeaders:
    made = HttpHeaders()
    made.headers.headers.extend(encoded)
    return made


@given(HEADERS)
def test_every_header_is_read_and_the_last_of_a_name_counts(listed):
    expected = {each.key: (each.raw_value or each.value).decode("utf-8", "replace") for each in listed}
    made = message(*(each.SerializeToString() for each in listed))
    assert read_headers(made) == expected
    assert read_headers(made) == expected


@pytest.mark.parametrize("encoded", [NO_MESSAGE, b"\x0a\x01\xff", b"\xff"], ids=["cut", "name is no text", "no field"])
def test_what_is_no_header_ends_the_stream(encoded):
    with pytest.raises(StreamFailure, match="cannot be decoded") as caught:
        read_headers(message(encoded))
    assert caught.value.code == StreamFailure.INTERNAL


def test_attributes_that_are_none_end_the_stream():
    with pytest.raises(StreamFailure, match="cannot be decoded"):
        read_target({names.ATTRIBUTES: NO_MESSAGE}, {})


def test_what_is_remembered_is_bounded_in_number_and_size(monkeypatch):
    known = headers._Known()
    monkeypatch.setattr(headers, "_known", known)
    for number in range(headers._KNOWN_HEADERS + 10):
        header = HeaderValue(key="x-request-id", raw_value=b"%d" % number)
        assert read_headers(message(header.SerializeToString())) == {"x-request-id": str(number)}
    assert 0 < len(known) <= headers._KNOWN_HEADERS
    known.clear()
    long = HeaderValue(key="cookie", raw_value=b"x" * headers._KNOWN_BYTES)
    assert read_headers(message(long.SerializeToString()))["cookie"] == "x" * headers._KNOWN_BYTES
    assert not known


def test_what_comes_once_is_not_remembered(monkeypatch):
    known = headers._Known()
    monkeypatch.setattr(headers, "_known", known)
    header = HeaderValue(key=names.INTERNAL_REQUEST_ID, raw_value=b"1").SerializeToString()
    assert read_headers(message(header)) == {names.INTERNAL_REQUEST_ID: "1"}
    assert not known


def test_what_was_read_before_is_not_decoded_again(monkeypatch):
    monkeypatch.setattr(headers, "_known", headers._Known())
    made = message(HeaderValue(key="x-a", raw_value=b"1").SerializeToString())
    first = read_headers(made)
    monkeypatch.setattr(headers, "HeaderValue", None)
    assert read_headers(made) == first

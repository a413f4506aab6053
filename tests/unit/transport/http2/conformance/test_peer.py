"""The peer of these tests against the libraries that everybody uses, and against itself: it may be wrong too."""

from __future__ import annotations

import hpack
import hpack.huffman_constants
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import http2_peer as http2
from tests.support.http2_hpack import (
    EOS,
    HUFFMAN,
    STATIC,
    BadBlock,
    Reader,
    block,
    huffman,
    indexed,
    integer,
    literal,
    table_size,
)

field_lists = st.lists(
    st.tuples(st.sampled_from([b"x", b"y-long-name", b":path", b"via"]), st.binary(max_size=40)), max_size=8
)


def test_the_tables_are_those_of_the_rfc():
    assert list(STATIC) == list(hpack.table.HeaderTable.STATIC_TABLE)
    assert [code for code, _ in HUFFMAN] == list(hpack.huffman_constants.REQUEST_CODES)
    assert [bits for _, bits in HUFFMAN] == list(hpack.huffman_constants.REQUEST_CODES_LENGTH)
    assert HUFFMAN[EOS] == (0x3FFFFFFF, 30)


# RFC 7541, C.1 and C.4.1.
EXAMPLES = {
    "10 in 5 bits": (integer(10, prefix=5), "0a"),
    "1337 in 5 bits": (integer(1337, prefix=5), "1f9a0a"),
    "42 from the start of an octet": (integer(42, prefix=8), "2a"),
    "a literal that is kept": (
        literal(b"custom-key", b"custom-header", kind="incremental"),
        "400a" + b"custom-key".hex() + "0d" + b"custom-header".hex(),
    ),
    "a literal that is not kept": (literal(4, b"/sample/path"), "040c" + b"/sample/path".hex()),
    "a literal that is never kept": (
        literal(b"password", b"secret", kind="never"),
        "1008" + b"password".hex() + "06" + b"secret".hex(),
    ),
    "an index": (indexed(2), "82"),
    "Huffman codes": (huffman(b"www.example.com"), "f1e3c2e5f23a6ba0ab90f4ff"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_rfc(name):
    octets, expected = EXAMPLES[name]
    assert octets.hex() == expected


@settings(max_examples=40, deadline=None)
@given(
    lists=st.lists(field_lists, max_size=4),
    coded=st.booleans(),
    kind=st.sampled_from(["incremental", "without", "never"]),
)
def test_what_the_peer_encodes_is_read_by_the_library(lists, coded, kind):
    decoder = hpack.Decoder()
    for fields in lists:
        assert [tuple(each) for each in decoder.decode(block(fields, coded=coded, kind=kind), raw=True)] == fields


@settings(max_examples=40, deadline=None)
@given(lists=st.lists(field_lists, max_size=6))
def test_what_the_library_encodes_is_read_by_the_peer(lists):
    encoder, reader = hpack.Encoder(), Reader()
    for fields in lists:
        assert reader.read(encoder.encode(fields)) == fields


BAD = {
    "index 0": b"\x80",
    "an index above the table": indexed(62),
    "a string without an end": b"\x00\x05abc",
    "an integer without an end": b"\xff\x80",
    "an update after a field": indexed(2) + table_size(0),
    "an update above the limit": table_size(4097),
}


@pytest.mark.parametrize("name", BAD)
def test_a_block_that_is_wrong_is_noticed(name):
    with pytest.raises(BadBlock):
        Reader().read(BAD[name])


def test_an_update_that_is_due_is_missed():
    reader = Reader()
    reader.acknowledged(0)
    with pytest.raises(BadBlock):
        reader.read(indexed(2))
    reader = Reader()
    reader.acknowledged(0)
    reader.acknowledged(4096)
    assert reader.read(table_size(0) + table_size(4096) + indexed(2)) == [(b":method", b"GET")]


class Script:
    """An engine that says what a test wants it to say."""

    closed = False

    def __init__(self, *answers):
        self._answers = [http2.settings(), *answers]

    def receive(self, data):
        pass

    def data_to_send(self):
        return self._answers.pop(0) if self._answers else b""


ANSWER = http2.headers(1, encoded=indexed(8))
BREACHES = {
    "DATA above the window": ANSWER + http2.data(1, bytes(16_384)) * 4,
    "DATA before HEADERS": http2.data(1, b"x"),
    "DATA on an idle stream": http2.headers(3, encoded=indexed(8)),
    "DATA after the end": ANSWER + http2.data(1, end=True) + http2.data(1, b"x"),
    "a frame above the limit": ANSWER + http2.data(1, bytes(16_385)),
    "a field block without an end": http2.headers(1, encoded=indexed(8), flags=0),
    "another frame within a field block": http2.headers(1, encoded=indexed(8), flags=0) + http2.ping(),
    "a field in upper case": http2.headers(1, encoded=indexed(8) + literal(b"X", b"1")),
    "no :status": http2.headers(1, encoded=literal(b"x", b"1")),
    "an acknowledgement too many": http2.settings_ack() * 2,
    "half a frame": ANSWER[:-1],
    "WINDOW_UPDATE of 0": http2.window_update(0, 0),
    "a window above 2^31-1": http2.window_update(0, 2**31 - 1),
    "RST_STREAM on an idle stream": http2.rst_stream(3),
    "PUSH_PROMISE": http2.frame(http2.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x82"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_of_the_server_is_noticed(name):
    peer = http2.Peer(Script(b"", BREACHES[name]))
    peer.send(http2.PREFACE + http2.settings())
    peer.send(b"")
    with pytest.raises(AssertionError):
        peer.send(http2.headers(1))

"""What is remembered of header blocks must never differ from what decoding would have given."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2.frames import ConnectionFault, ErrorCode
from extproc.transport.http2.header_blocks import HeaderBlocks, list_size
from extproc.transport.http2.limits import Limits

FIELDS = [(b"a", b"1"), (b"b", b"2" * 40), (b":path", b"/x"), (b"traceparent", b"00-1"), (b"traceparent", b"00-2")]


def read(blocks, block):
    """As a connection reads a block: recalled, or decoded and remembered. Also says which."""
    found = blocks.recall(block)
    if found is not None:
        return found, True
    headers = blocks.decode(block)
    blocks.remember(block, headers)
    return headers, False


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(FIELDS), max_size=5), st.sampled_from([None, 0, 60, 100, 4096])), max_size=30
    )
)
def test_a_recalled_block_is_what_it_would_be_decoded_to(steps):
    blocks, oracle, encoder = HeaderBlocks(Limits()), Decoder(), Encoder()
    for fields, table_size in steps:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = encoder.encode(fields)
        expected = tuple(tuple(field) for field in oracle.decode(block, raw=True))
        assert read(blocks, block)[0] == expected


def literal(name, value, first=0x00):
    return bytes([first, len(name)]) + name + bytes([len(value)]) + value


# The second time, a block like Envoy's is references, and literals that are not inserted.
STEADY = {
    "static references": b"\x83\x86",
    "a literal that is not inserted": b"\x83" + literal(b"x", b"y"),
    "a literal that never may be": b"\x83" + literal(b"x", b"y", 0x10),
    "nothing": b"",
}


@pytest.mark.parametrize("case", STEADY)
def test_a_block_that_leaves_the_table_alone_is_decoded_once(case):
    blocks = HeaderBlocks(Limits())
    first, recalled = read(blocks, STEADY[case])
    assert not recalled
    assert read(blocks, STEADY[case]) == (first, True)


CHANGES = {
    "an insertion": literal(b"x", b"y", 0x40),
    "a smaller table": b"\x20",
    "a table of the same size": b"\x3f\xe1\x1f",
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_table_forgets_everything(case):
    blocks = HeaderBlocks(Limits())
    read(blocks, b"\x83")
    assert read(blocks, b"\x83")[1]
    read(blocks, CHANGES[case])
    assert not read(blocks, b"\x83")[1]


def test_a_block_that_changes_the_table_is_decoded_each_time():
    blocks = HeaderBlocks(Limits())
    insertion = literal(b"x", b"y", 0x40)
    for _ in range(3):
        assert read(blocks, insertion) == (((b"x", b"y"),), False)
    assert read(blocks, b"\xbe\xbf\xc0")[0] == ((b"x", b"y"),) * 3


def test_what_is_remembered_is_bounded():
    blocks = HeaderBlocks(Limits(cached_blocks=10, cached_block_bytes=30))
    for number in range(1000):
        read(blocks, literal(b"n", b"%d" % number))
    assert len(blocks._remembered) <= 10
    long = literal(b"n", b"x" * 40)
    assert [read(blocks, long)[1] for _ in range(2)] == [False, False]


FAULTS = {
    "index beyond the table": (b"\xc0", ErrorCode.COMPRESSION_ERROR),
    "index zero": (b"\x80", ErrorCode.COMPRESSION_ERROR),
    "cut in a literal": (b"\x40\x05ab", ErrorCode.COMPRESSION_ERROR),
    "cut after a name": (b"\x40\x01a", ErrorCode.COMPRESSION_ERROR),
    "cut before a name": (b"\x40", ErrorCode.COMPRESSION_ERROR),
    "an integer without end": (b"\xff" + b"\xff" * 100, ErrorCode.COMPRESSION_ERROR),
    "a table larger than ours": (b"\x3f\xe2\x1f", ErrorCode.COMPRESSION_ERROR),
    "a new table size behind a field": (b"\x83\x20", ErrorCode.COMPRESSION_ERROR),
    "invalid Huffman code": (b"\x40\x84\xff\xff\xff\xff\x01a", ErrorCode.COMPRESSION_ERROR),
    "a bomb": (literal(b"x", b"y" * 100, 0x40) + b"\xbe" * 1000, ErrorCode.ENHANCE_YOUR_CALM),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_block_that_cannot_be_decoded_ends_the_connection(case):
    block, code = FAULTS[case]
    with pytest.raises(ConnectionFault) as caught:
        HeaderBlocks(Limits()).decode(block)
    assert caught.value.code == code


@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_or_a_connection_fault(block):
    try:
        headers = HeaderBlocks(Limits()).decode(block)
    except ConnectionFault:
        return
    assert list_size(headers) >= 32 * len(headers)

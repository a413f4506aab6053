"""RFC 7541: what a field block may be made of. A block that cannot be decoded ends the connection."""

from __future__ import annotations

import pytest

from tests.support.http2_hpack import (
    STATIC,
    block,
    coded_string,
    huffman,
    indexed,
    integer,
    literal,
    string,
    table_size,
)
from tests.support.http2_peer import (
    COMPRESSION_ERROR,
    HEADER_TABLE_SIZE,
    PROTOCOL_ERROR,
    REQUEST,
    EchoProcessor,
    Peer,
    build_engine,
    call,
    continuation,
    data,
    fields,
    headers,
    message,
    settings,
)
from tests.support.http2_rows import (
    ARRIVALS,
    Row,
    check,
    done,
    either,
    fed,
    malformed,
    replies,
    served_after_all,
)
from tests.support.http2_rows import goaway as connection_error

BLOCK = block(REQUEST)
ECHO = message(b"echo")
NEVER = message(b"never")
# Of the fields of a call, :method, :scheme and the name of :path are in the static table.
SHORT = indexed(3) + indexed(6) + literal(4, REQUEST[2][1]) + literal(1, b"processor") + block(REQUEST[4:])
SHORT_BUT_TYPE = indexed(3) + indexed(6) + literal(4, REQUEST[2][1]) + literal(1, b"processor") + block(REQUEST[5:])
# What may not come beside the fields of a call, or only with a certain value.
REFUSED_NAMES = (b"content-type", b"content-length", b"host", b"transfer-encoding")
ASKS_FOR_TRAILERS = block(REQUEST[5:])
PAIR = (b"x-kept", b"some value")
KEPT = literal(*PAIR, kind="incremental")


def echoed(*encoded):
    """Calls on streams 1, 3, ... with these blocks, each answered."""
    return Row(
        send=b"".join(
            headers(2 * n + 1, encoded=each) + data(2 * n + 1, ECHO, end=True) for n, each in enumerate(encoded)
        ),
        expect=tuple(done(2 * n + 1, b"echo") for n in range(len(encoded))),
    )


def broken(*encoded):
    """The last of these blocks is the end of the connection; the ones before are fine."""
    *good, bad = encoded
    start = b"".join(headers(2 * n + 1, encoded=each, end=True) for n, each in enumerate(good))
    return Row(
        send=start + headers(2 * len(good) + 1, encoded=bad) + data(2 * len(good) + 1, NEVER),
        expect=(connection_error(COMPRESSION_ERROR), fed()),
    )


INTEGERS = {
    "7541 5.1: an integer that fits its prefix": echoed(SHORT),
    "7541 5.1: a length of 127 and more takes further octets": echoed(
        SHORT + literal(b"x", b"v" * 127) + literal(b"y", b"v" * 128) + literal(b"z", b"v" * 126)
    ),
    "7541 5.1: a length of 255, 256 and 1337": echoed(
        SHORT + literal(b"x", b"v" * 255) + literal(b"y", b"v" * 256) + literal(b"z", b"v" * 1337)
    ),
    "7541 5.1: an integer with an octet that adds nothing (may be refused)": Row(
        send=headers(
            1, encoded=SHORT + b"\x00" + integer(1, prefix=7) + b"x" + integer(127, prefix=7, overlong=1) + b"v" * 127
        )
        + data(1, ECHO),
        expect=either(replies(1, b"echo"), connection_error(COMPRESSION_ERROR)),
    ),
    "7541 5.1: an index with octets that add nothing (may be refused)": Row(
        send=headers(1, encoded=SHORT + integer(15, prefix=4, overlong=2) + string(b"utf-8")) + data(1, ECHO),
        expect=either(replies(1, b"echo"), connection_error(COMPRESSION_ERROR)),
    ),
    "7541 5.1: an integer without an end": broken(SHORT + b"\xff\x80\x80"),
    "7541 5.1: an integer whose first octet is the last of the block": broken(SHORT + b"\xff"),
    "7541 5.1: an index above 2^32": broken(SHORT + integer(2**32 + 5, prefix=7, first=0x80)),
    "7541 5.1: an index above 2^64": broken(SHORT + integer(2**64 + 2, prefix=7, first=0x80)),
    "7541 5.1: an index that never ends": broken(SHORT + b"\xff" + b"\xff" * 200),
    "7541 5.1: an integer of a hundred octets that add nothing": broken(SHORT + b"\xff" + b"\x80" * 100 + b"\x01"),
    "7541 5.1: a length of 2^31": broken(SHORT + b"\x00\x01x" + integer(2**31, prefix=7)),
    "7541 5.1: a length of 2^64": broken(SHORT + b"\x00\x01x" + integer(2**64, prefix=7)),
    "7541 5.1: a table size of 2^64": broken(table_size(2**64) + SHORT),
    "7541 5.1: an index of a name without an end": broken(SHORT + b"\x0f\xff"),
}

STRINGS = {
    "7541 5.2: a string without octets": echoed(SHORT + literal(b"x", b"")),
    "7541 5.2: a name that is longer than the block": broken(SHORT + b"\x00\x7f\x01x"),
    "7541 5.2: a value that is longer than the block": broken(SHORT + b"\x00\x01x\x05abcd"),
    "7541 5.2: a value that is missing": broken(SHORT + b"\x00\x01x"),
    "7541 5.2: a name that is missing": broken(SHORT + b"\x00"),
    "7541 5.2: a value of an indexed name that is missing": broken(SHORT + b"\x04"),
    "7541 5.2: Huffman codes": echoed(block(REQUEST, coded=True)),
    "7541 5.2: Huffman codes of every octet that a value may have": echoed(
        SHORT + literal(b"x", bytes([*range(0x21, 0x7F), *range(0x80, 0x100)]), coded=True)
    ),
    "7541 5.2: a string of no Huffman codes": echoed(SHORT + b"\x00" + string(b"x") + coded_string(b"")),
    "7541 5.2: a name as Huffman codes, the value plain": echoed(
        SHORT + b"\x00" + string(b"x-n", coded=True) + string(b"v")
    ),
    "7541 5.2: padding of a whole octet": broken(
        SHORT + b"\x00" + string(b"x") + coded_string(huffman(b"abc") + b"\xff")
    ),
    "7541 5.2: padding of 4 octets, which is EOS and more": broken(
        SHORT + b"\x00" + string(b"x") + coded_string(huffman(b"abc") + b"\xff" * 4)
    ),
    "7541 5.2: nothing but padding": broken(SHORT + b"\x00" + string(b"x") + coded_string(b"\xff")),
    "7541 5.2: padding of zeros": broken(
        # "a" is 00011; the three bits that are left must be ones.
        SHORT + b"\x00" + string(b"x") + coded_string(huffman(b"a", padding="000"))
    ),
    "7541 5.2: padding with one bit wrong": broken(
        SHORT + b"\x00" + string(b"x") + coded_string(huffman(b"a", padding="110"))
    ),
    "7541 5.2: EOS in a string": broken(SHORT + b"\x00" + string(b"x") + coded_string(huffman(b"abc", eos=True))),
    "7541 5.2: EOS in a name": broken(SHORT + b"\x00" + coded_string(huffman(b"x", eos=True)) + string(b"v")),
    "7541 5.2: a Huffman code without an end": broken(SHORT + b"\x00" + string(b"x") + coded_string(b"\xff\xfe")),
    "9113 8.2.1: upper case behind Huffman codes": Row(
        send=headers(1, encoded=SHORT + literal(b"X-Upper", b"1", coded=True)) + data(1, NEVER), expect=malformed(1)
    ),
    "9113 8.2.1: a line feed behind Huffman codes": Row(
        send=headers(1, encoded=SHORT + literal(b"x", b"a\nb", coded=True)) + data(1, NEVER), expect=malformed(1)
    ),
}

INDEXES = {
    "7541 6.1: index 0": broken(SHORT + b"\x80"),
    "7541 2.3.3: an index above the static table, the dynamic one being empty": broken(SHORT + indexed(62)),
    "7541 2.3.3: an index above what the dynamic table has": broken(SHORT + KEPT, SHORT + indexed(63)),
    "7541 2.3.3: an index far above": broken(SHORT + indexed(5000)),
    "7541 6.2.1: a name of an index above the table, to be kept": broken(SHORT + literal(62, b"v", kind="incremental")),
    "7541 6.2.2: a name of an index above the table": broken(SHORT + literal(70, b"v")),
    "7541 6.2.3: a name of an index above the table, never to be kept": broken(SHORT + literal(62, b"v", kind="never")),
    "7541 6.2: an index of a name, in each kind of literal": echoed(
        SHORT
        + literal(58, b"agent", kind="incremental")
        + literal(58, b"agent", kind="without")
        + literal(58, b"agent", kind="never")
    ),
    "7541 6.2.1: literals that are kept": echoed(block(REQUEST, kind="incremental")),
    "7541 6.2.3: literals that are never kept": echoed(block(REQUEST, kind="never")),
    "7541 6.2.2: literals that are not kept are not in the table": broken(
        SHORT + literal(b"x", b"1") + literal(b"y", b"1", kind="never"), SHORT + indexed(62)
    ),
    **{
        f"7541 A: entry {number} of the static table, {name.decode()}": echoed(
            SHORT + (indexed(number) if value else literal(number, b"1"))
        )
        for number, (name, value) in enumerate(STATIC, 1)
        if not name.startswith(b":") and name not in REFUSED_NAMES
    },
    "7541 A: entry 31 of the static table, content-type": echoed(SHORT_BUT_TYPE + literal(31, b"application/grpc")),
    "7541 A: entry 38 of the static table, host": echoed(SHORT + literal(38, b"processor")),
    "7541 A: entry 28 of the static table, content-length": Row(
        send=headers(1, encoded=SHORT + literal(28, b"2")) + data(1, NEVER, end=True), expect=malformed(1)
    ),
    "7541 A: entry 57 of the static table, transfer-encoding": Row(
        send=headers(1, encoded=SHORT + literal(57, b"chunked")) + data(1, NEVER, end=True), expect=malformed(1)
    ),
    **{
        f"7541 A: entry {number} of the static table, {name.decode()} {value.decode()}": Row(
            send=headers(1, encoded=indexed(number) + SHORT) + data(1, NEVER, end=True), expect=malformed(1)
        )
        for number, (name, value) in enumerate(STATIC, 1)
        if name.startswith(b":") and name != b":authority"
    },
}

TABLE = {
    "7541 2.2: the table is one for all streams": echoed(SHORT + KEPT, SHORT + indexed(62)),
    "7541 2.3.2: the youngest entry comes first": Row(
        # If the older entry came first, the name in upper case would not be hit.
        send=headers(
            1, encoded=SHORT + literal(b"X", b"1", kind="incremental") + literal(b"y", b"1", kind="incremental")
        )
        + headers(3, encoded=SHORT + indexed(62))
        + data(3, ECHO)
        + headers(5, encoded=SHORT + indexed(63))
        + data(5, NEVER),
        expect=(malformed(1), malformed(5), served_after_all(3), fed(b"echo")),
    ),
    "7541 2.2: a field that comes twice is there twice": echoed(SHORT + KEPT + KEPT, SHORT + indexed(62) + indexed(63)),
    "7541 2.2: within a block an entry can be used at once": echoed(SHORT + KEPT + indexed(62)),
    "7541 2.2: all fields from the table": echoed(
        block(REQUEST, kind="incremental"), b"".join(indexed(62 + n) for n in reversed(range(len(REQUEST))))
    ),
    "7541 6.2.1: a name from the dynamic table": echoed(
        SHORT + KEPT, SHORT + literal(62, b"other"), SHORT + indexed(62)
    ),
    "7541 6.2.1: a kept literal with a name from the dynamic table": echoed(
        SHORT + KEPT, SHORT + literal(62, b"other", kind="incremental"), SHORT + indexed(62) + indexed(63)
    ),
    "7541 4.4: an entry larger than the table empties it": broken(
        SHORT + KEPT, SHORT + literal(b"x", b"v" * 4096, kind="incremental"), SHORT + indexed(62)
    ),
    "7541 4.4: an entry larger than the table is no error": echoed(
        SHORT + KEPT, SHORT + literal(b"x", b"v" * 4096, kind="incremental"), SHORT + KEPT, SHORT + indexed(62)
    ),
    "7541 4.4: the oldest entry leaves": broken(
        # Each is 1 + 1967 + 32 octets: two fit.
        SHORT + b"".join(literal(name, b"v" * 1967, kind="incremental") for name in (b"a", b"b", b"c")),
        SHORT + indexed(63) + indexed(62),
        SHORT + indexed(64),
    ),
    "7541 4.4: a name of the entry that makes room for its own successor": echoed(
        SHORT + literal(b"x", b"v" * 3000, kind="incremental"),
        SHORT + literal(62, b"w" * 3000, kind="incremental"),
        SHORT + indexed(62),
    ),
    "7541 4.1: an entry of exactly the table's size": echoed(
        SHORT + literal(b"x", b"v" * (4096 - 33), kind="incremental"), SHORT + indexed(62)
    ),
    "7541 4.1: an entry of one octet more": broken(
        SHORT + literal(b"x", b"v" * (4096 - 32), kind="incremental"), SHORT + indexed(62)
    ),
    "7541 2.2: the same octets mean what the table says at the time": Row(
        # A block of indexes is refused or served as the entry that it names changes, four times in turn.
        send=b"".join(
            headers(4 * n + 1, encoded=SHORT + literal(name, b"1", kind="incremental"), end=True)
            + headers(4 * n + 3, encoded=SHORT + indexed(62))
            + data(4 * n + 3, ECHO if name.islower() else NEVER, end=True)
            for n, name in enumerate((b"good", b"BAD", b"fine", b"WRONG"))
        ),
        expect=(
            served_after_all(3),
            malformed(7),
            served_after_all(11),
            malformed(15),
            fed(b"echo", b"echo"),
        ),
    ),
    "7541 2.2: the same octets mean something else after what trailers have kept": Row(
        # The trailers are malformed themselves, and so is the request that refers to what they brought.
        send=headers(1, encoded=SHORT + KEPT)
        + data(1, ECHO, end=True)
        + headers(3, encoded=SHORT + indexed(62))
        + data(3, ECHO, end=True)
        + headers(5, encoded=SHORT + indexed(62))
        + headers(5, encoded=literal(b"BAD", b"1", kind="incremental"), end=True)
        + headers(7, encoded=SHORT + indexed(62))
        + data(7, NEVER, end=True),
        expect=(served_after_all(1), served_after_all(3), malformed(5), malformed(7), fed(b"echo", b"echo")),
    ),
    "7541 2.2: the same octets that keep a field keep it each time": Row(
        # The third index is good only if every one of the equal blocks has added its entry.
        send=b"".join(headers(2 * n + 1, encoded=SHORT + KEPT) + data(2 * n + 1, ECHO, end=True) for n in range(4))
        + headers(9, encoded=SHORT + indexed(65))
        + data(9, ECHO, end=True),
        expect=tuple(done(stream, b"echo") for stream in (1, 3, 5, 7, 9)),
    ),
    "7541 2.2: a block that repeats after the path in the table changed": Row(
        # :method, :scheme, :path (62), content type (63); between, the newest entry becomes another path.
        send=headers(
            1,
            encoded=indexed(3)
            + indexed(6)
            + literal(4, REQUEST[2][1], kind="incremental")
            + literal(b"content-type", b"application/grpc")
            + ASKS_FOR_TRAILERS,
        )
        + data(1, ECHO, end=True)
        + b"".join(
            headers(
                stream,
                encoded=indexed(3) + indexed(6) + indexed(62) + literal(31, b"application/grpc") + ASKS_FOR_TRAILERS,
            )
            + data(stream, ECHO, end=True)
            for stream in (3, 5)
        )
        + headers(7, encoded=SHORT + literal(4, b"/none.Such/Method", kind="incremental"))
        + headers(
            9, encoded=indexed(3) + indexed(6) + indexed(62) + literal(31, b"application/grpc") + ASKS_FOR_TRAILERS
        )
        + data(9, NEVER, end=True),
        expect=(
            served_after_all(1),
            served_after_all(3),
            served_after_all(5),
            fed(b"echo", b"echo", b"echo"),
            lambda seen: seen.peer.status(9)[0] == 12 or pytest.fail(str(seen.peer.status(9))),
        ),
    ),
}

SIZES = {
    "7541 4.2: a table size update at the beginning of a block": echoed(table_size(4096) + SHORT),
    "7541 4.2: to 0": echoed(table_size(0) + SHORT),
    "7541 4.2: to 0 and back": echoed(table_size(0) + table_size(4096) + SHORT + KEPT, SHORT + indexed(62)),
    "7541 4.3: a size of 0 empties the table": broken(SHORT + KEPT, table_size(0) + SHORT + indexed(62)),
    "7541 4.3: a size of 0, and back, empties the table": broken(
        SHORT + KEPT, table_size(0) + table_size(4096) + SHORT + indexed(62)
    ),
    "7541 4.3: a smaller size makes the oldest leave": broken(
        SHORT + KEPT + literal(b"y", b"1", kind="incremental"),
        table_size(40) + SHORT + indexed(62),
        SHORT + indexed(63),
    ),
    "7541 4.2: in a table of 0 nothing is kept": broken(table_size(0) + SHORT + KEPT, SHORT + indexed(62)),
    "7541 4.2: the size stays for the blocks that follow": broken(
        table_size(0) + SHORT, SHORT + KEPT, SHORT + indexed(62)
    ),
    "7541 6.3: above what was announced": Row(
        send=lambda peer: headers(1, encoded=table_size(peer.settings.get(HEADER_TABLE_SIZE, 4096) + 1) + SHORT),
        expect=connection_error(COMPRESSION_ERROR),
    ),
    "7541 6.3: far above what was announced": broken(table_size(2**20) + SHORT),
    "7541 4.2: after a field": broken(SHORT + table_size(4096)),
    "7541 4.2: between fields": broken(SHORT[:1] + table_size(0) + SHORT[1:]),
    "7541 4.2: at the beginning of CONTINUATION, which is not that of the block": Row(
        send=headers(1, encoded=SHORT[:2], flags=0) + continuation(1, table_size(100) + SHORT[2:]),
        expect=connection_error(COMPRESSION_ERROR),
    ),
    "7541 4.2: nothing but an update is a request without fields": Row(
        send=headers(1, encoded=table_size(0))
        + headers(3, encoded=SHORT + KEPT)
        + headers(5, encoded=SHORT + indexed(62)),
        expect=connection_error(COMPRESSION_ERROR),
    ),
    "7541 4.2: an update in trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, encoded=table_size(100) + literal(b"x", b"1"), end=True),
        expect=done(1, b"echo"),
    ),
    "7541 4.2: the same update again": echoed(
        table_size(100) + SHORT, table_size(100) + SHORT, table_size(100) + SHORT
    ),
    "7541 4.2: the same octets with an update set the size each time": broken(
        table_size(0) + SHORT,
        table_size(4096) + SHORT,
        table_size(0) + SHORT,
        SHORT + KEPT,
        SHORT + indexed(62),
    ),
    "7541 4.2: the same octets with an update empty the table each time": broken(
        table_size(0) + table_size(4096) + SHORT,
        SHORT + KEPT,
        table_size(0) + table_size(4096) + SHORT,
        SHORT + indexed(62),
    ),
}

ROWS = {**INTEGERS, **STRINGS, **INDEXES, **TABLE, **SIZES}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_field_blocks(rule, arrival):
    check(ROWS[rule], arrival)


@pytest.mark.parametrize("at", range(1, len(SHORT)))
def test_a_block_that_is_cut_short_is_never_taken_for_whole(at):
    """RFC 7541, 5: at a boundary of fields some are missing, elsewhere the block cannot be decoded."""
    check(
        Row(
            send=headers(1, encoded=SHORT[:at]) + data(1, ECHO, end=True),
            expect=either(connection_error(COMPRESSION_ERROR), malformed(1), _one_field_less),
        ),
        "at once",
    )


def _one_field_less(seen):
    """A block that lacks just its last fields."""
    assert seen.peer.goaway is None
    assert 1 in seen.peer.ended


SHRUNK = {
    "0 in the first SETTINGS": [((HEADER_TABLE_SIZE, 0),)],
    "100 in the first SETTINGS": [((HEADER_TABLE_SIZE, 100),)],
    "0 later": [(), ((HEADER_TABLE_SIZE, 0),)],
    "0 and back, in two SETTINGS": [(), ((HEADER_TABLE_SIZE, 0),), ((HEADER_TABLE_SIZE, 4096),)],
    "0 and back, in one SETTINGS": [(), ((HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4096))],
    "in steps": [(), ((HEADER_TABLE_SIZE, 2000),), ((HEADER_TABLE_SIZE, 1000),), ((HEADER_TABLE_SIZE, 1500),)],
    "larger": [((HEADER_TABLE_SIZE, 8192),)],
    "larger, and the default again": [((HEADER_TABLE_SIZE, 8192),), ((HEADER_TABLE_SIZE, 4096),)],
}


@pytest.mark.parametrize("case", SHRUNK)
def test_a_smaller_table_is_confirmed_at_the_beginning_of_the_next_block(case):
    """RFC 9113, 4.3.1: a client may end the connection if the block that follows does not begin with the update.

    The peer checks each block.
    """
    peer = Peer(build_engine(EchoProcessor()))
    first, *later = SHRUNK[case]
    peer.greet(*first)
    peer.send(call(1, b"a"))
    for pairs in later:
        peer.send(settings(*pairs))
    peer.send(call(3, b"b"), call(5, b"c"), call(7, b"fail:x"))
    peer.send(headers(9, fields(content_type=b"application/json")), headers(11, fields(path=b"/none.Such/Method")))
    assert [peer.replies(stream) for stream in (1, 3, 5)] == [[b"a"], [b"b"], [b"c"]]
    assert peer.status(7) == (5, "x")
    assert peer.is_alive()
    assert PROTOCOL_ERROR not in peer.resets.values()


def test_a_table_that_shrinks_twice_between_blocks_is_confirmed_for_the_smaller():
    """RFC 7541, 4.2: the smallest size between two blocks must be signalled, and the last."""
    peer = Peer(build_engine(EchoProcessor())).greet()
    peer.send(call(1, b"a", end=False))
    peer.send(settings((HEADER_TABLE_SIZE, 0)), settings((HEADER_TABLE_SIZE, 4096)))
    peer.send(data(1, end=True))
    assert peer.status(1) == (0, "")

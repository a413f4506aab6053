"""AWS event streams: the reader against every cut, against botocore's, and against messages that are broken."""

from __future__ import annotations

import uuid
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from extproc.formats.eventstream import MAX_HEADERS_BYTES, EventMessage, EventStreamReader
from tests.support.eventstream import error, event, exception, frame, raw_frame

STREAM = b"".join(
    [
        event("messageStart", {"role": "assistant"}),
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "höi"}}, padding=0),
        frame({}, b""),
        exception("throttlingException", {"message": "slow"}),
        error("InternalError", "lost"),
    ]
)


def read(*pieces: bytes) -> tuple[list[EventMessage], str, int]:
    reader = EventStreamReader()
    messages = [message for piece in pieces for message in reader.feed(piece)]
    return messages, reader.fault, reader.pending


def header(name: bytes, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


def test_messages_know_their_kind():
    start, delta, bare, broken, lost = read(STREAM)[0]
    assert (start.message_type, start.event_type, start.exception_type) == ("event", "messageStart", "")
    assert start.headers[":content-type"] == "application/json"
    assert start.payload == b'{"role":"assistant","p":"abcdefghijk"}'
    assert delta.payload == '{"contentBlockIndex":0,"delta":{"text":"höi"}}'.encode()
    assert (bare.message_type, bare.event_type, bare.payload) == ("event", "", b"")
    assert (broken.message_type, broken.event_type, broken.exception_type) == ("exception", "", "throttlingException")
    assert (lost.message_type, lost.headers[":error-code"]) == ("error", "InternalError")


@pytest.mark.parametrize("size", [1, 2, 3, 11, 12, 13, 100])
def test_pieces_of_any_size_give_the_same_messages(size: int):
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert read(*pieces) == read(STREAM)


def test_every_single_cut_gives_the_same_messages():
    whole = read(STREAM)
    for at in range(len(STREAM) + 1):
        assert read(STREAM[:at], STREAM[at:]) == whole


def test_a_message_is_returned_with_its_last_byte_and_not_before():
    reader = EventStreamReader()
    message = event("messageStop", {"stopReason": "end_turn"})
    for at in range(len(message) - 1):
        assert reader.feed(message[at : at + 1]) == []
        assert reader.pending == at + 1
    assert len(reader.feed(message[-1:])) == 1
    assert reader.pending == 0


names = st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) < 256)
values = st.text(max_size=50)


@given(st.lists(st.tuples(st.dictionaries(names, values, max_size=4), st.binary(max_size=60)), max_size=4))
def test_botocore_reads_the_same(messages: list[tuple[dict[str, str], bytes]]):
    stream = b"".join(frame(headers, payload) for headers, payload in messages)
    theirs = EventStreamBuffer()
    theirs.add_data(stream)
    ours, fault, pending = read(stream)
    assert (fault, pending) == ("", 0)
    assert [(message.headers, message.payload) for message in ours] == [
        (message.headers, message.payload) for message in theirs
    ]
    assert [(message.headers, message.payload) for message in ours] == messages


VALUES = {
    "true": (0, b"", "true"),
    "false": (1, b"", "false"),
    "byte": (2, b"\xff", "-1"),
    "short": (3, b"\x01\x00", "256"),
    "integer": (4, b"\xff\xff\xff\xfe", "-2"),
    "long": (5, b"\x7f" + b"\xff" * 7, str(2**63 - 1)),
    "octets": (6, b"\x00\x02\x00\xff", "AP8="),
    "text": (7, "\x00\x03é!".encode("latin-1").replace(b"\xe9", "é".encode()), "é!"),
    "empty text": (7, b"\x00\x00", ""),
    "timestamp": (8, (1_700_000_000_000).to_bytes(8), "1700000000000"),
    "uuid": (9, bytes(range(16)), str(uuid.UUID(bytes=bytes(range(16))))),
}


@pytest.mark.parametrize(("kind", "value", "text"), VALUES.values(), ids=VALUES)
def test_header_values_of_every_type_become_text(kind: int, value: bytes, text: str):
    headers = header(b"a", kind, value) + header(b"z", 7, b"\x00\x01z")
    messages, fault, _ = read(raw_frame(headers, b"{}"))
    assert fault == ""
    assert messages[0].headers == {"a": text, "z": "z"}
    assert messages[0].payload == b"{}"


BAD_HEADERS = {
    "a type that is not known": header(b"a", 10, b""),
    "no value": header(b"a", 7, b""),
    "half of a length": header(b"a", 7, b"\x00"),
    "a text that is longer than the headers": header(b"a", 7, b"\x00\x05b"),
    "a number that is longer than the headers": header(b"a", 5, b"\x00"),
    "a name that is longer than the headers": b"\x09a",
    "no name": header(b"", 7, b"\x00\x00"),
    "a name twice": header(b"a", 0, b"") * 2,
    "a name that is not text": header(b"\xff", 0, b""),
    "a value that is not text": header(b"a", 7, b"\x00\x01\xff"),
}


@pytest.mark.parametrize("headers", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_headers_that_cannot_be_read_are_a_fault(headers: bytes):
    messages, fault, _ = read(event("a", {}) + raw_frame(headers, b"{}") + event("b", {}))
    assert [message.event_type for message in messages] == ["a"]
    assert fault == "the headers of a message cannot be read"


def prelude(length: int, headers: int) -> bytes:
    """A prelude whose checksum is right, whatever it announces."""
    announced = length.to_bytes(4) + headers.to_bytes(4)
    return announced + crc32(announced).to_bytes(4)


LENGTHS = {
    "shorter than its own frame": (15, 0),
    "shorter than its headers": (20, 5),
    "headers over the limit": (16 + MAX_HEADERS_BYTES + 1, MAX_HEADERS_BYTES + 1),
    "over the limit": (24 * 1024 * 1024 + 1, 0),
    "the most that can be written": (2**32 - 1, 2**32 - 1),
}


@pytest.mark.parametrize(("length", "headers"), LENGTHS.values(), ids=LENGTHS)
def test_a_length_that_cannot_be_is_not_waited_for(length: int, headers: int):
    messages, fault, _ = read(event("a", {}), prelude(length, headers))
    assert len(messages) == 1
    assert str(length) in fault


def test_every_flipped_bit_is_noticed_and_the_messages_before_it_are_kept():
    first, second = event("a", {"x": 1}), event("b", {"y": 2})
    for at in range(len(second)):
        damaged = bytearray(second)
        damaged[at] ^= 1 << at % 8
        messages, fault, _ = read(first + bytes(damaged) + first)
        assert [message.event_type for message in messages] == ["a"]
        assert "checksum" in fault


def test_nothing_is_read_after_a_fault():
    reader = EventStreamReader()
    reader.feed(b"this is no event stream")
    assert reader.fault == "the checksum of a message's prelude is wrong"
    assert reader.feed(event("a", {})) == []
    assert reader.pending == 0


def test_a_message_over_the_limit_of_the_reader_is_a_fault():
    reader = EventStreamReader(max_message_bytes=100)
    assert len(reader.feed(frame({}, bytes(84)))) == 1
    assert reader.feed(frame({}, bytes(85))) == []
    assert "over the limit of 100" in reader.fault


def test_long_headers_are_read_as_well():
    headers = {f"name-{number}": "v" * 100 for number in range(20)}
    assert read(frame(headers, b""))[0][0].headers == headers

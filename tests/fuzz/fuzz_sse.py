"""Fuzz target of the event reader: any octets, cut anywhere, give the same events, and nothing is lost."""

from __future__ import annotations

import random

from extproc.formats.sse import SSEEvent, SSEReader, encode_event
from tests.fuzz.driver import drive

# The first octet seeds the cut, and the second is the limit; 0 is none that matters.
SEEDS = (
    b'\x01\x00data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n',
    b'\x02\x00event: message_delta\r\ndata: {"type":"message_delta"}\r\n\r\n: ping\r\n\r\n',
    b"\x03\x00data:a\rdata: b\r\rdata: c\r\r\n\n\revent\r\r",
    b"\x04\x00\xef\xbb\xbf\ndata: x\n\n\xef\xbb\xbfdata: y\n\n",
    b"\x05\x10data: 0123456789abcdef0123456789\n\ndata: x\n\n",
    b"\x06\x00id: 1\nretry: 5\n\nevent: a\nevent: b\ndata\n\nunterminated: yes",
    b"\x07\x08\n\n\r\n\r\r\n",
)


def one_input(data: bytes) -> None:
    """Read the stream whole, in pieces and in single octets. Raises nothing; asserts that all three agree."""
    head, stream = data[:2].ljust(2, b"\0"), data[2:]
    limit = head[1] or 1 << 20
    whole = _read([stream], limit)
    for pieces in (_cut(stream, random.Random(head[0])), [stream[i : i + 1] for i in range(len(stream))]):
        parts = _read(pieces, limit)
        # An event over the limit comes in pieces, which depend on the cut; the others do not.
        assert _said(parts) == _said(whole)
        assert head[1] or parts == whole
    for event in whole:
        again = _read([encode_event(event.data, event.event)], 1 << 20)
        assert [(each.data, each.event) for each in again] == [(event.data, event.event)]


def _read(pieces: list[bytes], limit: int) -> list[SSEEvent]:
    reader = SSEReader(limit)
    events: list[SSEEvent] = []
    fed = given = 0
    for piece in pieces:
        new = reader.feed(piece)
        events += new
        fed += len(piece)
        given += sum(len(event.raw) for event in new)
        assert given + reader.pending == fed
        assert reader.pending <= limit
    events += reader.flush()
    assert b"".join(event.raw for event in events) == b"".join(pieces)
    return events


def _said(events: list[SSEEvent]) -> list[tuple[bytes, bytes | None]]:
    return [(event.data, event.event) for event in events if event.data or event.event is not None]


def _cut(stream: bytes, chance: random.Random) -> list[bytes]:
    pieces = []
    while stream:
        size = chance.randint(1, 12)
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


if __name__ == "__main__":
    drive(one_input, name="sse", package="extproc.formats", seeds=SEEDS)

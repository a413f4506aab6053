"""Fuzz target of the AWS event stream: any octets, cut anywhere, give the same messages and the same fault."""

from __future__ import annotations

import random

from extproc.formats.eventstream import EventMessage, EventStreamReader
from tests.fuzz.driver import drive
from tests.support.eventstream import error, event, exception, raw_frame

# The first octet seeds the cut. With an odd second one the octets are headers and payload of a message whose checksums
# are right, as few would get past them by chance; the third says where the payload begins.
SEEDS = (
    b"\x01\x00\x00" + event("messageStart", {"role": "assistant"}) + event("metadata", {"usage": {}}),
    b"\x02\x00\x00" + exception("throttlingException", {"message": "slow"}) + error("InternalError", "x"),
    b"\x03\x00\x00" + event("a", {})[:-1] + b"?" + event("b", {}),
    b"\x04\x00\x00" + event("a", {})[:20],
    b"\x05\x01\x0f\x01a\x07\x00\x01b\x01c\x00\x01d\x01{}",
    b"\x06\x01\x40\x01a\x02\x80\x01b\x03\x80\x00\x01c\x04\x00\x00\x00\x01\x01d\x05\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x07\x01\x40\x01a\x06\x00\x02\x00\xff\x01b\x08\x00\x00\x00\x00\x00\x00\x00\x01\x01c\x09" + bytes(16),
    b"\x08\x01\x08\x01a\x07\x00\xffb",
)


def one_input(data: bytes) -> None:
    """Read the stream whole, in pieces and in single octets. Raises nothing; asserts that all three agree."""
    head, stream = data[:3].ljust(3, b"\0"), data[3:]
    if head[1] % 2:
        stream = raw_frame(stream[: head[2]], stream[head[2] :]) + stream
    whole = _read([stream])
    assert _read(_cut(stream, random.Random(head[0]))) == whole
    assert _read([stream[at : at + 1] for at in range(len(stream))]) == whole


def _read(pieces: list[bytes]) -> tuple[list[EventMessage], str, int]:
    reader = EventStreamReader(1 << 20)
    messages = [message for piece in pieces for message in reader.feed(piece)]
    assert reader.pending <= sum(map(len, pieces))
    return messages, reader.fault, reader.pending


def _cut(stream: bytes, chance: random.Random) -> list[bytes]:
    ends = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.randrange(8)))
    return [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)]


if __name__ == "__main__":
    drive(one_input, name="eventstream", package="extproc.formats", seeds=SEEDS)

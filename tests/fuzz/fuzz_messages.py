"""Fuzz target of messages: whatever was read before, one is read as the wire library reads it."""

from __future__ import annotations

import random
from unittest import mock

from extproc.errors import StreamFailure
from extproc.exchange import message_forms, message_reader
from extproc.exchange.message_forms import MessageForms
from extproc.exchange.message_reader import read_message
from protos.ext_proc_pb2 import HttpBody, ProcessingRequest
from tests.fuzz.driver import drive
from tests.support.plain_messages import Plain, plainly, told
from tests.support.playbook import request_headers, response_body, response_headers

# The first octet seeds what is spoilt; messages are told apart by what none of Envoy's has in it.
BREAK = b"\0\0\0\0"


def _seed(first: bytes, *messages: ProcessingRequest) -> bytes:
    return first + BREAK.join([message.SerializeToString() + b"\x42\0" for message in messages])


SEEDS = (
    _seed(b"\x01", *(request_headers({":path": "/a", "x-request-id": str(n)}) for n in (11, 22, 33))),
    _seed(b"\x02", *(response_headers({name: value}) for name, value in (("a", "bc"), ("ab", "c"), ("a", "cb")))),
    _seed(b"\x03", *(response_headers([("a", a), ("b", b)]) for a, b in ((b"", b"\xff"), (b"\xff", b"")))),
    _seed(b"\x04", response_headers([("a", "1"), ("a", "2")]), response_headers([("a", "1"), ("b", "2")])),
    _seed(b"\x05", *(request_headers({"a": n}, attributes={"backend": "x"}) for n in "123")),
    _seed(b"\x06", *(response_body(b"x" * size, eos=size % 2 == 0) for size in (0, 1, 125, 126, 127, 128, 129))),
    _seed(b"\x07", ProcessingRequest(request_body=HttpBody(body=b"\x42\0"), observability_mode=True)),
)


def one_input(data: bytes) -> None:
    """Read messages one after the other, each twice, and what becomes of them when octets are changed."""
    chance = random.Random(data[:1])
    messages = data[1:].split(BREAK)[:8]
    fresh = mock.patch.object(message_reader, "_forms", MessageForms())
    with fresh, mock.patch.object(message_forms, "_LEARNT_OF", 1):
        for each in [*messages, *messages, *(_spoilt(chance.choice(messages), chance) for _ in range(8))]:
            assert _read(each) == plainly(each)


def _read(data: bytes) -> Plain:
    try:
        return told(read_message(data))
    except StreamFailure:
        return None


def _spoilt(data: bytes, chance: random.Random) -> bytes:
    octets = bytearray(data)
    for _ in range(chance.randrange(3) if octets else 0):
        octets[chance.randrange(len(octets))] = chance.randrange(256)
    return bytes(octets)


if __name__ == "__main__":
    drive(one_input, name="messages", package="extproc.exchange", seeds=SEEDS)

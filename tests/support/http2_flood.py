"""A peer of the HTTP/2 engine that sends a lot, for tests of what that may cost.

The clock stands still unless a test moves it, so that nothing is forgiven by time.
"""

from __future__ import annotations

import itertools
import tracemalloc

from protos.ext_proc_pb2 import BodyResponse, ProcessingResponse
from tests.support.http2_peer import (
    LAST_STREAM,
    EchoProcessor,
    EchoStream,
    Peer,
    build_engine,
)


class Constant(EchoProcessor):
    """Opens streams that give the same short reply to every message, for tests of many."""

    def open(self):
        return ConstantStream(self)


class ConstantStream(EchoStream):
    def feed(self, data):
        self._processor.fed.append(b"")
        return SHORT_REPLY


SHORT_REPLY = ProcessingResponse(request_body=BodyResponse())


class Attack:
    """A peer against an engine whose clock stands still."""

    def __init__(self, *pairs, processor=None, **bounds):
        self.now = 1000.0
        self.processor = processor or EchoProcessor()
        self.peer = Peer(build_engine(self.processor, clock=lambda: self.now, **bounds)).greet(*pairs)
        self.engine = self.peer.engine

    def until_closed(self, wave, limit):
        """Send ``wave(n)`` for n = 0, 1, ...; return how many it took, and the octets that came back."""
        octets = 0
        for count in range(limit):
            if self.engine.closed:
                return count, octets
            self.engine.receive(wave(count))
            octets += len(self._take())
        raise AssertionError(f"still connected after {limit}")

    def endures(self, waves):
        """Send all of it and stay connected; return the octets that came back."""
        octets = 0
        for wave in waves:
            self.engine.receive(wave)
            assert not self.engine.closed, "cut off"
            octets += len(self._take())
        return octets

    def _take(self):
        """The output, of which only GOAWAY is read: a peer that checks each frame would be most of the test."""
        out = self.engine.data_to_send()
        if self.engine.closed:
            self.peer.collect()
            last = out.rfind(b"\x07\0\0\0\0\0")
            assert last >= 3, "no GOAWAY"
            self.code = int.from_bytes(out[last + 10 : last + 14], "big")
        return out


def ids(start=1):
    return itertools.count(start, 2)


def pattern(*frames):
    """Frames of stream 0x7fffffff, to be sent on others: a function of the stream."""
    octets = b"".join(frames)
    return lambda stream: octets.replace(LAST_STREAM.to_bytes(4, "big"), stream.to_bytes(4, "big"))


ANY = LAST_STREAM


def peak(work):
    """The most memory that was held at a time while ``work`` ran, beyond what was held before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()

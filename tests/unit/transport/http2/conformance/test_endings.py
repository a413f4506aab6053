"""Every way in which a call may end leaves nothing behind: no place taken, no octet held, no window narrowed."""

from __future__ import annotations

import pytest

from extproc.errors import StreamFailure
from tests.support.http2_hpack import block, indexed, literal
from tests.support.http2_peer import (
    CHECK,
    DEFAULT_WINDOW,
    INITIAL_WINDOW_SIZE,
    LAST_STREAM,
    REQUEST,
    EchoProcessor,
    EchoStream,
    Peer,
    build_engine,
    call,
    data,
    fields,
    headers,
    message,
    prefixed,
    rst_stream,
    say,
    settings,
    window_update,
)

ANY = LAST_STREAM
HALF = prefixed(b"h" * 3000, length=9000)
LARGE = message(b"size:20000")
NONE_SUCH = fields(path=b"/none.Such/Method")
TRAILERS = headers(ANY, [(b"x-end", b"1")], end=True)

# Frames of a call that is over after them, on stream ``ANY``; a tuple comes in several reads. Windows of the client
# are 1000 octets, so that a large reply waits.
ENDINGS = {
    "both sides end": call(ANY, b"echo"),
    "both sides end, and a reset comes late": (call(ANY, b"echo"), rst_stream(ANY)),
    "no message at all": headers(ANY, end=True),
    "trailers": call(ANY, b"echo", end=False) + TRAILERS,
    "the client resets": call(ANY, b"echo", end=False) + rst_stream(ANY),
    "the client resets before a message": headers(ANY) + data(ANY, b"") + rst_stream(ANY),
    "the client resets within a message": headers(ANY) + data(ANY, HALF) + rst_stream(ANY),
    "the client resets within the second message": call(ANY, b"echo", end=False) + data(ANY, HALF) + rst_stream(ANY),
    "the client ends within a message": headers(ANY) + data(ANY, HALF, end=True),
    "trailers within a message": headers(ANY) + data(ANY, HALF) + TRAILERS,
    "a reply waits when the client resets": (call(ANY, b"size:20000", end=False), rst_stream(ANY)),
    "a reply waits when the client resets, its side being ended": (call(ANY, b"size:20000"), rst_stream(ANY)),
    "a reply waits and goes": (call(ANY, b"size:20000"), window_update(ANY, 30_000) + window_update(0, 30_000)),
    "messages are held when the client resets": (
        headers(ANY) + data(ANY, LARGE * 30) + data(ANY, LARGE * 30) + data(ANY, HALF),
        rst_stream(ANY),
    ),
    "a failure": call(ANY, b"fail:x"),
    "a failure, the client still sends": (call(ANY, b"fail:x", end=False), say(ANY, b"late", end=True)),
    "a failure, the client resets": (call(ANY, b"fail:x", end=False), rst_stream(ANY)),
    "a failure, half a message follows in the same DATA": headers(ANY) + data(ANY, message(b"fail:x") + HALF),
    "a failure behind a reply that waits": (
        call(ANY, b"size:20000", b"fail:x", end=False),
        window_update(ANY, 30_000) + window_update(0, 30_000),
    ),
    "a failure behind a reply that waits, the client resets": (
        call(ANY, b"size:20000", b"fail:x", end=False),
        rst_stream(ANY),
    ),
    "a last reply": call(ANY, b"last:x", end=False) + data(ANY, HALF[:90]),
    "a fault": call(ANY, b"fault"),
    "no protobuf": headers(ANY) + data(ANY, prefixed(b"\xff") + HALF),
    "a flag that is none": headers(ANY) + data(ANY, prefixed(b"", flag=7) + HALF),
    "a message that is too large": headers(ANY)
    + data(ANY, HALF[:3000])
    + data(ANY, b"h" * 6005 + prefixed(b"", length=2**31)),
    "an unknown method": headers(ANY, NONE_SUCH, end=True),
    "an unknown method, the client sends on": (headers(ANY, NONE_SUCH), data(ANY, bytes(3000), end=True)),
    "another protocol": headers(ANY, fields(content_type=b"text/plain")),
    "a field list that is too large": headers(
        ANY, encoded=block(REQUEST) + literal(b"x", b"v" * 4000, kind="incremental") + indexed(62) * 4
    ),
    "a malformed request": headers(ANY, fields((b"X", b"1"))) + data(ANY, bytes(100)),
    "malformed trailers": call(ANY, b"echo", end=False) + headers(ANY, [(b"X", b"")], end=True),
    "a stream error": headers(ANY) + data(ANY, HALF) + window_update(ANY, 0),
    "a stream error while a reply waits": (call(ANY, b"size:20000", end=False), window_update(ANY, 0)),
    "a stream error, and DATA that were on their way": (
        headers(ANY) + window_update(ANY, 0),
        data(ANY, bytes(3000), padding=99),
    ),
    "DATA after the end while a reply waits": call(ANY, b"size:20000") + data(ANY, b"more"),
    "more than content-length": headers(ANY, fields((b"content-length", b"5"))) + data(ANY, HALF),
    "less than content-length": headers(ANY, fields((b"content-length", b"50"))) + data(ANY, HALF[:9], end=True),
    "health": headers(ANY, fields(path=CHECK)) + data(ANY, prefixed(b""), end=True),
    "health, and a reset": headers(ANY, fields(path=CHECK)) + data(ANY, prefixed(b"")) + rst_stream(ANY),
    "health, and half a message": headers(ANY, fields(path=CHECK)) + data(ANY, HALF, end=True),
}


def on(stream, octets):
    return octets.replace(ANY.to_bytes(4, "big"), stream.to_bytes(4, "big"))


@pytest.mark.parametrize("name", ENDINGS)
def test_nothing_is_left_of_a_call_that_has_ended(name):
    """Two hundred calls one after the other, where there is place for one, and 100 kB for incomplete messages."""
    reads = ENDINGS[name] if isinstance(ENDINGS[name], tuple) else (ENDINGS[name],)
    processor = EchoProcessor()
    now = [0.0]
    engine = build_engine(
        processor,
        clock=lambda: now[0],
        max_message=20_000,
        max_concurrent_streams=1,
        partial_bytes=100_000,
        connection_window=DEFAULT_WINDOW,
        stream_window=DEFAULT_WINDOW,
        stream_output_bytes=50_000,
        output_bytes=200_000,
    )
    peer = Peer(engine).greet((INITIAL_WINDOW_SIZE, 1000))
    for stream in range(1, 401, 2):
        for octets in reads:
            peer.send(on(stream, octets))
        assert peer.engine.open_streams == 0, peer.frames[-3:]
        assert processor.opened == processor.closed
        assert peer.engine.waiting == 0
        assert peer.room[0] >= DEFAULT_WINDOW // 2, "the connection's window is not given back"
        if peer.granted[0] < 30_000:
            peer.send(window_update(0, 60_000))
        now[0] += 1
    peer.send(settings((INITIAL_WINDOW_SIZE, DEFAULT_WINDOW)), headers(401))
    assert peer.upload(401, message(b"y" * 19_000), end=True) == b""
    assert peer.replies(401) == [b"y" * 19_000]
    assert peer.status(401) == (0, "")


# --- deadlines --------------------------------------------------------------------------------------------------------


class Clocked:
    def __init__(self, **bounds):
        self.now = 1000.0
        self.processor = EchoProcessor()
        self.peer = Peer(build_engine(self.processor, clock=lambda: self.now, **bounds)).greet()

    def wait(self, seconds):
        """Let time pass, and call the engine when it wants to be called."""
        until = self.now + seconds
        while self.peer.engine.alarm <= until and not self.peer.engine.closed:
            self.now = max(self.now, self.peer.engine.alarm)
            self.peer.engine.tick()
            self.peer.collect()
            self.peer.acknowledge()
        self.now = until


def timed(stream, timeout):
    return headers(stream, fields(grpc_timeout=timeout))


def test_a_deadline_ends_a_call_that_says_nothing():
    clocked = Clocked()
    clocked.peer.send(timed(1, b"5S"), headers(3), say(1, b"a"))
    clocked.wait(4.9)
    assert clocked.peer.status(1) is None
    clocked.wait(0.2)
    assert clocked.peer.status(1)[0] == 4
    assert clocked.peer.replies(1) == [b"a"]
    assert clocked.peer.engine.open_streams == 1
    clocked.peer.send(say(3, b"b", end=True))
    assert clocked.peer.replies(3) == [b"b"]
    assert clocked.processor.opened == clocked.processor.closed == 2


def test_deadlines_pass_in_their_own_order():
    clocked = Clocked()
    for stream, timeout in ((1, b"30S"), (3, b"10S"), (5, b"20000m"), (7, b"1H"), (9, b"5S")):
        clocked.peer.send(timed(stream, timeout))
    ended = []
    for _ in range(8):
        clocked.wait(5.01)
        ended += [stream for stream in (1, 3, 5, 7, 9) if stream in clocked.peer.ended and stream not in ended]
    assert ended == [9, 3, 5, 1]
    assert clocked.peer.engine.open_streams == 1


def test_a_call_that_ended_in_time_is_not_ended_twice():
    clocked = Clocked()
    clocked.peer.send(timed(1, b"5S") + say(1, b"a", end=True), timed(3, b"5S") + rst_stream(3))
    before = len(clocked.peer.frames)
    clocked.wait(10)
    assert [each for each in clocked.peer.frames[before:] if each.stream] == []
    assert clocked.peer.status(1) == (0, "")


def test_a_deadline_while_a_reply_waits_for_a_window():
    clocked = Clocked()
    clocked.peer.send(settings((INITIAL_WINDOW_SIZE, 3)), timed(1, b"5S"), say(1, b"echo"))
    clocked.wait(6)
    clocked.peer.send(window_update(1, 1000))
    assert clocked.peer.status(1)[0] == 4
    assert clocked.peer.engine.open_streams == 0


def test_many_calls_with_deadlines_leave_no_alarm():
    """A deadline of a call that is over neither wakes the engine for ever nor is kept."""
    clocked = Clocked()
    for stream in range(1, 2001, 2):
        clocked.peer.send(timed(stream, b"99999999H") + say(stream, b"a") + rst_stream(stream))
    clocked.wait(300)
    assert clocked.peer.is_alive()
    assert clocked.peer.engine.alarm < clocked.now + 1000


# --- a core that fails ------------------------------------------------------------------------------------------------


class Faulty(EchoProcessor):
    """Its first stream fails at one point; the others are fine."""

    def __init__(self, where):
        super().__init__()
        self._where = where

    def open(self):
        if self.opened:
            return super().open()
        if self._where == "open":
            self.opened += 1
            self.closed += 1
            raise KeyError("planted")
        if self._where == "open, with a status":
            self.opened += 1
            self.closed += 1
            raise StreamFailure(StreamFailure.UNAVAILABLE, "not now")
        return FaultyStream(self, self._where)


class FaultyStream(EchoStream):
    def __init__(self, processor, where):
        super().__init__(processor)
        self._where = where

    def feed(self, data):
        if self._where == "feed":
            raise RecursionError("planted")
        if self._where == "a reply that is none":
            return object()
        return super().feed(data)

    def close(self):
        super().close()
        if self._where == "close":
            raise KeyError("planted")


FAULTS = ("open", "open, with a status", "feed", "a reply that is none", "close")


@pytest.mark.parametrize("end", ["both sides end", "the client resets", "the connection is lost"])
@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_the_core_harms_no_other_call(where, end):
    processor = Faulty(where)
    peer = Peer(build_engine(processor)).greet()
    peer.send(headers(1), headers(3), say(1, b"a"), say(3, b"one"))
    if end == "both sides end":
        peer.send(*([data(1, end=True)] if 1 not in peer.ended else []))
    elif end == "the client resets":
        peer.send(rst_stream(1))
    else:
        peer.engine.connection_lost()
        assert processor.opened == processor.closed
        return
    peer.send(say(3, b"two", end=True))
    assert peer.replies(3) == [b"one", b"two"]
    assert peer.status(3) == (0, "")
    assert processor.opened == processor.closed
    assert "planted" not in str(peer.status(1))
    assert peer.is_alive()


def test_a_health_check_that_fails_harms_no_other_call():
    def is_serving():
        raise KeyError("planted")

    peer = Peer(build_engine(EchoProcessor(), is_serving=is_serving)).greet()
    peer.send(headers(1, fields(path=CHECK)) + data(1, prefixed(b""), end=True), call(3, b"echo"))
    assert peer.replies(3) == [b"echo"]
    assert peer.status(1)[0] == 13

"""Rows of the conformance table: what a client sends, and what a server has to do about it.

An expectation is a function of what was seen, and raises ``AssertionError``. Where the RFC calls for a stream error, a
stream error is expected: RFC 9113, 5.4.1, would let an endpoint end the connection instead, but the connection of a
proxy carries the streams of many clients. Where the rule itself leaves a choice, the row lists what it accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.http2_peer import (
    CODES,
    NO_ERROR,
    PREFACE,
    PROTOCOL_ERROR,
    EchoProcessor,
    Frame,
    Peer,
    build_engine,
    call,
    cut,
    settings,
)

# The stream on which a row shows that its connection still serves calls, and the message that it sends there.
LATE_STREAM = 1_000_001
STILL_HERE = b"still here"
# A message that no server may hand to its application.
NEVER = b"never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that a row brought about."""

    peer: Peer
    processor: EchoProcessor


Expectation = Callable[[Seen], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule.

    Attributes:
        send: octets after the handshake; a function of the peer where they depend on what the server announced.
        expect: what has to come of it, all of it.
        settings: of the handshake.
        handshake: whether there is one.
        then: sent in a second read.
        limits: bounds of the engine that differ from its defaults.
        serves: show at the end that a new call is answered; else, that a PING is.
        options: for ``build_engine``.
    """

    send: bytes | Callable[[Peer], bytes]
    expect: Expectation | tuple[Expectation, ...]
    settings: tuple[tuple[int, int], ...] = ()
    handshake: bool = True
    then: bytes = b""
    limits: Mapping[str, int] = field(default_factory=dict)
    serves: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


Rows = Mapping[str, Row]

# How the octets of a row arrive; long ones are not cut into single octets, for that would take seconds.
ARRIVALS: Mapping[str, Callable[[bytes], Iterable[bytes]]] = {
    "at once": lambda octets: [octets],
    "in pieces": lambda octets: cut(octets, 1 if len(octets) < 3000 else 701),
}


def check(row: Row, arrival: str) -> None:
    """Play a row, and hold the engine to it."""
    processor = EchoProcessor()
    peer = Peer(build_engine(processor, **row.options, **row.limits))
    pieces = ARRIVALS[arrival]
    if row.handshake:
        peer.send(*pieces(PREFACE + settings(*row.settings)))
        peer.acknowledge()
    octets = row.send(peer) if callable(row.send) else row.send
    peer.send(*pieces(octets))
    if row.then:
        peer.send(*pieces(row.then))
    seen = Seen(peer=peer, processor=processor)
    expected = row.expect if isinstance(row.expect, tuple) else (row.expect,)
    for expectation in expected:
        expectation(seen)
    if not peer.engine.closed:
        _serves(seen, whole=row.serves)
    peer.engine.connection_lost()
    assert processor.closed == processor.opened, "calls of the core that were never closed"
    assert peer.engine.open_streams == 0


def _serves(seen: Seen, *, whole: bool) -> None:
    assert seen.peer.is_alive(), f"no answer to a PING: {seen.peer.frames}"
    if not seen.peer.engine.open_streams:
        assert seen.peer.engine.waiting == 0, "output is counted that is none"
    windows = (seen.peer.granted[0], seen.peer.granted.get(LATE_STREAM, seen.peer._initial))
    if whole and min(windows) > 200:
        seen.peer.send(call(LATE_STREAM, STILL_HERE))
        assert seen.peer.replies(LATE_STREAM) == [STILL_HERE], f"no further call is served: {seen.peer.frames}"


# --- expectations ---------------------------------------------------------------------------------------------------


def goaway(*codes: int) -> Expectation:
    """A connection error: GOAWAY with one of the codes, and the connection is over."""

    def connection_error(seen: Seen) -> None:
        assert seen.peer.goaway is not None, f"no GOAWAY in {seen.peer.frames}"
        last, code, _ = seen.peer.goaway
        assert code in codes, f"GOAWAY with {_name(code)}, not {_names(codes)}"
        assert seen.peer.engine.closed, "GOAWAY, but the connection goes on"
        assert last <= max(seen.peer._told, default=0), f"6.8: {last} is not a stream that was opened"
        answered = max((stream for stream in seen.peer.received), default=0)
        assert last >= answered, f"6.8: GOAWAY says that stream {answered}, which was answered, may be tried again"

    return connection_error


def hung_up(seen: Seen) -> None:
    """The connection is over; a GOAWAY may say so, then with PROTOCOL_ERROR (RFC 9113, 3.4)."""
    assert seen.peer.engine.closed, f"the connection goes on: {seen.peer.frames}"
    assert seen.peer.goaway is None or seen.peer.goaway[1] == PROTOCOL_ERROR, seen.peer.goaway


def reset(stream: int, *codes: int) -> Expectation:
    """A stream error: RST_STREAM with one of the codes, and nothing else ends."""

    def stream_error(seen: Seen) -> None:
        assert seen.peer.goaway is None, f"GOAWAY with {_name(seen.peer.goaway[1])}, not a stream error"
        assert stream in seen.peer.resets, f"stream {stream} was not reset: {seen.peer.frames}"
        code = seen.peer.resets[stream]
        assert code in codes, f"RST_STREAM with {_name(code)}, not {_names(codes)}"
        assert not seen.peer.engine.closed

    return stream_error


def malformed(stream: int) -> Expectation:
    """RFC 9113, 8.1.1: a stream error of type PROTOCOL_ERROR, after an answer with status 400 perhaps."""
    error = reset(stream, PROTOCOL_ERROR)

    def malformed_request(seen: Seen) -> None:
        error(seen)
        assert NEVER not in seen.processor.fed, "a malformed request reached the application"
        blocks = seen.peer.blocks.get(stream, [])
        # What came before the mistake may have been answered.
        assert not blocks or seen.processor.fed or (b":status", b"400") in blocks[0], blocks

    return malformed_request


def either(*expectations: Expectation) -> Expectation:
    """The RFC leaves a choice."""

    def one_of(seen: Seen) -> None:
        failures = []
        for expectation in expectations:
            try:
                return expectation(seen)
            except AssertionError as error:
                failures.append(str(error))
        raise AssertionError(" / ".join(failures))

    return one_of


def reset_or_goaway(stream: int, *codes: int) -> Expectation:
    """The RFC lets an endpoint choose between a stream error and a connection error."""
    return either(reset(stream, *codes), goaway(*codes))


def accepted(seen: Seen) -> None:
    """Nothing is wrong with it."""
    assert seen.peer.goaway is None, f"GOAWAY with {_name(seen.peer.goaway[1])}: {seen.peer.goaway[2]!r}"
    assert not seen.peer.resets, {stream: _name(code) for stream, code in seen.peer.resets.items()}
    assert not seen.peer.engine.closed


def replies(stream: int, *bodies: bytes) -> Expectation:
    """The messages of a stream are answered, in order, and nothing is wrong."""

    def answered(seen: Seen) -> None:
        accepted(seen)
        assert seen.peer.replies(stream) == list(bodies), seen.peer.frames

    return answered


def done(stream: int, *bodies: bytes) -> Expectation:
    """A call that is answered and ends with status OK."""
    answered = replies(stream, *bodies)

    def ended_well(seen: Seen) -> None:
        answered(seen)
        assert seen.peer.status(stream) == (0, ""), seen.peer.blocks.get(stream)
        assert seen.peer.blocks[stream][0][0] == (b":status", b"200")

    return ended_well


def served_after_all(stream: int, *bodies: bytes) -> Expectation:
    """A call is answered although others on the connection were not."""

    def answered(seen: Seen) -> None:
        assert seen.peer.goaway is None or seen.peer.goaway[1] == NO_ERROR, seen.peer.goaway
        assert seen.peer.replies(stream) == list(bodies or (b"echo",)), seen.peer.frames

    return answered


def status(stream: int, *codes: int, text: str | None = None) -> Expectation:
    """A call that ends with one of these gRPC status codes; HTTP itself went well."""

    def ended(seen: Seen) -> None:
        assert seen.peer.goaway is None, seen.peer.goaway
        # RFC 9113, 8.1: a server that has said all may ask the client to stop, with RST_STREAM and NO_ERROR.
        assert seen.peer.resets.get(stream, 0) == 0, f"RST_STREAM with {_name(seen.peer.resets[stream])}"
        assert seen.peer.blocks.get(stream), f"no answer: {seen.peer.frames}"
        assert dict(seen.peer.blocks[stream][0]).get(b":status") == b"200", seen.peer.blocks[stream]
        assert dict(seen.peer.blocks[stream][0]).get(b"content-type", b"").startswith(b"application/grpc")
        ending = seen.peer.status(stream)
        assert ending is not None, "no status yet"
        assert ending[0] in codes, f"{ending}, not one of {codes}"
        assert text is None or ending[1] == text, ending
        assert stream in seen.peer.ended, "trailers without END_STREAM"

    return ended


def http_status(stream: int, *codes: int) -> Expectation:
    """A call that is refused by HTTP status."""

    def refused(seen: Seen) -> None:
        assert seen.peer.goaway is None, seen.peer.goaway
        assert seen.peer.blocks.get(stream), f"no answer: {seen.peer.frames}"
        got = dict(seen.peer.blocks[stream][0])[b":status"]
        assert int(got) in codes, f"{got!r}, not one of {codes}"
        assert stream in seen.peer.ended
        assert NEVER not in seen.processor.fed

    return refused


def opened(calls: int) -> Expectation:
    """The core saw as many calls, and no more."""

    def counted(seen: Seen) -> None:
        assert seen.processor.opened == calls, f"{seen.processor.opened} calls were opened, not {calls}"

    return counted


def fed(*bodies: bytes) -> Expectation:
    """The core saw these messages, in this order."""

    def counted(seen: Seen) -> None:
        assert seen.processor.fed == list(bodies)

    return counted


def unsent(stream: int) -> Expectation:
    """Nothing was said on a stream."""

    def silent(seen: Seen) -> None:
        assert not [each for each in seen.peer.frames if each.stream == stream]

    return silent


def sent(*frames: Frame) -> Expectation:
    """These frames came, in this order; others may have come between."""

    def came(seen: Seen) -> None:
        left = iter(seen.peer.frames)
        for each in frames:
            assert any(each == got for got in left), f"{each} did not come in its place: {seen.peer.frames}"

    return came


def never_sent(kind: int, stream: int = 0) -> Expectation:
    """No frame of this kind came on this stream."""

    def absent(seen: Seen) -> None:
        found = [each for each in seen.peer.frames if (each.kind, each.stream) == (kind, stream)]
        assert not found, found

    return absent


def data_octets(stream: int, count: int) -> Expectation:
    """So many octets of DATA came on a stream."""

    def counted(seen: Seen) -> None:
        got = len(seen.peer.received.get(stream, b""))
        assert got == count, f"{got} octets of DATA on stream {stream}, not {count}"

    return counted


def _name(code: int) -> str:
    return CODES[code] if code < len(CODES) else hex(code)


def _names(codes: Iterable[int]) -> str:
    return " or ".join(map(_name, codes))

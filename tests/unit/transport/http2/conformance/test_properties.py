"""Properties: the cut says nothing, nothing raises, calls do not mix, windows are kept."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz import fuzz_http2
from tests.support.http2_hpack import block, literal
from tests.support.http2_peer import (
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_WINDOW,
    PREFACE,
    PROCESS,
    REQUEST,
    EchoProcessor,
    Peer,
    build_engine,
    call,
    continuation,
    cut,
    data,
    fields,
    frame,
    headers,
    message,
    ping,
    prefixed,
    priority,
    rst_stream,
    window_update,
)
from tests.support.http2_peer import settings as settings_frame

BLOCK = block(REQUEST)
SPEED = settings(max_examples=40, deadline=None)


# --- traffic without a mistake ----------------------------------------------------------------------------------------


@st.composite
def one_call(draw, stream):
    """The frames of a whole call, in order, and the bodies that it sends."""
    bodies = draw(st.lists(st.binary(max_size=60), max_size=5))
    octets = b"".join(map(message, bodies))
    pieces, at = [], 0
    for stop in sorted(draw(st.lists(st.integers(0, len(octets)), max_size=6))):
        pieces.append(octets[at:stop])
        at = stop
    pieces.append(octets[at:])
    opening = draw(st.sampled_from(["plain", "pieces", "kept", "coded", "priority"]))
    match opening:
        case "plain":
            frames = [headers(stream)]
        case "pieces":
            frames = [headers(stream, encoded=BLOCK[:20], flags=0) + continuation(stream, BLOCK[20:])]
        case "kept":
            frames = [headers(stream, encoded=BLOCK + literal(b"x-kept", b"%d" % stream, kind="incremental"))]
        case "coded":
            frames = [headers(stream, encoded=block(REQUEST, coded=True), padding=3)]
        case _:
            frames = [headers(stream, priority=b"\0\0\0\0\x05")]
    padding = draw(st.sampled_from([None, None, 0, 30]))
    frames += [data(stream, piece, padding=padding) for piece in pieces]
    ending = draw(st.sampled_from(["data", "trailers", "on the last"]))
    if ending == "data":
        frames.append(data(stream, end=True))
    elif ending == "trailers":
        frames.append(headers(stream, [(b"x-end", b"1")], end=True))
    else:
        frames[-1] = data(stream, pieces[-1], end=True, padding=padding)
    return frames, bodies


@st.composite
def traffic(draw):
    """Several calls at once, their frames shuffled but each call's in order; and the bodies by stream."""
    streams = list(range(1, 2 * draw(st.integers(1, 6)), 2))
    calls = {stream: draw(one_call(stream)) for stream in streams}
    left = {stream: list(frames) for stream, (frames, _) in calls.items()}
    opened, out = 0, []
    while any(left.values()):
        ready = [
            stream for stream in streams if left[stream] and (stream <= opened or stream == opened + 2 or not opened)
        ]
        ready = [stream for stream in ready if stream <= max(opened + 2, 1)]
        stream = draw(st.sampled_from(ready))
        opened = max(opened, stream)
        out.append(left[stream].pop(0))
        if draw(st.integers(0, 9)) == 0:
            out.append(draw(st.sampled_from([ping(), priority(99), frame(0xEE, 0, 0), settings_frame()])))
    return b"".join(out), {stream: bodies for stream, (_, bodies) in calls.items()}


def pieces_of(octets, places):
    """The octets, cut at these places."""
    stops = [*sorted({place % (len(octets) + 1) for place in places}), len(octets)]
    return [octets[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def said(pieces):
    """All that an engine writes when these pieces arrive."""
    engine = build_engine(EchoProcessor(), clock=lambda: 0.0)
    out = []
    for piece in pieces:
        engine.receive(piece)
        out.append(engine.data_to_send())
    return b"".join(out)


@SPEED
@given(sent=traffic(), places=st.lists(st.integers(0, 5000), max_size=12))
def test_any_cut_of_the_same_octets_gives_the_same_answer(sent, places):
    octets = PREFACE + settings_frame() + sent[0]
    whole = said([octets])
    assert said(pieces_of(octets, places)) == whole
    assert said(cut(octets, 1)) == whole


@SPEED
@given(sent=traffic())
def test_calls_are_answered_in_order_whatever_lies_between(sent):
    octets, bodies = sent
    processor = EchoProcessor()
    peer = Peer(build_engine(processor)).greet()
    peer.send(octets)
    for stream, expected in bodies.items():
        assert peer.replies(stream) == expected
        assert peer.status(stream) == (0, "")
    assert peer.resets == {}
    assert peer.goaway is None
    assert processor.opened == processor.closed == len(bodies)
    assert peer.engine.open_streams == 0


@SPEED
@given(sent=traffic(), resets=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=4))
def test_a_reset_anywhere_harms_no_other_call(sent, resets):
    octets, bodies = sent
    frames = split(octets)
    for which, place in resets:
        stream = 2 * which + 1
        # A client resets what it has opened, and sends nothing on it afterwards.
        opened = next((at for at, each in enumerate(frames) if each[3:4] == b"\1" and stream_of(each) == stream), None)
        if opened is None:
            continue
        at = next((at for at in range(opened, len(frames)) if each_ends_block(frames[at])), opened) + 1
        at = min(at + place % 5, len(frames))
        while at < len(frames) and not each_ends_block(frames[at - 1]):
            at += 1
        frames = [*frames[:at], rst_stream(stream), *(each for each in frames[at:] if stream_of(each) != stream)]
        bodies = {other: expected for other, expected in bodies.items() if other != stream}
    processor = EchoProcessor()
    peer = Peer(build_engine(processor)).greet()
    peer.send(b"".join(frames))
    assert peer.goaway is None
    for stream, expected in bodies.items():
        assert peer.replies(stream) == expected
        assert peer.status(stream) == (0, "")
    assert processor.opened == processor.closed


def split(octets):
    frames = []
    while octets:
        size = 9 + int.from_bytes(octets[:3], "big")
        frames.append(octets[:size])
        octets = octets[size:]
    return frames


def stream_of(octets):
    return int.from_bytes(octets[5:9], "big")


def each_ends_block(octets):
    return octets[3] not in (1, 9) or bool(octets[4] & END_HEADERS)


# --- anything ---------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=300), mode=st.sampled_from([fuzz_http2.RAW, fuzz_http2.GREETED]))
def test_any_octets_are_taken_without_an_exception(data, mode):
    assert fuzz_http2.one_input(bytes([mode, 7]) + data) is None


kinds = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11])
places = st.sampled_from([0, 0, 0, 1, 1, 2, 8, 8, 9, 16, 24, 3, 4, 5, 7])


@settings(max_examples=200, deadline=None)
@given(program=st.lists(st.tuples(kinds, places, st.integers(0, 255)), max_size=14))
def test_whatever_frames_come_the_answer_keeps_to_the_rules(program):
    octets = bytes(octet for instruction in program for octet in instruction)
    assert fuzz_http2.one_input(bytes([fuzz_http2.PROGRAM, 5]) + octets) is None


@pytest.mark.parametrize("number", range(len(fuzz_http2.SEEDS)))
def test_a_seed_is_taken(number):
    assert fuzz_http2.one_input(fuzz_http2.SEEDS[number]) is None


@settings(max_examples=100, deadline=None)
@given(number=st.integers(0, 100), place=st.integers(0, 10_000), octet=st.integers(0, 255))
def test_a_damaged_seed_is_taken_without_an_exception(number, place, octet):
    damaged = bytearray(fuzz_http2.SEEDS[number % len(fuzz_http2.SEEDS)])
    damaged[place % len(damaged)] = octet
    assert fuzz_http2.one_input(bytes(damaged)) is None


@settings(max_examples=100, deadline=None)
@given(encoded=st.binary(max_size=200), at=st.integers(0, 200))
def test_any_field_block_is_decoded_or_refused(encoded, at):
    peer = Peer(build_engine(EchoProcessor())).greet()
    peer.send(
        headers(1, encoded=encoded[:at], flags=0) + continuation(1, encoded[at:]),
        headers(3, encoded=BLOCK) + data(3, message(b"echo"), end=True),
    )
    assert peer.engine.closed or peer.replies(3) == [b"echo"]


@settings(max_examples=100, deadline=None)
@given(name=st.binary(max_size=12), value=st.binary(max_size=12))
@example(name=b":path", value=PROCESS)
def test_any_field_leaves_the_connection_alone(name, value):
    peer = Peer(build_engine(EchoProcessor())).greet()
    peer.send(call(1, b"a", listed=fields((name, value))), call(3, b"echo"))
    assert peer.goaway is None
    assert peer.replies(3) == [b"echo"]
    assert 1 in peer.ended


@settings(max_examples=100, deadline=None)
@given(octets=st.binary(max_size=60), places=st.lists(st.integers(0, 60), max_size=5))
def test_any_content_of_a_call_leaves_the_connection_alone(octets, places):
    processor = EchoProcessor()
    peer = Peer(build_engine(processor, max_message=50)).greet()
    peer.send(headers(1))
    for piece in pieces_of(octets, places):
        if 1 in peer.ended:
            break
        peer.send(data(1, piece))
    peer.send(*([data(1, end=True)] if 1 not in peer.ended else []), call(3, b"echo"))
    assert peer.status(1) is not None
    assert peer.replies(3) == [b"echo"]


# --- windows ----------------------------------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("stream"), st.integers(0, 3), st.integers(1, 3000)),
    st.tuples(st.just("connection"), st.just(0), st.integers(1, 3000)),
    st.tuples(st.just("initial"), st.just(0), st.sampled_from([0, 1, 10, 500, 1000, 20_000, 65_535])),
    st.tuples(st.just("ask"), st.integers(0, 3), st.integers(0, 40_000)),
)


@settings(max_examples=100, deadline=None)
@given(initial=st.sampled_from([0, 1, 100, 65_535]), program=st.lists(steps, max_size=25), piece=st.integers(1, 500))
def test_no_window_is_exceeded_and_all_is_delivered_once_they_open(initial, program, piece):
    """RFC 9113, 6.9: the peer counts each DATA against what it granted; see ``http2_peer``."""
    peer = Peer(build_engine(EchoProcessor())).greet((INITIAL_WINDOW_SIZE, initial))
    asked = {stream: [] for stream in (1, 3, 5, 7)}
    peer.send(*map(headers, asked))
    octets = b""
    for step, which, number in program:
        stream = 2 * which + 1
        match step:
            case "stream":
                octets += window_update(stream, number)
            case "connection":
                octets += window_update(0, number)
            case "initial":
                octets += settings_frame((INITIAL_WINDOW_SIZE, number))
            case _:
                asked[stream].append(number)
                octets += data(stream, message(b"size:%d" % number))
    peer.send(*cut(octets, piece))
    for stream in asked:
        peer.send(data(stream, end=True))
    owed = [sum(len(each.payload) for each in peer.frames if each.kind == DATA)]
    peer.send(settings_frame((INITIAL_WINDOW_SIZE, 1_000_000)))
    peer.send(window_update(0, MAX_WINDOW - max(peer.granted[0], 0) - DEFAULT_WINDOW))
    peer.collect()
    owed.append(sum(len(each.payload) for each in peer.frames if each.kind == DATA))
    for stream, numbers in asked.items():
        assert peer.replies(stream) == [b"x" * number for number in numbers]
        assert peer.status(stream) == (0, "")
    assert owed[1] >= owed[0]


@SPEED
@given(
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=8),
    window=st.sampled_from([16_384, 65_535, 200_000]),
    padding=st.sampled_from([None, 0, 200]),
)
def test_a_client_within_the_windows_is_never_stopped_for_good(sizes, window, padding):
    processor = EchoProcessor()
    peer = Peer(build_engine(processor, stream_window=window, connection_window=65_535)).greet(
        (INITIAL_WINDOW_SIZE, MAX_WINDOW)
    )
    peer.open_window()
    for stream, size in enumerate(sizes):
        peer.send(headers(2 * stream + 1))
        left = message(b"y" * size)
        for _ in range(3):
            left = peer.upload(2 * stream + 1, left, padding=padding)
        assert left == b""
    assert [len(body) for body in processor.fed] == sizes


@SPEED
@given(lengths=st.lists(st.integers(0, 200), max_size=6), places=st.lists(st.integers(0, 2000), max_size=8))
def test_messages_are_the_same_wherever_they_are_cut(lengths, places):
    octets = b"".join(prefixed(message(b"z" * length)[5:]) for length in lengths)
    processor = EchoProcessor()
    peer = Peer(build_engine(processor)).greet()
    peer.send(headers(1), *(data(1, piece) for piece in pieces_of(octets, places)), data(1, end=True))
    assert [len(body) for body in processor.fed] == lengths
    assert peer.replies(1) == processor.fed

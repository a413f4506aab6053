"""RFC 9113, sections 5.2 and 6.9: windows, in both directions."""

from __future__ import annotations

import pytest

from tests.support.http2_peer import (
    DATA,
    DEFAULT_WINDOW,
    FLOW_CONTROL_ERROR,
    INITIAL_WINDOW_SIZE,
    MAX_WINDOW,
    PREFACE,
    PROTOCOL_ERROR,
    EchoProcessor,
    Peer,
    build_engine,
    call,
    data,
    fields,
    headers,
    message,
    rst_stream,
    say,
    settings,
    window_update,
)
from tests.support.http2_rows import (
    ARRIVALS,
    Row,
    accepted,
    check,
    data_octets,
    done,
    either,
    replies,
    reset,
    served_after_all,
    status,
)
from tests.support.http2_rows import goaway as connection_error

ECHO = message(b"echo")
WIDE = ((INITIAL_WINDOW_SIZE, MAX_WINDOW),)
NONE = ((INITIAL_WINDOW_SIZE, 0),)
WIDE_CONNECTION = window_update(0, MAX_WINDOW - DEFAULT_WINDOW)
BIG = call(1, b"size:100000", end=False)


UPDATES = {
    "9113 6.9: an increment of 0 on a stream": Row(
        send=headers(1) + window_update(1, 0) + call(3, b"echo"), expect=(reset(1, PROTOCOL_ERROR), served_after_all(3))
    ),
    "9113 6.9: an increment of 0 on the connection": Row(
        send=window_update(0, 0), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.9: the reserved bit of an increment is ignored": Row(
        settings=NONE, send=call(1, b"size:100") + window_update(1, 1 << 31 | 7), expect=(accepted, data_octets(1, 7))
    ),
    "9113 6.9: an increment of 0 and the reserved bit": Row(
        send=window_update(0, 1 << 31), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.9.1: a stream's window up to 2^31-1": Row(
        send=headers(1) + window_update(1, MAX_WINDOW - DEFAULT_WINDOW) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 6.9.1: a stream's window above 2^31-1": Row(
        send=headers(1) + window_update(1, MAX_WINDOW - DEFAULT_WINDOW + 1) + call(3, b"echo"),
        expect=(reset(1, FLOW_CONTROL_ERROR), served_after_all(3)),
    ),
    "9113 6.9.1: a stream's window above 2^31-1 in two steps": Row(
        send=headers(1) + window_update(1, MAX_WINDOW - DEFAULT_WINDOW) + window_update(1, 1),
        expect=reset(1, FLOW_CONTROL_ERROR),
    ),
    "9113 6.9.1: a stream's window above 2^31-1 at once": Row(
        send=headers(1) + window_update(1, MAX_WINDOW), expect=reset(1, FLOW_CONTROL_ERROR)
    ),
    "9113 6.9.1: the connection's window up to 2^31-1": Row(send=WIDE_CONNECTION, expect=accepted),
    "9113 6.9.1: the connection's window above 2^31-1": Row(
        send=WIDE_CONNECTION + window_update(0, 1), expect=connection_error(FLOW_CONTROL_ERROR)
    ),
    "9113 6.9.1: the connection's window above 2^31-1 at once": Row(
        send=window_update(0, MAX_WINDOW), expect=connection_error(FLOW_CONTROL_ERROR)
    ),
    "9113 6.9.1: DATA that was sent makes room for increments again": Row(
        settings=WIDE,
        send=WIDE_CONNECTION + call(1, b"size:1000"),
        then=window_update(0, 1000),
        expect=done(1, b"x" * 1000),
    ),
    "9113 6.9.2: the connection's window is not a setting": Row(
        send=settings((INITIAL_WINDOW_SIZE, MAX_WINDOW)) + BIG, expect=(accepted, data_octets(1, DEFAULT_WINDOW))
    ),
    "9113 6.9.2: a setting that lifts a stream's window above 2^31-1": Row(
        send=headers(1)
        + window_update(1, MAX_WINDOW - DEFAULT_WINDOW)
        + settings((INITIAL_WINDOW_SIZE, DEFAULT_WINDOW + 1)),
        expect=connection_error(FLOW_CONTROL_ERROR),
    ),
    "9113 6.9.2: a setting that lifts a stream's window to 2^31-1": Row(
        settings=((INITIAL_WINDOW_SIZE, 0),),
        send=headers(1) + window_update(1, MAX_WINDOW - 10) + settings((INITIAL_WINDOW_SIZE, 10)) + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 6.9.2: a setting does not touch streams that have ended": Row(
        send=call(1, b"echo") + settings((INITIAL_WINDOW_SIZE, MAX_WINDOW)), expect=done(1, b"echo")
    ),
    "9113 6.9: WINDOW_UPDATE may come long before there is anything to send": Row(
        settings=NONE,
        send=headers(1) + window_update(1, 50) + window_update(1, 50) + data(1, message(b"size:1000")),
        expect=(accepted, data_octets(1, 100)),
    ),
}

SENDING = {
    "9113 6.9.1: nothing is sent in a window of 0": Row(
        settings=NONE, send=call(1, b"echo"), expect=(accepted, data_octets(1, 0))
    ),
    "9113 6.9.1: fields and empty DATA need no window": Row(settings=NONE, send=headers(1, end=True), expect=done(1)),
    "9113 6.9: a status without DATA needs no window": Row(
        settings=NONE, send=call(1, b"fail:x"), expect=status(1, 5, text="x")
    ),
    "9113 6.9.1: a stream's window is used to the last octet": Row(
        settings=((INITIAL_WINDOW_SIZE, 77),), send=BIG, expect=(accepted, data_octets(1, 77))
    ),
    "9113 6.9.1: the connection's window is used to the last octet": Row(
        settings=WIDE, send=BIG, expect=(accepted, data_octets(1, DEFAULT_WINDOW))
    ),
    "9113 6.9.1: the window of 65 535 that every stream begins with": Row(
        send=WIDE_CONNECTION + BIG, expect=(accepted, data_octets(1, DEFAULT_WINDOW))
    ),
    "9113 6.9: an increment lets as much go": Row(
        settings=NONE, send=BIG + window_update(1, 5), expect=(accepted, data_octets(1, 5))
    ),
    "9113 6.9: increments of 1": Row(
        settings=NONE, send=call(1, b"abc") + window_update(1, 1) * 6, expect=(accepted, data_octets(1, 6))
    ),
    "9113 6.9: both windows have to be open": Row(
        settings=((INITIAL_WINDOW_SIZE, DEFAULT_WINDOW),),
        send=BIG,
        then=window_update(0, 1000),
        expect=(accepted, data_octets(1, DEFAULT_WINDOW)),
    ),
    "9113 6.9: both windows are open again": Row(
        send=BIG,
        then=window_update(0, 1000) + window_update(1, 100),
        expect=(accepted, data_octets(1, DEFAULT_WINDOW + 100)),
    ),
    "9113 6.9: the connection's increment serves a stream that waits for it": Row(
        settings=WIDE, send=BIG, then=window_update(0, 123), expect=(accepted, data_octets(1, DEFAULT_WINDOW + 123))
    ),
    "9113 6.9: a stream that waits for its own window does not hold up others": Row(
        settings=((INITIAL_WINDOW_SIZE, 100),),
        send=call(1, b"size:1000", end=False) + call(3, b"echo"),
        expect=(done(3, b"echo"), data_octets(1, 100)),
    ),
    "9113 6.9.2: a smaller initial window makes a window negative, and it must be earned back": Row(
        send=call(1, b"size:1000000", end=False),
        then=settings((INITIAL_WINDOW_SIZE, 0)) + window_update(0, 500_000) + window_update(1, DEFAULT_WINDOW),
        expect=(accepted, data_octets(1, DEFAULT_WINDOW)),
    ),
    "9113 6.9.2: a negative window that is earned back, and one octet": Row(
        send=call(1, b"size:1000000", end=False),
        then=settings((INITIAL_WINDOW_SIZE, 0)) + window_update(0, 500_000) + window_update(1, DEFAULT_WINDOW + 1),
        expect=(accepted, data_octets(1, DEFAULT_WINDOW + 1)),
    ),
    "9113 6.9.2: a negative window that the setting gives back": Row(
        send=call(1, b"size:1000000", end=False),
        then=settings((INITIAL_WINDOW_SIZE, 0))
        + settings((INITIAL_WINDOW_SIZE, DEFAULT_WINDOW + 9))
        + window_update(0, 500_000),
        expect=(accepted, data_octets(1, DEFAULT_WINDOW + 9)),
    ),
    "9113 6.9.2: a larger initial window frees every stream": Row(
        settings=NONE,
        send=call(1, b"a") + call(3, b"b") + call(5, b"c"),
        then=settings((INITIAL_WINDOW_SIZE, 1000)),
        expect=(done(1, b"a"), done(3, b"b"), done(5, b"c")),
    ),
    "9113 6.9.2: a smaller initial window applies to streams that are open": Row(
        send=headers(1),
        then=settings((INITIAL_WINDOW_SIZE, 3)) + say(1, b"size:100"),
        expect=(accepted, data_octets(1, 3)),
    ),
    "9113 6.9.2: the initial window changes many times": Row(
        settings=NONE,
        send=call(1, b"size:1000", end=False)
        + settings((INITIAL_WINDOW_SIZE, 10))
        + settings((INITIAL_WINDOW_SIZE, 5))
        + settings((INITIAL_WINDOW_SIZE, 20))
        + settings((INITIAL_WINDOW_SIZE, 0))
        + settings((INITIAL_WINDOW_SIZE, 21)),
        expect=(accepted, data_octets(1, 21)),
    ),
    "9113 6.9: trailers wait for the DATA before them": Row(
        settings=((INITIAL_WINDOW_SIZE, 4),),
        send=call(1, b"echo"),
        expect=(accepted, data_octets(1, 4), lambda seen: seen.peer.status(1) is None or pytest.fail("too early")),
    ),
    "9113 6.9: trailers come with the last octet": Row(
        settings=((INITIAL_WINDOW_SIZE, 4),),
        send=call(1, b"echo"),
        then=window_update(1, 1000),
        expect=done(1, b"echo"),
    ),
    "9113 6.9: a status that is no success waits as well": Row(
        settings=((INITIAL_WINDOW_SIZE, 4),),
        send=call(1, b"echo", b"fail:that was all"),
        then=window_update(1, 1000),
        expect=lambda seen: (
            (seen.peer.replies(1), seen.peer.status(1)) == ([b"echo"], (5, "that was all"))
            or pytest.fail(str(seen.peer.frames))
        ),
    ),
    "9113 6.9: the room of a stream that was reset goes to others": Row(
        settings=WIDE,
        send=BIG + call(3, b"echo") + rst_stream(1),
        then=window_update(0, 100),
        expect=(accepted, served_after_all(3)),
    ),
    "9113 6.9: a large reply in a window as large as can be": Row(
        settings=WIDE, send=WIDE_CONNECTION + call(1, b"size:1000000"), expect=done(1, b"x" * 1_000_000)
    ),
}

RECEIVING = {
    "9113 6.9.1: DATA above a stream's window (an error, of either scope)": Row(
        limits={"stream_window": 1000},
        # So little of the window is used by the first that no server gives it back yet.
        send=headers(1) + data(1, message(b"x" * 2000)[:100]) + data(1, b"x" * 901),
        expect=either(reset(1, FLOW_CONTROL_ERROR), connection_error(FLOW_CONTROL_ERROR)),
    ),
    "9113 6.9.1: DATA up to a stream's window": Row(
        limits={"stream_window": 1000},
        send=headers(1) + data(1, message(b"x" * 1200)[:1000]),
        expect=accepted,
    ),
    "9113 6.9.1: one DATA above a stream's window": Row(
        limits={"stream_window": 1000},
        send=headers(1) + data(1, bytes(1001)),
        expect=either(reset(1, FLOW_CONTROL_ERROR), connection_error(FLOW_CONTROL_ERROR)),
    ),
    "9113 6.9.1: padding counts": Row(
        limits={"stream_window": 300},
        send=headers(1) + data(1, message(b"x" * 200)[:100], padding=200),
        expect=either(reset(1, FLOW_CONTROL_ERROR), connection_error(FLOW_CONTROL_ERROR)),
    ),
    "9113 6.9.1: DATA without octets needs no window": Row(
        limits={"stream_window": 20},
        send=headers(1) + data(1, message(b"x" * 30)[:20]) + data(1),
        expect=accepted,
        serves=False,
    ),
}

ROWS = {**UPDATES, **SENDING, **RECEIVING}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_flow_control(rule, arrival):
    check(ROWS[rule], arrival)


UPLOADS = {
    "plain": {},
    "a window of 100 octets": {"stream_window": 100},
    "a window of 1 octet": {"stream_window": 1},
    "both windows small": {"stream_window": 1000, "connection_window": 65_535},
}


@pytest.mark.parametrize("padding", [None, 0, 50])
@pytest.mark.parametrize("case", UPLOADS)
def test_a_client_that_keeps_to_the_windows_never_waits_for_ever(case, padding):
    """RFC 9113, 5.2.1 and 6.9: what was taken, padding included, is given back in time."""
    bounds = UPLOADS[case]
    if padding is not None and bounds.get("stream_window", 1000) <= padding + 1:
        padding = None
    size = 20_000 if bounds.get("stream_window", 1000) < 1000 else 2_000_000
    if bounds.get("stream_window") == 1:
        size = 500
    processor = EchoProcessor()
    peer = Peer(build_engine(processor, **bounds)).greet(*WIDE).open_window()
    body = bytes(range(256)) * (size // 256)
    peer.send(headers(1))
    assert peer.upload(1, message(body), end=True, padding=padding) == b"", "the client waits for a window"
    assert processor.fed == [body]
    assert peer.status(1) == (0, "")


def test_the_connection_window_is_given_back_for_streams_that_have_ended():
    """RFC 9113, 5.1: DATA that is discarded counts toward the connection's window; else it shrinks to nothing."""
    peer = Peer(build_engine(EchoProcessor(), connection_window=65_535, stream_window=65_535)).greet()
    spent = 0
    for stream in range(1, 400, 2):
        peer.send(headers(stream), window_update(stream, 0))
        assert stream in peer.resets
        while peer.room[0] >= 1000 and spent < 1000 * stream:
            peer.send(data(stream, bytes(1000)))
            spent += 1000
    assert spent > 3 * DEFAULT_WINDOW
    assert peer.room[0] > 0
    assert peer.is_alive()


def test_the_connection_window_is_given_back_for_calls_that_are_refused():
    """RFC 9113, 6.9: a server that answers early still takes what was on its way."""
    peer = Peer(build_engine(EchoProcessor(), connection_window=65_535)).greet()
    spent = 0
    for stream in range(1, 200, 2):
        peer.send(headers(stream, fields(path=b"/none.Such/Method")))
        if peer.room[0] >= 2000:
            peer.send(data(stream, bytes(2000), end=True))
            spent += 2000
    assert spent > 2 * DEFAULT_WINDOW
    assert peer.room[0] > 0
    assert peer.is_alive()


def test_windows_that_the_server_grants_are_announced():
    """RFC 9113, 6.9.2: what the engine takes on a stream is its setting, on the connection an increment."""
    peer = Peer(build_engine(EchoProcessor(), stream_window=123_456, connection_window=1_234_567)).greet()
    assert peer.settings[INITIAL_WINDOW_SIZE] == 123_456
    assert peer.room[0] == 1_234_567


def test_one_octet_at_a_time():
    """RFC 9113, 6.9: a peer may open its window by one octet, each time; all of the reply comes, in order."""
    processor = EchoProcessor()
    peer = Peer(build_engine(processor)).greet((INITIAL_WINDOW_SIZE, 0))
    peer.send(call(1, b"a" * 200, b"b" * 100))
    came = 0
    while peer.status(1) is None:
        frames = peer.send(window_update(1, 1))
        assert sum(len(each.payload) for each in frames if each.kind == DATA) == 1
        came += 1
        assert came < 1000
    assert peer.replies(1) == [b"a" * 200, b"b" * 100]


def test_many_streams_share_a_connection_window_fairly_enough():
    """RFC 9113, 5.2.1: whatever a stream is given, each of them is served in the end."""
    peer = Peer(build_engine(EchoProcessor())).greet((INITIAL_WINDOW_SIZE, MAX_WINDOW))
    streams = range(1, 41, 2)
    peer.send(b"".join(call(stream, b"size:20000") for stream in streams))
    for _ in range(200):
        peer.send(window_update(0, 5_000))
    assert all(peer.replies(stream) == [b"x" * 20_000] for stream in streams)


def test_settings_at_the_start_apply_to_the_first_stream():
    """RFC 9113, 3.4: the client's SETTINGS come before its first stream, so they count for it."""
    peer = Peer(build_engine(EchoProcessor()))
    peer.send(PREFACE + settings((INITIAL_WINDOW_SIZE, 3)) + call(1, b"echo"))
    assert len(peer.received[1]) == 3

"""RFC 9113, section 6 (what each type of frame may look like); windows have a file of their own."""

from __future__ import annotations

import pytest

from tests.support.http2_hpack import block
from tests.support.http2_peer import (
    ACK,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_MAX_FRAME,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    MAX_WINDOW,
    PADDED,
    PING,
    PRIORITISED,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REQUEST,
    RST_STREAM,
    SETTINGS,
    SMALLEST_MAX_FRAME,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    Frame,
    call,
    continuation,
    data,
    frame,
    goaway,
    headers,
    message,
    ping,
    priority,
    rst_stream,
    say,
    settings,
    settings_ack,
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
    fed,
    malformed,
    never_sent,
    replies,
    reset_or_goaway,
    sent,
    served_after_all,
)
from tests.support.http2_rows import goaway as connection_error

BLOCK = block(REQUEST)
ECHO = message(b"echo")
NEVER = message(b"never")
ACKNOWLEDGED = Frame(SETTINGS, ACK, 0, b"")
PONG = Frame(PING, ACK, 0, b"8 octets")
WIDE = ((INITIAL_WINDOW_SIZE, MAX_WINDOW),)
WIDE_CONNECTION = window_update(0, MAX_WINDOW - 65_535)

DATA_FRAMES = {
    "9113 6.1: DATA on stream 0": Row(send=data(0, NEVER), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.1: DATA without octets on stream 0": Row(send=data(0), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.1: padding is no content": Row(send=headers(1) + data(1, ECHO, padding=100), expect=replies(1, b"echo")),
    "9113 6.1: padding between the halves of a message": Row(
        send=headers(1) + data(1, ECHO[:6], padding=3) + data(1, ECHO[6:], padding=255, end=True),
        expect=done(1, b"echo"),
    ),
    "9113 6.1: a pad length of 0": Row(send=headers(1) + data(1, ECHO, padding=0), expect=replies(1, b"echo")),
    "9113 6.1: nothing but padding": Row(
        send=headers(1) + data(1, b"", padding=255) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 6.1: nothing but padding, and END_STREAM": Row(
        send=call(1, b"echo", end=False) + data(1, b"", padding=9, end=True), expect=done(1, b"echo")
    ),
    "9113 6.1: padding as long as the payload": Row(
        send=headers(1) + frame(DATA, PADDED, 1, bytes([len(ECHO) + 1]) + ECHO),
        expect=(connection_error(PROTOCOL_ERROR), fed()),
    ),
    "9113 6.1: padding longer than the payload": Row(
        send=headers(1) + frame(DATA, PADDED, 1, b"\xff" + ECHO), expect=(connection_error(PROTOCOL_ERROR), fed())
    ),
    "9113 6.1: a pad length and no room for one octet of padding": Row(
        send=headers(1) + frame(DATA, PADDED, 1, b"\x01"), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.1: PADDED, and not even a pad length (4.2: too small)": Row(
        send=headers(1) + frame(DATA, PADDED, 1), expect=connection_error(FRAME_SIZE_ERROR, PROTOCOL_ERROR)
    ),
    "9113 6.1: padding that is not zero (may be an error of type PROTOCOL_ERROR)": Row(
        send=headers(1) + frame(DATA, PADDED, 1, b"\x03" + ECHO + b"pad"),
        expect=either(replies(1, b"echo"), reset_or_goaway(1, PROTOCOL_ERROR)),
    ),
    "9113 6.1: DATA after END_STREAM in the same read": Row(
        settings=((INITIAL_WINDOW_SIZE, 0),),
        send=call(1, b"echo") + data(1, NEVER),
        expect=(reset_or_goaway(1, STREAM_CLOSED), fed(b"echo")),
    ),
}

HEADER_FRAMES = {
    "9113 6.2: HEADERS on stream 0": Row(send=headers(0), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.2: HEADERS with padding": Row(send=headers(1, padding=200) + data(1, ECHO), expect=replies(1, b"echo")),
    "9113 6.2: HEADERS with a pad length of 0": Row(
        send=headers(1, padding=0) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 6.2: HEADERS with priority fields": Row(
        send=headers(1, priority=b"\x80\0\0\0\xff") + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 6.2: HEADERS with padding and priority fields": Row(
        send=headers(1, padding=10, priority=b"\0\0\0\x03\x07") + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 6.2: a stream that depends on itself (RFC 7540: a stream error; RFC 9113: nothing)": Row(
        send=headers(1, priority=b"\0\0\0\x01\x07") + data(1, ECHO),
        expect=either(replies(1, b"echo"), reset_or_goaway(1, PROTOCOL_ERROR)),
    ),
    "9113 6.2: padding that leaves no room for the block": Row(
        send=frame(HEADERS, END_HEADERS | PADDED, 1, bytes([len(BLOCK[:200]) + 1]) + BLOCK[:200]),
        expect=connection_error(PROTOCOL_ERROR),
    ),
    "9113 6.2: padding longer than the payload": Row(
        send=frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + BLOCK[:40]), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.2: padding that takes octets of the priority fields": Row(
        send=frame(HEADERS, END_HEADERS | PADDED | PRIORITISED, 1, b"\x03" + bytes(5)),
        expect=connection_error(PROTOCOL_ERROR, FRAME_SIZE_ERROR),
    ),
    "9113 6.2: PADDED, and not even a pad length": Row(
        send=frame(HEADERS, END_HEADERS | PADDED, 1), expect=connection_error(PROTOCOL_ERROR, FRAME_SIZE_ERROR)
    ),
    "9113 6.2: priority fields that are cut short": Row(
        send=frame(HEADERS, END_HEADERS | PRIORITISED, 1, b"\0\0\0\0"),
        expect=connection_error(FRAME_SIZE_ERROR, PROTOCOL_ERROR),
    ),
    "9113 6.2: padding that takes the whole block leaves an empty one": Row(
        send=headers(1, encoded=b"", padding=40), expect=malformed(1)
    ),
    "9113 6.2: trailers with padding": Row(
        send=call(1, b"echo", end=False) + headers(1, encoded=block([(b"x", b"1")]), padding=5, end=True),
        expect=done(1, b"echo"),
    ),
    "9113 6.3: PRIORITY on stream 0": Row(send=priority(0), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.3: PRIORITY of 4 octets (a stream error; on the connection would do)": Row(
        send=headers(1) + frame(PRIORITY, 0, 1, bytes(4)), expect=reset_or_goaway(1, FRAME_SIZE_ERROR)
    ),
    "9113 6.3: PRIORITY of 6 octets (a stream error; on the connection would do)": Row(
        send=headers(1) + frame(PRIORITY, 0, 1, bytes(6)), expect=reset_or_goaway(1, FRAME_SIZE_ERROR)
    ),
    "9113 6.3: PRIORITY without octets (a stream error; on the connection would do)": Row(
        send=headers(1) + frame(PRIORITY, 0, 1), expect=reset_or_goaway(1, FRAME_SIZE_ERROR)
    ),
    "9113 6.3: PRIORITY means nothing, whatever it says": Row(
        send=headers(1) + priority(1, 1 | 1 << 31, 255) + priority(1, 99, 0) + data(1, ECHO), expect=replies(1, b"echo")
    ),
}

RESETS = {
    "9113 6.4: RST_STREAM on stream 0": Row(send=rst_stream(0), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.4: RST_STREAM on an idle stream": Row(send=rst_stream(3), expect=connection_error(PROTOCOL_ERROR)),
    **{
        f"9113 6.4: RST_STREAM of {size} octets": Row(
            send=headers(1) + frame(RST_STREAM, 0, 1, bytes(size)), expect=connection_error(FRAME_SIZE_ERROR)
        )
        for size in (0, 3, 5, 8)
    },
    **{
        f"9113 6.4: RST_STREAM with code {code:#x}": Row(
            send=call(1, b"echo", end=False) + rst_stream(1, code), expect=(accepted, fed(b"echo"))
        )
        for code in (0x0, 0x1, 0x2, 0x5, 0x7, 0x8, 0xB, 0xD)
    },
    "9113 6.4: what waits for a window is dropped by RST_STREAM": Row(
        settings=((INITIAL_WINDOW_SIZE, 10),),
        send=call(1, b"size:1000", end=False) + rst_stream(1),
        then=window_update(1, 5000),
        expect=(data_octets(1, 10), never_sent(RST_STREAM, 1)),
        serves=False,
    ),
}

SETTINGS_FRAMES = {
    "9113 6.5: SETTINGS are acknowledged": Row(send=settings((MAX_FRAME_SIZE, 20_000)), expect=sent(ACKNOWLEDGED)),
    "9113 6.5.3: each SETTINGS has its own acknowledgement": Row(send=settings() * 3, expect=sent(*[ACKNOWLEDGED] * 4)),
    "9113 6.5.3: SETTINGS and PING are answered in order": Row(
        send=ping(b"aaaaaaaa") + settings() + ping(b"bbbbbbbb"),
        expect=sent(ACKNOWLEDGED, Frame(PING, ACK, 0, b"aaaaaaaa"), ACKNOWLEDGED, Frame(PING, ACK, 0, b"bbbbbbbb")),
    ),
    "9113 6.5: SETTINGS on a stream": Row(
        send=headers(1) + frame(SETTINGS, 0, 1), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.5: SETTINGS acknowledged on a stream": Row(
        send=headers(1) + frame(SETTINGS, ACK, 1), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.5: an acknowledgement with a payload": Row(
        send=frame(SETTINGS, ACK, 0, b"\0\x01\0\0\0\0"), expect=connection_error(FRAME_SIZE_ERROR)
    ),
    "9113 6.5.3: an acknowledgement too many (nothing, or an error)": Row(
        send=settings_ack() * 2, expect=either(accepted, connection_error(PROTOCOL_ERROR))
    ),
    **{
        f"9113 6.5: SETTINGS of {size} octets": Row(
            send=frame(SETTINGS, 0, 0, bytes(size)), expect=connection_error(FRAME_SIZE_ERROR)
        )
        for size in (1, 5, 7, 11)
    },
    **{
        f"9113 6.5.2: ENABLE_PUSH of {value}": Row(
            send=settings((ENABLE_PUSH, value)), expect=connection_error(PROTOCOL_ERROR)
        )
        for value in (2, 2**32 - 1)
    },
    **{
        f"9113 6.5.2: ENABLE_PUSH of {value} is fine and pushes nothing": Row(
            send=settings((ENABLE_PUSH, value)) + call(1, b"echo"),
            expect=(done(1, b"echo"), never_sent(PUSH_PROMISE, 1)),
        )
        for value in (0, 1)
    },
    **{
        f"9113 6.5.2: INITIAL_WINDOW_SIZE of {value}": Row(
            send=settings((INITIAL_WINDOW_SIZE, value)), expect=connection_error(FLOW_CONTROL_ERROR)
        )
        for value in (2**31, 2**32 - 1)
    },
    "9113 6.5.2: INITIAL_WINDOW_SIZE of 2^31-1": Row(
        send=settings((INITIAL_WINDOW_SIZE, MAX_WINDOW)) + call(1, b"echo"), expect=done(1, b"echo")
    ),
    **{
        f"9113 6.5.2: MAX_FRAME_SIZE of {value}": Row(
            send=settings((MAX_FRAME_SIZE, value)), expect=connection_error(PROTOCOL_ERROR)
        )
        for value in (0, SMALLEST_MAX_FRAME - 1, LARGEST_MAX_FRAME + 1, 2**32 - 1)
    },
    **{
        f"9113 6.5.2: MAX_FRAME_SIZE of {value}": Row(
            send=settings((MAX_FRAME_SIZE, value)) + call(1, b"echo"), expect=done(1, b"echo")
        )
        for value in (SMALLEST_MAX_FRAME, LARGEST_MAX_FRAME)
    },
    "9113 6.5.2: a reply keeps to the frame size of the peer": Row(
        settings=WIDE,
        send=WIDE_CONNECTION + call(1, b"size:50000"),
        expect=done(1, b"x" * 50_000),  # the peer measures each frame
    ),
    "9113 6.5.2: a reply keeps to a frame size that the peer lowered again": Row(
        settings=WIDE,
        send=WIDE_CONNECTION
        + settings((MAX_FRAME_SIZE, 40_000))
        + settings((MAX_FRAME_SIZE, 20_000))
        + call(1, b"size:50000"),
        expect=done(1, b"x" * 50_000),
    ),
    "9113 6.5.2: MAX_CONCURRENT_STREAMS of a client is about pushes": Row(
        send=settings((MAX_CONCURRENT_STREAMS, 0)) + call(1, b"echo"), expect=done(1, b"echo")
    ),
    "9113 6.5.2: MAX_HEADER_LIST_SIZE is advice": Row(
        send=settings((MAX_HEADER_LIST_SIZE, 2**32 - 1)) + call(1, b"echo"), expect=done(1, b"echo")
    ),
    "9113 6.5.2: HEADER_TABLE_SIZE as large as can be": Row(
        send=settings((HEADER_TABLE_SIZE, 2**32 - 1)) + call(1, b"echo") + call(3, b"echo"),
        expect=(done(1, b"echo"), done(3, b"echo")),
    ),
    "9113 6.5.3: of a setting that comes twice the last counts": Row(
        send=settings((INITIAL_WINDOW_SIZE, 0), (INITIAL_WINDOW_SIZE, 100)) + call(1, b"echo"),
        expect=done(1, b"echo"),
    ),
    "9113 6.5.3: of a setting that comes twice the last counts, when it is the smaller": Row(
        send=settings((INITIAL_WINDOW_SIZE, 100), (INITIAL_WINDOW_SIZE, 0)) + call(1, b"echo"),
        expect=(accepted, data_octets(1, 0)),
    ),
    "9113 6.5.3: each value is checked, also one that a later replaces": Row(
        send=settings((MAX_FRAME_SIZE, 1), (MAX_FRAME_SIZE, 20_000)), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.5: unknown settings among known ones": Row(
        send=settings((0xAAAA, 1), (INITIAL_WINDOW_SIZE, 0), (0xBBBB, 2)) + call(1, b"echo"),
        expect=(accepted, data_octets(1, 0)),
    ),
    "9113 6.5: as many settings as a frame holds": Row(
        send=settings(*((0x100 + number, number) for number in range(32))), expect=(accepted, sent(ACKNOWLEDGED))
    ),
}

PUSHES = {
    "9113 8.4: a client cannot push": Row(
        send=headers(1) + frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + BLOCK),
        expect=connection_error(PROTOCOL_ERROR),
    ),
    "9113 6.6: PUSH_PROMISE on stream 0": Row(
        send=frame(PUSH_PROMISE, END_HEADERS, 0, b"\0\0\0\2" + BLOCK), expect=connection_error(PROTOCOL_ERROR)
    ),
}

PINGS = {
    "9113 6.7: PING is answered with its payload": Row(send=ping(), expect=(accepted, sent(PONG))),
    "9113 6.7: each PING is answered": Row(send=ping() * 4, expect=(accepted, sent(PONG, PONG, PONG, PONG))),
    "9113 6.7: an answer to a PING is not answered": Row(
        send=frame(PING, ACK, 0, b"whatever"), expect=(accepted, never_sent(PING))
    ),
    "9113 6.7: PING on a stream": Row(
        send=headers(1) + frame(PING, 0, 1, bytes(8)), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.7: an answer to a PING on a stream": Row(
        send=headers(1) + frame(PING, ACK, 1, bytes(8)), expect=connection_error(PROTOCOL_ERROR)
    ),
    **{
        f"9113 6.7: PING of {size} octets": Row(
            send=frame(PING, 0, 0, bytes(size)), expect=connection_error(FRAME_SIZE_ERROR)
        )
        for size in (0, 7, 9, 16)
    },
    "9113 6.7: an answer to a PING of 7 octets": Row(
        send=frame(PING, ACK, 0, bytes(7)), expect=connection_error(FRAME_SIZE_ERROR)
    ),
}

GOAWAYS = {
    "9113 6.8: calls in flight are answered after GOAWAY": Row(
        send=headers(1) + goaway() + data(1, ECHO) + say(1, b"b", end=True),
        expect=served_after_all(1, b"echo", b"b"),
        serves=False,
    ),
    "9113 6.8: GOAWAY with words for people": Row(
        send=headers(1) + goaway(0, 2, b"out of order") + data(1, ECHO, end=True),
        expect=served_after_all(1, b"echo"),
        serves=False,
    ),
    "9113 6.8: GOAWAY twice": Row(
        send=headers(1) + goaway(2**31 - 1) + goaway(0) + data(1, ECHO, end=True),
        expect=served_after_all(1, b"echo"),
        serves=False,
    ),
    "9113 6.8: GOAWAY on a stream": Row(
        send=headers(1) + frame(GOAWAY, 0, 1, bytes(8)), expect=connection_error(PROTOCOL_ERROR)
    ),
    **{
        f"9113 6.8: GOAWAY of {size} octets": Row(
            send=headers(1) + frame(GOAWAY, 0, 0, bytes(size)), expect=connection_error(FRAME_SIZE_ERROR)
        )
        for size in (0, 4, 7)
    },
}

CONTINUATIONS = {
    "9113 6.10: CONTINUATION first of all": Row(send=continuation(1, BLOCK), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.10: CONTINUATION after HEADERS that ended their block": Row(
        send=headers(1) + continuation(1, b""), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.10: CONTINUATION after CONTINUATION that ended the block": Row(
        send=headers(1, encoded=BLOCK, flags=0) + continuation(1) * 2, expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.10: CONTINUATION after DATA": Row(
        send=call(1, b"echo", end=False) + continuation(1), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 6.10: CONTINUATION on stream 0": Row(send=continuation(0, BLOCK), expect=connection_error(PROTOCOL_ERROR)),
    "9113 6.10: CONTINUATION has no padding": Row(
        # The flag means nothing here, so the octets are the block's.
        send=headers(1, encoded=BLOCK[:5], flags=0)
        + frame(CONTINUATION, END_HEADERS | PADDED | PRIORITISED | END_STREAM, 1, BLOCK[5:])
        + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 6.10: an empty CONTINUATION between others": Row(
        send=headers(1, encoded=BLOCK[:5], flags=0)
        + continuation(1, last=False)
        + continuation(1, BLOCK[5:])
        + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
}

WINDOW_UPDATES = {
    **{
        f"9113 6.9: WINDOW_UPDATE of {size} octets": Row(
            send=frame(WINDOW_UPDATE, 0, 0, bytes([0] * (size - 1) + [1])[:size]),
            expect=connection_error(FRAME_SIZE_ERROR),
        )
        for size in (0, 3, 5)
    },
    "9113 6.9: WINDOW_UPDATE of 3 octets on a stream": Row(
        send=headers(1) + frame(WINDOW_UPDATE, 0, 1, b"\0\0\1"), expect=connection_error(FRAME_SIZE_ERROR)
    ),
}

ROWS = {
    **DATA_FRAMES,
    **HEADER_FRAMES,
    **RESETS,
    **SETTINGS_FRAMES,
    **PUSHES,
    **PINGS,
    **GOAWAYS,
    **CONTINUATIONS,
    **WINDOW_UPDATES,
}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_a_frame_type(rule, arrival):
    check(ROWS[rule], arrival)

"""RFC 9113, sections 5.1 (stream states), 5.1.1 (identifiers), 5.1.2 (concurrency) and 5.4 (errors)."""

from __future__ import annotations

import pytest

from tests.support.http2_hpack import block
from tests.support.http2_peer import (
    END_HEADERS,
    INITIAL_WINDOW_SIZE,
    LAST_STREAM,
    NO_ERROR,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    REQUEST,
    RST_STREAM,
    STREAM_CLOSED,
    call,
    continuation,
    data,
    frame,
    headers,
    message,
    ping,
    priority,
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
    fed,
    never_sent,
    opened,
    replies,
    reset,
    served_after_all,
    unsent,
)
from tests.support.http2_rows import goaway as connection_error

BLOCK = block(REQUEST)
TRAILERS = block([(b"x-end", b"1")])
ECHO = message(b"echo")
PROMISE = frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + BLOCK)
NEVER = message(b"never")


def tolerated(seen):
    """Discarded: nothing is said about it and nothing else suffers."""
    assert seen.peer.goaway is None, seen.peer.goaway
    assert b"never" not in seen.processor.fed


def answered_before(stream, *bodies):
    """What was handled before a connection error is answered before the GOAWAY, which says that it was handled."""

    def answered(seen):
        assert seen.peer.replies(stream) == list(bodies)
        assert seen.peer.goaway[0] >= stream

    return answered


def reset_once(seen):
    assert len([each for each in seen.peer.frames if each.kind == RST_STREAM]) == 1, seen.peer.frames


# A stream is idle until HEADERS open it: anything but HEADERS and PRIORITY is a connection error (5.1, "idle").
IDLE = {
    "DATA": data(1, NEVER),
    "DATA without octets": data(1),
    "DATA with END_STREAM": data(1, NEVER, end=True),
    "RST_STREAM": rst_stream(1),
    "WINDOW_UPDATE": window_update(1, 1),
    "CONTINUATION": continuation(1, BLOCK),
    "PUSH_PROMISE": PROMISE,
}

# The client has ended its half, the reply waits for a window of 0: "half-closed (remote)".
HALF_CLOSED = call(1, b"echo", end=True)
BLOCKED = ((INITIAL_WINDOW_SIZE, 0),)

# Closed, in three ways: both halves ended; the client reset it; the server reset it (for a zero WINDOW_UPDATE).
ENDED = call(1, b"echo")
RESET_BY_CLIENT = call(1, b"echo", end=False) + rst_stream(1)
RESET_BY_SERVER = headers(1) + window_update(1, 0)

# 5.1, "closed": PRIORITY is fine; WINDOW_UPDATE and RST_STREAM may cross the end; anything else may be a stream error
# or a connection error of type STREAM_CLOSED, or be discarded. It never opens a call.
AFTER_THE_END = {
    "DATA": data(1, NEVER),
    "DATA with END_STREAM": data(1, NEVER, end=True),
    "HEADERS": headers(1),
    "HEADERS with END_STREAM": headers(1, end=True),
}

IDS = {
    "9113 5.1.1: the first stream may have any odd id": Row(send=call(77, b"echo"), expect=done(77, b"echo")),
    "9113 5.1.1: ids may leave gaps": Row(
        send=call(1, b"echo") + call(9, b"echo") + call(101, b"echo"), expect=(done(9, b"echo"), done(101, b"echo"))
    ),
    "9113 5.1.1: the largest id": Row(send=call(LAST_STREAM, b"echo"), expect=done(LAST_STREAM, b"echo"), serves=False),
    "9113 5.1.1: a client opens streams with odd ids only": Row(
        send=call(2, b"never"), expect=(connection_error(PROTOCOL_ERROR), fed())
    ),
    "9113 5.1.1: an even id after an odd one": Row(
        send=call(1, b"echo") + headers(4), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 5.1.1: no stream 0": Row(send=headers(0), expect=connection_error(PROTOCOL_ERROR)),
    "9113 5.1.1: ids only grow": Row(
        send=call(5, b"echo") + call(3, b"never"),
        expect=(connection_error(PROTOCOL_ERROR, STREAM_CLOSED), fed(b"echo")),
    ),
    "9113 5.1.1: ids only grow, while the later stream is open": Row(
        send=call(5, b"echo", end=False) + call(3, b"never"),
        expect=(connection_error(PROTOCOL_ERROR, STREAM_CLOSED), fed(b"echo")),
    ),
    "9113 5.1.1: DATA on a stream that a later one has closed": Row(
        send=call(5, b"echo") + data(3, NEVER),
        expect=(
            either(connection_error(STREAM_CLOSED, PROTOCOL_ERROR), tolerated),
            fed(b"echo"),
        ),
    ),
    "9113 5.1.1: PRIORITY on a stream that a later one has closed": Row(
        send=call(5, b"echo") + priority(3), expect=done(5, b"echo")
    ),
    "9113 5.1.1: PRIORITY does not open a stream": Row(send=priority(9) + call(1, b"echo"), expect=done(1, b"echo")),
    "9113 5.1.1: DATA on an even id": Row(send=data(2, NEVER), expect=connection_error(PROTOCOL_ERROR)),
    "9113 5.1.1: RST_STREAM on an even id": Row(send=rst_stream(2), expect=connection_error(PROTOCOL_ERROR)),
    "9113 5.1.1: WINDOW_UPDATE on an even id": Row(send=window_update(2, 1), expect=connection_error(PROTOCOL_ERROR)),
}

CONCURRENCY = {
    "9113 5.1.2: as many streams as announced": Row(
        limits={"max_concurrent_streams": 3},
        send=call(1, b"a", end=False) + call(3, b"b", end=False) + call(5, b"c", end=False),
        expect=(replies(1, b"a"), replies(3, b"b"), replies(5, b"c")),
        serves=False,
    ),
    "9113 5.1.2: one stream more than announced (either code)": Row(
        limits={"max_concurrent_streams": 3},
        send=headers(1) + headers(3) + headers(5) + call(7, b"never"),
        expect=(reset(7, REFUSED_STREAM, PROTOCOL_ERROR), fed()),
        serves=False,
    ),
    "9113 5.1.2: a stream that ends makes room": Row(
        limits={"max_concurrent_streams": 1},
        send=call(1, b"a") + call(3, b"b") + call(5, b"c"),
        expect=(done(1, b"a"), done(3, b"b"), done(5, b"c")),
    ),
    "9113 5.1.2: a stream that the client resets makes room": Row(
        limits={"max_concurrent_streams": 1},
        send=call(1, b"a", end=False) + rst_stream(1) + call(3, b"b"),
        expect=(accepted, served_after_all(3, b"b")),
    ),
    "9113 5.1.2: a stream that the server resets makes room": Row(
        limits={"max_concurrent_streams": 1},
        send=headers(1) + window_update(1, 0) + call(3, b"b"),
        expect=(reset(1, PROTOCOL_ERROR), served_after_all(3, b"b")),
    ),
    "9113 5.1.2: half-closed streams count": Row(
        limits={"max_concurrent_streams": 1},
        settings=BLOCKED,
        send=HALF_CLOSED + call(3, b"never"),
        expect=(reset(3, REFUSED_STREAM, PROTOCOL_ERROR), fed(b"echo")),
    ),
    "9113 5.1.2: DATA on a refused stream is discarded": Row(
        limits={"max_concurrent_streams": 1},
        send=headers(1) + headers(3) + data(3, NEVER) + data(3, NEVER, end=True) + data(1, ECHO),
        expect=(reset(3, REFUSED_STREAM, PROTOCOL_ERROR), served_after_all(1), fed(b"echo")),
        serves=False,
    ),
    "9113 5.1.2: idle and ended streams do not count": Row(
        limits={"max_concurrent_streams": 1},
        send=priority(1) + priority(3) + call(5, b"a") + priority(5) + call(7, b"b"),
        expect=(done(5, b"a"), done(7, b"b")),
    ),
}

STATES = {
    **{
        f"9113 5.1 idle: {name}": Row(send=sent, expect=(connection_error(PROTOCOL_ERROR), opened(0)))
        for name, sent in IDLE.items()
    },
    "9113 5.1 idle: PRIORITY": Row(send=priority(1) + call(1, b"echo"), expect=done(1, b"echo")),
    "9113 5.1 idle: HEADERS open a stream": Row(send=headers(1) + data(1, ECHO), expect=replies(1, b"echo")),
    "9113 5.1 idle: HEADERS with END_STREAM": Row(send=headers(1, end=True), expect=done(1)),
    "9113 5.1 open: DATA": Row(send=call(1, b"a", b"b", end=False), expect=replies(1, b"a", b"b")),
    "9113 5.1 open: DATA with END_STREAM": Row(send=call(1, b"a", b"b"), expect=done(1, b"a", b"b")),
    "9113 5.1 open: HEADERS with END_STREAM are trailers": Row(
        send=call(1, b"a", end=False) + headers(1, encoded=TRAILERS, end=True), expect=done(1, b"a")
    ),
    "9113 5.1 open: PRIORITY": Row(send=headers(1) + priority(1) + data(1, ECHO), expect=replies(1, b"echo")),
    "9113 5.1 open: WINDOW_UPDATE": Row(
        send=headers(1) + window_update(1, 1) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 5.1 open: RST_STREAM": Row(
        send=call(1, b"a", end=False) + rst_stream(1), expect=(accepted, fed(b"a"), never_sent(RST_STREAM, 1))
    ),
    "9113 5.1 open: RST_STREAM before any message": Row(
        send=headers(1) + rst_stream(1), expect=(accepted, fed(), never_sent(RST_STREAM, 1))
    ),
    "9113 5.1 open: PUSH_PROMISE": Row(send=headers(1) + PROMISE, expect=connection_error(PROTOCOL_ERROR)),
    "9113 5.1 open: CONTINUATION": Row(
        send=headers(1) + continuation(1, TRAILERS), expect=connection_error(PROTOCOL_ERROR)
    ),
    "9113 5.1 half-closed (remote): DATA": Row(
        settings=BLOCKED, send=HALF_CLOSED + data(1, NEVER), expect=(reset(1, STREAM_CLOSED), fed(b"echo"))
    ),
    "9113 5.1 half-closed (remote): DATA without octets": Row(
        settings=BLOCKED, send=HALF_CLOSED + data(1), expect=(reset(1, STREAM_CLOSED), fed(b"echo"))
    ),
    "9113 5.1 half-closed (remote): HEADERS": Row(
        settings=BLOCKED, send=HALF_CLOSED + headers(1), expect=(reset(1, STREAM_CLOSED), opened(1))
    ),
    "9113 5.1 half-closed (remote): trailers": Row(
        settings=BLOCKED,
        send=HALF_CLOSED + headers(1, encoded=TRAILERS, end=True),
        expect=(reset(1, STREAM_CLOSED), opened(1)),
    ),
    "9113 5.1 half-closed (remote): CONTINUATION (6.10: a connection error; 5.1: a stream error)": Row(
        settings=BLOCKED,
        send=HALF_CLOSED + continuation(1, TRAILERS),
        expect=either(connection_error(PROTOCOL_ERROR, STREAM_CLOSED), reset(1, STREAM_CLOSED)),
    ),
    "9113 5.1 half-closed (remote): WINDOW_UPDATE lets the reply go": Row(
        settings=BLOCKED, send=HALF_CLOSED + window_update(1, 1000), expect=done(1, b"echo")
    ),
    "9113 5.1 half-closed (remote): PRIORITY": Row(
        settings=BLOCKED,
        send=HALF_CLOSED + priority(1) + window_update(1, 1000),
        expect=done(1, b"echo"),
    ),
    "9113 5.1 half-closed (remote): RST_STREAM": Row(
        settings=BLOCKED,
        send=HALF_CLOSED + rst_stream(1) + window_update(1, 1000),
        expect=(accepted, data_octets(1, 0), never_sent(RST_STREAM, 1)),
    ),
    "9113 5.1 half-closed (remote): PUSH_PROMISE": Row(
        settings=BLOCKED, send=HALF_CLOSED + PROMISE, expect=connection_error(PROTOCOL_ERROR)
    ),
    **{
        f"9113 5.1 closed, {how}: {name} (an error of either scope, or nothing)": Row(
            send=start,
            then=late,
            expect=(
                either(
                    connection_error(STREAM_CLOSED, PROTOCOL_ERROR),
                    reset(1, STREAM_CLOSED),
                    tolerated,
                ),
                opened(1),
            ),
        )
        for how, start in (("ended", ENDED), ("reset by the client", RESET_BY_CLIENT))
        for name, late in AFTER_THE_END.items()
    },
    **{
        f"9113 5.1 closed, reset by the server: {name} may be on its way and is discarded": Row(
            send=RESET_BY_SERVER, then=late, expect=(reset(1, PROTOCOL_ERROR), tolerated)
        )
        for name, late in {
            "DATA": data(1, NEVER),
            "DATA with END_STREAM": data(1, NEVER, end=True),
            "trailers": headers(1, encoded=TRAILERS, end=True),
            "trailers in pieces": headers(1, encoded=b"", end=True, flags=0) + continuation(1, TRAILERS),
            "WINDOW_UPDATE": window_update(1, 1),
            "a second WINDOW_UPDATE of 0": window_update(1, 0),
            "RST_STREAM": rst_stream(1),
            "PRIORITY": priority(1),
            "an unknown frame": frame(0xEE, 0, 1),
        }.items()
    },
    **{
        f"9113 5.1 closed, {how}: {name}": Row(send=start, then=late, expect=(accepted, opened(1)))
        for how, start in (("ended", ENDED), ("reset by the client", RESET_BY_CLIENT))
        for name, late in {"PRIORITY": priority(1), "an unknown frame": frame(0xEE, 0, 1)}.items()
    },
    "9113 5.1 closed, ended: WINDOW_UPDATE may have crossed the end": Row(
        send=ENDED, then=window_update(1, 1), expect=done(1, b"echo")
    ),
    "9113 5.1 closed, ended: RST_STREAM may have crossed the end": Row(
        send=ENDED, then=rst_stream(1), expect=(done(1, b"echo"), never_sent(RST_STREAM, 1))
    ),
    "9113 5.1 closed, ended: WINDOW_UPDATE that would overflow is nothing any more": Row(
        send=ENDED, then=window_update(1, 2**31 - 1) * 2, expect=done(1, b"echo")
    ),
    "9113 5.1 closed, reset by the client: WINDOW_UPDATE (an error or nothing)": Row(
        send=RESET_BY_CLIENT,
        then=window_update(1, 1),
        expect=either(connection_error(STREAM_CLOSED, PROTOCOL_ERROR), reset(1, STREAM_CLOSED), tolerated),
    ),
    "9113 5.1 closed: CONTINUATION": Row(
        send=ENDED, then=continuation(1, TRAILERS), expect=connection_error(PROTOCOL_ERROR, STREAM_CLOSED)
    ),
    "9113 5.1 closed: PUSH_PROMISE": Row(send=ENDED, then=PROMISE, expect=connection_error(PROTOCOL_ERROR)),
    "9113 5.4.2: no RST_STREAM in response to RST_STREAM": Row(
        send=RESET_BY_CLIENT,
        then=rst_stream(1),
        expect=(either(connection_error(STREAM_CLOSED, PROTOCOL_ERROR), tolerated), never_sent(RST_STREAM, 1)),
    ),
    "9113 5.4.2: a stream error leaves the other streams alone": Row(
        send=call(1, b"a", end=False) + headers(3) + window_update(3, 0) + say(1, b"b", end=True),
        expect=(reset(3, PROTOCOL_ERROR), served_after_all(1, b"a", b"b")),
    ),
    "9113 5.4.2: at most one RST_STREAM for a stream that goes on wrongly": Row(
        send=headers(1) + window_update(1, 0) * 5 + data(1, NEVER) * 5 + window_update(1, 0),
        expect=(reset(1, PROTOCOL_ERROR), fed(), reset_once),
    ),
    "9113 5.4.1: after a connection error nothing is answered": Row(
        send=rst_stream(0),
        then=ping() + call(1, b"never") + settings(),
        expect=(connection_error(PROTOCOL_ERROR), fed()),
    ),
    "9113 5.4.1: what follows the error in the same read is not handled": Row(
        send=call(1, b"a") + window_update(0, 0) + call(3, b"never"),
        expect=(connection_error(PROTOCOL_ERROR), fed(b"a"), unsent(3), answered_before(1, b"a")),
    ),
    "9113 8.1: a reset that asks for no further answer has code NO_ERROR and is no error of the call": Row(
        send=call(1, b"a", end=False) + rst_stream(1, NO_ERROR), expect=(accepted, fed(b"a"))
    ),
}

ROWS = {**STATES, **IDS, **CONCURRENCY}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_streams(rule, arrival):
    check(ROWS[rule], arrival)

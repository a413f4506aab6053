"""RFC 9113, sections 3.4 (preface), 4 (frames and field blocks), 5.5 (extensions) and 7 (error codes)."""

from __future__ import annotations

import pytest

from tests.support.http2_hpack import block, indexed, literal
from tests.support.http2_peer import (
    ACK,
    COMPRESSION_ERROR,
    CONTINUATION,
    END_HEADERS,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    LARGEST_MAX_FRAME,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REQUEST,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Frame,
    call,
    continuation,
    cut,
    data,
    frame,
    goaway,
    headers,
    message,
    ping,
    priority,
    rst_stream,
    settings,
    settings_ack,
    window_update,
)
from tests.support.http2_rows import (
    ARRIVALS,
    Row,
    accepted,
    check,
    done,
    either,
    hung_up,
    replies,
    reset_or_goaway,
    sent,
    served_after_all,
)
from tests.support.http2_rows import goaway as connection_error

BLOCK = block(REQUEST)
ECHO = message(b"echo")
ACKNOWLEDGED = Frame(SETTINGS, ACK, 0, b"")

PREFACES = {
    "9113 3.4: the preface and empty SETTINGS": Row(
        send=PREFACE + settings(), handshake=False, expect=(accepted, sent(ACKNOWLEDGED))
    ),
    "9113 3.4: a client may send before it has seen the server's SETTINGS": Row(
        send=PREFACE + settings() + call(1, b"echo"), handshake=False, expect=done(1, b"echo")
    ),
    "9113 3.4: HTTP/1.1 instead of the preface": Row(
        send=b"GET / HTTP/1.1\r\nhost: processor\r\n\r\n", handshake=False, expect=hung_up
    ),
    "9113 3.4: a TLS ClientHello instead of the preface": Row(
        send=bytes.fromhex("16030100c8010000c40303") + bytes(64), handshake=False, expect=hung_up
    ),
    "9113 3.4: the last octet of the preface is wrong": Row(
        send=PREFACE[:-1] + b"\r" + settings(), handshake=False, expect=hung_up
    ),
    "9113 3.4: the first octet of the preface is wrong": Row(
        send=b"p" + PREFACE[1:] + settings(), handshake=False, expect=hung_up
    ),
    "9113 3.4: an upgrade from HTTP/1.1": Row(
        send=b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n" + settings(), handshake=False, expect=hung_up
    ),
    "9113 3.4: frames without the preface": Row(
        send=settings() + ping() + call(1, b"never"), handshake=False, expect=hung_up
    ),
    "9113 3.4: PING comes before SETTINGS": Row(send=PREFACE + ping() + settings(), handshake=False, expect=hung_up),
    "9113 3.4: HEADERS come before SETTINGS": Row(
        send=PREFACE + call(1, b"never") + settings(), handshake=False, expect=hung_up
    ),
    "9113 3.4: WINDOW_UPDATE comes before SETTINGS": Row(
        send=PREFACE + window_update(0, 1) + settings(), handshake=False, expect=hung_up
    ),
    "9113 3.4: the preface comes twice": Row(
        # "PRI" reads as a length of 5 263 945.
        send=PREFACE,
        expect=connection_error(FRAME_SIZE_ERROR, PROTOCOL_ERROR),
    ),
}

FRAMES = {
    "9113 4.1: the reserved bit before the stream id is ignored in HEADERS and DATA": Row(
        send=headers(1 | 1 << 31) + data(1 | 1 << 31, ECHO), expect=replies(1, b"echo")
    ),
    "9113 4.1: the reserved bit is ignored in PING": Row(
        send=frame(PING, 0, 1 << 31, b"reserved"), expect=(accepted, sent(Frame(PING, ACK, 0, b"reserved")))
    ),
    "9113 4.1: the reserved bit is ignored in SETTINGS": Row(
        send=frame(SETTINGS, 0, 1 << 31), expect=(accepted, sent(ACKNOWLEDGED, ACKNOWLEDGED))
    ),
    "9113 4.1: flags without a meaning are ignored in HEADERS": Row(
        send=headers(1, flags=END_HEADERS | 0xD2) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 4.1: flags without a meaning are ignored in DATA": Row(
        send=headers(1) + data(1, ECHO, flags=0xF6), expect=replies(1, b"echo")
    ),
    "9113 4.1: flags without a meaning are ignored in PING": Row(
        send=frame(PING, 0xFE, 0, b"allflags"), expect=(accepted, sent(Frame(PING, ACK, 0, b"allflags")))
    ),
    "9113 4.1: flags without a meaning are ignored in SETTINGS": Row(
        send=frame(SETTINGS, 0xFE, 0), expect=(accepted, sent(ACKNOWLEDGED, ACKNOWLEDGED))
    ),
    "9113 4.1: flags without a meaning are ignored in WINDOW_UPDATE": Row(
        send=frame(WINDOW_UPDATE, 0xFF, 0, b"\0\0\0\1"), expect=accepted
    ),
    "9113 4.1: flags without a meaning are ignored in PRIORITY": Row(
        send=frame(PRIORITY, 0xFF, 1, b"\0\0\0\0\0"), expect=accepted
    ),
    "9113 4.1: flags without a meaning are ignored in RST_STREAM": Row(
        send=headers(1) + frame(RST_STREAM, 0xFF, 1, b"\0\0\0\x08"), expect=accepted
    ),
    "9113 4.1: flags without a meaning are ignored in CONTINUATION": Row(
        send=headers(1, encoded=b"", flags=0) + frame(CONTINUATION, 0xFB | END_HEADERS, 1, BLOCK) + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 4.1: flags without a meaning are ignored in GOAWAY": Row(
        send=headers(1) + frame(GOAWAY, 0xFF, 0, bytes(8)) + data(1, ECHO), expect=replies(1, b"echo"), serves=False
    ),
    "9113 4.2: DATA as large as the server takes": Row(
        send=lambda peer: headers(1) + data(1, message(b"x" * peer.max_frame)[: peer.max_frame]),
        expect=accepted,
    ),
    "9113 4.2: DATA above what the server takes (a stream error would do)": Row(
        send=lambda peer: headers(1) + data(1, bytes(peer.max_frame + 1)), expect=reset_or_goaway(1, FRAME_SIZE_ERROR)
    ),
    "9113 4.2: HEADERS above what the server takes": Row(
        send=lambda peer: headers(1, encoded=bytes(peer.max_frame + 1)), expect=connection_error(FRAME_SIZE_ERROR)
    ),
    "9113 4.2: CONTINUATION above what the server takes": Row(
        send=lambda peer: headers(1, encoded=BLOCK, flags=0) + continuation(1, bytes(peer.max_frame + 1)),
        expect=connection_error(FRAME_SIZE_ERROR),
    ),
    "9113 4.2: SETTINGS above what the server takes": Row(
        send=lambda peer: frame(SETTINGS, 0, 0, bytes(6 * (peer.max_frame // 6 + 1))),
        expect=connection_error(FRAME_SIZE_ERROR),
    ),
    "9113 4.2: an unknown frame above what the server takes, on the connection": Row(
        send=lambda peer: frame(0xEE, 0, 0, bytes(peer.max_frame + 1)), expect=connection_error(FRAME_SIZE_ERROR)
    ),
    "9113 4.2: an unknown frame above what the server takes, on a stream (a stream error would do)": Row(
        send=lambda peer: headers(1) + frame(0xEE, 0, 1, bytes(peer.max_frame + 1)),
        expect=reset_or_goaway(1, FRAME_SIZE_ERROR),
    ),
    "9113 4.2: a frame that announces the largest length is refused before it comes": Row(
        send=frame(HEADERS, END_HEADERS, 1, length=LARGEST_MAX_FRAME), expect=connection_error(FRAME_SIZE_ERROR)
    ),
    "9113 4.2: DATA of no octets": Row(
        send=headers(1) + data(1) + data(1, ECHO) + data(1) + data(1, end=True), expect=done(1, b"echo")
    ),
}

# Whatever comes within a field block but its CONTINUATION is a connection error.
INTRUDERS = {
    "DATA": data(1, ECHO),
    "HEADERS": headers(1),
    "HEADERS of another stream": headers(3),
    "PRIORITY": priority(1),
    "RST_STREAM": rst_stream(1),
    "SETTINGS": settings(),
    "SETTINGS acknowledged": settings_ack(),
    "PUSH_PROMISE": frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + BLOCK),
    "PING": ping(),
    "GOAWAY": goaway(),
    "WINDOW_UPDATE": window_update(0, 1),
    "WINDOW_UPDATE of the stream": window_update(1, 1),
    "CONTINUATION of another stream": continuation(3, BLOCK[10:]),
    "CONTINUATION of the connection": continuation(0, BLOCK[10:]),
    "an unknown frame": frame(0xFA, 0, 1, b"?"),
    "an unknown frame of the connection": frame(0xFA, 0, 0, b"?"),
}

FIELD_BLOCKS = {
    "9113 4.3: a block in HEADERS and one CONTINUATION": Row(
        send=headers(1, encoded=BLOCK[:10], flags=0) + continuation(1, BLOCK[10:]) + data(1, ECHO, end=True),
        expect=done(1, b"echo"),
    ),
    "9113 4.3: a block in HEADERS and several CONTINUATION": Row(
        send=headers(1, encoded=BLOCK[:50], flags=0)
        + b"".join(continuation(1, piece, last=False) for piece in cut(BLOCK[50:], 40))
        + continuation(1)
        + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 4.3: HEADERS without a fragment, CONTINUATION has it all": Row(
        send=headers(1, encoded=b"", flags=0) + continuation(1, BLOCK) + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 4.3: END_STREAM on HEADERS counts after the CONTINUATION": Row(
        send=headers(1, encoded=BLOCK[:10], flags=0, end=True) + continuation(1, BLOCK[10:]), expect=done(1)
    ),
    "9113 4.3: END_STREAM means nothing on CONTINUATION": Row(
        send=headers(1, encoded=BLOCK[:10], flags=0)
        + frame(CONTINUATION, END_HEADERS | 1, 1, BLOCK[10:])
        + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 4.3: trailers in HEADERS and CONTINUATION": Row(
        send=call(1, b"echo", end=False)
        + headers(1, encoded=b"", flags=0, end=True)
        + continuation(1, block([(b"x", b"1")])),
        expect=done(1, b"echo"),
    ),
    "9113 4.3: padding and priority of HEADERS are no part of the block": Row(
        send=headers(1, encoded=BLOCK[:9], flags=0, padding=7, priority=b"\0\0\0\0\x10")
        + continuation(1, BLOCK[9:])
        + data(1, ECHO),
        expect=replies(1, b"echo"),
    ),
    "9113 4.3: a block that cannot be decoded": Row(
        send=headers(1, encoded=BLOCK + b"\x00\x7f"), expect=connection_error(COMPRESSION_ERROR)
    ),
    "9113 4.3: trailers that cannot be decoded": Row(
        send=call(1, b"echo", end=False) + headers(1, encoded=indexed(200), end=True),
        expect=connection_error(COMPRESSION_ERROR),
    ),
    "9113 4.3: the block of a refused stream keeps the table in step": Row(
        limits={"max_concurrent_streams": 1},
        send=headers(1)
        + headers(3, encoded=BLOCK + literal(b"x-kept", b"1", kind="incremental"))
        + rst_stream(1)
        + headers(5, encoded=BLOCK + indexed(62))
        + data(5, ECHO, end=True),
        expect=served_after_all(5),
    ),
    "9113 4.3: the block of a malformed request keeps the table in step": Row(
        send=headers(1, encoded=literal(b"x-kept", b"1", kind="incremental"))
        + headers(3, encoded=BLOCK + indexed(62))
        + data(3, ECHO),
        expect=served_after_all(3),
    ),
    "9113 4.3: trailers of a stream that the server has reset keep the table in step": Row(
        send=headers(1)
        + window_update(1, 0)
        + headers(1, encoded=literal(b"x-kept", b"1", kind="incremental"), end=True)
        + headers(3, encoded=BLOCK + indexed(62))
        + data(3, ECHO),
        expect=served_after_all(3),
    ),
    **{
        f"9113 4.3: {name} within a field block": Row(
            send=headers(1, encoded=BLOCK[:10], flags=0) + intruder + continuation(1, BLOCK[10:]),
            expect=connection_error(PROTOCOL_ERROR),
        )
        for name, intruder in INTRUDERS.items()
    },
    "9113 4.3: RST_STREAM within the block of trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, encoded=b"", flags=0, end=True) + rst_stream(1),
        expect=connection_error(PROTOCOL_ERROR),
    ),
    "9113 4.3: DATA within a block of two CONTINUATION": Row(
        send=headers(1, encoded=BLOCK[:10], flags=0) + continuation(1, BLOCK[10:20], last=False) + data(1, ECHO),
        expect=connection_error(PROTOCOL_ERROR),
    ),
}

EXTENSIONS = {
    "9113 5.5: an unknown frame on the connection": Row(send=frame(0xEE, 0xFF, 0, b"extension"), expect=accepted),
    "9113 5.5: an unknown frame on an idle stream": Row(send=frame(0xEE, 0xFF, 1, b"extension"), expect=accepted),
    "9113 5.5: an unknown frame on an open stream": Row(
        send=headers(1) + frame(0xEE, 0xFF, 1, b"extension") + data(1, ECHO), expect=replies(1, b"echo")
    ),
    "9113 5.5: an unknown frame between the halves of a message": Row(
        send=headers(1) + data(1, ECHO[:7]) + frame(0x42, 0, 1) + data(1, ECHO[7:]), expect=replies(1, b"echo")
    ),
    "9113 5.5: an unknown frame on a stream that has ended": Row(
        send=call(1, b"echo") + frame(0xEE, 0, 1, b"extension"), expect=done(1, b"echo")
    ),
    "9113 5.5: an unknown frame without payload": Row(send=frame(0xFF, 0, 0), expect=accepted),
    "9113 5.5: an unknown frame as large as the server takes": Row(
        send=lambda peer: frame(0xEE, 0, 0, bytes(peer.max_frame)), expect=accepted
    ),
    "7838 4: ALTSVC from a client is ignored": Row(send=frame(0xA, 0, 0, b"\0\0h2=:1"), expect=accepted),
    "8336 2.1: ORIGIN from a client is ignored": Row(send=frame(0xC, 0, 0, b"\0\0"), expect=accepted),
    "9218 7.1: PRIORITY_UPDATE may come before its stream": Row(
        send=frame(0x10, 0, 0, b"\0\0\0\1u=1") + call(1, b"echo"), expect=done(1, b"echo")
    ),
    "9113 5.5: an unknown frame as first is not the SETTINGS that are due (a server may overlook it)": Row(
        send=PREFACE + frame(0xEE, 0, 0) + settings(), handshake=False, expect=either(hung_up, accepted)
    ),
    "9113 5.5: an unknown setting is ignored and acknowledged": Row(
        send=settings((0xFFFF, 1), (0x0, 7), (0x9, 1)), expect=(accepted, sent(ACKNOWLEDGED, ACKNOWLEDGED))
    ),
    "9113 7: RST_STREAM with an unknown error code": Row(send=headers(1) + rst_stream(1, 0xFFFFFFFF), expect=accepted),
    "9113 7: GOAWAY with an unknown error code": Row(
        send=headers(1) + goaway(0, 0xFFFFFFFF) + data(1, ECHO, end=True), expect=served_after_all(1), serves=False
    ),
}

ROWS = {**PREFACES, **FRAMES, **FIELD_BLOCKS, **EXTENSIONS}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_frames(rule, arrival):
    check(ROWS[rule], arrival)


@pytest.mark.parametrize("at", range(len(BLOCK) + 1))
def test_a_field_block_may_be_cut_anywhere(at):
    """RFC 9113, 4.3: where a block is cut into fragments says nothing."""
    check(
        Row(
            send=headers(1, encoded=BLOCK[:at], flags=0) + continuation(1, BLOCK[at:]) + data(1, ECHO, end=True),
            expect=done(1, b"echo"),
        ),
        "at once",
    )


@pytest.mark.parametrize("octets", range(len(PREFACE)))
def test_a_preface_that_is_yet_to_end_is_no_error(octets):
    """RFC 9113, 3.4: the rest of the preface may come later."""
    check(
        Row(
            send=PREFACE[:octets],
            then=PREFACE[octets:] + settings() + call(1, b"echo"),
            handshake=False,
            expect=done(1, b"echo"),
        ),
        "at once",
    )

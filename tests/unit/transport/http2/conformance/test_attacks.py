"""What is known to be done to HTTP/2 servers, each with its bound in counts and octets.

The clock stands still, so that nothing is forgiven by time.
"""

from __future__ import annotations

import itertools
import tracemalloc

import pytest

from extproc.transport.http2.limits import Limits
from tests.support.http2_flood import Attack, Constant, ids, peak
from tests.support.http2_hpack import block, indexed, literal, string, table_size
from tests.support.http2_peer import (
    ACK,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    INITIAL_WINDOW_SIZE,
    MAX_WINDOW,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    REQUEST,
    STREAM_CLOSED,
    call,
    continuation,
    cut,
    data,
    fields,
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

LIMITS = Limits()
CONTROL, IGNORED = LIMITS.control_frames, LIMITS.ignored_frames
FRUITLESS, PROVOKED = LIMITS.fruitless_streams, LIMITS.provoked_resets
BLOCK = block(REQUEST)
ECHO = message(b"echo")


# --- floods: a wave, how many of it may pass, and how many octets may be answered to each ----------------------------

SETTLED = [settings(*[(INITIAL_WINDOW_SIZE, 65_535 + n)] * 100) for n in range(2)]
UNKNOWN = settings(*[(0xABCD, 1)] * 100)
LONG_LIST = BLOCK + literal(b"x", b"v" * 4000, kind="incremental") + indexed(62) * 4

FLOODS = {
    "PING": (lambda n: ping(), CONTROL, 17),
    "SETTINGS": (lambda n: settings(), CONTROL, 9),
    "SETTINGS full of values": (lambda n: SETTLED[n % 2], CONTROL, 9),
    "SETTINGS of unknown kinds": (lambda n: UNKNOWN, CONTROL, 9),
    "SETTINGS and PING in turn": (lambda n: settings() + ping(), CONTROL, 26),
    "acknowledgements of SETTINGS": (lambda n: settings_ack(), IGNORED, 0),
    "answers to PING": (lambda n: frame(PING, ACK, 0, bytes(8)), IGNORED, 0),
    "GOAWAY": (lambda n: goaway() if n else headers(1) + goaway(), IGNORED, 0),
    "PRIORITY": (lambda n: priority(2 * n + 1), IGNORED, 0),
    "PRIORITY of one stream": (lambda n: frame(PRIORITY, 0, 1, bytes(5)), IGNORED, 0),
    "unknown frames": (lambda n: frame(0xEE, 0, 0), IGNORED, 0),
    "unknown large frames": (lambda n: frame(0xEE, 0, 0, bytes(1000)), IGNORED, 0),
    "unknown frames on an idle stream": (lambda n: frame(0xEE, 0, 2 * n + 1), IGNORED, 0),
    "DATA without octets": (lambda n: (b"" if n else headers(1)) + data(1), IGNORED, 0),
    "DATA of nothing but padding": (lambda n: (b"" if n else headers(1)) + data(1, padding=20), IGNORED, 1),
    "DATA of nothing but a pad length": (lambda n: (b"" if n else headers(1)) + data(1, padding=0), IGNORED, 1),
    "WINDOW_UPDATE of the connection": (lambda n: window_update(0, 1), IGNORED, 0),
    "WINDOW_UPDATE of a stream": (lambda n: (b"" if n else headers(1)) + window_update(1, 1), IGNORED, 0),
    "WINDOW_UPDATE of a stream that has ended": (
        lambda n: (b"" if n else call(1, b"echo")) + window_update(1, 1),
        IGNORED,
        1,
    ),
    "RST_STREAM of a stream that has ended": (lambda n: (b"" if n else call(1, b"echo")) + rst_stream(1), IGNORED, 1),
    "DATA on a stream that the server has reset": (
        lambda n: (b"" if n else headers(1) + window_update(1, 0)) + data(1),
        IGNORED,
        1,
    ),
    "trailers on a stream that the server has reset": (
        lambda n: (b"" if n else headers(1) + window_update(1, 0)) + headers(1, encoded=b"", end=True),
        IGNORED,
        1,
    ),
    "rapid reset": (lambda n: headers(2 * n + 1) + rst_stream(2 * n + 1), FRUITLESS, 0),
    "rapid reset, and half a message": (
        lambda n: headers(2 * n + 1) + data(2 * n + 1, ECHO[:-1]) + rst_stream(2 * n + 1),
        FRUITLESS,
        4,
    ),
    "rapid reset, and empty DATA": (
        lambda n: headers(2 * n + 1) + data(2 * n + 1) + rst_stream(2 * n + 1),
        FRUITLESS,
        0,
    ),
    "rapid reset with code NO_ERROR": (lambda n: headers(2 * n + 1) + rst_stream(2 * n + 1, 0), FRUITLESS, 0),
    "made-you-reset: WINDOW_UPDATE of 0": (
        lambda n: call(2 * n + 1, b"silent", end=False) + window_update(2 * n + 1, 0),
        PROVOKED,
        13,
    ),
    "made-you-reset: a window that overflows": (
        lambda n: call(2 * n + 1, b"silent", end=False) + window_update(2 * n + 1, MAX_WINDOW),
        PROVOKED,
        13,
    ),
    "made-you-reset: PRIORITY of the wrong size": (
        lambda n: headers(2 * n + 1) + frame(PRIORITY, 0, 2 * n + 1, b"1"),
        PROVOKED,
        13,
    ),
    "made-you-reset: HEADERS in the middle": (lambda n: headers(2 * n + 1) + headers(2 * n + 1), PROVOKED, 13),
    "made-you-reset: trailers that are malformed": (
        lambda n: headers(2 * n + 1) + headers(2 * n + 1, [(b"X", b"")], end=True),
        PROVOKED,
        13,
    ),
    "made-you-reset: more than content-length": (
        lambda n: headers(2 * n + 1, fields((b"content-length", b"1"))) + data(2 * n + 1, ECHO),
        PROVOKED,
        20,
    ),
    "malformed requests": (lambda n: headers(2 * n + 1, [(b"X", b"")]), PROVOKED, 100),
    "requests without a field": (lambda n: headers(2 * n + 1, encoded=b""), PROVOKED, 100),
    "requests with too large a field list": (lambda n: headers(2 * n + 1, encoded=LONG_LIST), PROVOKED, 100),
}
# What a wave may cost beyond its count: the frames of the handshake, and the one that is too many.
SLACK = 8


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_connection(name):
    wave, allowed, answer = FLOODS[name]
    attack = Attack()
    count, octets = attack.until_closed(wave, allowed + SLACK + 2)
    assert attack.code in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, STREAM_CLOSED)
    assert octets <= count * answer + 200, f"{octets} octets were answered to {count} waves"
    assert attack.processor.closed == attack.processor.opened <= allowed + SLACK
    assert attack.engine.open_streams == 0


def test_made_you_reset_with_data_after_the_end():
    """The reply waits for a window, so that the stream is half-closed when DATA come again."""
    attack = Attack((INITIAL_WINDOW_SIZE, 0))
    count, _ = attack.until_closed(lambda n: call(2 * n + 1, b"echo") + data(2 * n + 1, ECHO), PROVOKED + SLACK)
    assert count <= PROVOKED + SLACK
    assert attack.processor.closed == attack.processor.opened


def test_at_no_time_are_more_calls_open_than_announced():
    """Whoever ends streams, and how: what the core works on is never more than the limit."""
    attack = Attack(max_concurrent_streams=20)
    streams = ids()
    for _ in range(40):
        for stream in itertools.islice(streams, 30):
            if attack.engine.closed:
                break
            attack.engine.receive(headers(stream) + data(stream, ECHO[:3]))
            assert attack.processor.opened - attack.processor.closed <= 20
            assert attack.engine.open_streams <= 20
            if stream % 3:
                attack.engine.receive(window_update(stream, 0))
        attack.engine.data_to_send()


def test_a_flood_of_calls_above_the_limit():
    attack = Attack(max_concurrent_streams=10)
    count, octets = attack.until_closed(lambda n: headers(2 * n + 1), 10 + PROVOKED + SLACK)
    assert octets <= count * 13 + 200
    assert attack.processor.opened <= 10


# --- field blocks -----------------------------------------------------------------------------------------------------


def test_a_flood_of_continuation_without_octets():
    attack = Attack()
    attack.engine.receive(headers(1, encoded=b"", flags=0))
    _, octets = attack.until_closed(lambda n: continuation(1, last=False), LIMITS.max_continuations + 3)
    assert attack.code in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)
    assert octets < 200


def test_a_flood_of_continuation_of_single_octets():
    attack = Attack()
    attack.engine.receive(headers(1, encoded=b"", flags=0))
    attack.until_closed(lambda n: continuation(1, b"\x82", last=False), LIMITS.max_continuations + 3)


def test_a_flood_of_large_continuation():
    attack = Attack()
    attack.engine.receive(headers(1, encoded=b"", flags=0))
    filler = string(b"x") + b"\x7f\xff\xff\x7f"
    count, _ = attack.until_closed(
        lambda n: continuation(1, (b"\0" + filler if not n else b"").ljust(16_000, b"v"), last=False), 100
    )
    assert count * 16_000 <= LIMITS.max_header_block + 2 * 16_384


BOMBS = {
    "one large field, repeated by its index": BLOCK
    + literal(b"x", b"v" * 4000, kind="incremental")
    + indexed(62) * 12_000,
    "one large field, repeated with new values": BLOCK
    + literal(b"n" * 4000, b"", kind="incremental")
    + literal(62, b"") * 4000,
    "a static field, repeated": BLOCK + indexed(16) * 16_000,
    "a field without octets, repeated": BLOCK + (b"\x00\x01x\x00") * 4000,
    "cookies": BLOCK + literal(32, b"a=1") * 3000,
    "one field above the limit": BLOCK + literal(b"x", b"v" * 16_200),
    "Huffman codes that grow": BLOCK + literal(b"x", b"0" * 25_000, coded=True),
    "table sizes": table_size(0) * 16_000 + BLOCK,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_field_list_bomb_is_refused_and_takes_little_memory(name):
    """A list above what was announced is refused (431, a stream or a connection error), whatever it was coded as."""
    encoded = BOMBS[name]
    first, *rest = cut(encoded, 16_000)
    octets = headers(1, encoded=first, flags=0 if rest else END_HEADERS)
    octets += b"".join(continuation(1, piece, last=piece is rest[-1]) for piece in rest) + data(1, message(b"never"))
    attack = Attack()
    attack.peer.note(octets)
    held = peak(lambda: attack.engine.receive(octets))
    attack.peer.collect()
    assert b"never" not in attack.processor.fed or name == "table sizes"
    # Sixteen times what may come encoded; a bomb that goes off takes 48 MB.
    assert held < 16 * LIMITS.max_header_block, f"{held} octets"


@pytest.mark.parametrize("name", ["one large field, repeated by its index", "a static field, repeated"])
def test_a_field_list_bomb_in_trailers(name):
    first, *rest = cut(BOMBS[name][len(BLOCK) :], 16_000)
    octets = headers(1, encoded=first, flags=0 if rest else END_HEADERS, end=True)
    octets += b"".join(continuation(1, piece, last=piece is rest[-1]) for piece in rest)
    attack = Attack()
    attack.peer.send(call(1, b"echo", end=False))
    attack.peer.note(octets)
    held = peak(lambda: attack.engine.receive(octets))
    attack.peer.collect()
    assert held < 16 * LIMITS.max_header_block, f"{held} octets"


def test_many_different_requests_do_not_fill_the_memory():
    """Whatever an engine remembers of field blocks, and of streams that have ended, has an end."""
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW), processor=Constant())
    attack.peer.open_window()
    waves = [
        call(stream, b"echo", listed=fields((b"x-request-id", b"%09d" % stream)))
        for stream in itertools.islice(ids(), 1500)
    ]
    attack.endures(waves[:300])
    tracemalloc.start()
    try:
        attack.endures(waves[300:])
        attack.processor.fed.clear()
        # To remember each of them would take more than a kilobyte a request.
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()

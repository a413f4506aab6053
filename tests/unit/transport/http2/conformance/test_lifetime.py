"""How a connection begins in time, is kept, and ends: RFC 9113, sections 3.4, 6.7, 6.8 and 9.1."""

from __future__ import annotations

import pytest

from extproc.transport.http2.limits import Limits
from tests.support.http2_flood import Attack
from tests.support.http2_hpack import block, indexed, literal
from tests.support.http2_peer import (
    LAST_STREAM,
    NO_ERROR,
    PREFACE,
    REQUEST,
    WINDOW_UPDATE,
    EchoProcessor,
    Peer,
    build_engine,
    call,
    data,
    headers,
    message,
    priority,
    rst_stream,
    say,
    settings,
    window_update,
)

LIMITS = Limits()
BLOCK = block(REQUEST)


def clocked(**bounds):
    now = [0.0]
    engine = build_engine(EchoProcessor(), clock=lambda: now[0], **bounds)
    return now, engine


@pytest.mark.parametrize("octets", [b"", PREFACE[:10], PREFACE, PREFACE + settings()[:5]])
def test_a_connection_that_never_says_hello_is_ended(octets):
    now, engine = clocked()
    engine.receive(octets)
    now[0] = LIMITS.preface_seconds + 1
    assert engine.alarm <= now[0]
    engine.tick()
    assert engine.closed


def test_a_peer_that_is_gone_is_noticed():
    now, engine = clocked()
    peer = Peer(engine).greet()
    peer.send(call(1, b"echo", end=False))
    for _ in range(20):
        if engine.closed:
            break
        now[0] = max(engine.alarm, now[0])
        engine.tick()
        peer.collect()
    assert engine.closed
    assert engine.open_streams == 0
    assert now[0] <= LIMITS.preface_seconds + 2 * LIMITS.keepalive_seconds + LIMITS.keepalive_timeout


def test_a_peer_that_answers_is_kept():
    now, engine = clocked()
    peer = Peer(engine).greet()
    for _ in range(50):
        now[0] = max(engine.alarm, now[0])
        engine.tick()
        peer.collect()
        peer.acknowledge()
    assert not engine.closed
    assert peer.is_alive()
    assert now[0] > 500


# --- the server's own end (RFC 9113, 6.8) -----------------------------------------------------------------------------


def test_drain_lets_calls_in_flight_finish():
    attack = Attack()
    peer = attack.peer
    peer.send(call(1, b"a", end=False))
    attack.engine.drain()
    peer.collect()
    assert peer.goaway[:2] == (LAST_STREAM, NO_ERROR)
    # On its way before the client could know: still taken.
    peer.send(call(3, b"b", end=False))
    assert peer.replies(3) == [b"b"]
    peer.acknowledge()
    assert peer.goaway[:2] == (3, NO_ERROR)
    peer.send(say(1, b"c", end=True))
    assert peer.replies(1) == [b"a", b"c"]
    assert peer.status(1) == (0, "")
    assert not attack.engine.closed
    peer.send(rst_stream(3))
    assert attack.engine.closed
    assert attack.processor.opened == attack.processor.closed == 2


def test_after_the_second_goaway_a_call_is_not_taken():
    """RFC 9113, 6.8: what is above the last stream is discarded, and the client may try it elsewhere."""
    attack = Attack()
    peer = attack.peer
    peer.send(call(1, b"a", end=False))
    attack.engine.drain()
    peer.collect()
    peer.acknowledge()
    peer.send(
        headers(3, encoded=BLOCK + literal(b"x-kept", b"1", kind="incremental")) + data(3, message(b"never"), end=True)
    )
    peer.send(rst_stream(3), window_update(3, 1) + priority(3))
    assert not [each for each in peer.frames if each.stream == 3]
    assert b"never" not in attack.processor.fed
    peer.send(say(1, b"b"))
    # The table has seen the block all the same.
    peer.send(headers(1, encoded=indexed(62), end=True))
    assert peer.replies(1) == [b"a", b"b"]
    assert peer.status(1) == (0, "")
    assert attack.engine.closed


def test_drain_without_calls_closes():
    attack = Attack()
    attack.engine.drain()
    attack.peer.collect()
    attack.peer.acknowledge()
    assert attack.engine.closed
    assert attack.peer.goaway[1] == NO_ERROR


def test_drain_twice_says_it_once():
    attack = Attack()
    attack.peer.send(headers(1))
    attack.engine.drain()
    attack.engine.drain()
    attack.peer.collect()
    attack.engine.drain()
    attack.peer.acknowledge()
    goaways = [each for each in attack.peer.frames if each.kind == 7]
    assert len(goaways) <= 2
    assert len([each for each in attack.peer.frames if each.kind == WINDOW_UPDATE and not each.stream]) <= 1


def test_drain_before_the_preface_closes():
    engine = build_engine(EchoProcessor())
    engine.drain()
    assert engine.closed
    assert engine.open_streams == 0

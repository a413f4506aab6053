"""Peers that do not read, do not finish, or announce more than they send: what waits for them has a bound."""

from __future__ import annotations

import itertools

import pytest

from extproc.transport.http2.limits import Limits
from tests.support.http2_flood import Attack, ids, peak
from tests.support.http2_peer import (
    DATA,
    DEFAULT_WINDOW,
    FLOW_CONTROL_ERROR,
    INITIAL_WINDOW_SIZE,
    LAST_STREAM,
    MAX_WINDOW,
    PADDED,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    call,
    cut,
    data,
    frame,
    headers,
    message,
    prefixed,
    say,
    settings,
    window_update,
)

LIMITS = Limits()
ECHO = message(b"echo")


def test_a_reader_that_never_opens_its_window():
    """Replies wait in bounded memory; then the engine takes no more messages, and then no more octets."""
    attack = Attack((INITIAL_WINDOW_SIZE, 0))
    reply = 50_000
    ask = b"size:%d" % reply
    sent = 0
    for stream in itertools.islice(ids(), 400):
        attack.peer.send(headers(stream))
        for _ in range(20):
            if stream in attack.peer.resets or attack.engine.closed:
                break
            attack.peer.send(say(stream, ask))
            sent += 1
        if attack.engine.closed:
            break
    answered = len(attack.processor.fed)
    assert answered * reply <= LIMITS.output_bytes + LIMITS.stream_output_bytes + 2 * reply
    assert sent > answered, "everything was handled, so nothing was held back"


def test_one_stream_that_is_not_read_does_not_stop_the_others():
    attack = Attack((INITIAL_WINDOW_SIZE, 0))
    attack.peer.open_window()
    attack.peer.send(headers(1))
    for _ in range(50):
        attack.peer.send(say(1, b"size:50000"))
    assert len(attack.processor.fed) * 50_000 <= LIMITS.stream_output_bytes + 2 * 50_000
    attack.peer.send(call(3, b"echo"), window_update(3, 100))
    assert attack.peer.replies(3) == [b"echo"]


def test_what_was_held_back_is_handled_when_the_window_opens():
    attack = Attack((INITIAL_WINDOW_SIZE, 0))
    attack.peer.open_window()
    bodies = [b"size:50000", *(b"%d" % n for n in range(50))] * 3
    for stream in (1, 3):
        attack.peer.send(headers(stream))
        for body in bodies:
            attack.peer.send(say(stream, body))
        attack.peer.send(data(stream, end=True))
    attack.peer.send(settings((INITIAL_WINDOW_SIZE, MAX_WINDOW)))
    for _ in range(100):
        attack.peer.collect()
    wanted = [b"x" * 50_000 if body.startswith(b"size") else body for body in bodies]
    for stream in (1, 3):
        assert attack.peer.replies(stream) == wanted
        assert attack.peer.status(stream) == (0, "")


def test_a_shell_that_cannot_write_holds_bounded_output():
    """A socket that takes nothing: ``data_to_send`` is not called; the engine stops to handle messages."""
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW))
    attack.peer.open_window()
    ask = say(1, b"size:50000")
    attack.engine.receive(headers(1))
    for _ in range(2000):
        attack.engine.receive(ask)
    answered = len(attack.processor.fed)
    assert answered * 50_000 <= LIMITS.output_bytes + 100_000
    while octets := attack.engine.data_to_send():
        assert len(octets) <= LIMITS.output_bytes + 2 * 100_000
    assert len(attack.processor.fed) == 2000


def test_a_peer_that_sends_on_while_its_messages_are_held_is_stopped_by_the_windows():
    attack = Attack((INITIAL_WINDOW_SIZE, 0), stream_window=100_000, connection_window=300_000)
    attack.peer.send(headers(1))
    assert attack.peer.upload(1, message(b"size:300000")) == b""
    left = attack.peer.upload(1, message(b"x" * 1000) * 1000)
    assert len(left) > 800_000, "the engine takes what it cannot work on"
    attack.peer.send(headers(3))
    attack.peer.upload(3, message(b"size:300000"))
    attack.peer.upload(3, message(b"x" * 1000) * 1000)
    assert attack.peer.is_alive()


@pytest.mark.parametrize(
    ("bounds", "beyond"),
    [
        ({"stream_window": 1_000_000, "connection_window": 300_000}, "connection"),
        ({"stream_window": 100_000, "connection_window": 300_000}, "stream"),
    ],
)
def test_a_peer_that_ignores_the_windows_while_its_messages_are_held_is_cut_off(bounds, beyond):
    """RFC 9113, 6.9: what is held is within the windows to the octet, whatever the peer sends."""
    attack = Attack((INITIAL_WINDOW_SIZE, 0), **bounds)
    peer = attack.peer
    peer.send(headers(1))
    assert peer.upload(1, message(b"size:300000")) == b""
    octets = message(b"x" * 1000) * 1000
    taken = min(peer.room[0], peer.room[1])
    for piece in cut(octets[:taken], 9_999):
        peer.send(data(1, piece))
    assert not attack.engine.closed
    assert peer.resets == {}
    assert attack.processor.fed == [b"size:300000"]
    peer.send(data(1, octets[taken : taken + 1]))
    if beyond == "connection":
        assert peer.goaway[1] == FLOW_CONTROL_ERROR
    else:
        assert peer.resets == {1: FLOW_CONTROL_ERROR}


def test_what_is_held_is_never_more_than_a_window_while_a_peer_reads_a_little_now_and_then():
    """RFC 9113, 5.2.1: a window says what a receiver is ready to hold; what it has not handled counts."""
    attack = Attack((INITIAL_WINDOW_SIZE, 0), stream_window=100_000, connection_window=1_000_000)
    peer, ask = attack.peer, message(b"size:50000")
    peer.open_window()
    peer.send(headers(1))
    octets, sent = ask * 60_000, 0
    for _ in range(120):
        left = peer.upload(1, octets[sent:])
        sent = len(octets) - len(left)
        assert sent - len(attack.processor.fed) * len(ask) <= 100_000
        peer.send(window_update(1, 90_000))
    assert len(attack.processor.fed) > 200


def test_calls_that_are_never_finished():
    attack = Attack(max_concurrent_streams=100)
    streams = ids()
    for stream in itertools.islice(streams, 100):
        attack.peer.send(headers(stream) + data(stream, ECHO[:6]))
    assert attack.engine.open_streams == 100
    for stream in itertools.islice(streams, 50):
        attack.peer.send(headers(stream))
        assert attack.peer.resets[stream] == REFUSED_STREAM
    assert attack.engine.open_streams == 100
    assert attack.processor.fed == []
    attack.engine.connection_lost()
    assert attack.processor.opened == attack.processor.closed


def test_ids_that_are_used_up():
    attack = Attack()
    attack.peer.send(call(LAST_STREAM - 2, b"a"), call(LAST_STREAM, b"b"))
    assert attack.peer.replies(LAST_STREAM) == [b"b"]
    attack.peer.send(headers(LAST_STREAM))
    assert attack.engine.closed
    assert attack.peer.goaway[:2] in {(LAST_STREAM, STREAM_CLOSED), (LAST_STREAM, PROTOCOL_ERROR)}


def test_a_length_that_is_announced_takes_no_memory():
    """Only octets that came are held, whatever a prefix or a frame says."""
    attack = Attack()
    octets = b"".join(
        headers(stream) + data(stream, prefixed(b"x", length=2**31 - 2)) for stream in itertools.islice(ids(), 50)
    )
    assert peak(lambda: attack.engine.receive(octets)) < 500_000
    assert not attack.engine.closed
    assert peak(lambda: attack.engine.receive(frame(DATA, 0, 1, length=16_384))) < 10_000
    assert attack.processor.fed == []


def test_incomplete_messages_have_a_bound_over_all_calls():
    attack = Attack(partial_bytes=100_000)
    sent = 0
    for stream in itertools.islice(ids(), 30):
        attack.peer.send(headers(stream), data(stream, prefixed(b"x" * 10_000, length=1_000_000)))
        sent += 10_000
    refused = [stream for stream in attack.peer.blocks if attack.peer.status(stream)[0] == 8]
    assert sent - len(refused) * 10_005 <= 100_000 + 10_005
    assert attack.engine.open_streams <= 10
    attack.peer.send(call(101, b"echo"))
    assert attack.peer.replies(101) == [b"echo"]


def test_a_message_in_single_octets_is_collected_once():
    """A megabyte in frames of one octet: the octets that come back stay few, and the message is whole."""
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW))
    body = b"y" * 100_000
    pieces = b"".join(frame(DATA, 0, 1, octet) for octet in cut(message(body), 1))
    octets = attack.endures([headers(1), pieces])
    assert attack.processor.fed == [body]
    assert octets < len(body) + 5000


def test_padding_is_charged_to_the_windows():
    """A flood of padding within one window cannot be larger than the window."""
    attack = Attack(connection_window=DEFAULT_WINDOW, stream_window=DEFAULT_WINDOW)
    attack.peer.send(headers(1))
    piece = frame(DATA, PADDED, 1, b"\xff" + message(b"z" * 100_000)[:1] + bytes(255))
    attack.engine.receive(piece * (DEFAULT_WINDOW // 257 + 2))
    attack.peer.collect()
    assert attack.engine.closed or 1 in attack.peer.resets or attack.peer.room[0] > 0

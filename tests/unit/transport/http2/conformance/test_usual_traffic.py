"""What a proxy does all day long, and what must never be taken for an attack, however much of it there is."""

from __future__ import annotations

import itertools

from extproc.transport.http2.limits import Limits
from tests.support.http2_flood import ANY, Attack, Constant, ids, pattern
from tests.support.http2_peer import (
    INITIAL_WINDOW_SIZE,
    MAX_WINDOW,
    call,
    data,
    headers,
    message,
    ping,
    rst_stream,
    say,
    window_update,
)

LIMITS = Limits()
IGNORED, FRUITLESS = LIMITS.ignored_frames, LIMITS.fruitless_streams
ECHO = message(b"echo")


def test_a_hundred_thousand_calls_that_are_answered_and_then_reset():
    """Envoy resets nearly every ext_proc stream as its normal end."""
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW), processor=Constant())
    attack.peer.open_window()
    one = pattern(headers(ANY), data(ANY, ECHO), rst_stream(ANY))
    octets = attack.endures(b"".join(map(one, range(first, first + 1000, 2))) for first in range(1, 200_000, 1000))
    assert len(attack.processor.fed) == 100_000
    assert attack.processor.opened == attack.processor.closed == 100_000
    assert attack.engine.open_streams == 0
    assert octets > 100_000 * (9 + 9 + 5), "not every message was answered"


def test_calls_that_end_on_both_sides_and_are_reset_all_the_same():
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW), processor=Constant())
    attack.peer.open_window()
    attack.endures(map(pattern(call(ANY, b"echo"), rst_stream(ANY)), itertools.islice(ids(), IGNORED + 2000)))
    assert len(attack.processor.fed) == IGNORED + 2000


def test_one_client_in_five_goes_away_before_its_first_message():
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW), processor=Constant())
    attack.peer.open_window()
    early, usual = pattern(headers(ANY), rst_stream(ANY)), pattern(headers(ANY), data(ANY, ECHO), rst_stream(ANY))
    streams = list(itertools.islice(ids(), 6 * FRUITLESS))
    attack.endures(early(stream) if stream % 10 == 1 else usual(stream) for stream in streams)
    assert len(attack.processor.fed) == len(streams) * 4 // 5


def test_a_peer_that_widens_its_windows_for_every_reply_and_pings_now_and_then():
    attack = Attack(processor=Constant())
    one = pattern(headers(ANY), data(ANY, ECHO), window_update(ANY, 20), window_update(0, 20), rst_stream(ANY))
    streams = itertools.islice(ids(), IGNORED // 2 + 1000)
    attack.endures(one(stream) + (ping() if stream % 8 == 1 else b"") for stream in streams)
    assert len(attack.processor.fed) == IGNORED // 2 + 1000


def test_a_long_call_of_many_chunks():
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW), processor=Constant())
    attack.peer.open_window()
    attack.endures([headers(1), *[data(1, ECHO)] * (IGNORED + 2000)])
    assert len(attack.processor.fed) == IGNORED + 2000


def test_what_is_late_for_as_many_calls_as_can_be_open_is_discarded():
    """RFC 9113, 5.1: after it has ended a stream, a server gets what was on its way, and must discard it."""
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW))
    attack.peer.open_window()
    streams = list(itertools.islice(ids(), 5000))
    attack.endures([b"".join(headers(stream) for stream in streams)])
    assert attack.engine.open_streams == 5000
    attack.endures([b"".join(say(stream, b"fail:all of them") for stream in streams)])
    assert attack.engine.open_streams == 0
    octets = attack.endures([b"".join(data(stream, ECHO, end=True) for stream in streams)])
    assert octets < 5000, "late DATA was answered with errors"
    assert attack.processor.fed == [b"fail:all of them"] * 5000


def test_late_trailers_for_as_many_calls_as_can_be_open_are_discarded():
    attack = Attack((INITIAL_WINDOW_SIZE, MAX_WINDOW))
    attack.peer.open_window()
    streams = list(itertools.islice(ids(), 5000))
    attack.endures([b"".join(headers(stream) for stream in streams)])
    attack.endures([b"".join(say(stream, b"fail:x") for stream in streams)])
    attack.endures([b"".join(headers(stream, [(b"x-end", b"1")], end=True) for stream in streams)])
    assert attack.engine.open_streams == 0


def test_an_allowance_comes_back_with_time():
    attack = Attack()
    for _ in range(5):
        attack.endures(ping() for _ in range(LIMITS.control_frames * 9 // 10))
        attack.now += LIMITS.window + 1
    assert not attack.engine.closed

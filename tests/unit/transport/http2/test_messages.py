"""Messages of a call: any cut of the same bytes gives the same messages, and no prefix is believed blindly."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2 import status
from extproc.transport.http2.messages import Bounds, Call
from tests.support.http2_peer import prefixed


class Wire:
    """A responder that writes down what it is asked; ``full_after`` messages it wants no more."""

    def __init__(self, full_after=None):
        self.sent = []
        self.messages = 0
        self.full_after = full_after

    @property
    def full(self):
        return self.full_after is not None and self.messages >= self.full_after

    def handled(self):
        self.messages += 1

    def headers(self, block, *, end=False):
        self.sent.append((block, end))

    def data(self, data):
        self.sent.append(data)

    def expire(self, seconds):
        raise NotImplementedError


class Echo(Call):
    """Collects messages; b"stop" ends the call."""

    __slots__ = ("ended", "got")

    def __init__(self, wire, bounds=None, **how):
        super().__init__(wire, bounds or Bounds(message=1000, partial=2000), **how)
        self.got = []
        self.ended = 0

    def message(self, data):
        self.got.append(bytes(data))
        if data == b"stop":
            self.finish(0)

    def half_closed(self):
        self.finish(0)

    def over(self):
        self.ended += 1


def pieces(data, cuts):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


@given(st.lists(st.binary(max_size=100), max_size=10), st.lists(st.integers(0, 2000), max_size=20))
def test_any_cut_gives_the_same_messages(messages, cuts):
    call = Echo(Wire())
    for piece in pieces(b"".join(map(prefixed, messages)), cuts):
        # As in a read, where a payload lies between other bytes.
        assert call.data(b"__" + piece + b"___", 2, 2 + len(piece)) == 2 + len(piece)
    expected = messages[: messages.index(b"stop") + 1] if b"stop" in messages else messages
    assert call.got == expected
    assert call._bounds.held == 0


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=10), st.integers(1, 5), st.integers(1, 300))
def test_what_is_left_when_the_responder_is_full_comes_again(messages, at_once, size):
    wire = Wire(at_once)
    call = Echo(wire)
    data = b"".join(map(prefixed, messages))
    waiting = b""
    for piece in [data[at : at + size] for at in range(0, len(data), size)] + [b""] * len(messages):
        waiting += piece
        wire.full_after = wire.messages + at_once
        waiting = waiting[call.data(waiting, 0, len(waiting)) :]
    assert (call.got, waiting) == (messages if b"stop" not in messages else call.got, b"")


REFUSED = {
    "too large": (prefixed(b"", length=1001), {}, status.RESOURCE_EXHAUSTED),
    "far too large": (prefixed(b"", length=2**32 - 1), {}, status.RESOURCE_EXHAUSTED),
    "compressed, as announced": (prefixed(b"x", flag=1), {"encoded": True}, status.UNIMPLEMENTED),
    "compressed without notice": (prefixed(b"x", flag=1), {}, status.INTERNAL),
    "an unknown flag": (prefixed(b"x", flag=2), {"encoded": True}, status.INTERNAL),
}


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("case", REFUSED)
def test_a_prefix_that_is_refused(case, size):
    data, how, code = REFUSED[case]
    wire = Wire()
    call = Echo(wire, **how)
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        call.data(piece, 0, len(piece))
    ((block, end),) = wire.sent
    assert end
    assert block.startswith(status.RESPONSE + status.literal(b"grpc-status", b"%d" % code))
    assert (b"identity" in block) == (code == status.UNIMPLEMENTED)
    assert (call.got, call.ended) == ([], 1)


def test_the_status_of_a_call_that_was_answered_is_in_its_trailers():
    wire = Wire()
    call = Echo(wire)
    call.send(b"reply")
    call.finish(5, "no")
    assert wire.sent == [(status.RESPONSE, False), prefixed(b"reply"), (status.trailers(5, "no"), True)]
    call.finish(0)
    assert len(wire.sent) == 3


def test_an_incomplete_message_at_the_end():
    wire = Wire()
    call = Echo(wire)
    call.data(prefixed(b"abc")[:-1], 0, 7)
    call.end()
    assert wire.sent == [(status.RESPONSE + status.trailers(13, "the last message is incomplete"), True)]
    assert (call.ended, call._bounds.held) == (1, 0)


def test_incomplete_messages_are_bounded_over_all_calls():
    bounds = Bounds(message=1000, partial=500)
    calls = [Echo(Wire(), bounds) for _ in range(3)]
    for call in calls:
        call.data(prefixed(b"x" * 900)[:200], 0, 200)
    assert [call.open for call in calls] == [True, True, False]
    assert calls[2]._responder.sent[0][0].startswith(status.RESPONSE + status.literal(b"grpc-status", b"8"))
    assert bounds.held == 400
    for call in calls[:2]:
        call.lost()
    assert bounds.held == 0
    assert [call.ended for call in calls] == [1, 1, 1]


TEXTS = {
    "plain": ("no such path: /x", b"no such path: /x"),
    "percent": ("100%", b"100%25"),
    "beyond ASCII": ("caf\u00e9 \U0001f600", b"caf%C3%A9 %F0%9F%98%80"),
    "lines": ("a\r\nb\0", b"a%0D%0Ab%00"),
    "half a character": ("\ud800", b"?"),
    "spaces at the ends": ("  a  ", b"a"),
    "long": ("x" * 5000, b"x" * 1024),
    "long, cut within a character": ("\u00e9" * 5000, b"%C3%A9" * 170 + b"%C3"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_status_messages(case):
    text, encoded = TEXTS[case]
    assert status.percent_encoded(text) == encoded


@pytest.mark.parametrize("size", [0, 126, 127, 128, 254, 255, 300, 16_000])
def test_literals_are_read_as_they_were_meant(size):
    from hpack import Decoder

    block = status.literal(b"name", b"x" * size) + status.TRAILERS_OK
    assert [tuple(field) for field in Decoder().decode(block, raw=True)] == [
        (b"name", b"x" * size),
        (b"grpc-status", b"0"),
    ]

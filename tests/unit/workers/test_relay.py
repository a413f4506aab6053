"""The relay between two workers: order, ends on both sides, loss, bounds, and any cut of the bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange.decode import decode
from extproc.workers import relay
from extproc.workers.relay import MAX_WAITING, BrokenLink, OwnerEnd, StrangerEnd
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from tests.unit.workers.exchange.joined import Answers, Link, Pipe


def question(number=0, *, size=0, observed=False):
    message = ProcessingRequest(observability_mode=observed)
    message.request_body.body = number.to_bytes(8, "big") + bytes(size)
    return message.SerializeToString()


class Echo:
    """A stream that answers a body with it; a few bodies end it, or break it."""

    def __init__(self, core):
        self.end = None
        self._core = core

    def feed(self, data):
        request = decode(ProcessingRequest, data)
        body = request.request_body.body
        number = int.from_bytes(body[:8], "big")
        self._core.fed.append(number)
        match number:
            case 1001:
                raise StreamFailure(StreamFailure.NOT_FOUND, "gone fishing ä")
            case 1002:
                raise ZeroDivisionError("planted")
            case 1003:
                self.end = StreamFailure(StreamFailure.UNKNOWN, "the last reply")
        if request.observability_mode:
            return None
        reply = ProcessingResponse()
        reply.request_body.response.body_mutation.body = body
        return reply

    def close(self):
        self._core.open -= 1
        if self._core.breaks == "close":
            raise ZeroDivisionError("planted")


class Core:
    def __init__(self, breaks=""):
        self.fed = []
        self.open = 0
        self.breaks = breaks

    def open_stream(self):
        if self.breaks == "open":
            raise ZeroDivisionError("planted")
        if self.breaks == "open, with a status":
            raise StreamFailure(StreamFailure.UNAVAILABLE, "not now")
        self.open += 1
        return Echo(self)


class Opener:
    """A processor of echoes."""

    def __init__(self, core):
        self.core = core

    def open(self):
        return self.core.open_stream()


def joined(core, seed=0):
    return Link(Opener(core), random.Random(seed))


def numbers(answers):
    bodies = [ProcessingResponse.FromString(sent).request_body.response.body_mutation.body for sent in answers.sent]
    return [int.from_bytes(body[:8], "big") for body in bodies]


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["message", "message", "message", "half_closed", "close", "settle"])),
    max_size=40,
)


@given(STEPS, st.integers(0, 2**32))
def test_each_call_gets_its_replies_in_order_whatever_the_cut(steps, seed):
    core = Core()
    link = joined(core, seed)
    answers = [Answers() for _ in range(4)]
    calls = [link.call(each) for each in answers]
    asked, closed, half_closed = [[] for _ in range(4)], set(), set()
    for number, (which, step) in enumerate(steps):
        if step == "settle":
            link.settle()
        elif which in closed or which in half_closed:
            continue
        elif step == "message":
            calls[which].message(question(number, size=number * 7))
            asked[which].append(number)
        elif step == "half_closed":
            calls[which].half_closed()
            half_closed.add(which)
        else:
            calls[which].close()
            closed.add(which)
    link.settle()

    for which, each in enumerate(answers):
        got = numbers(each)
        assert got == asked[which][: len(got)]
        if which not in closed:
            assert got == asked[which]
        assert each.end == ((0, "") if which in half_closed else None)
    still_open = {which for which in range(4) if asked[which]} - closed - half_closed
    assert core.open == link.owner.open_calls == len(still_open)
    link.owner.lost()
    assert core.open == 0


ENDS = {
    "a status": (question(1001), [], (StreamFailure.NOT_FOUND, "gone fishing ä")),
    "a fault": (question(1002), [], (StreamFailure.INTERNAL, "internal error, id ")),
    "a last reply": (question(1003), [1003], (StreamFailure.UNKNOWN, "the last reply")),
    "a message that is none": (b"\xff\xff", [], (StreamFailure.INTERNAL, "message cannot be decoded")),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_owner_ends_a_call(name):
    message, replies, (code, text) = ENDS[name]
    core = Core()
    link = joined(core)
    answers, others = Answers(), Answers()
    call, other = link.call(answers), link.call(others)
    call.message(question(7))
    call.message(message)
    call.message(question(8))
    other.message(question(9))
    link.settle()

    assert numbers(answers) == [7, *replies]
    assert answers.end[0] == code
    assert answers.end[1].startswith(text)
    assert 8 not in core.fed
    # The other call goes on, and nothing is left of the first.
    assert (numbers(others), others.end, core.open) == ([9], None, 1)
    call.message(question(10))
    call.half_closed()
    call.close()
    link.settle()
    assert 10 not in core.fed
    assert core.open == 1


@pytest.mark.parametrize("breaks", ["open", "open, with a status", "close"])
def test_a_core_that_fails_harms_no_other_call(breaks):
    core = Core(breaks)
    link = joined(core)
    answers, others = Answers(), Answers()
    link.call(answers).message(question(1001))
    link.settle()
    core.breaks = ""
    link.call(others).message(question(2))
    link.settle()
    expected = {"open": StreamFailure.INTERNAL, "open, with a status": StreamFailure.UNAVAILABLE, "close": 5}
    assert answers.end[0] == expected[breaks]
    assert numbers(others) == [2]


def test_a_message_in_another_buffer_is_relayed_as_its_bytes():
    """A message that came in pieces is not copied once more before it is handled."""
    link = joined(Core())
    answers = Answers()
    link.call(answers).message(memoryview(bytearray(b"-----" + question(5)))[5:])
    link.settle()
    assert numbers(answers) == [5]


def test_a_message_that_is_only_observed_has_no_reply():
    link = joined(Core())
    answers = Answers()
    call = link.call(answers)
    call.message(question(1, observed=True))
    call.message(question(2))
    link.settle()
    assert numbers(answers) == [2]


def test_when_the_link_is_lost_calls_end_on_one_side_and_streams_on_the_other():
    core = Core()
    link = joined(core)
    answers = [Answers() for _ in range(3)]
    for number, each in enumerate(answers):
        link.call(each).message(question(number))
    link.settle()
    link.stranger.lost()
    link.owner.lost()
    assert {each.end[0] for each in answers} == {StreamFailure.UNAVAILABLE}
    assert core.open == 0
    assert link.asked.data == b"", "nobody is left to be told"


def test_a_reset_that_crosses_the_last_reply_is_no_fault():
    core = Core()
    link = joined(core)
    answers = Answers()
    call = link.call(answers)
    call.message(question(1003))
    for piece in link.asked.pieces():
        link.owner.receive(piece)
    call.close()
    link.settle()
    assert (answers.sent, answers.end, core.open) == ([], None, 0)


def test_an_owner_that_does_not_read_is_given_no_more():
    link = joined(Core())
    first, second = Answers(), Answers()
    call = link.call(first)
    call.message(question(1, size=MAX_WAITING))
    call.message(question(2))
    assert first.end[0] == StreamFailure.UNAVAILABLE
    link.call(second).message(question(3))
    assert second.end[0] == StreamFailure.UNAVAILABLE
    # Only what takes no room goes on: the first call is over.
    assert link.asked.waiting < MAX_WAITING + 1000


def frame(kind, number, content=b""):
    return relay._HEADER.pack(kind, number, len(content)) + content


QUESTIONS = {"a kind that does not exist": frame(9, 1), "an answer to an owner": frame(4, 1, b"x")}
ANSWERS = {"a kind that does not exist": frame(0, 1), "a question to a stranger": frame(1, 1), "no code": frame(5, 1)}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_owner_takes_no_nonsense(name):
    end = OwnerEnd(Opener(Core()), Pipe())
    end.receive(frame(1, 1, question(5)))
    with pytest.raises(BrokenLink):
        end.receive(QUESTIONS[name])


@pytest.mark.parametrize("name", ANSWERS)
def test_a_stranger_takes_no_nonsense(name):
    end = StrangerEnd(Pipe())
    end.call(Answers()).message(question(5))
    with pytest.raises(BrokenLink):
        end.receive(ANSWERS[name])


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_break_the_link(data):
    for end in (OwnerEnd(Opener(Core()), Pipe()), StrangerEnd(Pipe())):
        try:
            end.receive(data)
        except BrokenLink:
            continue

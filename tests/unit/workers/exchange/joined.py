"""A gateway of two workers, joined by the relay without I/O: requests are with one, every attempt meets the other."""

from __future__ import annotations

import random
from typing import Any

from extproc.errors import StreamFailure
from extproc.exchange.owners import ForeignAttempt, Owner
from extproc.exchange.stream import Processor, Stream
from extproc.workers.relay import OwnerEnd, StrangerEnd
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from tests.support.playbook import Gateway

OWNER = Owner(group="0a1b2c3d", worker=1, incarnation=5)
STRANGER = Owner(group="0a1b2c3d", worker=2, incarnation=1)


class Pipe:
    """A wire that keeps what is written until somebody wants it, in pieces of any size."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.data = b""
        self._rng = rng or random.Random(0)

    @property
    def waiting(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def pieces(self):
        while self.data:
            size = self._rng.choice((1, 2, 5, 13, 14, 100, 1_000_000))
            piece, self.data = self.data[:size], self.data[size:]
            yield piece


class Answers:
    """A caller that writes down what it is told."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.end: tuple[int, str] | None = None
        self.over = None

    def send(self, message: bytes) -> None:
        assert self.end is None, "nothing comes after the end"
        self.sent.append(message)

    def finish(self, code: int, text: str = "") -> None:
        if self.end is None:
            self.end = (code, text)
            if self.over is not None:
                self.over()


class Link:
    """Both ends of a link, and what is on its way between them."""

    def __init__(self, processor: Any, rng: random.Random | None = None) -> None:
        self.asked, self.answered = Pipe(rng), Pipe(rng)
        self.stranger = StrangerEnd(self.asked)
        self.owner = OwnerEnd(processor, self.answered)

    def call(self, answers: Answers):
        call = self.stranger.call(answers)
        answers.over = call.close
        return call

    def settle(self) -> None:
        """Carry everything to where it goes."""
        while self.asked.data or self.answered.data:
            for piece in self.asked.pieces():
                self.owner.receive(piece)
            for piece in self.answered.pieces():
                self.stranger.receive(piece)


class JoinedStream:
    """A stream as Envoy sees it, which begins at the worker that its connection leads to."""

    def __init__(self, joined: Joined) -> None:
        self.end: StreamFailure | None = None
        self._joined = joined
        self._stream: Stream | None = None
        self._call = None
        self._answers = Answers()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def feed(self, data: bytes) -> ProcessingResponse | None:
        joined = self._joined
        if self._call is not None:
            return self._relay(data)
        if self._stream is None:
            attempt = ProcessingRequest.FromString(data).attributes
            self._stream = (joined.stranger if attempt else joined.owner).open()
        try:
            reply = self._stream.feed(data)
        except ForeignAttempt as foreign:
            joined.owners.append(foreign.owner)
            self._call = joined.link.call(self._answers)
            return self._relay(data)
        self.end = self._stream.end
        return reply

    def _relay(self, data: bytes) -> ProcessingResponse | None:
        self._call.message(data)
        self._joined.link.settle()
        end = self._answers.end
        if self._answers.sent:
            if end is not None:
                self.end = StreamFailure(*end)
            return ProcessingResponse.FromString(self._answers.sent.pop(0))
        if end is not None:
            raise StreamFailure(*end)
        return None

    def close(self) -> None:
        if self._call is not None:
            self._call.close()
            self._joined.link.settle()
        if self._stream is not None:
            self._stream.close()


class Joined:
    """The second worker of a gateway, and the link between the two."""

    def __init__(self, gateway: Gateway) -> None:
        self.owner = gateway.processor
        context = self.owner._context
        context.owner, context.id_tag = OWNER, OWNER.tag
        self._second = Processor(
            metrics=gateway.metrics,
            options=context.options,
            clock=context.clock,
            now=context.now,
            ids=context.new_id,
            owner=STRANGER,
        )
        self.link = Link(self.owner, random.Random(1))
        self.owners: list[Owner] = []

    @property
    def stranger(self) -> Processor:
        # A config goes to both.
        self._second.runtime = self.owner.runtime
        return self._second

    def open(self) -> JoinedStream:
        return JoinedStream(self)


def join(monkeypatch, made=None) -> None:
    """Let every gateway of a test have two workers; ``made`` gets each pair."""
    build = Gateway.__init__

    def build_joined(gateway, *arguments, **options):
        build(gateway, *arguments, **options)
        gateway.joined = Joined(gateway)
        if made is not None:
            made.append(gateway.joined)

    monkeypatch.setattr(Gateway, "__init__", build_joined)
    monkeypatch.setattr(Gateway, "stream", lambda gateway: gateway.joined.open())

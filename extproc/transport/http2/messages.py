"""The messages of one gRPC call: cut out of what a client sends, and put into what it gets.

A message that lies whole in a DATA frame is cut out of it; only one that comes in pieces is collected. It is handled
as soon as its last byte is here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from extproc.transport.http2 import status
from extproc.transport.http2.application import Responder

# The gRPC protocol: a flag that says whether the message is compressed, and its length.
_PREFIX: Final = Struct(">BL")
_PREFIX_SIZE: Final = 5


class Bounds:
    """How large messages may be, and what is held of incomplete ones over all calls of a server.

    Args:
        message: largest message that is taken, in bytes.
        partial: bytes of incomplete messages that may be held.
    """

    __slots__ = ("held", "message", "partial")

    def __init__(self, *, message: int, partial: int) -> None:
        self.message = message
        self.partial = partial
        self.held = 0


class Call:
    """A call, to be made more of by what its kind does with a message. It is a ``Handler``.

    Args:
        responder: where answers go.
        bounds: shared by all calls.
        encoded: the client named an encoding that messages may have; none can be undone here.

    Attributes:
        open: the call has not ended.
    """

    __slots__ = ("_answered", "_bounds", "_buffer", "_encoded", "_needed", "_responder", "open")

    def __init__(self, responder: Responder, bounds: Bounds, *, encoded: bool = False) -> None:
        self._responder = responder
        self._bounds = bounds
        self._encoded = encoded
        self._buffer: bytearray | None = None
        self._needed = 0
        self._answered = False
        self.open = True

    # What a kind of call does

    def message(self, data: bytes) -> None:
        """A message has come."""
        raise NotImplementedError

    def half_closed(self) -> None:
        """The client has sent all its messages."""
        raise NotImplementedError

    def over(self) -> None:
        """The call has ended, whoever ended it. Called once."""

    # Handler

    def data(self, data: bytes, start: int, stop: int) -> int:
        responder = self._responder
        if self._buffer is not None:
            start = self._collect(self._buffer, data, start, stop)
            if start < stop and responder.full:
                return start
        while stop - start >= _PREFIX_SIZE and self.open:
            flag, size = _PREFIX.unpack_from(data, start)
            if flag or size > self._bounds.message:
                self._refuse(flag, size)
                return stop
            end = start + _PREFIX_SIZE + size
            if end > stop:
                self._needed = _PREFIX_SIZE + size
                break
            responder.handled()
            self.message(data[start + _PREFIX_SIZE : end])
            start = end
            if start < stop and responder.full:
                return start
        if start < stop and self.open:
            self._buffer = bytearray()
            self._keep(self._buffer, data, start, stop)
        return stop

    def end(self) -> None:
        if self._buffer is not None:
            self.finish(status.INTERNAL, "the last message is incomplete")
        else:
            self.half_closed()

    def expired(self) -> None:
        self.finish(status.DEADLINE_EXCEEDED, "deadline exceeded")

    def lost(self) -> None:
        self._end()

    # Answers

    def send(self, message: bytes) -> None:
        """Send one message."""
        responder = self._responder
        if not self._answered:
            self._answered = True
            responder.headers(status.RESPONSE)
        responder.data(_PREFIX.pack(0, len(message)) + message)

    def finish(self, code: int, text: str = "") -> None:
        """End the call with a status."""
        self._finish(status.trailers(code, text))

    def _finish(self, trailers: bytes) -> None:
        if not self.open:
            return
        self._end()
        self._responder.headers(trailers if self._answered else status.RESPONSE + trailers, end=True)

    def _end(self) -> None:
        self.open = False
        self._let_go()
        self.over()

    # Messages in pieces

    def _collect(self, buffer: bytearray, data: bytes, start: int, stop: int) -> int:
        """Complete the message that was begun; where the next one starts, ``stop`` when there is none."""
        if len(buffer) < _PREFIX_SIZE:
            cut = min(stop, start + _PREFIX_SIZE - len(buffer))
            self._keep(buffer, data, start, cut)
            start = cut
            if len(buffer) < _PREFIX_SIZE:
                return stop
            flag, size = _PREFIX.unpack(buffer)
            if flag or size > self._bounds.message:
                self._refuse(flag, size)
                return stop
            self._needed = _PREFIX_SIZE + size
        cut = min(stop, start + self._needed - len(buffer))
        self._keep(buffer, data, start, cut)
        if len(buffer) < self._needed or not self.open:
            return stop
        self._responder.handled()
        self._let_go()
        self.message(bytes(memoryview(buffer)[_PREFIX_SIZE:]))
        return cut

    def _keep(self, buffer: bytearray, data: bytes, start: int, stop: int) -> None:
        bounds = self._bounds
        bounds.held += stop - start
        buffer += memoryview(data)[start:stop]
        if bounds.held > bounds.partial:
            self.finish(status.RESOURCE_EXHAUSTED, "too many incomplete messages")

    def _let_go(self) -> None:
        if self._buffer is not None:
            self._bounds.held -= len(self._buffer)
            self._buffer = None

    def _refuse(self, flag: int, size: int) -> None:
        """A prefix that cannot be accepted; the specification of compression says which status that is."""
        if not flag:
            limit = self._bounds.message
            self.finish(status.RESOURCE_EXHAUSTED, f"message of {size} bytes is larger than {limit} bytes")
        elif flag == 1 and self._encoded:
            self._finish(status.unsupported_encoding("compressed messages are not taken"))
        else:
            self.finish(status.INTERNAL, "invalid flag before a message")

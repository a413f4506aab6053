"""Attempts that met the wrong worker, without I/O: their messages go to the owner of the request, replies come back.

A link joins two workers for one direction of asking: on one end the *stranger*, who got the attempt, on the other the
*owner*. Frames of both directions have a kind, the number of a call and bytes; messages stay what Envoy sent. The order
within a call is kept, and each end tells the other when a call is over, whoever ended it. A link that is lost ends the
calls on it as UNAVAILABLE on one end and closes their streams on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol

from extproc.errors import StreamFailure
from extproc.exchange.owners import ForeignAttempt
from extproc.transport.base import Caller, Processor, Stream, converse, fault

MAX_WAITING: Final = 16 * 2**20
"""Bytes that may wait for an owner that does not read; then further attempts for it end as UNAVAILABLE."""

# By the stranger.
_MESSAGE: Final = 1
_HALF_CLOSE: Final = 2
_RESET: Final = 3
# By the owner.
_REPLY: Final = 4
_FINISH: Final = 5

_HEADER: Final = Struct(">BQI")
_HEADER_SIZE: Final = _HEADER.size
_CODE: Final = Struct(">I")
_KINDS: Final = range(_MESSAGE, _FINISH + 1)


class BrokenLink(Exception):
    """The other end said what it cannot mean; the link is of no more use."""


class Wire(Protocol):
    """Takes frames to the other end, in order."""

    @property
    def waiting(self) -> int:
        """Bytes that have not left yet."""

    def write(self, data: bytes) -> None:
        """Send; without effect on a link that is lost."""


class _Frames:
    """Cuts frames out of what is received."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Kind, call and content of each frame that is complete.

        Raises:
            BrokenLink: a kind that does not exist.
        """
        data = self._rest + data if self._rest else data
        start, size = 0, len(data)
        try:
            while size - start >= _HEADER_SIZE:
                kind, call, length = _HEADER.unpack_from(data, start)
                if kind not in _KINDS:
                    raise BrokenLink(f"frame of kind {kind}")
                stop = start + _HEADER_SIZE + length
                if stop > size:
                    break
                start, content = stop, data[start + _HEADER_SIZE : stop]
                yield kind, call, content
        finally:
            self._rest = data[start:]


class RelayedCall:
    """A call whose stream is at the owner, once there is a message. It is a ``transport.base.Relayed``."""

    __slots__ = ("_caller", "_end", "_number")

    def __init__(self, end: StrangerEnd, caller: Caller) -> None:
        self._end = end
        self._number = 0
        self._caller = caller

    def message(self, data: bytes) -> None:
        """Relay what the caller sent."""
        if self._end.wire.waiting > MAX_WAITING:
            self._caller.finish(StreamFailure.UNAVAILABLE, "the worker that has the request does not read")
            return
        if not self._number:
            # Not before: the owner takes a number that is lower than another one for that of a call that is over.
            self._number = self._end.begin(self)
        self._end.write(_MESSAGE, self._number, data)

    def half_closed(self) -> None:
        """The caller has sent all its messages."""
        if self._number:
            self._end.write(_HALF_CLOSE, self._number)
        else:
            self._caller.finish(0)

    def close(self) -> None:
        """The call is over here, whoever ended it."""
        if self._end.forget(self._number):
            self._end.write(_RESET, self._number)

    # For the link

    def answered(self, kind: int, content: bytes) -> None:
        """The owner has said something."""
        if kind == _REPLY:
            self._caller.send(content)
            return
        if kind != _FINISH or len(content) < _CODE.size:
            raise BrokenLink(f"answer of kind {kind}")
        self._end.forget(self._number)
        (code,) = _CODE.unpack_from(content)
        self._caller.finish(code, content[_CODE.size :].decode(errors="replace"))

    def lost(self) -> None:
        """The owner is gone."""
        self._caller.finish(StreamFailure.UNAVAILABLE, "the worker that has the request is gone")


class StrangerEnd:
    """The end of a link that relays calls.

    Args:
        wire: leads to the owner.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._frames = _Frames()
        self._calls: dict[int, RelayedCall] = {}
        self._last = 0

    def call(self, caller: Caller) -> RelayedCall:
        """Relay a call from now on."""
        return RelayedCall(self, caller)

    def receive(self, data: bytes) -> None:
        """Hand on what the owner has said.

        Raises:
            BrokenLink: it cannot be understood.
        """
        for kind, number, content in self._frames.feed(data):
            call = self._calls.get(number)
            # An answer may cross the end of its call.
            if call is not None:
                call.answered(kind, content)

    def lost(self) -> None:
        """The link is gone: every call on it is over."""
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.lost()

    # For the calls

    def begin(self, call: RelayedCall) -> int:
        """The number of a call that has its first message."""
        self._last += 1
        self._calls[self._last] = call
        return self._last

    def write(self, kind: int, number: int, content: bytes = b"") -> None:
        self.wire.write(_HEADER.pack(kind, number, len(content)) + content)

    def forget(self, number: int) -> bool:
        """Whether the call was known."""
        return self._calls.pop(number, None) is not None


class _OwnedCall:
    """A stream of this worker's core that another worker talks to. It is a ``transport.base.Caller``."""

    __slots__ = ("_end", "_number", "stream")

    def __init__(self, end: OwnerEnd, number: int, stream: Stream) -> None:
        self._end = end
        self._number = number
        self.stream = stream

    def send(self, message: bytes) -> None:
        self._end.write(_REPLY, self._number, message)

    def finish(self, code: int, text: str = "") -> None:
        self._end.write(_FINISH, self._number, _CODE.pack(code) + text.encode())
        self._end.close(self._number)


def _feed(call: _OwnedCall, message: bytes) -> None:
    try:
        converse(call.stream, message, call)
    except ForeignAttempt as foreign:
        # Relayed once, it is not relayed again.
        call.finish(foreign.code, foreign.message)


class OwnerEnd:
    """The end of a link that feeds calls to streams of the own core.

    Args:
        processor: the core.
        wire: leads to the stranger.
    """

    def __init__(self, processor: Processor, wire: Wire) -> None:
        self._processor = processor
        self._wire = wire
        self._frames = _Frames()
        self._calls: dict[int, _OwnedCall] = {}
        self._last = 0

    @property
    def open_calls(self) -> int:
        """Calls that are not over."""
        return len(self._calls)

    def receive(self, data: bytes) -> None:
        """Handle what the stranger has relayed, and answer it.

        Raises:
            BrokenLink: it cannot be understood.
        """
        for kind, number, content in self._frames.feed(data):
            call = self._calls.get(number)
            if call is None:
                call = self._opened(kind, number)
                if call is None:
                    continue
            if kind == _MESSAGE:
                _feed(call, content)
            elif kind == _HALF_CLOSE:
                call.finish(0)
            elif kind == _RESET:
                self.close(number)
            else:
                raise BrokenLink(f"question of kind {kind}")

    def lost(self) -> None:
        """The link is gone: every stream on it is over."""
        for number in list(self._calls):
            self.close(number)

    def _opened(self, kind: int, number: int) -> _OwnedCall | None:
        """The call that a message begins. What crosses the end of its call begins none: numbers only grow."""
        if kind != _MESSAGE or number <= self._last:
            return None
        self._last = number
        try:
            stream = self._processor.open()
        except Exception as error:  # noqa: BLE001 - one stream must not harm another, whatever the fault
            failure = error if isinstance(error, StreamFailure) else fault(error)
            self.write(_FINISH, number, _CODE.pack(failure.code) + failure.message.encode())
            return None
        call = self._calls[number] = _OwnedCall(self, number, stream)
        return call

    # For the calls

    def write(self, kind: int, number: int, content: bytes) -> None:
        self._wire.write(_HEADER.pack(kind, number, len(content)) + content)

    def close(self, number: int) -> None:
        """Close the stream of a call that is over."""
        call = self._calls.pop(number, None)
        if call is None:
            return
        try:
            call.stream.close()
        except Exception as error:  # noqa: BLE001 - one stream must not harm another, whatever the fault
            fault(error)

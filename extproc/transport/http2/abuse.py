"""What a peer repeats without use, counted; beyond its allowance the connection ends (see ``limits``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from extproc.transport.http2.allowance import Allowance
from extproc.transport.http2.frames import ConnectionFault, ErrorCode
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.stream import Output

# What a message, or a DATA frame of ours, earns: a client may answer it with a WINDOW_UPDATE for the stream and one
# for the connection, and a PING.
_EARNED: Final = 4


class Abuse:
    """The allowances of one connection. Every method raises ``ConnectionFault`` when its own has run out.

    Args:
        limits: their sizes.
        clock: a monotonic clock, in seconds.
        work: says how much of use was done, which refills them.
    """

    __slots__ = ("_control", "_fruitless", "_idle", "_provoked", "_work")

    def __init__(self, limits: Limits, clock: Callable[[], float], work: Output) -> None:
        self._work = work
        self._control = Allowance(limits.control_frames, limits.window, clock)
        self._idle = Allowance(limits.ignored_frames, limits.window, clock)
        self._fruitless = Allowance(limits.fruitless_streams, limits.window, clock)
        self._provoked = Allowance(limits.provoked_resets, limits.window, clock)

    def idle_frame(self) -> None:
        """A frame came that has no effect, or may come without end."""
        if not self._idle.spend(_EARNED * (self._work.messages + self._work.data_frames)):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without effect")

    def wants_answer(self, cost: int = 1) -> None:
        """A frame came that has to be answered; ``cost`` is for one that also makes work."""
        if not self._control.spend(self._work.messages + self._work.data_frames, cost):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that want an answer")

    def fruitless_stream(self) -> None:
        """The peer ended a stream on which no message was handled."""
        if not self._fruitless.spend(self._work.messages):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams reset before use")

    def stream_error(self) -> None:
        """A stream had to be reset, or refused, for what the peer did."""
        if not self._provoked.spend(0):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many stream errors")

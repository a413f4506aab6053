"""Whether a peer is still there: it has to begin in time, and to give a sign of life when it has been quiet."""

from __future__ import annotations

from enum import Enum, auto

from extproc.transport.http2.limits import Limits


class Verdict(Enum):
    """What is to be done about a peer."""

    FINE = auto()
    ASK = auto()
    GONE = auto()


class Life:
    """Watches one peer.

    Attributes:
        heard: something came since the last look. Whoever reads sets it; reading a clock there would cost more.
        look_at: the time of the next look.
    """

    __slots__ = ("_asked", "_limits", "heard", "look_at")

    def __init__(self, limits: Limits, now: float) -> None:
        self.heard = False
        self.look_at = now + limits.preface_seconds
        self._limits = limits
        self._asked = False

    def look(self, now: float, *, started: bool) -> Verdict:
        """Judge the peer, at ``look_at`` or later.

        Args:
            now: the time.
            started: its preface is here.
        """
        if not started:
            return Verdict.GONE
        if self.heard:
            self.heard = self._asked = False
            self.look_at = now + self._limits.keepalive_seconds
            return Verdict.FINE
        if self._asked:
            return Verdict.GONE
        self._asked = True
        self.look_at = now + self._limits.keepalive_timeout
        return Verdict.ASK

"""How far the clock of this machine is from AWS's, learnt from the answers to refused requests.

AWS takes a signature whose time is within five minutes of its own. When it refuses one, the ``date`` of its answer says
what the time is there; the signatures after it carry that time. The request that was refused stays refused: its answer
is the client's (or Envoy's, to try again). Nothing is derived from answers that succeed, which cost nothing then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_REFUSED: Final = "403"
_TOLERATED: Final = 60.0
"""Seconds that are no reason to correct anything: dates count whole seconds, and answers take their time."""
_BELIEVED: Final = 86_400.0
"""Beyond that, the answer is the less likely one to be right."""


@dataclass(slots=True, kw_only=True, eq=False)
class ClockSkew:
    """What to add to this machine's time. One for the process: the clock is one, whatever the backend or config.

    Attributes:
        seconds: positive where this machine is behind.
    """

    seconds: float = 0.0

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        """Learn from an answer that is no success.

        Args:
            headers: of the answer, by lower-case name.
            now: this machine's time, in seconds since the epoch.
        """
        if headers.get(":status") != _REFUSED:
            return
        try:
            there = parsedate_to_datetime(headers.get("date", "")).timestamp()
        except ValueError:
            return
        measured = there - now
        if abs(measured) > _BELIEVED:
            return
        seconds = measured if abs(measured) > _TOLERATED else 0.0
        if abs(seconds - self.seconds) > _TOLERATED:
            _log.warning("the clock is not that of AWS; signatures carry theirs", seconds=round(seconds))
            self.seconds = seconds


PROCESS: Final = ClockSkew()

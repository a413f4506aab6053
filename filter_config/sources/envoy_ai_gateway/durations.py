"""Durations as Gateway API writes them."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]+)(ms|h|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(text: str) -> float:
    """The seconds of a duration that its field's pattern has accepted: ``1m30s`` is 90."""
    return sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))

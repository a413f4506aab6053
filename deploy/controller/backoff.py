"""How long to wait before something is tried again: longer each time, and not all at the same moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""A number from 0 to 1, 1 excluded."""

# Spreading load is no cryptography.
_RANDOM: Random = random.Random().random  # noqa: S311


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from ``first`` up to ``most`` seconds, each with a random part of its half taken off."""

    first: float = 0.1
    most: float = 30.0
    random: Random = _RANDOM

    def seconds(self, failures: int) -> float:
        """The pause after so many failures in a row, at least one."""
        # The exponent is bounded: a power of two of any size is a number of that size.
        whole = min(self.most, self.first * 2.0 ** min(failures - 1, 32))
        return whole * (1.0 - self.random() / 2)

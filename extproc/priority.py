"""The place of processes that help, behind those that serve."""

from __future__ import annotations

import os
from typing import Final

_NICENESS: Final = 10


def give_way() -> None:
    """Let requests go first wherever there is not enough processor time for both."""
    os.nice(_NICENESS)

"""Waiting for what gives no event: a page of the processor, a list that grows in another thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """Ask again and again until ``condition`` holds.

    Raises:
        TimeoutError: it does not after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {timeout:g} s: {what}")
        time.sleep(0.005)

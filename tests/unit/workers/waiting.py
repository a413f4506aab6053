"""Waiting for what gives no event: something that another task, or another process, has done."""

from __future__ import annotations

import asyncio


async def until(condition, what="it happens"):
    """Let others go on until ``condition`` holds.

    Raises:
        TimeoutError: it does not, for a long time.
    """
    deadline = asyncio.get_running_loop().time() + 30
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.001)

"""The event loop of every process, and its share of the interpreter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final

TURN_SECONDS: Final = 0.0005
"""How long another thread may keep the interpreter from the loop, once the loop wants it: a tenth of the default.

Threads fetch credentials, build configs and export spans, none of them in a hurry; streams are.
"""


def runner() -> asyncio.Runner:
    """Runs the event loop of a process, which goes before its other threads."""
    sys.setswitchinterval(TURN_SECONDS)
    return asyncio.Runner(loop_factory=_loop_factory())


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set, at most so long; whether it was. ``None`` waits for good."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    # Somebody else who waited may have cleared it since.
    return True


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes event loops: uvloop where it is installed, else asyncio."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

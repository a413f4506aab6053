"""The event loop of every process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes event loops: uvloop where it is installed, else asyncio."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

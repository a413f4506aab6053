"""An event loop whose time passes at once, and a wall clock that goes with it.

Whatever waits, waits not at all: when nothing is ready, the time is that of the next timer. No threads: what happens in
one is no reason for this loop to wait.
"""

from __future__ import annotations

import asyncio
import selectors


class _Selector(selectors.DefaultSelector):
    def __init__(self):
        super().__init__()
        self.passed = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen: every task waits for another"
            self.passed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """See above."""

    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.passed


EPOCH = 1_800_000_000.0


def wall_clock():
    """Seconds since 1970, as the running virtual loop has it; it starts at ``EPOCH``."""
    return EPOCH + asyncio.get_running_loop().time()


def run(main):
    """Run a coroutine function to its end on such a loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())

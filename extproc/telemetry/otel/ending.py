"""Calls that may block, for a bounded time only: an export that hangs must not hold up anything, least of all the exit.

They run in threads of their own that the interpreter does not wait for, unlike those of an executor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

FLUSH_SECONDS: Final = 3.0
"""How long the end of a process may be held up by what is still to be exported."""

T = TypeVar("T")
V = TypeVar("V")


class Aside(Generic[T]):
    """A call in a thread of its own, started at once."""

    def __init__(self, call: Callable[[], T], *, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[T] = self._loop.create_future()
        self._done.add_done_callback(_seen)
        self._call = call
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether the call has ended."""
        return self._done.done()

    async def within(self, seconds: float) -> T:
        """What the call gives.

        Raises:
            TimeoutError: it has not ended; it goes on, and nobody waits for it.
        """
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._done)

    def _run(self) -> None:
        try:
            result = self._call()
        except Exception as error:  # noqa: BLE001 - it is raised where the call is waited for
            self._tell(self._done.set_exception, error)
        else:
            self._tell(self._done.set_result, result)

    def _tell(self, how: Callable[[V], None], what: V) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            self._loop.call_soon_threadsafe(how, what)


def _seen(done: asyncio.Future[T]) -> None:
    """A failure after the time is up need not be told by asyncio."""
    if not done.cancelled():
        done.exception()

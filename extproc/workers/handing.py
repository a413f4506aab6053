"""Sockets on their way from the supervisor to a worker, each with a word on what it is for.

The word and the descriptor are one ``sendmsg`` on a private socket pair. Where the kernel holds no more for a worker
that is busy, they wait here, in order.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

_WORD: Final = struct.Struct(">BII")


class Use(IntEnum):
    """What a socket is for."""

    CONNECTION = 1
    PROBE = 2
    """A connection of the supervisor itself, without TLS."""
    TO_OWNER = 3
    """Leads to another worker, for attempts that belong to it."""
    FROM_STRANGER = 4
    """Leads to another worker, which will relay attempts that belong here."""


class Handed(NamedTuple):
    """A socket that was handed over; ``worker`` and ``incarnation`` are of the one it leads to, where it does."""

    use: Use
    socket: socket.socket
    worker: int = 0
    incarnation: int = 0


class Lost(NamedTuple):
    """A socket that the kernel has closed on its way, because this process has as many files open as it may."""

    use: Use


class Giver:
    """The supervisor's end.

    Args:
        end: one of a socket pair; it is closed with the giver.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._end = end
        self._waiting: deque[Handed] = deque()
        self._closed = False

    def give(self, handed: Handed) -> None:
        """Hand a socket over; it is closed here as soon as it has left."""
        if self._closed:
            handed.socket.close()
            return
        self._waiting.append(handed)
        if len(self._waiting) == 1 and not self._send_waiting():
            asyncio.get_running_loop().add_writer(self._end, self._writable)

    def close(self) -> list[Handed]:
        """Close the end; gives what has not left."""
        if self._closed:
            return []
        self._closed = True
        asyncio.get_running_loop().remove_writer(self._end)
        self._end.close()
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _writable(self) -> None:
        if self._send_waiting():
            asyncio.get_running_loop().remove_writer(self._end)

    def _send_waiting(self) -> bool:
        """Send what the kernel takes; whether that was all."""
        while self._waiting:
            use, given, worker, incarnation = self._waiting[0]
            try:
                socket.send_fds(self._end, [_WORD.pack(use, worker, incarnation)], [given.fileno()])
            except BlockingIOError:
                return False
            except OSError:
                # The worker is gone. What it was to get is given to others when its end is noticed.
                return True
            self._waiting.popleft()
            given.close()
        return True


class Taker:
    """A worker's end: gives what has come, without waiting."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003
        self._end = end

    def fileno(self) -> int:
        """For the event loop."""
        return self._end.fileno()

    def take(self) -> Handed | Lost | None:
        """What was handed over next; None when there is nothing.

        Raises:
            EOFError: there will be nothing more.
        """
        try:
            word, descriptors, _, _ = socket.recv_fds(self._end, _WORD.size, 1)
        except BlockingIOError:
            return None
        except OSError as error:
            raise EOFError from error
        if not word:
            raise EOFError
        assert len(word) == _WORD.size, "a word comes whole"
        use, worker, incarnation = _WORD.unpack(word)
        if not descriptors:
            return Lost(Use(use))
        return Handed(Use(use), socket.socket(fileno=descriptors[0]), worker, incarnation)

    def close(self) -> None:
        """Close the end."""
        self._end.close()

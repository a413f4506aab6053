"""The address that all workers are behind: connections are accepted here and given away.

Not a socket that workers listen on together, and not SO_REUSEPORT: Envoy opens a few connections and keeps them, and
either would now and then give most of them to one worker.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from extproc.transport.listen import SocketFile, bind

_log = structlog.get_logger(__name__)

_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
_PAUSE: Final = 0.5


class Door:
    """A listening socket. While it is shut, connections wait in the kernel.

    Args:
        take: gets each connection.
    """

    def __init__(self, take: Callable[[socket.socket], None]) -> None:
        self._take = take
        self._bound: socket.socket | None = None
        self._file: SocketFile | None = None
        self._is_open = False
        self._pause: asyncio.TimerHandle | None = None

    def listen(self, address: str, *, socket_mode: int) -> str:
        """See ``transport.base.Server.listen``."""
        bound, self._file, where = bind(address, socket_mode=socket_mode)
        bound.setblocking(False)  # noqa: FBT003 - the name of the method says it
        bound.listen(_BACKLOG)
        self._bound = bound
        return where

    def open(self) -> None:
        """Accept from now on."""
        if self._bound is not None and not self._is_open:
            self._is_open = True
            asyncio.get_running_loop().add_reader(self._bound, self._accept)

    def shut(self) -> None:
        """Accept nothing until it is opened again."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._bound is not None and self._is_open:
            self._is_open = False
            asyncio.get_running_loop().remove_reader(self._bound)

    def close(self) -> None:
        """Listen no more."""
        self.shut()
        if self._bound is not None:
            self._bound.close()
            self._bound = None

    def remove(self) -> None:
        """Remove the socket file, where there is one of ours."""
        if self._file is not None:
            self._file.remove()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._bound is None or not self._is_open:
                return
            try:
                accepted, _ = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Too many files are open, most likely. They wait in the kernel, not in a busy loop.
                _log.error("cannot accept connections", error=str(error))
                self.shut()
                self._pause = asyncio.get_running_loop().call_later(_PAUSE, self.open)
                return
            if accepted.family != socket.AF_UNIX:
                with suppress(OSError):
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._take(accepted)

"""Addresses and sockets of a server, whichever engine serves them.

A socket file is bound under a name of our own and then moved over the path (contract, 1.5): whoever had the path keeps
its socket, a new one takes over without a moment in between, and an old process does not remove its successor's.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from extproc.transport.base import ListenError

UNIX: Final = "unix://"
MAX_PORT: Final = 65535
# What a socket address holds on Linux, without the closing zero byte.
MAX_SOCKET_PATH: Final = 107


def parse_tcp(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; the host may be empty, and stands without brackets.

    Raises:
        ListenError: the address has another form.
    """
    host, colon, port = address.rpartition(":")
    if port.isascii() and port.isdigit() and (len(port) > len(str(MAX_PORT)) or int(port) > MAX_PORT):
        raise ListenError(f'listen tcp: address "{address}": the port must be at most {MAX_PORT}')
    if not colon or not port.isascii() or not port.isdigit():
        raise ListenError(f'listen tcp: address "{address}": expected "host:port" or "unix:///path"')
    return host.strip("[]"), int(port)


def bind_tcp(address: str) -> socket.socket:
    """A TCP socket that is bound to ``host:port``, not yet listening; without a host, to all of both IP versions.

    Raises:
        ListenError: with the system's reason.
    """
    host, port = parse_tcp(address)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if not host and socket.has_dualstack_ipv6():
            family, target = socket.AF_INET6, ("::", port)
        # asyncio turns Nagle's algorithm off only where it finds the protocol's number; replies would wait 40 ms.
        bound = socket.socket(family, kind, protocol)
        try:
            # Not SO_REUSEPORT: two processes on one port would share its connections; the second has to fail instead.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(host)))
            bound.bind(target)
        except BaseException:
            bound.close()
            raise
    except (OSError, OverflowError) as error:
        raise ListenError(f"listen tcp {address}: {error}") from error
    return bound


def bind(address: str, *, socket_mode: int) -> tuple[socket.socket, SocketFile | None, str]:
    """A socket that is bound to ``host:port`` or ``unix://path``, not yet listening.

    Returns:
        The socket; its file, where it has one, to be removed in the end; and the address as a client on this machine
        reaches it.

    Raises:
        ListenError: it cannot be bound, or the mode of the file cannot be set.
    """
    if not address.startswith(UNIX):
        bound = bind_tcp(address)
        return bound, None, f"{reachable(address.rpartition(':')[0])}:{bound.getsockname()[1]}"
    file = SocketFile(address)
    bound = socket.socket(socket.AF_UNIX)
    try:
        file.take_over(bound.bind, socket_mode)
    except BaseException:
        bound.close()
        raise
    return bound, file, file.target


def reachable(host: str) -> str:
    """Where a server on ``host`` can be reached from this machine."""
    return "127.0.0.1" if host in ("", "0.0.0.0") else "[::1]" if host in ("[::]", "::") else host


class SocketFile:
    """A socket file at ``path``, once ``take_over`` has put it there.

    Args:
        address: ``unix://path``.

    Raises:
        ListenError: the path is too long for a socket.
    """

    def __init__(self, address: str) -> None:
        self.path = Path(address.removeprefix(UNIX))
        if len(os.fsencode(self.path)) > MAX_SOCKET_PATH:
            raise ListenError(f"listen unix {self.path}: path too long, at most {MAX_SOCKET_PATH} bytes")
        # Only our own is removed at the end.
        self._inode = 0

    @property
    def target(self) -> str:
        """The address as a client reaches it."""
        return f"unix:{self.path}"

    def take_over(self, bind: Callable[[str], None], mode: int) -> None:
        """Bind, set the mode of the file, and put it in place.

        Args:
            bind: binds to the path that it is given.
            mode: permissions of the file.

        Raises:
            ListenError: one of these cannot be done.
        """
        own = self.path.with_name(f".{os.getpid()}")
        with suppress(OSError):
            own.unlink()
        try:
            bind(str(own))
        except OSError as error:
            raise ListenError(f"listen unix {self.path}: {error}") from error
        try:
            own.chmod(mode)
        except OSError as error:
            raise ListenError(f"failed to change UDS permission: {error}") from error
        try:
            own.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                own.unlink()
            raise ListenError(f"listen unix {self.path}: {error.strerror}") from error
        self._inode = self.path.stat().st_ino

    def remove(self) -> None:
        """Remove the file, unless somebody else has taken the path over."""
        with suppress(OSError):
            if self._inode and self.path.stat().st_ino == self._inode:
                self.path.unlink()

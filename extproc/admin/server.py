"""The HTTP server of the admin port: uvicorn on a socket of ours, without its signal handlers and logs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

_MAX_PORT: Final = 65535


class AdminListenError(Exception):
    """The admin port cannot be listened on; the text says why."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; no host means every interface, IPv6 included where the machine has it.

    Raises:
        AdminListenError: the address cannot be bound.
    """
    if not 0 <= port <= _MAX_PORT:
        raise AdminListenError(f"listen tcp {host}:{port}: the port must be between 0 and {_MAX_PORT}")
    try:
        if host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, port), family=family, backlog=128)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
        return socket.create_server(("", port), backlog=128)
    except OSError as error:
        raise AdminListenError(f"listen tcp {host}:{port}: {error}") from error


class AdminServer(uvicorn.Server):
    """Serves ``app`` until ``stop``; signals are the business of the process, not of this server."""

    def __init__(self, app: ASGIApp, bound: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                # Who asks is who is at the other end, not whom a header names.
                proxy_headers=False,
                ws="none",
                timeout_keep_alive=65,
                timeout_graceful_shutdown=5,
            )
        )
        self._bound = bound

    async def run_until_stopped(self) -> None:
        """Serve; returns after ``stop``, when open requests have had their answer."""
        await self.serve(sockets=[self._bound])

    def stop(self) -> None:
        """Ask ``run_until_stopped`` to end."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

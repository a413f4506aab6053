"""Which ports the listeners of a gateway get, settled before an Envoy is told: it would only fail to bind them.

A listener has its own port. One below 1024 that this user may not bind is moved up by 10000, as Envoy Gateway does
where it serves without a cluster.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from filter_config.sources.model import Gateway, Listener

_PRIVILEGED: Final = 1024
_MOVED_BY: Final = 10_000
_SERVED: Final = frozenset({"HTTP", "HTTPS"})


class PortUnusable(RuntimeError):
    """A listener cannot have its port. The text says which, and why."""


class Ports:
    """The ports of one gateway: what a listener was given once it keeps.

    Args:
        host: the address to listen on.
        first: the port of the first listener, in place of its own; 0 is any that is free.
    """

    def __init__(self, host: str, *, first: int | None = None) -> None:
        self._host = host
        self._first = first
        self._given: dict[int, int] = {}

    def of(self, gateway: Gateway) -> dict[str, int]:
        """The port of each listener for HTTP, by its name.

        Raises:
            PortUnusable: a port is taken, or may not be had.
        """
        return {listener.name: self._port(listener) for listener in gateway.listeners if listener.protocol in _SERVED}

    def _port(self, listener: Listener) -> int:
        given = self._given.get(listener.port)
        if given is None:
            wanted = listener.port if self._given or self._first is None else self._first
            given = self._given[listener.port] = self._usable(listener, wanted)
        return given

    def _usable(self, listener: Listener, wanted: int) -> int:
        try:
            try:
                return _bound(self._host, wanted)
            except PermissionError:
                if not 0 < wanted < _PRIVILEGED:
                    raise
                wanted += _MOVED_BY
                return _bound(self._host, wanted)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortUnusable(f"listener {listener.name}: port {wanted} is taken") from error
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            message = f"listener {listener.name}: {self._host} port {wanted} cannot be listened on: {reason}"
            raise PortUnusable(message) from error


def _bound(host: str, port: int) -> int:
    """The port that can be bound."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    with socket.create_server((host, port), family=family) as bound:
        found: int = bound.getsockname()[1]
        return found

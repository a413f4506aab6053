"""Backends that do not even get as far as a status. They stand where a ``StrictUpstream`` may stand in a rule."""

from __future__ import annotations

import socket
import threading
from typing import Self


class Absent:
    """It takes a port without listening there, so that no one else can; whoever connects is refused at once."""

    def __init__(self, name: str = "absent") -> None:
        self.name = name
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class HangsUp:
    """It takes a request and closes the connection. ``requests`` counts them."""

    def __init__(self, name: str = "hangs-up") -> None:
        self.name = name
        self.requests = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5.0)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                if connection.recv(1 << 16):
                    self.requests += 1

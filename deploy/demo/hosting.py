"""An ASGI application on a port of its own, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import socket
import threading

import uvicorn
from starlette.types import ASGIApp


class Hosted:
    """The port is bound from the constructor on, so clients may connect before it serves."""

    def __init__(self, name: str, application: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._socket = socket.create_server((host, port))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(application, interface="asgi3", lifespan="off", log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Serve. There is nothing to wait for: the socket has been queueing connections since it was bound."""
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

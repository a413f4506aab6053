"""The external processor as a child process, started the way the peer's control plane starts it.

Only flags of the contract are used, so the same class starts a drop-in. A port that was free a moment ago may be taken
when the processor comes to bind it; then another one is tried.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
from typing import TYPE_CHECKING, Final

from deploy.local.children import Child, ChildFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

READY: Final = "AI Gateway External Processor is ready"
_TRIES: Final = 3


class ProcessorProcess:
    """``python -m extproc`` on a unix socket, with its log in ``directory``.

    ``admin_port`` is the one to use if it is free; one that is started again keeps the one it had.
    """

    def __init__(
        self,
        *,
        config: Path,
        socket_path: Path,
        directory: Path,
        name: str = "processor",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        log_level: str = "info",
        admin_port: int = 0,
    ) -> None:
        self.name = name
        self.socket_path = socket_path
        self._config = config
        self._directory = directory
        self._arguments = arguments
        self._environment = environment
        self._log_level = log_level
        self._child: Child | None = None
        self._wanted_port = admin_port
        self.admin_port = 0

    @property
    def log(self) -> Path:
        return self._directory / f"{self.name}.log"

    @property
    def child(self) -> Child:
        """The process.

        Raises:
            ChildFailed: it was never started.
        """
        if self._child is None:
            raise ChildFailed(f"{self.name} was not started")
        return self._child

    def start(self, timeout: float = 30.0) -> None:
        """Start, and return once the processor says that it serves.

        Raises:
            ChildFailed: it ended, or did not say so in time.
        """
        for remaining in reversed(range(_TRIES)):
            self.admin_port = _free_port(self._wanted_port)
            self._wanted_port = 0
            self._child = Child(self.name, self._command(), log=self.log, environment=self._environment)
            try:
                self._child.wait_for_line(READY, timeout=timeout)
            except ChildFailed as failure:
                self._child.kill()
                if not remaining or "address already in use" not in str(failure).lower():
                    raise
            else:
                self._wanted_port = self.admin_port
                return

    def stop(self, grace: float = 10.0) -> int | None:
        """Ask it to drain and wait. Gives the exit status; None when it was never started."""
        return None if self._child is None else self._child.stop(grace=grace)

    def admin(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the admin server, such as ``/metrics``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=10.0)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "extproc"),
            *("-configPath", str(self._config)),
            *("-extProcAddr", f"unix://{self.socket_path}"),
            *("-adminPort", str(self.admin_port)),
            *("-logLevel", self._log_level),
            *self._arguments,
        ]


def _free_port(wanted: int) -> int:
    for port in (wanted, 0) if wanted else (0,):
        with contextlib.suppress(OSError), socket.create_server(("", port)) as bound:
            found: int = bound.getsockname()[1]
            return found
    raise ChildFailed("no port is free")

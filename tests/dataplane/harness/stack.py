"""A real Envoy with a real processor behind it, for one test module.

The processor is the command that users start; Envoy's configuration comes from the builders that users get. Ports are
chosen by whoever binds them, so modules may run side by side.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from deploy.demo.access_log import AccessLogReader
from deploy.envoy.bootstrap import LISTENER, bootstrap
from deploy.envoy.model import (
    AccessLog,
    Gateway,
    Listener,
    PipeAddress,
    Processor,
    RateLimitService,
    SocketAddress,
)
from deploy.envoy.text import to_yaml
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.processor import ProcessorProcess
from tests.dataplane.harness.config_file import ConfigFile
from tests.dataplane.harness.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deploy.envoy.model import Route

_ANY_PORT = SocketAddress(host="127.0.0.1", port=0)
_SOCKET_NAMES = iter(range(1_000_000))


class Stack:
    """Envoy, processor, config file and access log. ``start`` them, and ``stop`` in any case.

    ``processor_settings`` are fields of ``deploy.envoy.model.Processor``; ``adjust`` may change the gateway before it
    is built, and ``rewrite`` the text of the Envoy configuration after.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, Any] | bytes,
        routes: Sequence[Route],
        socket_directory: Path,
        rate_limit: RateLimitService | None = None,
        cost_keys: Sequence[str] = (),
        concurrency: int = 1,
        processor_arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        processor_settings: Mapping[str, Any] | None = None,
        adjust: Callable[[Gateway], Gateway] | None = None,
        rewrite: Callable[[str], str] | None = None,
        log_level: str = "info",
    ) -> None:
        self.directory = directory
        self._running = ExitStack()
        # A unix socket path has to fit into 108 bytes; pytest's temporary directories can be longer.
        self._socket = socket_directory / f"{next(_SOCKET_NAMES)}.sock"
        self.config = ConfigFile(directory / "config", config)
        self._processor_arguments = processor_arguments
        # Modules end with Envoy gone; a test of the drain gives a time of its own.
        self._environment = {"EXTPROC_DRAIN_SECONDS": "0", **(environment or {})}
        self._log_level = log_level
        self._started = 0
        gateway = Gateway(
            listener=Listener(address=_ANY_PORT, trust_request_id=True),
            routes=tuple(routes),
            processor=Processor(address=PipeAddress(path=str(self._socket)), **(processor_settings or {})),
            rate_limit=rate_limit,
            access_log=AccessLog(path=str(directory / "access.log"), cost_keys=tuple(cost_keys)),
            admin=_ANY_PORT,
        )
        text = to_yaml(bootstrap(adjust(gateway) if adjust is not None else gateway))
        self.envoy = EnvoyProcess(
            rewrite(text) if rewrite is not None else text, directory=directory, concurrency=concurrency
        )
        self.access_log = AccessLogReader(directory / "access.log")
        self.processor = self._new_processor()
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self._running.callback(self._stop_processor)
            self.processor.start()
            self._running.callback(self.envoy.stop)
            self.envoy.start()
            self.port = self.envoy.port(LISTENER)
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def swap_config(self, document: Mapping[str, Any] | bytes, *, wait: bool = True, timeout: float = 10.0) -> str:
        """Publish a config as Kubernetes would, and by default wait until it is the live one."""
        digest = self.config.swap(document)
        if wait:
            self.wait_for_config(digest, timeout)
        return digest

    def wait_for_config(self, digest: str, timeout: float = 10.0) -> None:
        """Block until the processor says that the config with this SHA-256 is live."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            status, text = self.processor.admin("/config")
            if status == 200 and digest in text:
                return
            time.sleep(0.01)  # the admin page is all the processor offers
        raise TimeoutError(f"config {digest[:12]} is not live after {timeout:g} s: {text[:500]}")

    def restart_processor(self, *, overlap: bool = False) -> int | None:
        """Replace the processor, and give the exit status of the old one.

        With ``overlap`` the new one serves before the old one is told to stop, as in a rolling update; otherwise there
        is a gap, as when a container is restarted in place.
        """
        old, new = self.processor, self._new_processor()
        if overlap:
            new.start()
            self.processor = new
            return old.stop(grace=30.0)
        status = old.stop(grace=30.0)
        self.processor = new
        new.start()
        return status

    def metrics(self) -> Metrics:
        _, text = self.processor.admin("/metrics")
        return Metrics(text)

    def live_config(self) -> dict[str, Any]:
        """What ``/config`` says."""
        _, text = self.processor.admin("/config")
        decoded: dict[str, Any] = json.loads(text)
        return decoded

    def logs(self) -> dict[str, str]:
        """The ends of all log files, by name, for a failed test."""
        return {
            path.name: path.read_text(encoding="utf-8", errors="replace")[-3000:]
            for path in sorted(self.directory.glob("*.log"))
        }

    def _new_processor(self) -> ProcessorProcess:
        self._started += 1
        return ProcessorProcess(
            config=self.config.path,
            socket_path=self._socket,
            directory=self.directory,
            name=f"processor-{self._started}",
            arguments=self._processor_arguments,
            environment=self._environment,
            log_level=self._log_level,
        )

    def _stop_processor(self) -> None:
        self.processor.stop(grace=5.0)

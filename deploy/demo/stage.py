"""All parts of the demo, started in the order in which each finds the others, and stopped in the reverse one.

Everything is on 127.0.0.1; files are in a directory of our own that is removed unless the user wants the logs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from deploy.demo import budgets, scene
from deploy.demo.access_log import AccessLogReader
from deploy.demo.children import ChildFailed
from deploy.demo.envoy_process import EnvoyProcess
from deploy.demo.processor import ProcessorProcess
from deploy.demo.ratelimit import MEMORY, RateLimiter, RateLimitServer
from deploy.demo.upstream import Upstream
from deploy.envoy.model import PipeAddress, SocketAddress

if TYPE_CHECKING:
    from types import TracebackType

LOCALHOST = "127.0.0.1"
_SOCKET_DIRECTORY_LIMIT = 90


class Stage:
    """The running demo. Use it as a context manager; whatever was started is stopped, in any case.

    ``any_port`` allows another port than ``port`` when that one is taken.
    """

    def __init__(
        self, *, port: int, any_port: bool = False, logs: Path | None = None, redis_url: str | None = None
    ) -> None:
        self._stack = ExitStack()
        self._port = port
        self._any_port = any_port
        self._logs = logs
        self.limiter = RateLimiter(budgets.parse(scene.budgets()), storage_url=redis_url or MEMORY)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def edit(self, alpha_model: str) -> None:
        """Replace the filter config the way an editor does: write beside it and rename."""
        beside = self.config.with_suffix(".new")
        beside.write_text(self._config_text(alpha_model), encoding="utf-8")
        os.replace(beside, self.config)  # noqa: PTH105 - the atomic one

    def _start(self) -> None:
        scratch = self._scratch_directory()
        directory = scratch
        if self._logs is not None:
            directory = self._logs
            directory.mkdir(parents=True, exist_ok=True)
        self.alpha, self.beta = self._start_upstream("alpha"), self._start_upstream("beta")
        limiter_server = RateLimitServer(self.limiter)
        self._stack.callback(limiter_server.stop)
        limiter_server.start()
        self.place = scene.Place(
            alpha=SocketAddress(host=LOCALHOST, port=self.alpha.port),
            beta=SocketAddress(host=LOCALHOST, port=self.beta.port),
            rate_limit=SocketAddress(host=LOCALHOST, port=limiter_server.port),
            processor=PipeAddress(path=str(scratch / "extproc.sock")),
            listener=SocketAddress(host=LOCALHOST, port=self._port),
            admin=SocketAddress(host=LOCALHOST, port=0),
            access_log=directory / "access.log",
        )
        self._start_processor(directory, scratch / "extproc.sock")
        self._start_envoy(directory)
        self.access_log = AccessLogReader(directory / "access.log")

    def _scratch_directory(self) -> Path:
        """A directory of our own, in which a socket may be: its path has to fit into 108 bytes."""
        for parent in (None, "/tmp"):  # noqa: S108 - mkdtemp makes a new directory that only we can enter
            scratch = Path(tempfile.mkdtemp(prefix="extproc-demo-", dir=parent))
            self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            if len(os.fsencode(scratch)) < _SOCKET_DIRECTORY_LIMIT:
                break
        return scratch

    def _start_upstream(self, name: str) -> Upstream:
        upstream = Upstream(name)
        self._stack.callback(upstream.stop)
        upstream.start()
        return upstream

    def _start_processor(self, directory: Path, socket_path: Path) -> None:
        self.config = directory / "filter-config.yaml"
        self.config.write_text(self._config_text(scene.ALPHA_MODEL), encoding="utf-8")
        self.processor = ProcessorProcess(
            config=self.config,
            socket_path=socket_path,
            directory=directory,
            # Envoy is stopped first, so there is nobody to keep serving for.
            environment={"EXTPROC_DRAIN_SECONDS": "0"},
        )
        self._stack.callback(self.processor.stop)
        self.processor.start()

    def _start_envoy(self, directory: Path) -> None:
        # Only here: the types that build Envoy's configuration take more than a second to import.
        from deploy.envoy.bootstrap import LISTENER, bootstrap  # noqa: PLC0415
        from deploy.envoy.text import to_yaml  # noqa: PLC0415

        for port in (self._port, 0):
            listener = SocketAddress(host=LOCALHOST, port=port)
            gateway = scene.gateway(replace(self.place, listener=listener))
            self.envoy = EnvoyProcess(to_yaml(bootstrap(gateway)), directory=directory)
            self._stack.callback(self.envoy.stop)
            try:
                self.envoy.start()
            except ChildFailed as failure:
                if "address already in use" not in str(failure).lower():
                    raise
                if not self._any_port:
                    raise ChildFailed(f"port {port} is taken") from failure
            else:
                break
        self.port = self.envoy.port(LISTENER)

    def _config_text(self, alpha_model: str) -> str:
        document = scene.filter_config(self.place, alpha_model=alpha_model)
        return yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False)

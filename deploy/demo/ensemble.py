"""A processor and an Envoy in front of it, with the files of both: the part that every stage of the demo has.

Files are in a directory of our own that is removed unless the user wants the logs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from deploy.demo.access_log import AccessLogReader
from deploy.envoy.model import Gateway, PipeAddress, SocketAddress
from deploy.local.children import ChildFailed
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.processor import ProcessorProcess

LOCALHOST = "127.0.0.1"
_SOCKET_DIRECTORY_LIMIT = 90


class Ensemble:
    """What is started is stopped when ``stack`` closes.

    ``any_port`` allows another port than ``port`` when that one is taken.
    """

    def __init__(self, stack: ExitStack, *, port: int, any_port: bool, logs: Path | None) -> None:
        self._stack = stack
        self._wanted = port
        self._any_port = any_port
        scratch = self._scratch_directory()
        self.directory = scratch
        if logs is not None:
            self.directory = logs
            logs.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "filter-config.yaml"
        self.socket = PipeAddress(path=str(scratch / "extproc.sock"))
        self.listener = SocketAddress(host=LOCALHOST, port=port)
        self.admin = SocketAddress(host=LOCALHOST, port=0)
        self.access_log_path = self.directory / "access.log"

    def start(self, filter_config: Mapping[str, Any], gateway: Callable[[SocketAddress], Gateway]) -> None:
        """Start both; ``gateway`` gives the configuration of Envoy for an address to listen on.

        Raises:
            ChildFailed: one of them does not start, or the port is taken.
        """
        self.config.write_text(as_yaml(filter_config), encoding="utf-8")
        self._start_processor()
        self._start_envoy(gateway)
        self.access_log = AccessLogReader(self.access_log_path)

    def edit(self, filter_config: Mapping[str, Any]) -> None:
        """Replace the filter config the way an editor does: write beside it and rename."""
        beside = self.config.with_suffix(".new")
        beside.write_text(as_yaml(filter_config), encoding="utf-8")
        os.replace(beside, self.config)  # noqa: PTH105 - the atomic one

    def _scratch_directory(self) -> Path:
        """A directory of our own, in which a socket may be: its path has to fit into 108 bytes."""
        for parent in (None, "/tmp"):  # noqa: S108 - mkdtemp makes a new directory that only we can enter
            scratch = Path(tempfile.mkdtemp(prefix="extproc-demo-", dir=parent))
            self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            if len(os.fsencode(scratch)) < _SOCKET_DIRECTORY_LIMIT:
                break
        return scratch

    def _start_processor(self) -> None:
        self.processor = ProcessorProcess(
            config=self.config,
            socket_path=Path(self.socket.path),
            directory=self.directory,
            # Envoy is stopped first, so there is nobody to keep serving for.
            environment={"EXTPROC_DRAIN_SECONDS": "0"},
        )
        self._stack.callback(self.processor.stop)
        self.processor.start()

    def _start_envoy(self, gateway: Callable[[SocketAddress], Gateway]) -> None:
        # Only here: the types that build Envoy's configuration take more than a second to import.
        from deploy.envoy.bootstrap import LISTENER, bootstrap  # noqa: PLC0415
        from deploy.envoy.text import to_yaml  # noqa: PLC0415

        for port in (self._wanted, 0):
            config = to_yaml(bootstrap(gateway(SocketAddress(host=LOCALHOST, port=port))))
            self.envoy = EnvoyProcess(config, directory=self.directory)
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


class Staged:
    """What a demo runs: an ensemble and the parts around it, from ``with`` on; all of it is stopped, in any case.

    ``any_port`` allows another port than ``port`` when that one is taken.
    """

    def __init__(self, *, port: int, any_port: bool = False, logs: Path | None = None) -> None:
        self._stack = ExitStack()
        self._port = port
        self._any_port = any_port
        self._logs = logs

    def __enter__(self) -> Self:
        try:
            self._ensemble = Ensemble(self._stack, port=self._port, any_port=self._any_port, logs=self._logs)
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        """Start the parts around the ensemble, in the order in which each finds the others, and the ensemble."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        return self._ensemble.port

    @property
    def config(self) -> Path:
        return self._ensemble.config

    @property
    def processor(self) -> ProcessorProcess:
        return self._ensemble.processor

    @property
    def access_log(self) -> AccessLogReader:
        return self._ensemble.access_log


def as_yaml(filter_config: Mapping[str, Any]) -> str:
    # By way of JSON, which knows no tuples.
    return yaml.safe_dump(json.loads(json.dumps(filter_config)), sort_keys=False)

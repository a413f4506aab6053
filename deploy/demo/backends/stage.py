"""The parts of the walk through the backends: Envoy, the processor, and a stand-in for each provider."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.demo.access_log import AccessLogReader
from deploy.demo.backends import scene
from deploy.demo.ensemble import LOCALHOST, Ensemble
from deploy.demo.processor import ProcessorProcess
from deploy.demo.providers.server import ProviderServer
from deploy.demo.seen import Seen
from deploy.envoy.model import Gateway, SocketAddress


class BackendsStage:
    """Running from ``with`` on; whatever was started is stopped, in any case.

    ``any_port`` allows another port than ``port`` when that one is taken.
    """

    def __init__(self, *, port: int, any_port: bool = False, logs: Path | None = None) -> None:
        self._stack = ExitStack()
        self._port = port
        self._any_port = any_port
        self._logs = logs

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

    def seen(self, speaker: scene.Speaker) -> list[Seen]:
        """What the stand-in of this backend has received, oldest first."""
        return list(self._providers.seen[speaker.host])

    def _start(self) -> None:
        self._ensemble = Ensemble(self._stack, port=self._port, any_port=self._any_port, logs=self._logs)
        self._providers = ProviderServer({speaker.host: speaker.provider for speaker in scene.SPEAKERS})
        self._stack.callback(self._providers.stop)
        self._providers.start()
        self._address = SocketAddress(host=LOCALHOST, port=self._providers.port)
        self._ensemble.start(scene.filter_config(self._address), self._gateway)

    def _gateway(self, listener: SocketAddress) -> Gateway:
        return scene.gateway(
            self._address,
            listener=listener,
            processor=self._ensemble.socket,
            admin=self._ensemble.admin,
            log=self._ensemble.access_log_path,
        )

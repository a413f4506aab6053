"""All parts of the demo, started in the order in which each finds the others, and stopped in the reverse one.

Everything is on 127.0.0.1.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from deploy.demo import budgets, scene
from deploy.demo.ensemble import LOCALHOST, Ensemble
from deploy.demo.ratelimit import MEMORY, RateLimiter, RateLimitServer
from deploy.demo.upstream import Upstream
from deploy.envoy.model import Gateway, SocketAddress

if TYPE_CHECKING:
    from types import TracebackType

    from deploy.demo.access_log import AccessLogReader
    from deploy.demo.processor import ProcessorProcess


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

    def edit(self, alpha_model: str) -> None:
        self._ensemble.edit(scene.filter_config(self.place, alpha_model=alpha_model))

    def _start(self) -> None:
        self._ensemble = Ensemble(self._stack, port=self._port, any_port=self._any_port, logs=self._logs)
        self.alpha, self.beta = self._start_upstream("alpha"), self._start_upstream("beta")
        limiter_server = RateLimitServer(self.limiter)
        self._stack.callback(limiter_server.stop)
        limiter_server.start()
        self.place = scene.Place(
            alpha=SocketAddress(host=LOCALHOST, port=self.alpha.port),
            beta=SocketAddress(host=LOCALHOST, port=self.beta.port),
            rate_limit=SocketAddress(host=LOCALHOST, port=limiter_server.port),
            processor=self._ensemble.socket,
            listener=self._ensemble.listener,
            admin=self._ensemble.admin,
            access_log=self._ensemble.access_log_path,
        )
        self._ensemble.start(scene.filter_config(self.place), self._gateway)

    def _gateway(self, listener: SocketAddress) -> Gateway:
        return scene.gateway(replace(self.place, listener=listener))

    def _start_upstream(self, name: str) -> Upstream:
        upstream = Upstream(name)
        self._stack.callback(upstream.stop)
        upstream.start()
        return upstream

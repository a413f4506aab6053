"""All parts of the demo, started in the order in which each finds the others, and stopped in the reverse one.

Everything is on 127.0.0.1.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deploy.demo import scene
from deploy.demo.ensemble import LOCALHOST, Staged
from deploy.demo.upstream import Upstream
from deploy.envoy.model import Gateway, SocketAddress
from deploy.ratelimit import budgets
from deploy.ratelimit.service import MEMORY, RateLimiter, RateLimitServer


class Stage(Staged):
    """The running demo."""

    def __init__(
        self, *, port: int, any_port: bool = False, logs: Path | None = None, redis_url: str | None = None
    ) -> None:
        super().__init__(port=port, any_port=any_port, logs=logs)
        self.limiter = RateLimiter(budgets.parse(scene.budgets()), storage_url=redis_url or MEMORY)

    def edit(self, alpha_model: str) -> None:
        self._ensemble.edit(scene.filter_config(self.place, alpha_model=alpha_model))

    def _start(self) -> None:
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

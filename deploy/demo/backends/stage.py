"""The parts of the walk through the backends: Envoy, the processor, and a stand-in for each provider."""

from __future__ import annotations

from deploy.demo.backends import scene
from deploy.demo.ensemble import LOCALHOST, Staged
from deploy.demo.providers.server import ProviderServer
from deploy.demo.seen import Seen
from deploy.envoy.model import Gateway, SocketAddress


class BackendsStage(Staged):
    """The stand-ins beside Envoy and the processor."""

    def seen(self, speaker: scene.Speaker) -> list[Seen]:
        """What the stand-in of this backend has received, oldest first."""
        return list(self._providers.seen[speaker.host])

    def _start(self) -> None:
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

"""Who keeps the token budgets of a gateway: a small rate limit service in this process, from the first budget on.

Its address is part of what Envoy is started with, so a port is held for it from the beginning. What has been spent of
a budget is remembered as long as this process lives and the budget stays as it is, whatever else is edited.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from deploy.envoy.model import RateLimitService, SocketAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.ratelimit.service import RateLimitServer

_HOST: Final = "127.0.0.1"


class BudgetKeeper:
    """The budgets of one gateway. ``stop`` it in any case."""

    def __init__(self) -> None:
        self._held = socket.create_server((_HOST, 0))
        self._server: RateLimitServer | None = None
        self.service = RateLimitService(address=SocketAddress(host=_HOST, port=self._held.getsockname()[1]))
        """Where Envoy finds it."""

    def keep(self, document: Mapping[str, Any]) -> None:
        """Keep the budgets of a document in the format of envoyproxy/ratelimit.

        Raises:
            OSError: the port that was held is taken.
        """
        if self._server is None and not document["descriptors"]:
            return
        # Only here: most gateways have none.
        from deploy.ratelimit import budgets  # noqa: PLC0415
        from deploy.ratelimit.service import RateLimiter, RateLimitServer  # noqa: PLC0415

        limits = budgets.parse(document)
        if self._server is not None:
            self._server.limiter.change(limits)
            return
        self._held.close()
        server = RateLimitServer(RateLimiter(limits), host=_HOST, port=self.service.address.port)
        server.start()
        self._server = server

    def stop(self) -> None:
        self._held.close()
        if self._server is not None:
            self._server.stop()

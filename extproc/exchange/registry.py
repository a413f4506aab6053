"""Where the upstream-level half of a request finds its router-level half."""

from __future__ import annotations

from extproc.exchange.router import RouterExchange


class Registry:
    """Router-level halves by internal request id.

    The id is ours and unique, never the client's, so two requests that claim the same ``x-request-id`` do not meet.
    """

    def __init__(self) -> None:
        self._routers: dict[str, RouterExchange] = {}

    def add(self, router: RouterExchange) -> None:
        self._routers[router.internal_id] = router

    def find(self, request_id: str) -> RouterExchange | None:
        return self._routers.get(request_id)

    def remove(self, router: RouterExchange) -> None:
        self._routers.pop(router.internal_id, None)

    def awaiting_response(self) -> int:
        """How many have no response headers yet."""
        return sum(router.awaits_response for router in self._routers.values())

    def __len__(self) -> int:
        return len(self._routers)

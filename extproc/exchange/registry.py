"""Where the upstream-level half of a request finds its router-level half."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extproc.exchange.router import RouterExchange


class Registry:
    """Router-level halves by internal request id.

    The id is ours and unique, never the client's, so two requests that claim the same ``x-request-id`` do not meet.
    """

    def __init__(self) -> None:
        self._routers: dict[str, RouterExchange] = {}

    def add(self, request_id: str, router: RouterExchange) -> None:
        self._routers[request_id] = router

    def find(self, request_id: str) -> RouterExchange | None:
        return self._routers.get(request_id)

    def remove(self, request_id: str) -> None:
        self._routers.pop(request_id, None)

    def __len__(self) -> int:
        return len(self._routers)

"""Where the upstream-level half of a request finds its router-level half."""

from __future__ import annotations

from extproc.exchange.router import RouterExchange


class Registry(dict[str, RouterExchange]):
    """Router-level halves by internal request id.

    The id is ours and unique, never the client's, so two requests that claim the same ``x-request-id`` do not meet.
    """

    def awaiting_response(self) -> int:
        """How many have no response headers yet."""
        return sum(router.awaits_response for router in self.values())

"""The health of a fleet: what each of its workers says to a gRPC health check."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from extproc.transport.base import HealthCheckError
from extproc.transport.http2.probe import HealthProbe
from extproc.workers.handing import Use
from extproc.workers.seat import Seat


class FleetProbe:
    """Asks every worker that serves, over a connection of its own without TLS. It is a ``transport.base.Probe``."""

    def __init__(self, serving: Callable[[], Sequence[Seat]]) -> None:
        self._serving = serving

    async def __call__(self) -> str:
        """``SERVING`` if all say so, else what the first of the others says.

        One that hangs fails the check, as a single process that hangs would; one that is being replaced is not asked.

        Raises:
            HealthCheckError: a worker gave no answer, or none serves.
        """
        seats = self._serving()
        if not seats:
            raise HealthCheckError("rpc error: code = Unavailable desc = no worker serves")
        statuses = await asyncio.gather(*(self._ask(seat) for seat in seats))
        return next((status for status in statuses if status != "SERVING"), "SERVING")

    async def close(self) -> None:
        """Every check has connections of its own, which are closed with it."""

    async def _ask(self, seat: Seat) -> str:
        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            ours, theirs = socket.socketpair()
            seat.give(Use.PROBE, theirs)
            return await asyncio.open_unix_connection(sock=ours)

        return await HealthProbe(connect)()

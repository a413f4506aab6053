"""The sockets under the relay: what comes goes to an end of ``relay``, what that says goes out, within bounds.

An owner whose replies are not taken reads no further. A stranger reads whatever an owner replies, so the two can never
wait for each other; it stops only while its own connections to Envoy hold back too much.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol, cast

import structlog

from extproc.errors import StreamFailure
from extproc.exchange.owners import Owner
from extproc.transport.base import Caller, Processor, Relayed
from extproc.workers.relay import MAX_WAITING, BrokenLink, OwnerEnd, StrangerEnd

_log = structlog.get_logger(__name__)

_WRITE_BUFFER: Final = 2**20
_LOOK_AGAIN: Final = 0.01


class Output(Protocol):
    """The connections that relayed replies go out on."""

    @property
    def waiting(self) -> int:
        """Bytes that Envoy has not taken."""

    def flush(self) -> None:
        """Send what calls have been answered."""


class _Link(asyncio.Protocol):
    """One socket to another worker. It is a ``relay.Wire``.

    Attributes:
        lost: the other worker is known to be gone.
    """

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        # What is said before the event loop has made a transport of the socket.
        self._early: list[bytes] = []

    @property
    def waiting(self) -> int:
        if self._transport is None:
            return sum(map(len, self._early))
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        if self.lost:
            return
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, for uvloop's transports are no subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        try:
            self.handle(data)
        except BrokenLink as error:
            _log.error("link between workers is broken", error=str(error))
            self.abort()
        except Exception:  # noqa: BLE001 - a fault of ours must end this link, not the process
            _log.exception("link between workers failed")
            self.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost = True
        self.ended()

    def abort(self) -> None:
        """Close at once."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    def handle(self, data: bytes) -> None:
        raise NotImplementedError

    def ended(self) -> None:
        raise NotImplementedError


class StrangerLink(_Link):
    """Relays to an owner."""

    def __init__(self, output: Callable[[], Output]) -> None:
        super().__init__()
        self.end = StrangerEnd(self)
        self._output = output
        self._full = False

    def handle(self, data: bytes) -> None:
        self.end.receive(data)
        self._output().flush()
        if not self._full and self._output().waiting > MAX_WAITING:
            self._full = True
            assert self._transport is not None
            self._transport.pause_reading()
            self._look_again()

    def ended(self) -> None:
        self.end.lost()
        self._output().flush()

    def _look_again(self) -> None:
        if self.lost or self._transport is None:
            return
        if self._output().waiting > MAX_WAITING:
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self._look_again)
        else:
            self._full = False
            self._transport.resume_reading()


class OwnerLink(_Link):
    """Answers a stranger."""

    def __init__(self, processor: Processor) -> None:
        super().__init__()
        self.end = OwnerEnd(processor, self)

    def handle(self, data: bytes) -> None:
        self.end.receive(data)

    def ended(self) -> None:
        self.end.lost()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()


class _Nowhere:
    """A call whose owner is gone. It has been told so."""

    def message(self, data: bytes) -> None: ...
    def half_closed(self) -> None: ...
    def close(self) -> None: ...


class Links:
    """The links of one worker to all others. It is a ``transport.base.Relay``.

    Args:
        processor: whose streams others may ask for.
        output: the connections to Envoy, which come to be after this.
        look: takes links that have been handed over and not been looked at yet.
        counted: called for each relayed call.
    """

    def __init__(
        self,
        processor: Processor,
        output: Callable[[], Output],
        *,
        look: Callable[[], None],
        counted: Callable[[], None],
    ) -> None:
        self._processor = processor
        self._output = output
        self._look = look
        self._counted = counted
        self._owners: dict[tuple[int, int], StrangerLink] = {}
        self._all: set[_Link] = set()
        self._opening: set[asyncio.Task[None]] = set()

    def to_owner(self, end: socket.socket, worker: int, incarnation: int) -> None:
        """Relay to a worker over this socket from now on."""
        link = StrangerLink(self._output)
        for known in [key for key in self._owners if key[0] == worker or self._owners[key].lost]:
            # A later life of the same worker: whoever was before is dead, and its link ends by itself.
            del self._owners[known]
        self._owners[worker, incarnation] = link
        self._connect(link, end)

    def from_stranger(self, end: socket.socket) -> None:
        """Answer the worker at the other end of this socket from now on."""
        self._connect(OwnerLink(self._processor), end)

    def __call__(self, owner: Owner, caller: Caller) -> Relayed:
        """Relay a call; one whose owner is gone ends at once, as UNAVAILABLE."""
        key = (owner.worker, owner.incarnation)
        if key not in self._owners:
            # The supervisor hands out the links of a worker before its first connection, so one that lives is known
            # here by now.
            self._look()
        link = self._owners.get(key)
        if link is None or link.lost:
            caller.finish(StreamFailure.UNAVAILABLE, f"worker {owner.name} has the request and is gone")
            return _Nowhere()
        self._counted()
        return link.end.call(caller)

    def close(self) -> None:
        """Let go of all links."""
        for link in list(self._all):
            link.abort()

    def _connect(self, link: _Link, end: socket.socket) -> None:
        self._all = {known for known in self._all if not known.lost}
        self._all.add(link)
        opening = asyncio.get_running_loop().create_task(self._open(link, end))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    @staticmethod
    async def _open(link: _Link, end: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=end)
        except OSError:
            end.close()
            link.connection_lost(None)

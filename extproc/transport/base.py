"""What both engines share: the core as they see it, a server as the process sees it, and the end of a stream."""

from __future__ import annotations

from typing import Final, Protocol
from uuid import uuid4

import structlog

from extproc.errors import StreamFailure
from extproc.exchange.owners import ForeignAttempt, Owner

_log = structlog.get_logger(__name__)

HEALTH_SECONDS: Final = 0.25
"""How often a server looks at its health while somebody watches it."""


class Encodable(Protocol):
    """A reply: a message of the wire library, or one that was encoded while it was built."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - the wire library's name


class Stream(Protocol):
    """One ext_proc stream of the core: a message in, as it came, a reply out."""

    end: StreamFailure | None

    def feed(self, data: bytes) -> Encodable | None: ...
    def close(self) -> None: ...


class Processor(Protocol):
    """Opens streams of the core."""

    def open(self) -> Stream: ...


class Caller(Protocol):
    """The sending half of a call. Once the call is over, whoever ended it, everything here has no effect."""

    def send(self, message: bytes) -> None:
        """Send one message."""

    def finish(self, code: int, text: str = "") -> None:
        """End the call with a status."""


class Relayed(Protocol):
    """A call whose stream another process has. Its replies come later, through the ``Caller``."""

    def message(self, data: bytes) -> None:
        """A message of the call has come."""

    def half_closed(self) -> None:
        """The client has sent all its messages."""

    def close(self) -> None:
        """The call is over, whoever ended it. Called once."""


class Relay(Protocol):
    """Relays the calls that belong to other processes."""

    def __call__(self, owner: Owner, caller: Caller) -> Relayed: ...


class Server(Protocol):
    """Serves ``Process`` and health on one address."""

    def listen(self, address: str, *, socket_mode: int = 0o775) -> str:
        """Bind ``host:port`` (port 0 takes a free one, no host means all) or ``unix://path``.

        Connections wait in the kernel until ``start``.

        Returns:
            The address as a client on this machine can reach it.

        Raises:
            ListenError: it cannot be bound, or the mode of the socket file cannot be set.
        """

    async def start(self) -> None:
        """Begin to serve."""

    async def stop(self, grace: float) -> None:
        """Take no more streams, give those in flight ``grace`` seconds, then cut them.

        May be called again with a shorter grace while it waits.
        """

    def probe(self) -> Probe:
        """What asks this server for its health, once it listens."""


class Probe(Protocol):
    """Asks a server for its health as Envoy would."""

    async def __call__(self) -> str:
        """Return the name of the status, ``SERVING`` for instance.

        Raises:
            HealthCheckError: there was no answer.
        """

    async def close(self) -> None:
        """Let go of what it holds."""


class ListenError(Exception):
    """The address cannot be listened on; the text says why."""


class HealthCheckError(Exception):
    """A health check got no answer; the text is that of the gRPC status."""


def converse(stream: Stream, data: bytes, caller: Caller) -> None:
    """Feed one message as it came to a stream, and give the caller the reply, or the end of the call.

    Raises:
        ForeignAttempt: the stream belongs to another process; nothing was done with the message.
    """
    try:
        reply = stream.feed(data)
        if reply is not None:
            caller.send(reply.SerializeToString())
    except ForeignAttempt:
        raise
    except StreamFailure as failure:
        caller.finish(failure.code, failure.message)
    except Exception as error:  # noqa: BLE001 - one stream must not harm another, whatever the fault
        internal = fault(error)
        caller.finish(internal.code, internal.message)
    else:
        if stream.end is not None:
            caller.finish(stream.end.code, stream.end.message)


def fault(error: Exception) -> StreamFailure:
    """How a stream ends over something that must not happen: the log gets the cause, the peer an id to ask about."""
    fault_id = str(uuid4())
    _log.error("stream failed", fault_id=fault_id, exc_info=error)
    return StreamFailure(StreamFailure.INTERNAL, f"internal error, id {fault_id}")

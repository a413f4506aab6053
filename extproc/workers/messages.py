"""What supervisor and workers say to each other, and the channel that carries it.

A channel is one end of a private socket pair: the length of each message, then the message as MessagePack. Its end is
the end of the other process. Sockets are handed over on another one, because only a raw ``sendmsg`` can carry them.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Final, TypeAlias

import msgspec

from extproc.exchange.owners import Owner
from extproc.settings import Settings
from extproc.telemetry.ledger import Slot
from extproc.telemetry.snapshot import Snapshot
from filter_config.load import Problem
from filter_config.model import Config
from filter_config.redact import Secret, dec_hook

_LENGTH: Final = struct.Struct(">I")


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a worker: what it has to know."""

    settings: Settings
    owner: Owner


class Configure(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Serve with this config from now on."""

    digest: str
    config: Config
    problems: tuple[Problem, ...] = ()


class Leave(msgspec.Struct, frozen=True, tag=True):
    """Tell health checks that this address is on its way out; go on serving."""


class Close(msgspec.Struct, frozen=True, tag=True):
    """Take no further client requests, and tell often how many of those in flight may still see an attempt."""


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Finish what is open within ``grace`` seconds, cut the rest, end. May be said again with less."""

    grace: float


class Shed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Have so many connections end when their streams have, so that they come back to another worker."""

    connections: int


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Report now."""

    number: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker can be handed connections."""


class Configured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A config is in use."""

    digest: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A config cannot be used; the one before stays."""

    digest: str
    reason: str


class Counts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is open in a worker.

    Attributes:
        gone: connections of all that it was ever handed that are closed.
        in_flight: client requests.
        awaiting_response: those of them that may still see another attempt.
        closed: the order to take no further client requests was followed.
    """

    gone: int = 0
    in_flight: int = 0
    awaiting_response: int = 0
    closed: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of a worker's metrics.

    Attributes:
        metrics: the part.
        ended: for the ledger, in the last part: what has ended since the last report. The worker keeps none of it.
        number: that of the question; 0 for a report without one.
        more: further parts of the same report follow.
    """

    metrics: Snapshot
    ended: list[Slot] = []
    number: int = 0
    more: bool = True


Order: TypeAlias = Start | Configure | Leave | Close | Stop | Shed | Ask
Answer: TypeAlias = Ready | Configured | Refused | Counts | Report


def _reveal(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_reveal)
# Typed unions of structs, which type checkers do not take as a type.
ORDERS: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Order, dec_hook=dec_hook)
ANSWERS: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Answer)


def framed(message: Order | Answer) -> bytes:
    """A message as it travels. NB: secrets are in it as they are."""
    content = _ENCODER.encode(message)
    return _LENGTH.pack(len(content)) + content


class Channel:
    """One end of a channel.

    Args:
        reader: where messages come from.
        writer: where they go.
        decoder: of the messages that come, ``ORDERS`` or ``ANSWERS``.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: msgspec.msgpack.Decoder[Any]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @classmethod
    async def on(cls, end: socket.socket, decoder: msgspec.msgpack.Decoder[Any]) -> Channel:
        """The channel on one end of a socket pair, which it closes with itself."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer, decoder)

    def send(self, message: Order | Answer) -> None:
        """Send; without effect when the other process is gone."""
        self.send_framed(framed(message))

    def send_framed(self, data: bytes) -> None:
        """Send a message that goes to several."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def receive(self) -> Any:  # noqa: ANN401 - a union of what the other end may say
        """The next message; None when there will be none."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return self._decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def close(self) -> None:
        """Send what was said, and close."""
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except OSError:
            # The other process is gone; there is nobody to tell.
            self._writer.close()

"""The events of a ConverseStream answer, as readers for every client API find them (contract, chat 8.6)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Container, Sequence

import msgspec
from msgspec import Struct

from extproc.formats.eventstream import EventMessage


class ConverseEvent(Struct, frozen=True, rename="camel"):
    """The members of all events; those of a wrong type count as absent, and the padding ``p`` says nothing."""

    event_type: object = None
    role: object = None
    content_block_index: object = None
    start: object = None
    delta: object = None
    stop_reason: object = None
    usage: object = None
    service_tier: object = None

    @property
    def key(self) -> object:
        """What tells its block from others: the index, where there is one."""
        return self.content_block_index if isinstance(self.content_block_index, int) else None

    def kind(self, message: EventMessage) -> str:
        """What it is called: by itself, else by the message that it came in."""
        return self.event_type if isinstance(self.event_type, str) and self.event_type else message.event_type


class UnreadableEvent(Exception):
    """An event that must be understood cannot be read; the text says why."""


_decode = msgspec.json.Decoder(ConverseEvent).decode


def read_event(message: EventMessage, known: Container[str]) -> ConverseEvent | None:
    """The event in a message; ``None`` for one that is not ``known``, which may have a payload that is not.

    Raises:
        UnreadableEvent: one that is known has another payload.
    """
    try:
        return _decode(message.payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        if message.event_type not in known:
            return None
        raise UnreadableEvent(f"an event {message.event_type} cannot be read: {error}") from error


def joined_base64(pieces: Sequence[str]) -> str:
    """The base64 of all pieces in a row; pieces that are no base64 are left as they are."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return b64encode(b"".join(b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)

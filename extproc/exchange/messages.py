"""Messages from Envoy as the exchange sees them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from extproc.exchange.headers import HeaderDict


class Envelope(Struct, frozen=True):
    """What is the same for many messages, beside the headers or the body that each brings.

    Attributes:
        kind: the member of ``ProcessingRequest`` that is set, or empty.
        end_of_stream: nothing of its request or response follows.
        observed: Envoy wants no reply.
        attributes: encoded, by the name of the filter that sends them.
        metadata: the dynamic metadata that Envoy forwards, encoded.
        protocol: a ``ProtocolConfiguration``, encoded.
    """

    kind: str
    end_of_stream: bool = False
    observed: bool = False
    attributes: Mapping[str, bytes] = {}
    metadata: bytes = b""
    protocol: bytes = b""


class Message(Struct, gc=False):
    """One message.

    Attributes:
        headers: of a message with headers; they are the reader's to change.
        body: of a message with a piece of a body.
    """

    envelope: Envelope
    headers: HeaderDict
    body: bytes

    # What it says is not for logs.
    __repr__ = object.__repr__

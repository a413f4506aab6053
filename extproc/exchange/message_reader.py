"""Reads messages from Envoy.

The wire library makes an object of each message, and of each part that is looked at, which takes longer than to read
them. Nearly every message is spared that: a body is cut out of its message, and headers are read as earlier ones were
(``message_forms``). Any other message is decoded by the library, to the same result.
"""

from __future__ import annotations

from typing import Final

from extproc.exchange.decode import decode
from extproc.exchange.headers import read_headers
from extproc.exchange.message_forms import MessageForms
from extproc.exchange.messages import Envelope, Message
from protos.ext_proc_pb2 import HttpBody, HttpHeaders, ProcessingRequest

# ProcessingRequest: by the first octet of the field, a body's kind, and its envelope before the last piece and with it.
_BODIES: Final = {
    tag: (Envelope(kind), Envelope(kind, end_of_stream=True))
    for tag, kind in ((b"\x22", "request_body"), (b"\x2a", "response_body"))
}
_BODY: Final = 0x0A
_END_OF_STREAM: Final = b"\x10\x01"
# Envoy says so in every message.
_NO_METADATA: Final = b"\x42\x00"

_forms: Final = MessageForms()


def read_message(data: bytes) -> Message:
    """Read a ``ProcessingRequest``.

    Raises:
        StreamFailure: it, or a header in it, cannot be decoded.
    """
    envelopes = _BODIES.get(data[:1])
    message = _forms.read(data) if envelopes is None else _read_body(data, envelopes)
    return _decode(data) if message is None else message


def _read_body(data: bytes, envelopes: tuple[Envelope, Envelope]) -> Message | None:
    """A message that says nothing else than a piece of a body, in the order of its fields; ``None`` for any other."""
    try:
        size, start = _read_size(data, 1)
        last = start + size
        if (last != len(data) and data[last:] != _NO_METADATA) or data[start] != _BODY:
            return None
        size, start = _read_size(data, start + 1)
    except IndexError:
        return None
    end = start + size
    if end == last:
        return Message(envelopes[0], {}, data[start:end])
    return Message(envelopes[1], {}, data[start:end]) if data[end:last] == _END_OF_STREAM else None


def _read_size(data: bytes, at: int) -> tuple[int, int]:
    """A size and where it ends.

    Raises:
        IndexError: it does not end, or has more than three octets: that is left to the library.
    """
    size = data[at]
    if size < 0x80:
        return size, at + 1
    second = data[at + 1]
    if second < 0x80:
        return size - 0x80 + (second << 7), at + 2
    third = data[at + 2]
    if third < 0x80:
        return size - 0x4080 + (second << 7) + (third << 14), at + 3
    raise IndexError


def _decode(data: bytes) -> Message:
    request = decode(ProcessingRequest, data)
    kind = request.WhichOneof("request") or ""
    part = getattr(request, kind, None)
    envelope = Envelope(
        kind,
        end_of_stream=getattr(part, "end_of_stream", False),
        observed=request.observability_mode,
        attributes=dict(request.attributes),
        metadata=request.metadata_context,
        protocol=request.protocol_config,
    )
    if not isinstance(part, HttpHeaders):
        return Message(envelope, {}, part.body if isinstance(part, HttpBody) else b"")
    headers, listed = read_headers(part.headers)
    plain = len(headers) == len(listed)
    if plain and _forms.wants(data, listed) and request.SerializeToString(deterministic=True) == data:
        _forms.learn(data, envelope, part.headers, listed)
    return Message(envelope, headers, b"")

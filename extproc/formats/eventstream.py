"""Reads AWS event streams (``application/vnd.amazon.eventstream``) as bytes, however the bytes are cut.

A message is a prelude of twelve bytes, headers, a payload and a checksum (contract, chat 8.6.1). Only a checksum can
tell a message that is still to come from one that is broken, so the prelude is checked as soon as it is there: a
length that cannot be right is never waited for. After a fault nothing can be read any more, as no message says where
the next one begins; the messages before it have been returned.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final
from zlib import crc32

import msgspec

MAX_HEADERS_BYTES: Final = 128 * 1024
"""A longer block of headers breaks the rules of the format."""

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
_OVERHEAD: Final = _PRELUDE.size + _CHECKSUM.size
# Longer blocks of headers are read anew each time, so that what is remembered stays small.
_REMEMBERED_HEADERS_BYTES: Final = 512


class EventMessage(msgspec.Struct, frozen=True, gc=False):
    """One message.

    Attributes:
        headers: values as text, whatever their type: integers and timestamps (milliseconds) in decimal, byte arrays
            in base64, UUIDs in their usual form.
    """

    headers: Mapping[str, str]
    payload: bytes

    @property
    def message_type(self) -> str:
        """``event``, ``exception`` or ``error``; a message that does not say is an event."""
        return self.headers.get(":message-type", "event")

    @property
    def event_type(self) -> str:
        """The name of the event; empty when it has none."""
        return self.headers.get(":event-type", "")

    @property
    def exception_type(self) -> str:
        """The name of the exception, for messages of that type; empty when it has none."""
        return self.headers.get(":exception-type", "")


class EventStreamReader:
    """Cuts a stream into messages. It never raises; what is wrong with a stream is in ``fault``.

    Args:
        max_message_bytes: a message that announces more is a fault; the default is the limit of the format.

    Attributes:
        fault: why reading has stopped for good; empty while all is well. Messages that were whole before the fault
            are returned by the very ``feed`` that sets it, and later ones return nothing.
    """

    __slots__ = ("_max", "_tail", "_wanted", "fault")

    def __init__(self, max_message_bytes: int = 24 * 1024 * 1024) -> None:
        self.fault = ""
        self._max = max_message_bytes
        self._tail = bytearray()
        # Fewer bytes than these decide nothing, so a message in many pieces is not looked at for each of them.
        self._wanted = _PRELUDE.size

    @property
    def pending(self) -> int:
        """Bytes that wait for the end of their message; more than none at the end of a stream: it was cut off."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[EventMessage]:
        """The messages that ``data`` completes."""
        if self.fault:
            return []
        if self._tail:
            self._tail += data
            if len(self._tail) < self._wanted:
                return []
            data = bytes(self._tail)
            self._tail.clear()
        messages: list[EventMessage] = []
        try:
            position = self._split(data, messages)
        except _BrokenMessageError as error:
            self.fault = str(error)
        else:
            self._tail += data[position:]
        return messages

    def _split(self, data: bytes, messages: list[EventMessage]) -> int:
        """Append the messages that are whole, and return where the first begins that is not."""
        position, size = 0, len(data)
        while size - position >= _PRELUDE.size:
            length, headers_length = self._prelude(data, position)
            end = position + length
            if end > size:
                self._wanted = length
                return position
            messages.append(_message(data, position, end, headers_length))
            position = end
        self._wanted = _PRELUDE.size
        return position

    def _prelude(self, data: bytes, position: int) -> tuple[int, int]:
        """Lengths of the message and of its headers."""
        length, headers_length, checksum = _PRELUDE.unpack_from(data, position)
        if crc32(data[position : position + 8]) != checksum:
            raise _BrokenMessageError("the checksum of a message's prelude is wrong")
        if headers_length > MAX_HEADERS_BYTES or length < headers_length + _OVERHEAD:
            raise _BrokenMessageError(f"a message of {length} bytes with headers of {headers_length} cannot be")
        if length > self._max:
            raise _BrokenMessageError(f"a message of {length} bytes is over the limit of {self._max}")
        return length, headers_length


class _BrokenMessageError(Exception):
    """The text is the fault."""


def _message(data: bytes, position: int, end: int, headers_length: int) -> EventMessage:
    body_end = end - _CHECKSUM.size
    if crc32(data[position:body_end]) != _CHECKSUM.unpack_from(data, body_end)[0]:
        raise _BrokenMessageError("the checksum of a message is wrong")
    payload = position + _PRELUDE.size + headers_length
    raw = data[position + _PRELUDE.size : payload]
    # The messages of one stream share a handful of different blocks of headers.
    read = _read_headers if headers_length > _REMEMBERED_HEADERS_BYTES else _remembered_headers
    return EventMessage(read(raw), data[payload:body_end])


# Types of header values: how many bytes one takes, and how they become text.
_FIXED: Final[Mapping[int, tuple[int, Callable[[bytes], str]]]] = {
    0: (0, lambda _: "true"),
    1: (0, lambda _: "false"),
    2: (1, lambda raw: str(int.from_bytes(raw, signed=True))),
    3: (2, lambda raw: str(int.from_bytes(raw, signed=True))),
    4: (4, lambda raw: str(int.from_bytes(raw, signed=True))),
    5: (8, lambda raw: str(int.from_bytes(raw, signed=True))),
    8: (8, lambda raw: str(int.from_bytes(raw, signed=True))),
    9: (16, lambda raw: str(uuid.UUID(bytes=raw))),
}
# Those whose value begins with its length, in two bytes.
_SIZED: Final[Mapping[int, Callable[[bytes], str]]] = {
    6: lambda raw: base64.b64encode(raw).decode(),
    7: bytes.decode,
}


def _read_headers(raw: bytes) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    position = 0
    try:
        while position < len(raw):
            name_end = position + 1 + raw[position]
            name = raw[position + 1 : name_end].decode()
            kind, value_at = raw[name_end], name_end + 1
            if kind in _SIZED:
                size, convert = int.from_bytes(raw[value_at : value_at + 2]), _SIZED[kind]
                value_at += 2
            else:
                size, convert = _FIXED[kind]
            position = value_at + size
            if position > len(raw) or not name or name in headers:
                raise _BrokenMessageError("the headers of a message cannot be read")
            headers[name] = convert(raw[value_at:position])
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise _BrokenMessageError("the headers of a message cannot be read") from error
    return headers


_remembered_headers = lru_cache(maxsize=64)(_read_headers)

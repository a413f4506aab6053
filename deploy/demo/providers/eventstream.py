"""Amazon's binary event stream: frames with two checksums (vnd.amazon.eventstream; contract, chat 8.6.1)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from deploy.demo.providers.service import document

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_PRELUDE: Final = struct.Struct("!II")
_CRC: Final = struct.Struct("!I")
_STRING: Final = 7
_FRAME_OVERHEAD: Final = 16
_PADDING: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message: prelude and its checksum, headers, payload, checksum of all before it."""
    block = b"".join(_header(name, value) for name, value in headers.items())
    prelude = _PRELUDE.pack(_FRAME_OVERHEAD + len(block) + len(payload), len(block))
    message = prelude + _CRC.pack(zlib.crc32(prelude)) + block + payload
    return message + _CRC.pack(zlib.crc32(message))


def event_frame(name: str, payload: Mapping[str, Any]) -> bytes:
    """An event, padded with a member ``p`` so that its length does not give away its text."""
    padding = _PADDING[: 1 + zlib.crc32(document(payload)) % len(_PADDING)]
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, document({**payload, "p": padding}))


def exception_frame(name: str, message: str) -> bytes:
    """An exception, as ``throttlingException``: the stream is over."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, document({"message": message}))


def _header(name: str, value: str) -> bytes:
    key, data = name.encode(), value.encode()
    return bytes([len(key)]) + key + struct.pack("!BH", _STRING, len(data)) + data

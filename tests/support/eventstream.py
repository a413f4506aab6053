"""Writes AWS event streams, so that tests can say what a backend sends. Shares no code with the reader."""

from __future__ import annotations

import json
from binascii import crc32

_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message; all header values are strings."""
    block = b"".join(
        len(name.encode()).to_bytes(1, "big")
        + name.encode()
        + b"\x07"
        + len(value.encode()).to_bytes(2, "big")
        + value.encode()
        for name, value in headers.items()
    )
    return raw_frame(block, payload)


def raw_frame(headers: bytes, payload: bytes) -> bytes:
    """One message with this block of headers, right or wrong."""
    prelude = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + headers + payload
    return message + crc32(message).to_bytes(4, "big")


def event(kind: str, payload: object, *, padding: int = 11) -> bytes:
    """An event as Bedrock frames it: JSON with padding under ``p``, which hides the length of what is said.

    A payload of bytes stands as it is, and padding of length 0 is none.
    """
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, payload if isinstance(payload, bytes) else _padded(payload, padding))


def exception(kind: str, payload: object) -> bytes:
    """An exception that the service reports within a stream."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, payload if isinstance(payload, bytes) else json.dumps(payload).encode())


def error(code: str, message: str) -> bytes:
    """An error of the framing: all is in the headers."""
    return frame({":error-code": code, ":error-message": message, ":message-type": "error"}, b"")


def _padded(payload: object, padding: int) -> bytes:
    if padding and isinstance(payload, dict):
        payload = {**payload, "p": _ALPHABET[:padding]}
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()

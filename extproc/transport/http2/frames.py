"""Frames on the wire (RFC 9113, 4 and 6), and the two kinds of errors."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_SIZE: Final = 9
MAX_STREAM_ID: Final = 2**31 - 1
MAX_WINDOW: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535
SMALLEST_MAX_FRAME: Final = 2**14
LARGEST_MAX_FRAME: Final = 2**24 - 1

# Length and type in one number, flags, stream id: one call reads or writes the header of a frame.
FRAME: Final = Struct(">LBL")
WORD: Final = Struct(">L")
TWO_WORDS: Final = Struct(">LL")
SETTING: Final = Struct(">HL")

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20


class ErrorCode(IntEnum):
    """RFC 9113, 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionFault(Exception):
    """The connection has to end with GOAWAY (RFC 9113, 5.4.1). ``reason`` is sent along for whoever debugs the peer."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """One stream has to end with RST_STREAM (RFC 9113, 5.4.2)."""

    def __init__(self, stream_id: int, code: ErrorCode) -> None:
        super().__init__(stream_id, code)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return FRAME.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def rst_stream(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, WORD.pack(code))


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, WORD.pack(increment))


def goaway(last_stream_id: int, code: int, reason: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, TWO_WORDS.pack(last_stream_id, code) + reason.encode())

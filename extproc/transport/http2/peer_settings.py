"""The SETTINGS of a peer (RFC 9113, 6.5), as far as a server that pushes nothing has to heed them."""

from __future__ import annotations

from typing import Final

from extproc.transport.http2.frames import (
    DEFAULT_WINDOW,
    LARGEST_MAX_FRAME,
    MAX_WINDOW,
    SETTING,
    SMALLEST_MAX_FRAME,
    ConnectionFault,
    ErrorCode,
)

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

_DEFAULT_TABLE: Final = 4096
# Setting → the values that it may have, and the error for any other (RFC 9113, 6.5.2).
_RANGES: Final = {
    ENABLE_PUSH: (0, 1, ErrorCode.PROTOCOL_ERROR),
    INITIAL_WINDOW_SIZE: (0, MAX_WINDOW, ErrorCode.FLOW_CONTROL_ERROR),
    MAX_FRAME_SIZE: (SMALLEST_MAX_FRAME, LARGEST_MAX_FRAME, ErrorCode.PROTOCOL_ERROR),
}


class PeerSettings:
    """What the peer wants of us.

    Attributes:
        initial_window: bytes that a new stream of ours may send at first.
        max_frame_size: largest payload that the peer takes.
        table_shrunk: the peer lowered the size of its dynamic table, which the next header block has to confirm
            (RFC 7541, 4.2); whoever sends that block sets it back.
    """

    __slots__ = ("_table_size", "initial_window", "max_frame_size", "table_shrunk")

    def __init__(self) -> None:
        self.initial_window = DEFAULT_WINDOW
        self.max_frame_size = SMALLEST_MAX_FRAME
        self.table_shrunk = False
        self._table_size = _DEFAULT_TABLE

    def apply(self, payload: bytes) -> int:
        """Take the settings of a frame over; by how much the initial window changes.

        Raises:
            ConnectionFault: a value is out of range. Settings this class does not know are ignored.
        """
        before = self.initial_window
        for setting, value in SETTING.iter_unpack(payload):
            low, high, error = _RANGES.get(setting, (0, value, ErrorCode.NO_ERROR))
            if not low <= value <= high:
                raise ConnectionFault(error, f"setting {setting} out of range")
            if setting == INITIAL_WINDOW_SIZE:
                self.initial_window = value
            elif setting == MAX_FRAME_SIZE:
                self.max_frame_size = value
            elif setting == HEADER_TABLE_SIZE:
                self.table_shrunk |= value < self._table_size
                self._table_size = value
        return self.initial_window - before

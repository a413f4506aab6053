"""Received bytes → frames (RFC 9113, 3.4 and 4), each handed on where it lies, and header blocks put together.

The bytes of a read are looked at once. Only what is left of an incomplete frame is kept, and no object is made for a
frame: its handler gets the flags, the stream id, and where in the bytes its payload is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from extproc.transport.http2.frames import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    FRAME,
    HAS_PRIORITY,
    HEADER_SIZE,
    HEADERS,
    MAX_STREAM_ID,
    PADDED,
    PREFACE,
    SETTINGS,
    ConnectionFault,
    ErrorCode,
    StreamFault,
)
from extproc.transport.http2.limits import Limits

# Flags, stream id, the bytes of the read, start and end of the payload in them.
FrameHandler = Callable[[int, int, bytes, int, int], None]


class BlockHandler(Protocol):
    """Takes a header block that is complete."""

    def __call__(self, stream_id: int, block: bytes, *, end_stream: bool) -> None: ...


@dataclass(slots=True)
class _OpenBlock:
    """A header block of which frames are missing."""

    stream_id: int
    end_stream: bool
    data: bytearray
    continuations: int = 0


class FrameReader:
    """Reads what one client sends.

    Args:
        limits: how large frames and header blocks may be.
        handlers: by type, for all that RFC 9113 defines but HEADERS and CONTINUATION.
        on_block: takes what comes in those.
        on_unknown: told of a frame of another type.
        on_stream_fault: told when a handler raised ``StreamFault``.

    Attributes:
        started: preface and the head of the first SETTINGS are there.
        stopped: set to read no further.
    """

    __slots__ = (
        "_block",
        "_handlers",
        "_limits",
        "_missing",
        "_on_block",
        "_on_stream_fault",
        "_on_unknown",
        "_tail",
        "started",
        "stopped",
    )

    def __init__(
        self,
        limits: Limits,
        *,
        handlers: Mapping[int, FrameHandler],
        on_block: BlockHandler,
        on_unknown: Callable[[], None],
        on_stream_fault: Callable[[StreamFault], None],
    ) -> None:
        self.started = self.stopped = False
        self._limits = limits
        ours = {HEADERS: self._on_headers, CONTINUATION: self._on_continuation}
        # By the number of the type, without a gap.
        self._handlers: Final = tuple(handler for _, handler in sorted({**handlers, **ours}.items()))
        self._on_block = on_block
        self._on_unknown = on_unknown
        self._on_stream_fault = on_stream_fault
        self._block: _OpenBlock | None = None
        self._tail = bytearray()
        self._missing = len(PREFACE) + HEADER_SIZE

    def feed(self, data: bytes) -> None:
        """Handle the frames that are complete.

        Raises:
            ConnectionFault: as a handler does, or because there are no frames in these bytes.
        """
        position = 0
        while self._tail or not self.started:
            # Complete just the frame that was cut, so that the rest of the read need not be copied.
            cut = position + self._missing - len(self._tail)
            self._tail += memoryview(data)[position:cut]
            position = cut
            if position > len(data):
                self._check_preface()
                return
            frame = bytes(self._tail)
            self._tail.clear()
            self._frames(frame, 0 if self.started else self._begin(frame))
            if self.stopped:
                return
        self._frames(data, position)

    def _frames(self, data: bytes, position: int) -> None:
        size = len(data)
        unpack, handlers, known = FRAME.unpack_from, self._handlers, len(self._handlers)
        largest = self._limits.max_frame_size
        while size - position >= HEADER_SIZE and not self.stopped:
            word, flags, stream_id = unpack(data, position)
            kind = word & 0xFF
            start = position + HEADER_SIZE
            stop = start + (word >> 8)
            if stop - start > largest:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "frame too large")
            if stop > size:
                self._keep(data, position, stop - position)
                return
            if self._block is not None and kind != CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "frame within a header block")
            position = stop
            try:
                if kind < known:
                    handlers[kind](flags, stream_id & MAX_STREAM_ID, data, start, stop)
                else:
                    self._on_unknown()
            except StreamFault as fault:
                self._on_stream_fault(fault)
        if position < size:
            self._keep(data, position, HEADER_SIZE)

    def _begin(self, data: bytes) -> int:
        """Where the first frame starts in what begins a connection: its preface and the head of that frame."""
        position = len(PREFACE)
        if not data.startswith(PREFACE):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface")
        # RFC 9113, 3.4: SETTINGS is the first frame.
        if data[position + 3] != SETTINGS or data[position + 4] & ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no SETTINGS after the preface")
        self.started = True
        return position

    def _check_preface(self) -> None:
        """Refuse what is not HTTP/2 as soon as it shows."""
        if not self.started and not PREFACE.startswith(self._tail[: len(PREFACE)]):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface")

    def _keep(self, data: bytes, position: int, missing: int) -> None:
        self._tail += memoryview(data)[position:]
        self._missing = missing

    def _on_headers(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS on a stream that is not a client's")
        if flags & PADDED:
            start, stop = without_padding(data, start, stop)
        if flags & HAS_PRIORITY:
            start += 5
            if start > stop:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short")
        if stop - start > self._limits.max_header_block:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header block too large")
        end_stream = bool(flags & END_STREAM)
        if flags & END_HEADERS:
            self._on_block(stream_id, data[start:stop], end_stream=end_stream)
        else:
            self._block = _OpenBlock(stream_id, end_stream, bytearray(data[start:stop]))

    def _on_continuation(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION out of place")
        block.continuations += 1
        block.data += memoryview(data)[start:stop]
        if block.continuations > self._limits.max_continuations or len(block.data) > self._limits.max_header_block:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header block too large")
        if flags & END_HEADERS:
            self._block = None
            self._on_block(stream_id, bytes(block.data), end_stream=block.end_stream)


def without_padding(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the content of a padded frame is (RFC 9113, 6.1)."""
    if start == stop:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padded frame without a length of the padding")
    padding = data[start]
    if padding >= stop - start:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return start + 1, stop - padding

r"""Reads and writes server-sent events (WHATWG HTML, "Server-sent events") as bytes, however the bytes are cut.

The reader loses nothing: the ``raw`` of all events and the pending bytes, joined, are the input. An event here is a
block: lines up to and including a blank one, so a comment or a stray blank line is an event without data. Where a
block ends depends on the bytes alone, never on the cut:

- LF, CRLF and CR end a line, and a blank line ends the block with its whole line end.
- A CR at the end of what has come may be half of a CRLF, so its block waits for the next byte, or for `flush`.
- A CR directly after a CR is not waited for, or a stream with CR line ends would always be one event late. Should an
  LF follow, it is a block of its own without data.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_BOM: Final = b"\xef\xbb\xbf"
# As numbers: `in` finds a number in bytes several times faster than it finds bytes.
_LF: Final = ord("\n")
_CR: Final = ord("\r")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# The end of a line that is not blank, and a blank line; and a blank line where a block begins.
_BLOCK_END: Final = re.compile(rb"\n(?:\n|\r\n|\r(?=[^\n]))|\r\r")
_BLANK_LINE: Final = re.compile(rb"\n|\r\n|\r(?=[^\n])")
# Of a block's end, so many bytes may stand at the end of the tail and the rest be still to come.
_PARTIAL_END: Final = 2


class SSEEvent(msgspec.Struct, frozen=True, gc=False):
    """One event, or another block of the stream.

    Attributes:
        raw: the exact bytes, line ends included.
        data: the values of the data lines, joined by LF; empty when there are none.
        event: the value of the last event line; ``None`` when there is none.
    """

    raw: bytes
    data: bytes = b""
    event: bytes | None = None


class SSEReader:
    """Cuts a stream into events.

    Args:
        max_event_bytes: a longer event is not held until it ends, but returned as it comes, in events without data;
            `overflow` is then true. Reading goes on after its end.
    """

    __slots__ = ("_after_cr", "_has_cr", "_max", "_scanned", "_skipped_end", "_skipping", "_start", "_tail", "overflow")

    def __init__(self, max_event_bytes: int = 16 * 1024 * 1024) -> None:
        self.overflow = False
        self._max = max_event_bytes
        self._reset(start=True)

    def _reset(self, *, start: bool) -> None:
        self._tail = bytearray()
        # The tail up to here holds no end, and whether a CR is in the tail: a byte is not searched twice.
        self._scanned = 0
        self._has_cr = False
        # Whether a byte order mark may come, and whether the last block ended in CR.
        self._start = start
        self._after_cr = False
        # Inside of an event that is too long, and the last bytes of it that have gone on.
        self._skipping = False
        self._skipped_end = b""

    @property
    def pending(self) -> int:
        """Bytes that wait for the end of their event."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[SSEEvent]:
        """The events that ``data`` completes."""
        tail = self._tail
        if self._skipping:
            return self._skip(data)
        if not tail:
            if (
                # The most usual piece is one event, and an event of one line is usual.
                data.startswith(b"data: ")
                and data.find(b"\n") == len(data) - 2
                and data.endswith(b"\n")
                and _CR not in data
                and len(data) <= self._max
            ):
                self._start = self._after_cr = False
                return [SSEEvent(data, data[6:-2])]
            if (
                # The same with CRLF, as Google's streams have it.
                data.endswith(b"\r\n\r\n")
                and data.startswith(b"data: ")
                and data.find(b"\r") == len(data) - 4
                and data.find(b"\n") == len(data) - 3
                and len(data) <= self._max
            ):
                self._start = self._after_cr = False
                return [SSEEvent(data, data[6:-4])]
            return self._split(data)
        tail += data
        self._has_cr = self._has_cr or _CR in data
        if self._has_cr or self._start:
            ended = self._block_end(tail, 0, self._scanned) >= 0
        else:
            ended = tail.find(b"\n\n", self._scanned) >= 0
        if ended:
            whole = bytes(tail)
            tail.clear()
            return self._split(whole)
        return self._keep([])

    def flush(self) -> list[SSEEvent]:
        """The stream has ended: its last event counts without its end. The reader is ready for another stream."""
        begin = self._begin(self._tail, 0)
        raw = self.take_pending()
        self._reset(start=True)
        return [_parse(raw, begin)] if raw else []

    def take_pending(self) -> bytes:
        """Give up the pending bytes; what comes next is read as the begin of an event."""
        raw = bytes(self._tail)
        self._reset(start=self._start and not raw)
        return raw

    def _split(self, data: bytes) -> list[SSEEvent]:
        if self._start and not _BOM.startswith(data[:1]):
            self._start = False
        if _CR in data or self._after_cr or self._start or len(data) > self._max:
            return self._split_any(data)
        # Almost every stream: only LF, and events of one data line.
        events: list[SSEEvent] = []
        position = 0
        while True:
            if data.startswith(b"\n", position):
                end = position + 1
            elif (end := data.find(b"\n\n", position) + 2) == 1:
                break
            raw = data[position:end]
            if raw.startswith(b"data: ") and raw.find(b"\n") == end - position - 2:
                events.append(SSEEvent(raw, raw[6:-2]))
            elif (
                raw.startswith(b"event: ")
                and raw.startswith(b"data: ", (line := raw.find(b"\n") + 1))
                and raw.find(b"\n", line) == end - position - 2
            ):
                events.append(SSEEvent(raw, raw[line + 6 : -2], raw[7 : line - 1]))
            else:
                events.append(_parse(raw, 0))
            position = end
        if position < len(data):
            self._tail += data[position:]
            return self._keep(events)
        return events

    def _split_any(self, data: bytes) -> list[SSEEvent]:
        events: list[SSEEvent] = []
        position = 0
        while (end := self._block_end(data, position, position)) >= 0:
            if end - position > self._max:
                self.overflow = True
                events.append(SSEEvent(data[position:end]))
            else:
                events.append(_parse(data[position:end], self._begin(data, position) - position))
            self._start, self._after_cr = False, data[end - 1] == _CR
            position = end
        self._tail += data[position:]
        self._has_cr = _CR in self._tail
        return self._keep(events)

    def _keep(self, events: list[SSEEvent]) -> list[SSEEvent]:
        """Leave the tail for later, unless it is too long."""
        self._scanned = max(0, len(self._tail) - _PARTIAL_END)
        if len(self._tail) > self._max:
            self.overflow = True
            raw = self.take_pending()
            self._skipping, self._skipped_end = True, raw[-_PARTIAL_END:]
            events.append(SSEEvent(raw))
        return events

    def _skip(self, data: bytes) -> list[SSEEvent]:
        """Pass on the rest of an event that is too long, and read on after its end."""
        window = self._skipped_end + data
        match = _BLOCK_END.search(window)
        if match is None:
            self._skipped_end = window[-_PARTIAL_END:]
            return [SSEEvent(data)] if data else []
        end = match.end() - len(self._skipped_end)
        self._reset(start=False)
        self._after_cr = window[match.end() - 1] == _CR
        rest = self.feed(data[end:])
        return [SSEEvent(data[:end]), *rest] if end else rest

    def _begin(self, data: bytes | bytearray, position: int) -> int:
        """Where the first line of the block at ``position`` begins."""
        return position + len(_BOM) if self._start and data.startswith(_BOM, position) else position

    def _block_end(self, data: bytes | bytearray, position: int, scanned: int) -> int:
        """Just after the block that begins at ``position``, or -1 when its end is not there yet."""
        begin = self._begin(data, position)
        if self._after_cr and data.startswith(b"\r", begin):
            return begin + 1
        match = _BLANK_LINE.match(data, begin) or _BLOCK_END.search(data, max(begin, scanned))
        return match.end() if match else -1


def encode_event(data: bytes, event: bytes | None = None) -> bytes:
    """One event in its usual form: ``data: `` lines, after the event's name when it has one.

    Raises:
        ValueError: the name holds a line end.
    """
    lines = b"\ndata: ".join(_LINE_END.split(data)) if _LF in data or _CR in data else data
    if event is None:
        return b"data: %b\n\n" % lines
    if _LINE_END.search(event):
        raise ValueError("the name of an event holds a line end")
    return b"event: %b\ndata: %b\n\n" % (event, lines)


def _parse(raw: bytes, begin: int) -> SSEEvent:
    """Read the fields of a block; its first line begins at ``begin``."""
    data: list[bytes] = []
    event: bytes | None = None
    # For bytes, `splitlines` knows exactly the three line ends of the format.
    for line in (raw[begin:] if begin else raw).splitlines():
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    return SSEEvent(raw, b"\n".join(data), event)

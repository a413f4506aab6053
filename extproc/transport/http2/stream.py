"""One stream of a connection: its states, its two windows, and the output that waits for one of them.

Output goes out at once, in one frame, where the windows and the peer's frame size allow; that is nearly always. What
cannot go waits in the stream, in order, the last header block behind it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from extproc.transport.http2.application import SILENT, Handler
from extproc.transport.http2.deadlines import Deadlines
from extproc.transport.http2.frames import DATA, DEFAULT_WINDOW, END_HEADERS, END_STREAM, FRAME, HEADERS
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.peer_settings import PeerSettings

# RFC 7541, 6.3: our table is empty for good. We never insert, so saying it once more than needed does no harm.
_TABLE_SIZE_ZERO = b"\x20"


class Output:
    """What all streams of a connection share for sending.

    Attributes:
        chunks: bytes that may go out now.
        load: bytes that wait: ``chunks`` and what the windows hold back in the streams.
        window: bytes that the peer takes over all streams (RFC 9113, 6.9).
        data_frames: DATA frames sent so far.
        messages: messages that the application has handled so far.
        limits: how much output may wait.
        blocked: streams with output that only the window of the connection holds back, the next to be served first.
        deadlines: of streams that have asked for one.
        over: called when a stream has sent its last frame.
    """

    __slots__ = (
        "blocked",
        "chunks",
        "data_frames",
        "deadlines",
        "limits",
        "load",
        "messages",
        "over",
        "peer",
        "window",
    )

    def __init__(
        self, peer: PeerSettings, deadlines: Deadlines, limits: Limits, over: Callable[[Stream], None]
    ) -> None:
        self.peer = peer
        self.deadlines = deadlines
        self.limits = limits
        self.over = over
        self.chunks: list[bytes] = []
        self.load = 0
        self.window = DEFAULT_WINDOW
        self.data_frames = self.messages = 0
        self.blocked: OrderedDict[int, Stream] = OrderedDict()

    def write(self, data: bytes) -> None:
        """Send a frame that is not subject to flow control."""
        self.chunks.append(data)
        self.load += len(data)

    def take(self) -> bytes:
        """Everything that may go out now, which is then forgotten."""
        if not self.chunks:
            return b""
        data = b"".join(self.chunks)
        self.chunks.clear()
        self.load -= len(data)
        return data


class Stream:
    """A stream that is open, or half-closed on one side. It is a ``Responder``.

    Attributes:
        handler: who takes what is received.
        receive_window: bytes that the client may still send.
        send_window: bytes that we may still send; negative when the client lowered its initial window meanwhile.
        content_left: bytes of content still to come by ``content-length``, or None where the client did not say.
        receiving: the client has not ended its side.
        sending: the application has not ended its side.
        used: a message of it was handled.
        queued: bytes that wait for a window.
        held: received bytes that must wait until the peer has taken output; None when none are held.
    """

    __slots__ = (
        "_last_block",
        "_output",
        "_pending",
        "content_left",
        "handler",
        "held",
        "id",
        "queued",
        "receive_window",
        "receiving",
        "send_window",
        "sending",
        "used",
    )

    def __init__(self, stream_id: int, output: Output, receive_window: int, content_left: int | None) -> None:
        self.id = stream_id
        self.handler: Handler = SILENT
        self.receive_window = receive_window
        self.send_window = output.peer.initial_window
        self.content_left = content_left
        self.receiving = self.sending = True
        self.used = False
        self.queued = 0
        self.held: bytearray | None = None
        self._output = output
        self._pending: bytearray | None = None
        self._last_block = b""

    @property
    def full(self) -> bool:
        limits = self._output.limits
        return self._output.load >= limits.output_bytes or self.queued >= limits.stream_output_bytes

    # The sending half, for the application

    def handled(self) -> None:
        self._output.messages += 1
        self.used = True

    def headers(self, block: bytes, *, end: bool = False) -> None:
        if not self.sending:
            return
        if not end:
            self._write_headers(block, END_HEADERS)
            return
        self.sending = False
        self.handler = SILENT
        if self._pending is not None:
            self._last_block = block
            return
        self._write_headers(block, END_HEADERS | END_STREAM)
        self._output.over(self)

    def data(self, data: bytes) -> None:
        if not self.sending:
            return
        size = len(data)
        output = self._output
        if (
            self._pending is None
            and size <= self.send_window
            and size <= output.window
            and size <= output.peer.max_frame_size
        ):
            self.send_window -= size
            output.window -= size
            output.data_frames += 1
            output.load += size + 9
            output.chunks += (FRAME.pack(size << 8, 0, self.id), data)
            return
        if self._pending is None:
            self._pending = bytearray()
        self._pending += data
        self.queued += size
        output.load += size
        self.flush()

    def expire(self, seconds: float) -> None:
        self._output.deadlines.add(seconds, self.id)

    # For the connection

    def flush(self) -> None:
        """Send of what waits as much as the windows allow."""
        pending, output = self._pending, self._output
        if pending is None:
            return
        position = 0
        while position < len(pending):
            size = min(len(pending) - position, self.send_window, output.window, output.peer.max_frame_size)
            if size <= 0:
                break
            output.chunks += (FRAME.pack(size << 8 | DATA, 0, self.id), bytes(pending[position : position + size]))
            position += size
            self.send_window -= size
            output.window -= size
            output.data_frames += 1
            output.load += 9
        # Behind all others, so that one long answer does not take every window.
        output.blocked.pop(self.id, None)
        self.queued -= position
        if self.queued:
            del pending[:position]
            if self.send_window > 0:
                output.blocked[self.id] = self
            return
        self._pending = None
        if not self.sending:
            self._write_headers(self._last_block, END_HEADERS | END_STREAM)
            output.over(self)

    def drop(self) -> Handler:
        """Forget everything, for the stream is over; who has to be told, if it is still somebody."""
        handler, self.handler = self.handler, SILENT
        self.sending = False
        if self._pending is not None:
            self._output.load -= self.queued
            self.queued = 0
            self._pending = None
            self._output.blocked.pop(self.id, None)
        return handler

    def _write_headers(self, block: bytes, flags: int) -> None:
        output = self._output
        if output.peer.table_shrunk:
            output.peer.table_shrunk = False
            block = _TABLE_SIZE_ZERO + block
        output.load += len(block) + 9
        output.chunks += (FRAME.pack(len(block) << 8 | HEADERS, flags, self.id), block)

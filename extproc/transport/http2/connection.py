"""One HTTP/2 connection of a client, without I/O (RFC 9113): bytes in, calls of an application, bytes out.

One pass over what was received: each frame is handled where it lies, a message is handed on as soon as it is there,
and the answers wait in one list for the next ``data_to_send``. No object is made for a frame. Whatever a peer sends,
``receive`` does not raise: a connection error becomes GOAWAY and ``closed``, a stream error RST_STREAM.

Work and memory are bounded by ``limits``. Because a message is handled while it is read, a stream that is reset
leaves no work behind; a peer that does not take its output is not worked for until it does.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extproc.transport.http2.abuse import Abuse
from extproc.transport.http2.application import Application, HeaderList, Route
from extproc.transport.http2.deadlines import Deadlines
from extproc.transport.http2.frames import (
    ACK,
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    GOAWAY,
    MAX_STREAM_ID,
    MAX_WINDOW,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    frame,
    goaway,
    rst_stream,
    window_update,
)
from extproc.transport.http2.header_blocks import HeaderBlocks, list_size
from extproc.transport.http2.header_rules import Malformed, check_request, check_trailers
from extproc.transport.http2.life import Life, Verdict
from extproc.transport.http2.limits import Limits
from extproc.transport.http2.peer_settings import (
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PeerSettings,
)
from extproc.transport.http2.reader import FrameReader, without_padding
from extproc.transport.http2.recent import RecentStreams
from extproc.transport.http2.stream import Output, Stream

_DEFAULT_LIMITS: Final = Limits()
_DRAIN_PING: Final = b"draining"
_KEEPALIVE_PING: Final = b"alive?\0\0"
# :status 431, as a literal with the indexed name and no insertion (RFC 7541, 6.2.2).
_STATUS_431: Final = b"\x08\x03431"
_HELD_PIECE: Final = 16_384
# Streams that a client ended: a breach of the rules for one of these gets its proper name.
_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class _Opening:
    """What was made of the header block of a request."""

    route: Route
    content_length: int | None


class Connection:
    """The server's end of a connection.

    Args:
        application: what is served.
        limits: what the peer may do.
        clock: a monotonic clock, in seconds.

    Attributes:
        closed: nothing more will be read; what is left to send should be sent, and the transport closed.
        alarm: the time by ``clock`` at which ``tick`` has to be called. It may come earlier during ``receive``.
    """

    def __init__(
        self, application: Application, *, limits: Limits = _DEFAULT_LIMITS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.closed = False
        self._application = application
        self._limits = limits
        self._clock = clock
        self._peer = PeerSettings()
        self._deadlines = Deadlines(clock)
        self._output = Output(self._peer, self._deadlines, limits, self._sent_all)
        self._streams: dict[int, Stream] = {}
        # So many streams may be open, and all end at once, before the client learns of it.
        self._ended_by_us = RecentStreams(limits.max_concurrent_streams)
        self._ended_by_peer = RecentStreams(_REMEMBERED)
        self._held: OrderedDict[int, Stream] = OrderedDict()
        self._blocks: HeaderBlocks[_Opening] = HeaderBlocks(limits)
        self._last_stream = 0
        # Streams above it are not taken any more (RFC 9113, 6.8); None while all are.
        self._last_taken: int | None = None
        self._draining = False
        self._peer_leaves = False
        # Until the peer has seen our SETTINGS it may use the windows that the protocol starts with.
        self._stream_window = max(limits.stream_window, DEFAULT_WINDOW)
        self._connection_window = self._window = max(limits.connection_window, DEFAULT_WINDOW)
        self._taken = 0
        self._abuse = Abuse(limits, clock, self._output)
        self._life = Life(limits, clock())
        self.alarm = self._life.look_at
        self._reader = FrameReader(
            limits,
            handlers={
                DATA: self._on_data,
                PRIORITY: self._on_priority,
                RST_STREAM: self._on_rst_stream,
                SETTINGS: self._on_settings,
                PUSH_PROMISE: self._on_push_promise,
                PING: self._on_ping,
                GOAWAY: self._on_goaway,
                WINDOW_UPDATE: self._on_window_update,
            },
            on_block=self._on_block,
            on_unknown=self._abuse.idle_frame,
            on_stream_fault=self._reset,
        )
        self._greet()

    @property
    def open_streams(self) -> int:
        """Streams that are not over on both sides."""
        return len(self._streams)

    @property
    def waiting(self) -> int:
        """Bytes of output that wait, for ``data_to_send`` or for a window of the peer."""
        return self._output.load

    # What the shell calls

    def receive(self, data: bytes) -> None:
        """Handle what was read, as far as whole frames have come."""
        if self.closed:
            return
        self._life.heard = True
        try:
            self._reader.feed(data)
        except ConnectionFault as fault:
            self._fail(fault)
        else:
            self._grant()

    def data_to_send(self) -> bytes:
        """Everything that may go out now; it is then forgotten. Call again until there is nothing."""
        data = self._output.take()
        if data and self._held:
            self._release()
            self._grant()
        return data

    def connection_lost(self) -> None:
        """The peer is gone, or about to be cut off: every stream that is open is over."""
        self.closed = self._reader.stopped = True
        streams = list(self._streams.values())
        self._streams.clear()
        self._held.clear()
        for stream in streams:
            stream.drop().lost()

    def drain(self) -> None:
        """Take no more streams, finish those that are open, then be ``closed``.

        Streams that the peer opened before it could know are still taken: the first GOAWAY names no last stream, and
        the second one follows when a PING has been there and back (RFC 9113, 6.8).
        """
        if self._draining or self.closed:
            return
        self._draining = True
        if not self._reader.started:
            self._fail(ConnectionFault(ErrorCode.NO_ERROR, "server stops"))
            return
        self._output.write(goaway(MAX_STREAM_ID, ErrorCode.NO_ERROR) + frame(PING, 0, 0, _DRAIN_PING))

    def cut(self) -> None:
        """End every stream with CANCEL, and the connection."""
        if self.closed:
            return
        for stream_id in self._streams:
            self._output.write(rst_stream(stream_id, ErrorCode.CANCEL))
        self._fail(ConnectionFault(ErrorCode.NO_ERROR, "server stops"))

    def tick(self) -> None:
        """Do what is due at ``alarm``: deadlines of streams, and signs of life."""
        now = self._clock()
        for stream_id in self._deadlines.due(now):
            stream = self._streams.get(stream_id)
            if stream is not None:
                stream.handler.expired()
        if now >= self._life.look_at and not self.closed:
            match self._life.look(now, started=self._reader.started):
                case Verdict.ASK:
                    self._output.write(frame(PING, 0, 0, _KEEPALIVE_PING))
                case Verdict.GONE:
                    self._fail(ConnectionFault(ErrorCode.NO_ERROR, "no sign of life"))
        self._set_alarm()

    # Frames

    def _on_data(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        length = stop - start
        self._window -= length
        self._taken += length
        if self._window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "connection window exceeded")
        if flags & PADDED:
            start, stop = without_padding(data, start, stop)
        stream = self._streams.get(stream_id)
        if stream is None or not stream.receiving:
            self._on_stray(stream_id)
            return
        stream.receive_window -= length
        if stream.receive_window < 0:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR)
        if start == stop and not flags & END_STREAM:
            self._abuse.idle_frame()
        if stream.content_left is not None:
            _count_content(stream, stop - start)
        # Known before the message is handled, so that its answer does not ask the client to stop.
        if flags & END_STREAM:
            stream.receiving = False
        if stream.held is not None or stream.full:
            self._hold(stream, data[start:stop])
        else:
            self._hand_on(stream, data, start, stop)
        if flags & END_STREAM:
            self._end_of_content(stream)

    def _hand_on(self, stream: Stream, data: bytes, start: int, stop: int) -> None:
        taken = stream.handler.data(data, start, stop)
        if taken < stop:
            self._hold(stream, data[taken:stop])
        self._widen(stream)

    def _widen(self, stream: Stream) -> None:
        """Let the client send more on a stream, when half of its window is used and has been taken."""
        if stream.receive_window <= self._stream_window >> 1 and stream.receiving:
            grant = self._stream_window - stream.receive_window - len(stream.held or b"")
            if grant > 0:
                stream.receive_window += grant
                self._output.write(window_update(stream.id, grant))

    def _on_block(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        if stream_id > self._last_stream:
            self._on_request(stream_id, block, end_stream=end_stream)
            return
        headers = self._blocks.decode(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._on_stray_headers(stream_id)
            return
        if not stream.receiving:
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED)
        try:
            check_trailers(headers)
        except Malformed:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR) from None
        # RFC 9113, 8.1: a second header section is the trailers, and ends the stream.
        if not end_stream:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR)
        self._end_of_content(stream)

    def _on_request(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        opening = self._blocks.recall(block)
        headers = self._blocks.decode(block) if opening is None else ()
        if self._is_too_late(stream_id):
            # RFC 9113, 6.8: a stream that is not taken is not answered; only the dynamic table had to see it.
            self._abuse.idle_frame()
            return
        self._last_stream = stream_id
        if (
            len(self._streams) >= self._limits.max_concurrent_streams
            or self._output.load >= 2 * self._limits.output_bytes
        ):
            raise StreamFault(stream_id, ErrorCode.REFUSED_STREAM)
        if opening is None:
            if list_size(headers) > self._limits.max_header_list_size:
                self._answer_431(stream_id, end_stream=end_stream)
                return
            opening = self._make_opening(stream_id, headers)
            self._blocks.remember(block, opening)
        stream = self._open(stream_id, opening.content_length, end_stream=end_stream)
        handler = opening.route(stream)
        if stream.sending:
            stream.handler = handler
            if self._deadlines:
                self._deadlines.thin_out(self._streams, len(self._streams))
                self._set_alarm()
        if end_stream:
            self._end_of_content(stream)

    def _open(self, stream_id: int, content_length: int | None, *, end_stream: bool) -> Stream:
        stream = self._streams[stream_id] = Stream(stream_id, self._output, self._stream_window, content_length)
        stream.receiving = not end_stream
        return stream

    def _make_opening(self, stream_id: int, headers: HeaderList) -> _Opening:
        try:
            length = check_request(headers)
        except Malformed:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR) from None
        return _Opening(self._application.route(headers), length)

    def _answer_431(self, stream_id: int, *, end_stream: bool) -> None:
        self._open(stream_id, None, end_stream=end_stream).headers(_STATUS_431, end=True)
        self._abuse.stream_error()

    def _on_priority(self, _flags: int, stream_id: int, _data: bytes, start: int, stop: int) -> None:
        # RFC 9113, 6.3: deprecated, without effect on the state of any stream; its form still counts.
        self._abuse.idle_frame()
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY without a stream")
        if stop - start != 5:
            raise StreamFault(stream_id, ErrorCode.FRAME_SIZE_ERROR)

    def _on_rst_stream(self, _flags: int, stream_id: int, _data: bytes, start: int, stop: int) -> None:
        if stop - start != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of the wrong size")
        stream = self._streams.get(stream_id)
        if stream is None:
            self._must_not_be_idle(stream_id)
            self._abuse.idle_frame()
            return
        self._forget(stream, by_us=False)
        stream.drop().lost()
        if not stream.used:
            self._abuse.fruitless_stream()

    def _on_settings(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & ACK:
            if start != stop:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with content")
            self._abuse.idle_frame()
            self._apply_own_settings()
            return
        if (stop - start) % SETTING.size:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of the wrong size")
        change = self._peer.apply(data[start:stop])
        # A change of the window costs a look at every stream.
        self._abuse.wants_answer(1 + (len(self._streams) >> 6 if change else 0))
        self._output.write(frame(SETTINGS, ACK, 0))
        if change:
            self._shift_windows(change)

    def _apply_own_settings(self) -> None:
        """The peer has seen our SETTINGS: a window smaller than the protocol's own holds from now on."""
        change = self._limits.stream_window - self._stream_window
        if change:
            self._stream_window += change
            for stream in self._streams.values():
                stream.receive_window += change

    def _shift_windows(self, change: int) -> None:
        """RFC 9113, 6.9.2: a new initial window moves the windows of all streams, below zero too."""
        for stream in list(self._streams.values()):
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "stream window too large")
            if change > 0:
                stream.flush()
        if self._held:
            self._release()

    def _on_push_promise(self, *_: object) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client cannot push")

    def _on_ping(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if stop - start != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING of the wrong size")
        payload = data[start:stop]
        if not flags & ACK:
            self._abuse.wants_answer()
            self._output.write(frame(PING, ACK, 0, payload))
        elif payload == _DRAIN_PING and self._draining and self._last_taken is None:
            self._last_taken = self._last_stream
            self._output.write(goaway(self._last_stream, ErrorCode.NO_ERROR))
            self._close_when_done()
        else:
            self._abuse.idle_frame()

    def _on_goaway(self, _flags: int, stream_id: int, _data: bytes, start: int, stop: int) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if stop - start < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY too short")
        self._abuse.idle_frame()
        # The client opens no more streams, and waits for those that are open.
        self._peer_leaves = True
        self._close_when_done()

    def _on_window_update(self, _flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        if stop - start != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of the wrong size")
        increment = WORD.unpack_from(data, start)[0] & MAX_STREAM_ID
        self._abuse.idle_frame()
        if not stream_id:
            self._widen_ours(increment)
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._must_not_be_idle(stream_id)
            return
        if not increment:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR)
        if stream.send_window + increment > MAX_WINDOW:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR)
        stream.send_window += increment
        stream.flush()
        if self._held:
            self._release()

    def _widen_ours(self, increment: int) -> None:
        output = self._output
        if not increment:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        if output.window + increment > MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "connection window too large")
        output.window += increment
        while output.blocked and output.window > 0:
            next(iter(output.blocked.values())).flush()
        if self._held:
            self._release()

    # Streams

    def _end_of_content(self, stream: Stream) -> None:
        stream.receiving = False
        if stream.content_left and stream.id in self._streams:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR)
        if stream.held is None:
            stream.handler.end()

    def _hold(self, stream: Stream, data: bytes) -> None:
        """Keep what cannot be handled before the peer takes output. It has not been taken, as the windows see it."""
        if stream.held is None:
            stream.held = bytearray()
            self._held[stream.id] = stream
        stream.held += data
        self._taken -= len(data)

    def _release(self) -> None:
        """Handle what was held, as far as the output that waits allows; each stream in its turn."""
        for _ in range(len(self._held)):
            if not self._held or self._output.load >= self._limits.output_bytes:
                return
            stream_id, stream = next(iter(self._held.items()))
            self._held.move_to_end(stream_id)
            self._release_one(stream)

    def _release_one(self, stream: Stream) -> None:
        while stream.held and not stream.full:
            piece = bytes(stream.held[:_HELD_PIECE])
            taken = stream.handler.data(piece, 0, len(piece))
            if stream.held is None:
                return
            del stream.held[:taken]
            self._taken += taken
            self._widen(stream)
        if stream.held is not None and not stream.held:
            stream.held = None
            del self._held[stream.id]
            if not stream.receiving:
                stream.handler.end()

    def _sent_all(self, stream: Stream) -> None:
        """The last frame of a stream is on its way; a client that still sends is asked to stop (RFC 9113, 8.1)."""
        if stream.receiving:
            self._output.write(rst_stream(stream.id, ErrorCode.NO_ERROR))
        self._forget(stream, by_us=stream.receiving)

    def _forget(self, stream: Stream, *, by_us: bool) -> None:
        del self._streams[stream.id]
        (self._ended_by_us if by_us else self._ended_by_peer).add(stream.id)
        if stream.held is not None:
            del self._held[stream.id]
            self._taken += len(stream.held)
            stream.held = None
        stream.receiving = False
        if self._draining or self._peer_leaves:
            self._close_when_done()

    def _reset(self, fault: StreamFault) -> None:
        stream_id = fault.stream_id
        stream = self._streams.get(stream_id)
        if stream is None:
            # RFC 9113, 6.4: RST_STREAM does not exist for a stream that is idle.
            if self._is_idle(stream_id):
                raise ConnectionFault(fault.code, "stream error on an idle stream")
            self._ended_by_us.add(stream_id)
        else:
            self._forget(stream, by_us=True)
            stream.drop().lost()
        self._output.write(rst_stream(stream_id, fault.code))
        self._abuse.stream_error()

    def _on_stray(self, stream_id: int) -> None:
        """DATA on a stream that the client has ended, or that is over, or that never was (RFC 9113, 5.1)."""
        if stream_id not in self._streams:
            self._must_not_be_idle(stream_id)
            if self._is_too_late(stream_id) or stream_id in self._ended_by_us:
                self._abuse.idle_frame()
                return
        raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED)

    def _on_stray_headers(self, stream_id: int) -> None:
        if stream_id in self._ended_by_us:
            self._abuse.idle_frame()
            return
        if stream_id in self._ended_by_peer:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS on a stream that is closed")
        # RFC 9113, 5.1.1: ids only grow.
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "stream id out of order")

    def _is_idle(self, stream_id: int) -> bool:
        return not stream_id & 1 or stream_id > self._last_stream

    def _is_too_late(self, stream_id: int) -> bool:
        """Whether the stream was opened after we said that none are taken any more."""
        return bool(stream_id & 1) and self._last_taken is not None and stream_id > self._last_taken

    def _must_not_be_idle(self, stream_id: int) -> None:
        if self._is_idle(stream_id) and not self._is_too_late(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "frame on an idle stream")

    def _grant(self) -> None:
        """Widen the window of the connection by what was taken; not each time, but when it is half the window."""
        if self._taken >= self._connection_window >> 1:
            self._window += self._taken
            self._output.write(window_update(0, self._taken))
            self._taken = 0

    # The connection as a whole

    def _greet(self) -> None:
        limits = self._limits
        settings = {
            MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
            INITIAL_WINDOW_SIZE: limits.stream_window,
            MAX_FRAME_SIZE: limits.max_frame_size,
            MAX_HEADER_LIST_SIZE: limits.max_header_list_size,
        }
        self._output.write(frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*item) for item in settings.items())))
        if self._connection_window > DEFAULT_WINDOW:
            self._output.write(window_update(0, self._connection_window - DEFAULT_WINDOW))

    def _fail(self, fault: ConnectionFault) -> None:
        last = self._last_stream if self._last_taken is None else min(self._last_stream, self._last_taken)
        self._output.write(goaway(last, fault.code, fault.reason))
        self.connection_lost()

    def _close_when_done(self) -> None:
        if self._streams or self.closed:
            return
        if self._last_taken is not None:
            self.closed = self._reader.stopped = True
        elif self._peer_leaves:
            self._fail(ConnectionFault(ErrorCode.NO_ERROR, ""))

    def _set_alarm(self) -> None:
        self.alarm = min(self._life.look_at, self._deadlines.first) if self._deadlines else self._life.look_at


def _count_content(stream: Stream, size: int) -> None:
    """RFC 9113, 8.1.1: more content than the client said it would send makes the request malformed."""
    assert stream.content_left is not None
    stream.content_left -= size
    if stream.content_left < 0:
        raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR)

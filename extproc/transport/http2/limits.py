"""What one peer may make this process do or hold.

Every bound is a count or a number of bytes, so that a test can state it. None is reached by Envoy or by the gRPC
libraries in their ordinary work, abrupt ends included: Envoy resets nearly every ext_proc stream, and a reset of a
stream on which a message was handled costs nothing here.

What a peer may do again and again is kept in an *allowance*: each event takes one away, what is productive (a
message handled, output sent) gives some back, and so does the passing of time: an empty allowance is full again after
``window`` seconds. A peer that spends what it does not have is cut off with ENHANCE_YOUR_CALM.
"""

from __future__ import annotations

from dataclasses import dataclass

from extproc.transport.http2.frames import LARGEST_MAX_FRAME, MAX_WINDOW, SMALLEST_MAX_FRAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one connection.

    Attributes:
        max_concurrent_streams: streams open at once; a further one is refused, with REFUSED_STREAM, and may be
            tried again. Announced to the peer.
        max_frame_size: largest payload of a frame, in bytes; a larger one is a connection error. Announced.
        stream_window: bytes that a peer may send on one stream before they are taken. Announced.
        connection_window: the same over all streams of a connection.
        max_header_list_size: decoded size of a header list as RFC 9113 counts it (32 bytes a field on top); a larger
            request is answered with 431. Announced.
        max_header_block: bytes of one encoded header block over all its frames, and decoded bytes at which decoding
            is given up; over it the connection ends (CONTINUATION flood, HPACK bomb).
        max_continuations: CONTINUATION frames of one header block; one more ends the connection.
        output_bytes: output waiting for the peer, by its windows or by the socket, at which no further message of
            this connection is handled; they are held, within the windows, until the peer takes its output.
        stream_output_bytes: the same for one stream that waits for its window; only this stream is then held.
        partial_bytes: bytes of incomplete messages over all streams; a message that passes this bound ends its
            stream with RESOURCE_EXHAUSTED.
        window: seconds after which an empty allowance is full again.
        control_frames: allowance of frames that have to be answered: PING, SETTINGS.
        ignored_frames: allowance of frames without effect: empty DATA, PRIORITY, unknown types, WINDOW_UPDATE beyond
            what our output explains, frames on streams that have ended.
        fruitless_streams: allowance of streams that a peer ends before any message was handled (rapid reset).
        provoked_resets: allowance of streams that we have to reset, or refuse, for what the peer did.
        preface_seconds: time in which a connection has to send its preface and SETTINGS.
        keepalive_seconds: silence after which the peer is asked for a sign of life.
        keepalive_timeout: seconds that it has to give one.
        cached_blocks: header blocks whose meaning is remembered, each of at most ``cached_block_bytes``.
        cached_block_bytes: see ``cached_blocks``.
    """

    max_concurrent_streams: int = 10_000
    max_frame_size: int = 16_384
    stream_window: int = 2**20
    connection_window: int = 2**24
    max_header_list_size: int = 16 * 1024
    max_header_block: int = 32 * 1024
    max_continuations: int = 8
    output_bytes: int = 4 * 2**20
    stream_output_bytes: int = 256 * 1024
    partial_bytes: int = 2**30
    window: float = 10.0
    control_frames: int = 1_000
    ignored_frames: int = 10_000
    fruitless_streams: int = 1_000
    provoked_resets: int = 500
    preface_seconds: float = 10.0
    keepalive_seconds: float = 30.0
    keepalive_timeout: float = 20.0
    cached_blocks: int = 64
    cached_block_bytes: int = 256

    def __post_init__(self) -> None:
        """Refuse what the protocol cannot express.

        Raises:
            ValueError: with the name of the bound.
        """
        if not SMALLEST_MAX_FRAME <= self.max_frame_size <= LARGEST_MAX_FRAME:
            raise ValueError(f"max_frame_size must be from {SMALLEST_MAX_FRAME} to {LARGEST_MAX_FRAME}")
        for name in ("stream_window", "connection_window"):
            if not 0 < getattr(self, name) <= MAX_WINDOW:
                raise ValueError(f"{name} must be from 1 to {MAX_WINDOW}")

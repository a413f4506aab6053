"""A client for the HTTP/2 engine in tests: builds frames, right and wrong ones, and reads the engine's as plain tuples.

Written from RFC 9113, and independent of the engine and of any HTTP/2 library; ``build_engine`` alone knows the engine.
The peer is strict: whatever a test is about, each octet that the engine gives is held to the rules a server has to
keep (first frame, frame size, windows, stream states, field blocks), and a breach is an ``AssertionError``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from extproc.errors import StreamFailure
from extproc.exchange.decode import decode
from protos.ext_proc_pb2 import BodyResponse, HttpBody, ProcessingRequest, ProcessingResponse
from tests.support.http2_hpack import Reader, block

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
KINDS = (
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
)
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(6, 12)
CODES = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
)

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)
DEFAULT_WINDOW = 65_535
MAX_WINDOW = 2**31 - 1
SMALLEST_MAX_FRAME = 16_384
LARGEST_MAX_FRAME = 2**24 - 1
LAST_STREAM = 2**31 - 1

PROCESS = b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"
CHECK = b"/grpc.health.v1.Health/Check"

Fields = Iterable[tuple[bytes, bytes]]


def fields(
    *more: tuple[bytes, bytes], without: Iterable[bytes] = (), **changed: bytes
) -> tuple[tuple[bytes, bytes], ...]:
    """The fields of a call; ``changed`` replaces one by its name (``path=b"/x"`` is ``:path``), ``more`` comes last."""
    usual = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": PROCESS,
        b":authority": b"processor",
        b"content-type": b"application/grpc",
        b"te": b"trailers",  # codespell:ignore te
    }
    for name, value in changed.items():
        key = name.replace("_", "-").encode()
        usual[b":" + key if b":" + key in usual else key] = value
    return (*((name, value) for name, value in usual.items() if name not in set(without)), *more)


REQUEST = fields()


# --- frames ---------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A frame as it was on the wire."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def __repr__(self) -> str:
        kind = KINDS[self.kind] if self.kind < len(KINDS) else f"type {self.kind:#x}"
        shown = self.payload if len(self.payload) < 60 else self.payload[:50] + b"..."
        return f"<{kind} flags={self.flags:#x} stream={self.stream} {len(self.payload)} {shown!r}>"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """Any frame; ``length`` is what it says instead of what it has."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def data(stream: int, payload: bytes = b"", *, end: bool = False, padding: int | None = None, flags: int = 0) -> bytes:
    """DATA, in one frame."""
    if padding is not None:
        flags |= PADDED
        payload = bytes([padding]) + payload + bytes(padding)
    return frame(DATA, flags | END_STREAM * end, stream, payload)


def headers(
    stream: int,
    listed: Fields = REQUEST,
    *,
    end: bool = False,
    encoded: bytes | None = None,
    padding: int | None = None,
    priority: bytes | None = None,
    flags: int = END_HEADERS,
) -> bytes:
    """HEADERS, in one frame; ``encoded`` is a field block instead of one made of ``listed``."""
    payload = block(listed) if encoded is None else encoded
    if priority is not None:
        flags |= PRIORITISED
        payload = priority + payload
    if padding is not None:
        flags |= PADDED
        payload = bytes([padding]) + payload + bytes(padding)
    return frame(HEADERS, flags | END_STREAM * end, stream, payload)


def continuation(stream: int, fragment: bytes = b"", *, last: bool = True) -> bytes:
    return frame(CONTINUATION, END_HEADERS * last, stream, fragment)


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def settings_ack() -> bytes:
    return frame(SETTINGS, ACK, 0)


def ping(payload: bytes = b"8 octets") -> bytes:
    return frame(PING, 0, 0, payload)


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def goaway(last: int = 0, code: int = NO_ERROR, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + debug)


def priority(stream: int, depends_on: int = 0, weight: int = 15) -> bytes:
    return frame(PRIORITY, 0, stream, struct.pack(">IB", depends_on, weight))


def cut(octets: bytes, size: int) -> list[bytes]:
    """The octets in pieces of ``size``."""
    return [octets[at : at + size] for at in range(0, len(octets), size)]


# --- gRPC -----------------------------------------------------------------------------------------------------------


def prefixed(payload: bytes, *, flag: int = 0, length: int | None = None) -> bytes:
    """A length-prefixed message."""
    return struct.pack(">BI", flag, len(payload) if length is None else length) + payload


def message(body: bytes) -> bytes:
    """A length-prefixed message that the echo processor answers with ``body``; see ``EchoStream``."""
    return prefixed(ProcessingRequest(request_body=HttpBody(body=body)).SerializeToString())


def call(stream: int, *bodies: bytes, end: bool = True, listed: Fields = REQUEST) -> bytes:
    """A whole call: its fields and a message for each of ``bodies``, in DATA of at most 16 384 octets."""
    if not bodies:
        return headers(stream, listed, end=end)
    return headers(stream, listed) + say(stream, *bodies, end=end)


def say(stream: int, *bodies: bytes, end: bool = False) -> bytes:
    """A message for each of ``bodies`` on an open stream."""
    pieces = cut(b"".join(map(message, bodies)), SMALLEST_MAX_FRAME) or [b""]
    return b"".join(data(stream, piece, end=end and at == len(pieces)) for at, piece in enumerate(pieces, 1))


# --- what the engine serves -----------------------------------------------------------------------------------------


class EchoStream:
    """Echoes bodies; ``size:N`` asks for N octets, and some others for an end."""

    def __init__(self, processor: EchoProcessor) -> None:
        self.end: StreamFailure | None = None
        self._processor = processor
        self._closed = False
        processor.opened += 1

    def feed(self, data: bytes) -> ProcessingResponse | None:
        assert not self._closed, "fed after it was closed"
        assert type(data) is bytes, "a message is no other kind of buffer"
        request = decode(ProcessingRequest, data)
        body = request.request_body.body
        self._processor.fed.append(body)
        self._processor.requests.append(request)
        head, _, argument = body.partition(b":")
        match head:
            case b"silent":
                return None
            case b"fail":
                raise StreamFailure(StreamFailure.NOT_FOUND, argument.decode())
            case b"fault":
                raise KeyError("planted")
            case b"last":
                self.end = StreamFailure(StreamFailure.NOT_FOUND, argument.decode())
            case b"size":
                body = b"x" * int(argument)
        reply = ProcessingResponse(request_body=BodyResponse())
        reply.request_body.response.body_mutation.body = body
        return reply

    def close(self) -> None:
        assert not self._closed, "closed twice"
        self._closed = True
        self._processor.closed += 1


class EchoProcessor:
    """Counts what the engine does with the core."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.fed: list[bytes] = []
        self.requests: list[ProcessingRequest] = []

    def open(self) -> EchoStream:
        return EchoStream(self)


def build_engine(
    processor: Any,
    *,
    is_serving: Callable[[], bool] = lambda: True,
    max_message: int | None = None,
    clock: Callable[[], float] | None = None,
    **bounds: int,
) -> Any:
    """The engine under test, serving ``processor``; the one place that knows how it is built.

    ``bounds`` are fields of its ``Limits``.
    """
    from extproc.transport.http2.connection import Connection
    from extproc.transport.http2.grpc_calls import GrpcCalls
    from extproc.transport.http2.limits import Limits

    limits = Limits(**bounds)
    options: dict[str, Any] = {} if max_message is None else {"max_message": max_message}
    calls = GrpcCalls(processor, is_serving=is_serving, limits=limits, **options)
    return Connection(calls, limits=limits, **({} if clock is None else {"clock": clock}))


# --- the peer -------------------------------------------------------------------------------------------------------


class Peer:
    """The client's end of a connection to an engine in memory.

    Args:
        engine: what ``build_engine`` made.

    ``frames`` is all that came, in order. ``resets``, ``goaway``, ``blocks`` and ``received`` are what it meant.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.frames: list[Frame] = []
        self.blocks: dict[int, list[list[tuple[bytes, bytes]]]] = {}
        self.received: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.goaway: tuple[int, int, bytes] | None = None
        # What the server told, and how much of DATA it takes, on the connection (0) and on streams.
        self.settings: dict[int, int] = {}
        self.room: dict[int, int] = {0: DEFAULT_WINDOW}
        # How much of DATA the server may send; sizes that it has yet to acknowledge.
        self.granted: dict[int, int] = {0: DEFAULT_WINDOW}
        self.unacknowledged: list[dict[int, list[int]]] = []
        self._initial = DEFAULT_WINDOW
        self._max_frame = SMALLEST_MAX_FRAME
        self._reader = Reader()
        self._fragments: tuple[Frame, bytearray] | None = None
        self._sent, self._came = bytearray(), bytearray()
        self._told: set[int] = set()
        self._just_reset: set[int] = set()
        self._over = False
        self._unanswered = b""

    # -- sending

    def send(self, *pieces: bytes) -> list[Frame]:
        """Give the pieces to the engine one by one; return the frames that come of them."""
        before = len(self.frames)
        for piece in pieces:
            self.note(piece)
            self.engine.receive(piece)
            self.collect()
        return self.frames[before:]

    def greet(self, *pairs: tuple[int, int]) -> Peer:
        """Open the connection with these settings, and acknowledge the server's."""
        self.send(PREFACE + settings(*pairs))
        self.acknowledge()
        return self

    def acknowledge(self) -> None:
        """Answer what a client must answer: the server's SETTINGS and PING."""
        answer, self._unanswered = self._unanswered, b""
        if answer:
            self.send(answer)

    def open_window(self) -> Peer:
        """Grant as much as a connection can; streams want INITIAL_WINDOW_SIZE besides."""
        self.send(window_update(0, MAX_WINDOW - self.granted[0]))
        return self

    def upload(self, stream: int, octets: bytes, *, end: bool = False, padding: int | None = None) -> bytes:
        """Send DATA as far as the server's windows reach; return what is left."""
        overhead = 0 if padding is None else padding + 1
        while octets or end:
            room = min(self.room[0], self.room.get(stream, self._server_window), self.max_frame) - overhead
            if octets and room <= 0:
                return octets
            piece, octets = octets[: max(room, 0)], octets[max(room, 0) :]
            self.send(data(stream, piece, end=end and not octets, padding=padding))
            end = end and bool(octets)
        return b""

    @property
    def max_frame(self) -> int:
        """The largest payload that the server takes."""
        return self.settings.get(MAX_FRAME_SIZE, SMALLEST_MAX_FRAME)

    @property
    def _server_window(self) -> int:
        return self.settings.get(INITIAL_WINDOW_SIZE, DEFAULT_WINDOW)

    def note(self, piece: bytes) -> None:
        """Follow what is sent, as far as it is frames, to know what the server may do.

        For a test that gives octets to the engine itself.
        """
        self._sent += piece
        if self._sent.startswith(PREFACE):
            del self._sent[: len(PREFACE)]
        for each in _parse(self._sent):
            match each.kind:
                case 0x0:
                    self.room[0] -= len(each.payload)
                    self.room[each.stream] = self.room.get(each.stream, self._server_window) - len(each.payload)
                case 0x1:
                    self._told.add(each.stream)
                    self.granted.setdefault(each.stream, self._initial)
                case 0x3:
                    self._just_reset.add(each.stream)
                case 0x4 if not each.flags & ACK:
                    changes: dict[int, list[int]] = {}
                    for at in range(0, len(each.payload) - 5, 6):
                        identifier, value = struct.unpack_from(">HI", each.payload, at)
                        changes.setdefault(identifier, []).append(value)
                    self.unacknowledged.append(changes)
                case 0x8 if len(each.payload) == 4:
                    grown = self.granted.get(each.stream, self._initial)
                    self.granted[each.stream] = grown + (int.from_bytes(each.payload, "big") & MAX_WINDOW)

    # -- receiving

    def collect(self) -> None:
        """Take what the engine has to send, and hold it to the rules."""
        octets = self.engine.data_to_send()
        assert not (self._over and octets), f"{len(octets)} octets after the connection was closed"
        self._came += octets
        for each in _parse(self._came):
            assert self.frames or (each.kind == SETTINGS and not each.flags & ACK), f"3.4: {each} comes first"
            self.frames.append(each)
            assert len(each.payload) <= self._max_frame, f"4.2: {each} is above {self._max_frame}"
            assert self._fragments is None or each.kind == CONTINUATION, f"4.3: {each} within a field block"
            _HANDLERS[each.kind](self, each)
        assert not self._came, f"half a frame was written: {bytes(self._came[:20])!r}"
        assert self._fragments is None, "half a field block was written"
        self._over = self.engine.closed
        for stream in self._just_reset:
            self.ended.add(stream)
        self._just_reset.clear()

    def _on_data(self, each: Frame) -> None:
        self._must_be_open(each)
        assert self.blocks.get(each.stream), f"8.1: {each} before HEADERS"
        for stream in (0, each.stream):
            self.granted[stream] -= len(each.payload)
            assert not each.payload or self.granted[stream] >= 0, f"6.9.1: {each} is more than the window of {stream}"
        assert not each.flags & PADDED, "the reader of this peer knows no padding"
        self.received.setdefault(each.stream, bytearray()).extend(each.payload)
        if each.flags & END_STREAM:
            self.ended.add(each.stream)

    def _on_headers(self, each: Frame) -> None:
        self._must_be_open(each)
        assert not each.flags & (PADDED | PRIORITISED), "the reader of this peer knows neither padding nor priority"
        self._fragments = (each, bytearray())
        self._fragment(each)

    def _on_continuation(self, each: Frame) -> None:
        assert self._fragments is not None, f"6.10: {each} out of place"
        assert self._fragments[0].stream == each.stream, f"6.10: {each} out of place"
        self._fragment(each)

    def _fragment(self, each: Frame) -> None:
        assert self._fragments is not None
        first, whole = self._fragments
        whole += each.payload
        if each.flags & END_HEADERS:
            self._fragments = None
            listed = self._reader.read(bytes(whole))
            blocks = self.blocks.setdefault(first.stream, [])
            _check_fields(listed, trailers=bool(blocks))
            assert not blocks or first.flags & END_STREAM, f"8.1: {first} is neither first nor last"
            blocks.append(listed)
            if first.flags & END_STREAM:
                self.ended.add(first.stream)

    def _on_rst_stream(self, each: Frame) -> None:
        # 5.1.1: the first use of an id closes all idle streams below it.
        assert each.stream in self._told or each.stream < max(self._told, default=0), f"5.1: {each} on an idle stream"
        assert len(each.payload) == 4, f"6.4: {each}"
        # 5.4.2: there should not be more than one; what comes later on a closed stream may be answered by another.
        self.resets.setdefault(each.stream, int.from_bytes(each.payload, "big"))
        self.ended.add(each.stream)

    def _on_settings(self, each: Frame) -> None:
        assert (each.stream, len(each.payload) % 6) == (0, 0), f"6.5: {each}"
        if each.flags & ACK:
            assert not each.payload, f"6.5: {each}"
            assert self.unacknowledged, "6.5.3: one acknowledgement too many"
            self._apply(self.unacknowledged.pop(0))
            return
        for at in range(0, len(each.payload), 6):
            identifier, value = struct.unpack_from(">HI", each.payload, at)
            if identifier == INITIAL_WINDOW_SIZE:
                grown = value - self._server_window
                self.room.update({stream: size + grown for stream, size in self.room.items() if stream})
            self.settings[identifier] = value
        assert self.settings.get(ENABLE_PUSH, 0) == 0, "6.5.2: a server that enables push"
        assert SMALLEST_MAX_FRAME <= self.max_frame <= LARGEST_MAX_FRAME, f"6.5.2: {each}"
        assert self._server_window <= MAX_WINDOW, f"6.5.2: {each}"
        self._unanswered += settings_ack()

    def _apply(self, changes: Mapping[int, list[int]]) -> None:
        for identifier, values in changes.items():
            match identifier:
                case 0x1:
                    for value in values:
                        self._reader.acknowledged(value)
                case 0x4:
                    grown, self._initial = values[-1] - self._initial, values[-1]
                    self.granted.update({stream: size + grown for stream, size in self.granted.items() if stream})
                case 0x5:
                    self._max_frame = values[-1]

    def _on_ping(self, each: Frame) -> None:
        assert (each.stream, len(each.payload)) == (0, 8), f"6.7: {each}"
        if not each.flags & ACK:
            self._unanswered += frame(PING, ACK, 0, each.payload)

    def _on_goaway(self, each: Frame) -> None:
        assert (each.stream, len(each.payload) >= 8) == (0, True), f"6.8: {each}"
        last, code = struct.unpack_from(">II", each.payload)
        assert self.goaway is None or last <= self.goaway[0], "6.8: the last stream must not grow"
        self.goaway = (last, code, each.payload[8:])

    def _on_window_update(self, each: Frame) -> None:
        assert len(each.payload) == 4, f"6.9: {each}"
        increment = int.from_bytes(each.payload, "big")
        assert 0 < increment <= MAX_WINDOW, f"6.9: {each}"
        assert each.stream == 0 or each.stream in self._told, f"5.1: {each} on a stream that is idle"
        assert each.stream not in self.resets, f"5.1: {each} on a stream that the server reset"
        self.room[each.stream] = self.room.get(each.stream, self._server_window) + increment
        assert self.room[each.stream] <= MAX_WINDOW, f"6.9.1: {each} makes the window too large"

    def _on_other(self, each: Frame) -> None:
        raise AssertionError(f"a server of this kind has no use for {each}")

    def _must_be_open(self, each: Frame) -> None:
        assert each.stream in self._told, f"5.1: {each} on a stream that is idle"
        assert each.stream not in self.ended, f"5.1: {each} on a stream that has ended"

    # -- what it means

    def replies(self, stream: int) -> list[bytes]:
        """The bodies of the messages that came on a stream."""
        return [
            ProcessingResponse.FromString(payload).request_body.response.body_mutation.body
            for payload in self.messages(stream)
        ]

    def messages(self, stream: int) -> list[bytes]:
        """The messages that came on a stream, as octets; half a message at the end is left out."""
        octets, at, out = bytes(self.received.get(stream, b"")), 0, []
        while at + 5 <= len(octets):
            flag, length = struct.unpack_from(">BI", octets, at)
            assert flag == 0, "a reply that says it is compressed"
            if at + 5 + length > len(octets):
                break
            out.append(octets[at + 5 : at + 5 + length])
            at += 5 + length
        return out

    def trailers(self, stream: int) -> dict[bytes, bytes]:
        """The last fields of a stream that ended with fields."""
        blocks = self.blocks.get(stream, [])
        return dict(blocks[-1]) if blocks else {}

    def status(self, stream: int) -> tuple[int, str] | None:
        """grpc-status and grpc-message, None as long as there is none."""
        trailers = self.trailers(stream)
        if b"grpc-status" not in trailers:
            return None
        text = trailers.get(b"grpc-message", b"")
        assert re.fullmatch(rb"(?:[ -$&-~]|%[0-9A-Fa-f]{2})*", text), f"grpc-message is not percent-encoded: {text!r}"
        return int(trailers[b"grpc-status"]), unquote_to_bytes(text).decode()

    def is_alive(self) -> bool:
        """Whether the engine still answers a PING."""
        if self.engine.closed:
            return False
        probe = b"are you?"
        return Frame(PING, ACK, 0, probe) in self.send(ping(probe))


_HANDLERS: Mapping[int, Callable[[Peer, Frame], None]] = {
    DATA: Peer._on_data,
    HEADERS: Peer._on_headers,
    PRIORITY: Peer._on_other,
    RST_STREAM: Peer._on_rst_stream,
    SETTINGS: Peer._on_settings,
    PUSH_PROMISE: Peer._on_other,
    PING: Peer._on_ping,
    GOAWAY: Peer._on_goaway,
    WINDOW_UPDATE: Peer._on_window_update,
    CONTINUATION: Peer._on_continuation,
}


def _parse(buffer: bytearray) -> list[Frame]:
    """Take the whole frames out of the buffer."""
    frames, at = [], 0
    while len(buffer) - at >= 9:
        length = int.from_bytes(buffer[at : at + 3], "big")
        if len(buffer) - at - 9 < length:
            break
        kind, flags, stream = struct.unpack_from(">BBI", buffer, at + 3)
        frames.append(Frame(kind, flags, stream & LAST_STREAM, bytes(buffer[at + 9 : at + 9 + length])))
        at += 9 + length
    del buffer[:at]
    return frames


def _check_fields(listed: list[tuple[bytes, bytes]], *, trailers: bool) -> None:
    """RFC 9113, 8.2 and 8.3, for what a server sends."""
    names = [name for name, _ in listed]
    for name, value in listed:
        assert re.fullmatch(rb":?[!#$%&'*+.^_`|~0-9a-z-]+", name), f"8.2.1: field name {name!r}"
        assert not re.search(rb"[\0\r\n]|^[ \t]|[ \t]$", value), f"8.2.1: value {value!r} of {name!r}"
    assert not {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"} & set(names), f"8.2.2: {names}"
    pseudo = [name for name in names if name.startswith(b":")]
    assert pseudo == ([] if trailers else [b":status"]), f"8.3.2: {pseudo}"
    assert names[: len(pseudo)] == pseudo, f"8.3: {names}"

"""Fuzz target of the HTTP/2 engine: any octets, cut anywhere, and frames put together from octets.

The engine takes both without an exception; it says the same whatever the cut; and what it says keeps to the rules that
``tests.support.http2_peer`` holds every server to. What it holds and what it answers has bounds.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from extproc.exchange.decode import decode
from protos.ext_proc_pb2 import BodyResponse, ProcessingRequest, ProcessingResponse
from tests.fuzz.driver import drive
from tests.support import http2_hpack as hpack
from tests.support import http2_peer as http2
from tests.support.http2_peer import PREFACE, EchoProcessor, EchoStream, Frame, Peer, build_engine

# The first octet says what follows: octets as they are (0), octets after the preface (1), a program (2). The second
# one seeds the cut.
RAW, GREETED, PROGRAM = range(3)
STREAMS = (1, 3, 5, 7, 2, 0, 9, 0x7FFFFFFF)
BLOCK = hpack.block(http2.REQUEST)
SHORT = hpack.indexed(3) + hpack.indexed(6) + hpack.literal(4, http2.PROCESS) + hpack.block(http2.REQUEST[4:])
BLOCKS = (
    BLOCK,
    SHORT,
    SHORT + hpack.literal(b"x", b"1", kind="incremental"),
    SHORT + hpack.indexed(62),
    hpack.table_size(0) + SHORT,
    SHORT[:9],
    hpack.literal(b"x", b"trailer"),
    hpack.block(http2.fields(path=http2.CHECK)),
    hpack.block(http2.fields(path=b"/none.Such/Method")),
    hpack.block(http2.fields((b"content-length", b"13"))),
    hpack.block(http2.fields(grpc_timeout=b"1S")),
    hpack.block(http2.REQUEST, coded=True),
)
ECHO = http2.message(b"echo")
CONTENT = (
    ECHO,
    ECHO[:6],
    ECHO[6:],
    ECHO * 3,
    b"",
    http2.prefixed(b""),
    http2.prefixed(b"", flag=1),
    http2.prefixed(b"", length=2**31),
    http2.message(b"fail"),
    http2.message(b"last"),
    http2.message(b"x" * 300),
)
SETTINGS = (
    (),
    ((http2.INITIAL_WINDOW_SIZE, 0),),
    ((http2.INITIAL_WINDOW_SIZE, 5),),
    ((http2.INITIAL_WINDOW_SIZE, http2.MAX_WINDOW),),
    ((http2.HEADER_TABLE_SIZE, 0),),
    ((http2.HEADER_TABLE_SIZE, 4096),),
    ((http2.MAX_FRAME_SIZE, 20_000),),
    ((http2.MAX_FRAME_SIZE, 1),),
    ((0x99, 1),),
)
INCREMENTS = (1, 0, 7, 65_535, http2.MAX_WINDOW, 1000)


def _seed(*instructions: tuple[int, int, int], cut: int = 1) -> bytes:
    return bytes([PROGRAM, cut, *(octet for each in instructions for octet in each)])


SEEDS = (
    bytes([RAW, 1]) + PREFACE + http2.settings() + http2.call(1, b"echo"),
    bytes([RAW, 2]) + b"GET / HTTP/1.1\r\n\r\n",
    bytes([GREETED, 3]) + http2.call(1, b"echo") + http2.ping() + http2.rst_stream(1),
    bytes([GREETED, 4])
    + http2.headers(1, encoded=BLOCK[:5], flags=0)
    + http2.continuation(1, BLOCK[5:])
    + http2.data(1, ECHO, padding=4),
    bytes([GREETED, 5]) + http2.headers(1, encoded=SHORT + hpack.literal(b"x", b"1", kind="incremental")),
    bytes([GREETED, 6]) + http2.settings((http2.INITIAL_WINDOW_SIZE, 3)) + http2.call(1, b"echo") + http2.goaway(),
    _seed((1, 0, 0), (0, 0, 0), (0, 8, 0), (3, 0, 0)),
    _seed((4, 1, 0), (1, 0, 1), (0, 0, 0), (8, 0, 3), (8, 0, 0), (0, 8, 4)),
    _seed((1, 16, 1), (9, 0, 1), (9, 8, 1), (0, 0, 3), (1, 9, 3), (0, 1, 3), (1, 1, 8)),
    _seed((1, 0, 2), (1, 1, 3), (1, 2, 3), (4, 0, 4), (0, 0, 0), (0, 1, 0), (6, 0, 0)),
    _seed((1, 0, 7), (0, 8, 5), (1, 1, 9), (0, 1, 0), (2, 0, 0), (11, 3, 3), (7, 0, 0)),
)


class _Stream(EchoStream):
    """Echoes, and has no other mind than to end."""

    def feed(self, data: bytes) -> ProcessingResponse | None:
        body = decode(ProcessingRequest, data).request_body.body
        if body in (b"fail", b"last"):
            return super().feed(data)
        reply = ProcessingResponse(request_body=BodyResponse())
        reply.request_body.response.body_mutation.body = body
        return reply


class _Processor(EchoProcessor):
    def open(self) -> EchoStream:
        return _Stream(self)


def one_input(data: bytes) -> None:
    """Play the input at once, in pieces and in single octets. Raises nothing; asserts what the module says."""
    mode, seed, rest = data[:1] or b"\0", data[1:2] or b"\0", data[2:]
    match mode[0] % 3:
        case 0:
            octets = rest
        case 1:
            octets = PREFACE + http2.settings() + rest
        case _:
            octets = PREFACE + http2.settings() + program(rest)
    whole = play([octets])
    assert play(_cut(octets, random.Random(seed[0]))) == whole
    if len(octets) < 500:
        assert play(http2.cut(octets, 1)) == whole


def play(pieces: list[bytes]) -> tuple[list[Frame], bool]:
    """Give the pieces to an engine; return what it said, and whether it closed."""
    processor = _Processor()
    peer = Peer(build_engine(processor, clock=lambda: 0.0, max_concurrent_streams=5))
    peer.collect()
    given = 0
    for piece in pieces:
        given += len(piece)
        peer.send(piece)
        assert peer.engine.open_streams <= 5
        assert processor.opened - processor.closed <= 5
        assert peer.engine.open_streams or not peer.engine.waiting
    said = sum(9 + len(each.payload) for each in peer.frames)
    assert said <= 500 + 20 * given, f"{said} octets in answer to {given}"
    closed = peer.engine.closed
    peer.engine.connection_lost()
    assert processor.opened == processor.closed
    assert peer.engine.open_streams == 0
    return peer.frames, closed


def program(octets: bytes) -> bytes:
    """Frames: three octets each say the type, the stream and its flags, and which of several payloads."""
    return b"".join(_instruction(*each) for each in zip(octets[::3], octets[1::3], octets[2::3], strict=False))


def _instruction(kind: int, where: int, what: int) -> bytes:
    stream, end, open_block = STREAMS[where & 7], bool(where & 8), bool(where & 16)
    builders: tuple[Callable[[], bytes], ...] = (
        lambda: http2.data(stream, CONTENT[what % 11], end=end, padding=what % 5 if open_block else None),
        lambda: http2.headers(stream, encoded=BLOCKS[what % 12], end=end, flags=0 if open_block else http2.END_HEADERS),
        lambda: http2.priority(stream, what),
        lambda: http2.rst_stream(stream, what),
        lambda: http2.settings(*SETTINGS[what % 9]),
        lambda: http2.frame(http2.PUSH_PROMISE, 4, stream, BLOCK),
        lambda: http2.frame(http2.PING, end, 0, bytes([what]) * 8),
        lambda: http2.goaway(0, what),
        lambda: http2.window_update(stream, INCREMENTS[what % 6]),
        lambda: http2.continuation(stream, BLOCKS[what % 12], last=end),
        http2.settings_ack,
        lambda: http2.frame(what, where, stream, bytes(what % 20)),
    )
    return builders[kind % 12]()


def _cut(octets: bytes, chance: random.Random) -> list[bytes]:
    pieces = []
    while octets:
        size = chance.choice((1, 2, 9, 30, 200))
        pieces.append(octets[:size])
        octets = octets[size:]
    return pieces


if __name__ == "__main__":
    # Loads what is to be instrumented.
    build_engine(EchoProcessor())
    drive(one_input, name="http2", package="extproc.transport.http2", seeds=SEEDS)

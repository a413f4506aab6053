"""Does memory stay flat over many streams that Envoy resets (field report BR-109)?

A raw HTTP/2 client opens streams on a loopback connection, exchanges messages on each, and resets it as Envoy does.
The resident size of the server process is printed at every step; at the end, the slope per 100 000 streams.

    python -m tests.bench.leak --streams 200000
    python -m tests.bench.leak --streams 200000 --handler return     # a variant to compare with, see HANDLERS
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import grpc
from grpc import aio

from extproc.exchange.headers import header_map
from protos import ext_proc_pb2 as pb

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_HEADERS, ACK = 4, 1
CANCEL = 8
WINDOW = 2**31 - 1
METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"


# --- the client: just enough HTTP/2 to be cheap beside the server that it measures -----------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that is never indexed, so that the block is the same for every stream."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


HEADER_BLOCK = b"".join(
    literal(name, value)
    for name, value in (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", METHOD),
        (":authority", "processor"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),  # codespell:ignore te
    )
)


def grpc_message(message: pb.ProcessingRequest) -> bytes:
    payload = message.SerializeToString()
    return struct.pack(">BI", 0, len(payload)) + payload


class Client:
    """One connection; ``exchange`` runs a batch of streams through it in lockstep."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._next = 1
        self._received = 0
        settings = struct.pack(">HI", 4, WINDOW)  # SETTINGS_INITIAL_WINDOW_SIZE
        self._socket.sendall(
            PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW - 65535))
        )

    def exchange(self, batch: int, messages: list[bytes]) -> None:
        streams = range(self._next, self._next + 2 * batch, 2)
        self._next += 2 * batch
        for index, message in enumerate(messages):
            opening = b"" if index else HEADER_BLOCK
            self._socket.sendall(
                b"".join(
                    (frame(HEADERS, END_HEADERS, stream, opening) if opening else b"") + frame(DATA, 0, stream, message)
                    for stream in streams
                )
            )
            self._await_replies(set(streams))
        self._socket.sendall(b"".join(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)) for stream in streams))

    def _await_replies(self, waiting: set[int]) -> None:
        while waiting:
            for kind, flags, stream, payload in self._frames():
                if kind == DATA:
                    waiting.discard(stream)
                    self._received += len(payload)
                elif kind in (RST_STREAM, GOAWAY):
                    raise RuntimeError(f"server ended stream {stream}: {payload!r}")
                elif kind == SETTINGS and not flags & ACK:
                    self._socket.sendall(frame(SETTINGS, ACK, 0))
                elif kind == PING and not flags & ACK:
                    self._socket.sendall(frame(PING, ACK, 0, payload))
        if self._received > 2**20:
            self._socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._received)))
            self._received = 0

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        data = self._socket.recv(2**18)
        if not data:
            raise RuntimeError("server closed the connection")
        buffer = self._buffer
        buffer += data
        position = 0
        while len(buffer) - position >= 9:
            length = int.from_bytes(buffer[position : position + 3], "big")
            if len(buffer) - position < 9 + length:
                break
            kind, flags, stream = struct.unpack_from(">BBI", buffer, position + 3)
            yield kind, flags, stream & WINDOW, bytes(buffer[position + 9 : position + 9 + length])
            position += 9 + length
        del buffer[:position]


def requests() -> list[bytes]:
    named = header_map([(":path", b"/v1/chat/completions"), (":method", b"POST"), ("x-request-id", b"bench")])
    headers = pb.ProcessingRequest(request_headers=pb.HttpHeaders(headers=named))
    question = b'{"model":"m","stream":true,"messages":["' + b"x" * 200 + b'"]}'
    body = pb.ProcessingRequest(request_body=pb.HttpBody(body=question, end_of_stream=True))
    return [grpc_message(headers), grpc_message(body)]


# --- the servers that are compared ----------------------------------------------------------------------------------

Handler = Callable[[object, aio.ServicerContext], Awaitable[None]]


class Echo:
    """A stream of the processor that answers everything with an empty message."""

    end = None

    def feed(self, data: bytes) -> pb.ProcessingResponse:
        if pb.ProcessingRequest.FromString(data).WhichOneof("request") == "request_headers":
            return pb.ProcessingResponse(request_headers=pb.HeadersResponse())
        return pb.ProcessingResponse(request_body=pb.BodyResponse())

    def close(self) -> None:
        pass


class EchoProcessor:
    def open(self) -> Echo:
        return Echo()


def whole_processor():
    """The core on a config with a cost rule, so that each stream parses a body, forces usage and keeps state."""
    from extproc.exchange.stream import Processor
    from extproc.runtime import build_runtime
    from extproc.telemetry.metrics import Metrics
    from filter_config.load import decode

    decoded = decode(b'{"version":"dev","globalLLMRequestCosts":[{"metadataKey":"k","type":"TotalToken"}]}')
    processor = Processor(metrics=Metrics())
    processor.runtime = build_runtime(decoded.config, digest="bench")
    return processor


async def handle_and_return(_: object, context: aio.ServicerContext) -> None:
    """Swallow the cancellation and return as if all was well; what most handlers do."""
    stream = Echo()
    try:
        while (data := await context.read()) is not aio.EOF:
            await context.write(stream.feed(data))
    except asyncio.CancelledError:
        return


async def handle_and_raise(_: object, context: aio.ServicerContext) -> None:
    """Let the cancellation through."""
    stream = Echo()
    while (data := await context.read()) is not aio.EOF:
        await context.write(stream.feed(data))


async def handle_iterator(requests: object, context: aio.ServicerContext) -> None:
    """``async for``, the documented way."""
    stream = Echo()
    async for data in requests:
        await context.write(stream.feed(data))


async def generate(requests: object, context: aio.ServicerContext):
    """An async generator, the documented way with ``yield``."""
    stream = Echo()
    async for data in requests:
        yield stream.feed(data)


HANDLERS = {
    "return": handle_and_return,
    "raise": handle_and_raise,
    "iterator": handle_iterator,
    "generator": generate,
}


async def serve(name: str) -> None:
    if name in ("product", "transport"):
        from extproc.transport.grpc_aio import GrpcServer

        processor = whole_processor() if name == "product" else EchoProcessor()
        server = GrpcServer(processor, is_serving=lambda: True)
        address = server.listen("127.0.0.1:0")
        await server.start()
        print(address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()
    raw = aio.server(options=[("grpc.so_reuseport", 0)])
    handler = grpc.stream_stream_rpc_method_handler(HANDLERS[name], None, pb.ProcessingResponse.SerializeToString)
    service, _, method = METHOD.lstrip("/").partition("/")
    raw.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    print(raw.add_insecure_port("127.0.0.1:0"), flush=True)
    await raw.start()
    await raw.wait_for_termination()


def run_server(name: str) -> None:
    try:
        import uvloop

        uvloop.run(serve(name))
    except ImportError:
        asyncio.run(serve(name))


# --- the measurement ------------------------------------------------------------------------------------------------


def resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def slope(points: list[tuple[int, int]]) -> float:
    """Least squares, in KiB per 100 000 streams."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / sum((x - mean_x) ** 2 for x, _ in points) * 100_000


def measure(name: str, streams: int, step: int, batch: int) -> None:
    command = [sys.executable, __file__, "--serve", name]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        try:
            client = Client(int(server.stdout.readline()))
            messages = requests()
            started, points = time.perf_counter(), []
            for done in range(batch, streams + 1, batch):
                client.exchange(batch, messages)
                if done % step < batch:
                    points.append((done, resident_kib(server.pid)))
                    rate = done / (time.perf_counter() - started)
                    print(f"{name:10} {done:8} streams  {points[-1][1]:8} KiB  {rate:7.0f}/s", flush=True)
            warm = points[len(points) // 4 :]
            print(f"{name:10} slope {slope(warm):8.0f} KiB per 100 000 streams (first quarter left out)")
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", metavar="HANDLER", help=argparse.SUPPRESS)
    parser.add_argument("--handler", default="product", choices=["product", "transport", *HANDLERS])
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--step", type=int, default=0, help="streams between two figures; a tenth by default")
    parser.add_argument("--batch", type=int, default=64, help="streams open at the same time")
    options = parser.parse_args()
    if options.serve:
        run_server(options.serve)
    else:
        measure(options.handler, options.streams, options.step or options.streams // 10, options.batch)


if __name__ == "__main__":
    main()

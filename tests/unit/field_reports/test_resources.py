"""Field reports about time and memory: large bodies, what is kept for how long, and what is thrown away."""

import gc
import json
import time
import tracemalloc
import types
from collections.abc import Iterator
from typing import Any

import pytest

from extproc.exchange import names
from tests.support.field_reports import (
    ASKED,
    CHAT,
    CONFIG,
    DONE,
    EMBEDDINGS,
    NOT_ASKED,
    SSE,
    answer,
    delta,
    event,
    report,
    triple,
)
from tests.support.playbook import SECOND_BACKEND, Gateway, openai_backend

MIB = 1024 * 1024


def largest_bytes(root: Any) -> int:
    """The size of the largest bytes-like object that can be reached from ``root``."""
    seen: set[int] = set()
    queue, largest = [root], 0
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(item))
        if isinstance(item, bytes | bytearray):
            largest = max(largest, len(item))
        queue += gc.get_referents(item)
    return largest


def padded(size: int, **members: Any) -> bytes:
    frame = json.dumps({"model": "m", **members, "x": ""}).encode()
    return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]


class TestLargeBodies:
    """BR-38: bodies far beyond gRPC's default limit go through; the time they take is shown."""

    @pytest.mark.parametrize("size", [5 * MIB, 45 * MIB], ids=["5 MiB", "45 MiB"])
    @pytest.mark.parametrize("mutated", [False, True])
    def test_requests(self, open_gateway, size, mutated):
        backend = openai_backend(modelNameOverride="real") if mutated else openai_backend()
        exchange = open_gateway({**CONFIG, "backends": [backend]}).exchange()
        body = padded(size)
        started = time.perf_counter()
        exchange.request(body, {"content-length": str(size)})
        reply = exchange.attempt()
        print(f"request of {size // MIB} MiB, mutated={mutated}: {(time.perf_counter() - started) * 1000:.0f} ms")
        assert reply.body == (body.replace(b'"m"', b'"real"', 1) if mutated else None)

    @pytest.mark.parametrize("size", [5 * MIB, 45 * MIB], ids=["5 MiB", "45 MiB"])
    def test_responses(self, gateway, size):
        exchange = gateway.start(b'{"model":"m","input":"a"}', EMBEDDINGS)
        vector = b"[" + b"0.125, " * (size // 7) + b"1]"
        frame = json.dumps(answer(EMBEDDINGS)).encode()
        body = frame.replace(b"[0.5]", vector)
        started = time.perf_counter()
        exchange.response()
        reply = exchange.piece(body, eos=True)
        print(f"response of {len(body) // MIB} MiB: {(time.perf_counter() - started) * 1000:.0f} ms")
        assert {key: reply.metadata[key] for key in ("in", "out", "total")} == triple(EMBEDDINGS)
        assert reply.body is None

    def test_a_large_stream(self, gateway):
        exchange = gateway.start(NOT_ASKED)
        exchange.response(SSE)
        piece = event(delta("x" * 1000))
        started = time.perf_counter()
        for _ in range(20_000):
            exchange.piece(piece)
        print(f"stream of 20000 chunks: {(time.perf_counter() - started) * 1e6 / 20_000:.0f} us a chunk")
        assert exchange.piece(event(report()) + DONE, eos=True).metadata["total"] == 15

    def test_a_mutated_body_is_the_only_copy_in_the_reply(self, open_gateway):
        """The reply itself may be large: 45 MiB of replaced body."""
        exchange = open_gateway({**CONFIG, "backends": [openai_backend(modelNameOverride="real")]}).exchange()
        exchange.request(padded(45 * MIB, stream=True))
        assert exchange.attempt().message.ByteSize() > 45 * MIB


class TestWhatIsKept:
    """BR-111: the request's bytes are kept as long as an attempt may need them, and no longer."""

    SIZE = 2 * MIB

    @pytest.fixture(params=[False, True], ids=["as it came", "rewritten"])
    def exchange(self, open_gateway, request) -> Any:
        listed = [openai_backend(modelNameOverride="real" if request.param else ""), openai_backend(SECOND_BACKEND)]
        exchange = open_gateway({**CONFIG, "backends": listed}).exchange()
        exchange.request(padded(self.SIZE, stream=request.param))
        exchange.attempt()
        return exchange

    def kept(self, exchange: Any) -> int:
        return max(largest_bytes([stream]) for stream in (exchange.router, *exchange.attempts))

    def test_until_the_response_headers(self, exchange):
        assert self.kept(exchange) >= self.SIZE
        exchange.attempt(SECOND_BACKEND)
        assert self.kept(exchange) >= self.SIZE
        exchange.response(SSE)
        assert self.kept(exchange) < self.SIZE // 100

    @pytest.mark.parametrize("status", ["200", "429", "503"])
    def test_whatever_the_status(self, exchange, status):
        exchange.response(SSE, status=status)
        assert self.kept(exchange) < self.SIZE // 100

    def test_until_the_client_leaves(self, exchange):
        exchange.close()
        assert self.kept(exchange) < self.SIZE // 100

    def test_of_a_refused_request(self, gateway):
        exchange = gateway.exchange()
        exchange.headers()
        exchange.body(padded(self.SIZE)[:-1])
        assert self.kept(exchange) < self.SIZE // 100

    def test_of_a_document(self, gateway):
        """An answer that has been read is not kept until the stream's end."""
        exchange = gateway.start(ASKED)
        exchange.response({"content-type": "application/json"})
        body = padded(self.SIZE, choices=[], usage={"prompt_tokens": 1})
        for at in range(0, len(body), 65_536):
            exchange.piece(body[at : at + 65_536])
        exchange.piece(b"", eos=True)
        assert sum(map(len, bytes_of(exchange.router))) < self.SIZE // 100

    def test_of_a_stream(self, gateway):
        exchange = gateway.start(ASKED)
        exchange.response(SSE)
        for _ in range(2000):
            exchange.piece(event(delta("x" * 1000)))
        assert sum(map(len, bytes_of(exchange.router))) < 100_000

    def test_memory_while_a_body_is_translated(self, open_gateway):
        """The peak stays below four times the body, its own bytes and the reply's included."""
        exchange = open_gateway({**CONFIG, "backends": [openai_backend(modelNameOverride="real")]}).exchange()
        body = padded(10 * MIB, stream=True)
        exchange.headers()
        tracemalloc.start()
        try:
            exchange.body(body)
            exchange.attempt()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        print(f"peak of Python's own memory: {peak / len(body):.1f} times the body")
        assert peak < 4 * len(body)


def bytes_of(root: Any) -> Iterator[bytes]:
    """Every bytes-like object of some size that an exchange's own objects hold."""
    seen: set[int] = set()
    queue = [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(item))
        if isinstance(item, bytes | bytearray) and len(item) > 500:
            yield bytes(item)
        module = type(item).__module__
        if module.startswith(("extproc.exchange", "extproc.translate", "extproc.formats", "builtins")):
            queue += gc.get_referents(item)


def test_many_streams_leave_nothing():
    """BR-111, BR-30: after hundreds of exchanges, the processor holds none of them."""
    gateway = Gateway(CONFIG)

    def play(rounds: int) -> int:
        for _ in range(rounds):
            exchange = gateway.exchange()
            exchange.request(ASKED)
            exchange.attempt()
            exchange.response(SSE)
            exchange.piece(event(report()), eos=True)
            exchange.close()
        gc.collect()
        return len(gc.get_objects())

    before = play(200)
    assert play(500) - before < 200
    assert gateway.processor.requests_in_flight == 0


def test_the_id_header_is_small(gateway):
    """BR-111: the id that joins the halves is not larger than the client's own and a unique part."""
    exchange = gateway.exchange()
    exchange.headers({"x-request-id": "r" * 100, ":path": CHAT})
    assert len(exchange.carried[names.INTERNAL_REQUEST_ID]) < 200

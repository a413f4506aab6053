"""What the tests of the field reports share: inputs, ways to cut them, and an exchange that watches its invariants.

Every message that goes through a ``WatchedExchange`` must be answered by exactly one reply of its own phase (or, while
the client has no status yet, by an immediate response), with nothing but ``raw_value`` in header values. When the
gateway is left, every stream has been closed, nothing is registered, and every attempt has been counted once.
"""

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import brotli
import zstandard
from google.protobuf.message import Message

from extproc.exchange.stream import Stream
from extproc.telemetry import exposition
from protos.ext_proc_pb2 import (
    BUFFERED,
    BUFFERED_PARTIAL,
    FULL_DUPLEX_STREAMED,
    GRPC,
    NONE,
    STREAMED,
    HeaderValue,
    ProcessingRequest,
    ProcessingResponse,
)
from tests.support.playbook import (
    DEFAULT_HEADERS,
    Exchange,
    Gateway,
    Reply,
    body_modes,
    cost,
    openai_backend,
    request_headers,
)

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
PATHS = (CHAT, COMPLETIONS, EMBEDDINGS)
STREAMING_PATHS = (CHAT, COMPLETIONS)

COSTS = [cost("in", "InputToken"), cost("out", "OutputToken"), cost("total", "TotalToken")]
CONFIG: dict[str, Any] = {"version": "dev", "backends": [openai_backend()], "llmRequestCosts": COSTS}
UNMETERED: dict[str, Any] = {**CONFIG, "llmRequestCosts": []}

PLAIN = b'{"model":"m"}'
NOT_ASKED = b'{"model":"m","stream":true}'
ASKED = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'

SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}

_MODES = {
    "NONE": NONE,
    "STREAMED": STREAMED,
    "BUFFERED": BUFFERED,
    "BUFFERED_PARTIAL": BUFFERED_PARTIAL,
    "FULL_DUPLEX_STREAMED": FULL_DUPLEX_STREAMED,
    "GRPC": GRPC,
}

USAGE = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
TRIPLE = {"in": 11, "out": 4, "total": 15}
ZERO = {"in": 0, "out": 0, "total": 0}
DONE = b"data: [DONE]\n\n"


def event(members: Any, *, prefix: bytes = b"data: ", ending: bytes = b"\n") -> bytes:
    """One event of one line; ``members`` may be the JSON text itself."""
    text = members if isinstance(members, bytes) else json.dumps(members, ensure_ascii=False).encode()
    return prefix + text + ending * 2


def delta(text: str, **members: Any) -> dict[str, Any]:
    """A chunk of chat completions."""
    return {"id": "c", "model": "m-1", "choices": [{"index": 0, "delta": {"content": text}}], **members}


def text(piece: str, **members: Any) -> dict[str, Any]:
    """A chunk of completions."""
    return {"id": "c", "model": "m-1", "choices": [{"index": 0, "text": piece}], **members}


def report(**members: Any) -> dict[str, Any]:
    """A chunk that reports usage and nothing else."""
    return {"id": "c", "model": "m-1", "choices": [], "usage": USAGE, **members}


def answer(path: str, usage: Any = USAGE) -> dict[str, Any]:
    """The whole answer of an endpoint."""
    parts: dict[str, Any] = {
        CHAT: {"choices": [{"message": {"content": "hallo"}}]},
        COMPLETIONS: {"choices": [{"text": "hallo"}]},
        EMBEDDINGS: {"object": "list", "data": [{"embedding": [0.5], "index": 0}]},
    }
    return {"id": "x", "model": "m-1", **parts[path], "usage": usage}


def triple(path: str) -> dict[str, int]:
    """What ``answer(path)`` costs; embeddings have no output."""
    return TRIPLE if path != EMBEDDINGS else {"in": 11, "out": 0, "total": 15}


def request_trailers() -> ProcessingRequest:
    message = ProcessingRequest()
    message.request_trailers.SetInParent()
    return message


# --- codings and cuts ---

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The pieces of ``data`` between ``places``; empty ones stay."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def cuts(data: bytes, *, seed: int = 7, rounds: int = 5) -> Iterator[list[bytes]]:
    """One piece, single bytes, every single cut, and random cuts."""
    yield [data]
    yield [data[index : index + 1] for index in range(len(data))]
    for place in range(len(data)):
        yield cut(data, [place])
    dice = random.Random(seed)
    for _ in range(rounds):
        yield cut(data, [dice.randrange(len(data)) for _ in range(dice.randrange(1, 12))])


# --- the watched exchange ---


class WatchedGateway(Gateway):
    """A gateway that remembers its exchanges, so that the end of all of them can be checked."""

    def __init__(self, config: Mapping[str, Any] | None = CONFIG, **options: Any) -> None:
        super().__init__(config, **options)
        self.exchanges: list[WatchedExchange] = []
        self.streams: list[Stream] = []

    def stream(self) -> Stream:
        stream = super().stream()
        self.streams.append(stream)
        return stream

    def exchange(self, **headers: str) -> "WatchedExchange":
        exchange = WatchedExchange(self, headers)
        self.exchanges.append(exchange)
        return exchange

    def start(
        self,
        body: bytes | Mapping[str, Any] = PLAIN,
        path: str = CHAT,
        headers: Mapping[str, str] | None = None,
        **attempt: Any,
    ) -> "WatchedExchange":
        """An exchange whose request has been sent to the backend."""
        exchange = self.exchange()
        exchange.request(body, {":path": path, **(headers or {})})
        assert exchange.attempt(**attempt).kind == "request_headers"
        return exchange

    def scrape(self) -> str:
        return exposition.render(self.metrics.registry)

    def count(self, name: str, *parts: str) -> float:
        """The sum of the samples of ``name`` whose labels hold all of ``parts``."""
        lines = [line for line in self.scrape().split("\n") if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(part in line for part in parts))

    def end(self) -> None:
        """Close everything, twice, and check that nothing is left and everything is counted."""
        for _ in range(2):
            for exchange in self.exchanges:
                exchange.close()
            for stream in self.streams:
                stream.close()
        assert self.processor.requests_in_flight == 0
        assert self.count("extproc_streams") == 0
        attempts = sum(stream._router.attempts for stream in self.streams if stream._router is not None)
        assert self.count("gen_ai_server_request_duration_seconds_count") == attempts
        assert self.count("extproc_attempts_total") == attempts


@contextmanager
def watched(config: Mapping[str, Any] | None = CONFIG, **options: Any) -> Iterator[WatchedGateway]:
    gateway = WatchedGateway(config, **options)
    yield gateway
    gateway.end()


class WatchedExchange(Exchange):
    """An exchange that checks each reply against the message that it answers.

    Attributes:
        consistent: whether the provider's counts add up, so that ours must.
    """

    gateway: WatchedGateway
    consistent = True

    def send(self, stream: Stream, message: ProcessingRequest) -> Reply:
        reply = super().send(stream, message)
        check_reply(message, reply.message, immediate=not self.streaming)
        metadata = reply.metadata
        if self.consistent and {"in", "out", "total"} <= metadata.keys() and metadata["out"]:
            assert metadata["in"] + metadata["out"] == metadata["total"]
        return reply

    def headers_with_modes(
        self, *, request: str = "BUFFERED", response: str = "BUFFERED", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Request headers from an Envoy that says how its filter sends bodies."""
        self.carried = {**DEFAULT_HEADERS, **(headers or {})}
        message = request_headers(self.carried)
        message.protocol_config = body_modes(_MODES[request], _MODES[response])
        reply = self.send(self.router, message)
        self._carry(reply)
        return reply

    @property
    def streaming(self) -> bool:
        """Whether the client has got its status, so that no other can be given."""
        return self.router._router is not None and self.router._router.response_started

    def play(self, pieces: Sequence[bytes]) -> "Played":
        """Play a body, the last piece as its end."""
        output, wire = b"", b"".join(pieces)
        metadata: dict[str, Any] = {}
        for index, piece in enumerate(pieces):
            reply = self.piece(piece, eos=index == len(pieces) - 1)
            output += piece if reply.body is None else reply.body
            metadata |= reply.metadata
        return Played(wire, output, metadata)


@dataclass(frozen=True)
class Played:
    """What became of a body."""

    sent: bytes
    output: bytes
    metadata: dict[str, Any]

    @property
    def tokens(self) -> dict[str, Any]:
        return {key: self.metadata[key] for key in TRIPLE if key in self.metadata}


def streaming(
    gateway: WatchedGateway, body: bytes = ASKED, path: str = CHAT, headers: Any = SSE, **attempt: Any
) -> WatchedExchange:
    """An exchange whose answer has begun, as a stream unless ``headers`` say otherwise."""
    exchange = gateway.start(body, path, **attempt)
    exchange.response(headers)
    return exchange


def play(gateway: WatchedGateway, pieces: list[bytes], body: bytes = ASKED, path: str = CHAT) -> Played:
    """Play a whole stream."""
    exchange = streaming(gateway, body, path)
    played = exchange.play(pieces)
    exchange.close()
    return played


def check_reply(message: ProcessingRequest, reply: ProcessingResponse, *, immediate: bool) -> None:
    """The rules that every reply keeps."""
    phase, kind = message.WhichOneof("request"), reply.WhichOneof("response")
    assert kind == phase or (immediate and kind == "immediate_response"), (phase, kind)
    assert not any(value.value for value in header_values(reply)), "only raw_value may be set"
    if reply.HasField("mode_override"):
        assert kind == "response_headers", "ext_proc: a mode override counts only on a reply to headers"
    if kind == "immediate_response":
        headers = {value.key: value.raw_value for value in header_values(reply)}
        body = reply.immediate_response.body
        if reply.immediate_response.status.code != 404:
            assert headers["content-type"] == b"application/json"
            assert headers["content-length"] == str(len(body)).encode()
            json.loads(body)


def header_values(message: Message) -> Iterator[HeaderValue]:
    """Every header value anywhere in a message."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if isinstance(part, HeaderValue):
                yield part
            else:
                yield from header_values(part)

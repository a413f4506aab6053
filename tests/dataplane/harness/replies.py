"""What a strict upstream answers, piece by piece.

A reply is a value; its pieces are bytes to write, or things that happen between them: a pause, a gate that the test
opens, an abort. Each piece of bytes is one write, and one chunk of a chunked body.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

import brotli
import zstandard

Encoding: TypeAlias = Literal["gzip", "deflate", "br", "zstd"]
Framing: TypeAlias = Literal["length", "chunked", "close"]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this many seconds before the next piece."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Cut the connection here, without the rest of the body."""


class Gate:
    """A place in a reply where the upstream waits until the test says ``open``. It serves any number of replies."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._lock = threading.Lock()
        self._opened = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        with self._lock:
            self._opened = True
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    def wait_until_reached(self, timeout: float = 10.0) -> None:
        if not self.reached.wait(timeout):
            raise TimeoutError("the upstream has not come to the gate")

    async def passed(self) -> None:
        """The upstream's side: come to the gate, and go on once it is open."""
        opened = asyncio.Event()
        with self._lock:
            if self._opened:
                opened.set()
            else:
                self._waiting.append((asyncio.get_running_loop(), opened))
        self.reached.set()
        await opened.wait()


Piece: TypeAlias = bytes | Pause | Gate | Abort


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One response. ``framing`` says how its end is known: by length, by the last chunk, or by closing."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[Piece, ...] = ()
    framing: Framing = "length"
    trailers: tuple[tuple[str, str], ...] = ()
    content_length: int | None = None
    """A wrong length on purpose; None for the true one."""

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))


def encoded(body: bytes, encoding: Encoding) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(body, mtime=0)
        case "deflate":
            return zlib.compress(body)
        case "br":
            return brotli.compress(body)
        case "zstd":
            return zstandard.compress(body)


def body_reply(
    body: bytes, *, status: int = 200, content_type: str = "application/json", encoding: Encoding | None = None
) -> Reply:
    headers = [("content-type", content_type)]
    if encoding is not None:
        body = encoded(body, encoding)
        headers.append(("content-encoding", encoding))
    return Reply(status=status, headers=tuple(headers), pieces=(body,))


def json_reply(document: object, *, status: int = 200, encoding: Encoding | None = None) -> Reply:
    return body_reply(json.dumps(document).encode(), status=status, encoding=encoding)


def stream_reply(
    *events: bytes | Pause | Gate | Abort,
    encoding: Encoding | None = None,
    piece: int | None = None,
    status: int = 200,
) -> Reply:
    """Server-sent events as one chunked body. ``piece`` cuts the bytes anew, into writes of that many bytes."""
    pieces: tuple[Piece, ...] = events
    headers = [("content-type", "text/event-stream")]
    if encoding is not None or piece is not None:
        body = b"".join(event for event in events if isinstance(event, bytes))
        if encoding is not None:
            body = encoded(body, encoding)
            headers.append(("content-encoding", encoding))
        size = piece or len(body)
        pieces = tuple(body[start : start + size] for start in range(0, len(body), size))
    return Reply(status=status, headers=tuple(headers), pieces=pieces, framing="chunked")


def event(document: object) -> bytes:
    """One server-sent event; text is taken as it is."""
    data = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"data: {data}\n\n".encode()


def chat_completion(model: str, *, text: str = "Hello!", prompt: int = 10, completion: int = 5) -> dict[str, object]:
    """An answer of the chat completions API with usage."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": usage(prompt, completion),
    }


def chat_chunks(
    model: str, *words: str, prompt: int = 10, completion: int = 5, with_usage: bool = True
) -> tuple[bytes, ...]:
    """The same as a stream: a chunk a word, the end, the usage, [DONE]."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}
    parts = [{"index": 0, "delta": {"content": word}, "finish_reason": None} for word in words]
    parts.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = [event(head | {"choices": [part]}) for part in parts]
    if with_usage:
        events.append(event(head | {"choices": [], "usage": usage(prompt, completion)}))
    return (*events, event("[DONE]"))


def usage(prompt: int, completion: int) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

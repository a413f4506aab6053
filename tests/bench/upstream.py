"""A stand-in upstream that costs next to nothing: constant answers over keep-alive connections, and paced streams.

``python -m tests.bench.upstream`` prints its port and serves until it is stopped. A request with ``x-bench-stream:
CHUNKS;GAP`` is answered with so many events, GAP seconds apart; any other gets a plain answer. Each event carries the
monotonic time at which it was written, so that a client on the same machine can tell how late it is. Events keep their
pace whether or not anybody reads: a model does not wait for its reader either.
"""

import asyncio
import json
import sys
import time

STREAM_HEADER = "x-bench-stream"

USAGE = {"prompt_tokens": 12, "completion_tokens": 200, "total_tokens": 212}


def _http(content_type: bytes, length: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: " + content_type + b"\r\n" + length + b"\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_PLAIN = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi " * 100}}],
        "usage": USAGE,
    }
).encode()
_PLAIN_ANSWER = _http(b"application/json", b"content-length: %d" % len(_PLAIN)) + _PLAIN
_STREAM_HEAD = _http(b"text/event-stream", b"transfer-encoding: chunked")
# The stamp has a fixed width, so that every event has the same length.
_EVENT = _chunk(
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"@' + b"0" * 20 + b'@"},"finish_reason":null}]}\n\n'
).replace(b"@" + b"0" * 20 + b"@", b"@%020d@")
_LAST = (
    _chunk(
        b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
        b'"choices":[],"usage":' + json.dumps(USAGE).encode() + b"}\n\ndata: [DONE]\n\n"
    )
    + b"0\r\n\r\n"
)


def _header(head: bytes, name: bytes) -> bytes | None:
    """The value of a header in a block whose names are in lower case."""
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


class Upstream(asyncio.Protocol):
    """One connection. Requests carry a content-length; the next comes when the last is answered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._head = b""
        self._missing = 0
        self._pace: tuple[int, float] | None = None
        self._left = 0
        self._gap = self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport):
        self._transport = transport

    def connection_lost(self, error):
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data):
        if self._missing:
            # Bodies are counted, not kept.
            self._missing -= len(data)
            if not self._missing:
                self._answer()
            return
        head, separator, body = (self._head + data).partition(b"\r\n\r\n")
        if not separator:
            self._head = head
            return
        self._head = b""
        block = head.lower()
        pace = _header(block, STREAM_HEADER.encode())
        if pace is not None:
            chunks, _, gap = pace.partition(b";")
            self._pace = int(chunks), float(gap)
        self._missing = int(_header(block, b"content-length") or 0) - len(body)
        if not self._missing:
            self._answer()

    def _answer(self):
        if self._pace is None:
            self._transport.write(_PLAIN_ANSWER)
            return
        self._left, self._gap = self._pace
        self._pace = None
        self._transport.write(_STREAM_HEAD)
        self._due = self._loop.time()
        self._event()

    def _event(self):
        if not self._left:
            self._timer = None
            self._transport.write(_LAST)
            return
        self._left -= 1
        self._transport.write(_EVENT % time.monotonic_ns())
        self._due += self._gap
        self._timer = self._loop.call_at(self._due, self._event)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=8192)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> int:
    import uvloop

    uvloop.run(_serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())

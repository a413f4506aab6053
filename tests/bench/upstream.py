"""A stand-in upstream that costs next to nothing: fixed answers over keep-alive connections.

``python -m tests.bench.upstream`` prints its port and serves until it is stopped. A body with ``"stream":true`` gets a
stream of ``CHUNKS`` events, any other a plain answer.
"""

import asyncio
import json
import sys

CHUNKS = 100

_USAGE = {"prompt_tokens": 12, "completion_tokens": CHUNKS, "total_tokens": 12 + CHUNKS}
_PLAIN = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "model": "bench",
        "choices": [{"message": {"content": "hi"}}],
        "usage": _USAGE,
    }
).encode()
_EVENT = (
    b'data: {"id":"x","object":"chat.completion.chunk","model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"token"}}]}\n\n'
)
_LAST = b'data: {"id":"x","choices":[],"usage":' + json.dumps(_USAGE).encode() + b"}\n\ndata: [DONE]\n\n"


def _http(content_type: bytes, length: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: " + content_type + b"\r\n" + length + b"\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_PLAIN_ANSWER = _http(b"application/json", b"content-length: %d" % len(_PLAIN)) + _PLAIN
_STREAM_HEAD = _http(b"text/event-stream", b"transfer-encoding: chunked")


class Upstream(asyncio.Protocol):
    """One connection. Requests carry a content-length; the next comes when the last is answered."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self._received.lower().find(b"content-length:", 0, head)
        length = int(self._received[start + 15 : self._received.index(b"\r\n", start)]) if start >= 0 else 0
        if len(self._received) < head + 4 + length:
            return
        body = bytes(self._received[head + 4 : head + 4 + length])
        del self._received[: head + 4 + length]
        if b'"stream":true' in body:
            asyncio.get_running_loop().create_task(self._stream())
        else:
            self._transport.write(_PLAIN_ANSWER)

    async def _stream(self):
        self._transport.write(_STREAM_HEAD)
        for _ in range(CHUNKS):
            self._transport.write(_chunk(_EVENT))
            # One event a turn of the loop, so that each travels as a piece of its own.
            await asyncio.sleep(0)
        self._transport.write(_chunk(_LAST) + b"0\r\n\r\n")


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> int:
    import uvloop

    uvloop.run(_serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())

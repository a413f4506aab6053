"""An ext_proc server that answers every message with a constant: what a transport costs by itself.

    python -m tests.bench.echo --transport grpcio --socket /tmp/echo.sock

Envoy's filters are set up as for the processor, so the same five messages of a request come here. The one reply that
is not empty asks for the pieces of a streamed answer, as the processor does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from typing import Final

from extproc.transport.base import Processor
from extproc.transport.engines import ENGINES
from protos.ext_proc_pb2 import STREAMED, HttpHeaders, ProcessingRequest, ProcessingResponse

READY: Final = "echo is ready"
_ANY_SIZE: Final = 0


def _neutral(kind: str) -> ProcessingResponse:
    reply = ProcessingResponse()
    getattr(reply, kind).SetInParent()
    return reply


def _streamed() -> ProcessingResponse:
    reply = _neutral("response_headers")
    reply.mode_override.response_body_mode = STREAMED
    return reply


_REPLIES: Final = {
    kind: _neutral(kind)
    for kind in (
        "request_headers",
        "request_body",
        "request_trailers",
        "response_headers",
        "response_body",
        "response_trailers",
    )
}
_STREAMED: Final = _streamed()


class EchoStream:
    """A stream of the core that knows nothing."""

    end = None

    def feed(self, data: bytes) -> ProcessingResponse:
        request = ProcessingRequest.FromString(data)
        kind = request.WhichOneof("request")
        if kind == "response_headers" and _is_event_stream(request.response_headers):
            return _STREAMED
        return _REPLIES[kind]

    def close(self) -> None:
        pass


class Echo:
    """The core of the echo server."""

    def open(self) -> EchoStream:
        return EchoStream()


def _is_event_stream(headers: HttpHeaders) -> bool:
    return b"text/event-stream" in headers.headers


async def serve(transport: str, socket: str) -> None:
    """Serve until SIGTERM."""
    core: Processor = Echo()
    server = ENGINES[transport](core, is_serving=lambda: True, max_message=_ANY_SIZE, tls=None)
    server.listen(f"unix://{socket}")
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    # As the processor does before it says that it serves.
    gc.collect()
    gc.freeze()
    print(READY, flush=True)
    await stopped.wait()
    await server.stop(0)


def main() -> int:
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m tests.bench.echo", description=__doc__)
    parser.add_argument("--transport", default="grpcio", choices=sorted(ENGINES))
    parser.add_argument("--socket", required=True, help="path of the unix socket")
    options = parser.parse_args()
    uvloop.run(serve(options.transport, options.socket))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The clients of nghttp2, the C library of the protocol: ``nghttp`` and ``h2load``, where they are at hand.

``python -m tests.bench.tools`` fetches them.
"""

from __future__ import annotations

import asyncio
import re
import struct

import pytest

from tests.bench.tools import HOME, ToolMissing, tool
from tests.support.served import ENGINES, PROCESS, Served, body

GRPC = ("-H", "content-type: application/grpc", "-H", "te: trailers")
MESSAGES = b"".join(
    struct.pack(">BL", 0, len(message)) + message
    for message in (body(data).SerializeToString() for data in (b"one", b"x" * 40_000, b"three"))
)


def at_hand(name):
    try:
        # Never fetched here: a test has no business with the network.
        return tool(name, home=HOME) if (HOME / "usr" / "bin" / name).exists() else None
    except ToolMissing:
        return None


def run(program, *arguments):
    """What a program prints that is pointed at an http2 server of ours."""

    async def story():
        async with Served(ENGINES["http2"]) as served:
            url = f"http://{served.address}{PROCESS}"
            output = await asyncio.to_thread(program.run, *arguments, url, timeout=60)
            return output, served.processor

    return asyncio.run(story())


@pytest.fixture
def messages(tmp_path):
    file = tmp_path / "messages"
    file.write_bytes(MESSAGES)
    return str(file)


@pytest.mark.skipif(at_hand("nghttp") is None, reason="there is no nghttp on this machine")
@pytest.mark.parametrize("arguments", [(), ("--window-bits=8",), ("--padding=250",), ("--no-dep",)])
def test_nghttp_gets_every_reply_and_the_status(messages, arguments):
    output, processor = run(at_hand("nghttp"), "-v", "-n", *GRPC, "-d", messages, *arguments)

    assert processor.fed == [b"one", b"x" * 40_000, b"three"]
    assert re.search(r"recv \(stream_id=\d+\) :status: 200", output)
    assert re.search(r"recv \(stream_id=\d+\) grpc-status: 0", output)
    assert "GOAWAY" not in re.sub(r"send GOAWAY.*", "", output)
    assert processor.closed == processor.opened == 1


@pytest.mark.skipif(at_hand("nghttp") is None, reason="there is no nghttp on this machine")
def test_more_header_fields_than_announced_are_told_so(messages):
    # Its continuation test sends 18 kB of them, in CONTINUATION frames; 16 kB are announced.
    output, processor = run(at_hand("nghttp"), "-v", "-n", *GRPC, "-d", messages, "--continuation")

    assert re.search(r"recv \(stream_id=\d+\) :status: 431", output)
    assert processor.opened == 0


@pytest.mark.skipif(at_hand("h2load") is None, reason="there is no h2load on this machine")
@pytest.mark.parametrize(
    "arguments", [("-c", "1", "-m", "1"), ("-c", "4", "-m", "64"), ("-c", "2", "-m", "16", "-w", "10")]
)
def test_h2load_sees_no_request_fail(messages, arguments):
    output, processor = run(at_hand("h2load"), "-n", "500", *arguments, *GRPC, "-d", messages)

    assert "500 succeeded, 0 failed, 0 errored, 0 timeout" in output
    assert "500 2xx" in output
    assert len(processor.fed) == 3 * 500
    assert processor.closed == processor.opened == 500

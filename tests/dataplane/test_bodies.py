"""Bodies of every size, in both directions, and what the processor still holds of them afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dataplane.harness.client import CHAT, EMBEDDINGS, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import body_reply, chat_completion, json_reply, stream_reply, usage
from tests.dataplane.harness.waiting import wait_until

MEBIBYTE = 1 << 20
REAL = "a-much-longer-name"
HELD_AFTERWARDS = 600 * MEBIBYTE
"""Generous: one answer of 45 MiB is in memory several times while it passes."""


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    where = route(rule(upstream, models=["small"]))
    entry = backend(where.backend_name(0, 0), model=REAL, key="sk")
    return start_stack(
        routes=[where], config=filter_config(entry, globalLLMRequestCosts=[cost("tokens")]), cost_keys=["tokens"]
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


def request_of(size, **fields):
    """A request body of exactly so many bytes, most of them an emoji of four."""
    frame = json.dumps(question(**fields, user="@"), ensure_ascii=False).encode()
    emoji = "🚀".encode()
    count, rest = divmod(size - len(frame) + 1, len(emoji))
    return frame.replace(b"@", emoji * count + b"x" * rest)


SIZES = {
    "32 KiB": 32_768,
    "32 KiB and one": 32_769,
    "1 MiB": MEBIBYTE,
    "5 MiB": 5 * MEBIBYTE,
    "45 MiB": 45 * MEBIBYTE,
}


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_request_of_any_size_arrives_whole(client, upstream, size, framing):
    upstream.reply(json_reply(chat_completion(REAL)))
    body = request_of(size)
    assert len(body) == size

    pieces = (body[start : start + 65_536] for start in range(0, size, 65_536))
    response = client.post(CHAT, content=body if framing == "length" else pieces)

    assert response.status_code == 200
    # Compared as a condition: a difference of megabytes is nothing to print.
    same = upstream.last.body == body.replace(b'"small"', f'"{REAL}"'.encode())
    assert same
    assert upstream.last.header("content-length") == str(len(upstream.last.body))


def test_a_large_request_that_streams_is_made_to_report_usage(client, upstream):
    upstream.reply(stream_reply(b"data: [DONE]\n\n"))

    assert client.post(CHAT, content=request_of(5 * MEBIBYTE, stream=True)).status_code == 200

    sent = upstream.last.json()
    assert (sent["stream_options"], sent["model"]) == ({"include_usage": True}, REAL)
    assert upstream.last.header("content-length") == str(len(upstream.last.body))


def embeddings_of(size):
    """An answer of at least so many bytes, as base64 vectors give it."""
    frame = {"object": "list", "model": REAL, "data": [{"object": "embedding", "index": 0, "embedding": "@"}]}
    text = json.dumps(frame | {"usage": {"prompt_tokens": 9, "total_tokens": 9}})
    return text.replace("@", "QUJD" * (size // 4)).encode()


@pytest.mark.parametrize("encoding", [None, "gzip"])
@pytest.mark.parametrize("size", [5 * MEBIBYTE, 45 * MEBIBYTE], ids=["5 MiB", "45 MiB"])
def test_a_large_answer_arrives_whole_and_is_charged(stack, upstream, size, encoding):
    request_id = new_id("large")
    reply = body_reply(embeddings_of(size), encoding=encoding)
    upstream.reply(reply)

    headers = {"x-request-id": request_id, "accept-encoding": "gzip"}
    with OpenAnswer(stack, {"model": "small", "input": "a"}, path=EMBEDDINGS, **headers) as answer:
        assert answer.status == 200
        assert answer.headers["content-length"] == str(len(reply.body))
        same = answer.rest() == reply.body
        assert same

    assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": 9}


def test_a_large_stream_passes_in_pieces(stack, upstream):
    request_id = new_id("large")
    one = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"y" * 65_000 + b'"}}]}\n\n'
    last = b"data: " + json.dumps({"choices": [], "usage": usage(1, 2)}).encode() + b"\n\n"
    upstream.reply(stream_reply(*[one] * 160, last, b"data: [DONE]\n\n"))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        same = answer.rest() == one * 160 + b"data: [DONE]\n\n"
        assert same

    assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": 3}


def resident(pid):
    """Bytes of memory that a process has in use now."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kibibytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kibibytes) << 10


def test_large_bodies_are_not_kept(stack, client, upstream):
    pid = stack.processor.child.pid
    upstream.always(json_reply(chat_completion(REAL)))
    before = resident(pid)
    after = []
    for _ in range(4):
        assert client.post(CHAT, content=request_of(20 * MEBIBYTE)).status_code == 200
        after.append(resident(pid))

    figures = ", ".join(f"{value / MEBIBYTE:.0f}" for value in after)
    print(f"processor: {before / MEBIBYTE:.0f} MiB before, then {figures} MiB after each request of 20 MiB")
    wait_until(lambda: stack.metrics().sum("extproc_streams") == 0, "every stream is closed")
    assert max(after) < HELD_AFTERWARDS
    assert after[-1] - after[0] < 60 * MEBIBYTE

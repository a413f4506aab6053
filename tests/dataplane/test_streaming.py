"""Streams: the client's bytes are the upstream's, event by event, and usage is read from any cut of them."""

from __future__ import annotations

import gzip
import http.client
import json

import httpx
import pytest

from tests.dataplane.harness import envoy_document
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.envoy_document import edited
from tests.dataplane.harness.replies import (
    Abort,
    Gate,
    Reply,
    chat_chunks,
    encoded,
    event,
    json_reply,
    stream_reply,
)

COSTS = [cost("tokens"), cost("out", "OutputToken")]
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
NOT_ASKED = {
    "no options": {"stream": True},
    "empty options": {"stream": True, "stream_options": {}},
    "null options": {"stream": True, "stream_options": None},
    "declined": {"stream": True, "stream_options": {"include_usage": False, "x-kept": 1}},
}
CHUNKS = chat_chunks("real", "a", "é👩‍🚀", " c", prompt=11, completion=7)
BODY = b"".join(CHUNKS)
BODY_WITHOUT_USAGE = b"".join(chunk for chunk in CHUNKS if b'"usage"' not in chunk)


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def start(start_stack, upstream):
    def run(costs=COSTS, **arguments):
        where = route(rule(upstream, models=["small"]))
        entry = backend(where.backend_name(0, 0), model="real", key="sk")
        config = filter_config(entry, globalLLMRequestCosts=costs)
        return start_stack(routes=[where], config=config, cost_keys=["tokens", "out"], **arguments)

    return run


@pytest.fixture(scope="module")
def stack(start):
    return start()


def costs_of(stack, request_id):
    return stack.access_log.wait_for(request_id)["costs"]


SIZES = {"1 byte": 1, "7 bytes": 7, "64 bytes": 64, "one piece": len(BODY)}


@pytest.mark.parametrize("encoding", [None, "gzip", "br", "zstd", "deflate"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_client_that_asked_for_usage_gets_the_bytes_of_the_upstream(stack, upstream, size, encoding):
    request_id = new_id("asked")
    upstream.reply(stream_reply(*CHUNKS, piece=size, encoding=encoding))
    headers = {"x-request-id": request_id, "accept-encoding": "gzip, br, zstd, deflate"}

    with OpenAnswer(stack, question(**ASKED), **headers) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers.get("content-encoding") == encoding
        assert answer.rest() == (BODY if encoding is None else encoded(BODY, encoding))

    assert costs_of(stack, request_id) == {"tokens": 18, "out": 7}
    assert upstream.last.json() == question("real", **ASKED)


@pytest.mark.parametrize("encoding", [None, "gzip"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_client_that_did_not_ask_sees_no_usage(stack, upstream, size, encoding):
    request_id = new_id("not-asked")
    upstream.reply(stream_reply(*CHUNKS, piece=size, encoding=encoding))
    headers = {"x-request-id": request_id, "accept-encoding": "gzip"}

    with OpenAnswer(stack, question(stream=True), **headers) as answer:
        assert answer.status == 200
        # The report is taken out of plain text, so plain text is what goes on.
        assert "content-encoding" not in answer.headers
        assert "content-length" not in answer.headers
        assert answer.rest() == BODY_WITHOUT_USAGE

    assert costs_of(stack, request_id) == {"tokens": 18, "out": 7}


@pytest.mark.parametrize("fields", NOT_ASKED.values(), ids=NOT_ASKED)
def test_the_upstream_is_made_to_report_usage(stack, upstream, fields):
    upstream.reply(stream_reply(*CHUNKS))

    with OpenAnswer(stack, question(**fields)) as answer:
        assert answer.rest() == BODY_WITHOUT_USAGE

    options = (fields.get("stream_options") or {}) | {"include_usage": True}
    assert upstream.last.json() == question("real", stream=True, stream_options=options)
    assert upstream.last.header("content-length") == str(len(upstream.last.body))


def test_usage_beside_a_choice_goes_and_the_choice_stays(stack, upstream):
    request_id = new_id("beside")
    choices = [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    upstream.reply(stream_reply(event({"choices": choices, "usage": usage}), event("[DONE]"), piece=5))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        first, done, end = answer.rest().split(b"\n\n")

    assert json.loads(first.removeprefix(b"data: ")) == {"choices": choices}
    assert (done, end) == (b"data: [DONE]", b"")
    assert costs_of(stack, request_id) == {"tokens": 5, "out": 3}


def test_without_costs_nothing_is_asked_for_and_nothing_hidden(start, upstream):
    plain = start(costs=[])
    upstream.always(stream_reply(*CHUNKS))

    with OpenAnswer(plain, question(stream=True)) as answer:
        assert answer.rest() == BODY

    assert upstream.last.json() == question("real", stream=True)


@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
def test_every_event_arrives_before_the_next_is_sent(stack, upstream, fields):
    gates = [Gate() for _ in range(4)]
    words = [f"word-{number}" for number in range(5)]
    *parts, finish, usage, done = chat_chunks("real", *words)
    pieces = [part for pair in zip(parts, gates, strict=False) for part in pair]
    upstream.reply(stream_reply(*pieces, parts[-1], finish, usage, done))

    with OpenAnswer(stack, question(**fields)) as answer:
        for word, gate in zip(words, gates, strict=False):
            seen = answer.until(f'"{word}"'.encode())
            assert seen.endswith(b"\n\n")
            gate.wait_until_reached()
            gate.open()
        assert answer.rest().endswith(b"data: [DONE]\n\n")


def test_a_compressed_stream_arrives_event_by_event_too(stack, upstream):
    gate = Gate()
    first, *rest = CHUNKS
    upstream.reply(
        Reply(
            headers=(("content-type", "text/event-stream"), ("content-encoding", "gzip")),
            # Members of one gzip stream: each can be decoded when it is here.
            pieces=(gzip.compress(first), gate, gzip.compress(b"".join(rest))),
            framing="chunked",
        )
    )

    with OpenAnswer(stack, question(stream=True)) as answer:
        assert answer.until(b'"content":"a"') == first
        gate.open()
        assert answer.rest() == BODY_WITHOUT_USAGE


def test_the_other_lines_of_a_stream_are_kept(stack, upstream):
    request_id = new_id("lines")
    usage = b'data:{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\r\n\r\n'
    lines = (b": ping\n\n", b'event: x\nid: 7\ndata: {"choices":[{"delta":{}}]}\n\n', usage, b"data: [DONE]\r\n\r\n")
    upstream.reply(stream_reply(*lines, piece=3))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        assert answer.rest() == b"".join(line for line in lines if line is not usage)

    assert costs_of(stack, request_id) == {"tokens": 2, "out": 1}


def test_an_error_instead_of_a_stream_is_an_error(stack, upstream):
    request_id = new_id("error")
    error = {"error": {"message": "slow down", "type": "rate_limit", "code": None}}
    refusal = json_reply(error, status=429)
    upstream.reply(Reply(status=429, headers=(*refusal.headers, ("retry-after", "3")), pieces=refusal.pieces))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        assert (answer.status, answer.headers["retry-after"]) == (429, "3")
        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.rest()) == error

    assert costs_of(stack, request_id) == {"tokens": None, "out": None}


def test_a_document_instead_of_a_stream_is_passed_and_charged(stack, upstream):
    request_id = new_id("document")
    document = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    upstream.reply(json_reply(document))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        assert json.loads(answer.rest()) == document

    assert costs_of(stack, request_id) == {"tokens": 3, "out": 2}


def test_an_error_in_the_middle_of_a_stream_is_passed(stack, upstream):
    request_id = new_id("broken-off")
    error = event({"error": {"message": "overloaded", "type": "server_error", "code": "500"}})
    upstream.reply(stream_reply(CHUNKS[0], error))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": request_id}) as answer:
        assert answer.rest() == CHUNKS[0] + error

    assert costs_of(stack, request_id)["tokens"] in (0, None)


@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
def test_a_stream_that_the_upstream_cuts_is_cut_for_the_client(stack, upstream, fields):
    gate = Gate()
    upstream.reply(stream_reply(CHUNKS[0], gate, Abort()))

    with OpenAnswer(stack, question(**fields)) as answer:
        assert answer.until(b"\n\n") == CHUNKS[0]
        gate.open()
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()

    # Nothing is left over that would harm the next one.
    upstream.reply(stream_reply(*CHUNKS))
    with OpenAnswer(stack, question(**ASKED)) as answer:
        assert answer.rest() == BODY


def test_a_stream_that_is_cut_after_its_usage_is_charged(stack, upstream):
    request_id = new_id("cut-after-usage")
    gate = Gate()
    upstream.reply(stream_reply(*CHUNKS[:-1], gate, Abort()))

    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": request_id}) as answer:
        answer.until(b'"usage"')
        gate.open()
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()

    assert costs_of(stack, request_id) == {"tokens": 18, "out": 7}


def test_the_last_event_may_lack_its_end(stack, upstream):
    request_id = new_id("no-end")
    unfinished = b"".join(CHUNKS[:-1]).rstrip(b"\n")
    upstream.reply(stream_reply(unfinished))

    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": request_id}) as answer:
        assert answer.rest() == unfinished

    assert costs_of(stack, request_id) == {"tokens": 18, "out": 7}


def _pass_trailers(document):
    envoy_document.manager(document)["http_protocol_options"] = {"enable_trailers": True}
    for cluster in envoy_document.clusters(document):
        for options in cluster["typed_extension_protocol_options"].values():
            http1 = options["explicit_http_config"].get("http_protocol_options")
            if http1 is not None:
                http1["enable_trailers"] = True


@pytest.fixture(scope="module")
def stack_with_trailers(start):
    return start(rewrite=edited(_pass_trailers))


TRAILERS = (("x-took", "0.25"), ("x-checksum", "abc"))


@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
def test_trailers_after_a_stream_arrive_and_the_stream_is_charged(stack_with_trailers, upstream, fields):
    request_id = new_id("trailers")
    reply = stream_reply(*CHUNKS)
    upstream.reply(Reply(headers=reply.headers, pieces=reply.pieces, framing="chunked", trailers=TRAILERS))

    head, _, body = exchange(stack_with_trailers, question(**fields), request_id).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    content, trailers = dechunk(body)
    assert set(TRAILERS) <= set(trailers)
    assert content == (BODY if fields is ASKED else BODY_WITHOUT_USAGE)
    assert costs_of(stack_with_trailers, request_id) == {"tokens": 18, "out": 7}


@pytest.mark.xfail(reason="Envoy skips response trailers, so no message says that the last event has no more to come")
def test_trailers_end_an_event_that_lacks_its_end(stack_with_trailers, upstream):
    request_id = new_id("trailers")
    reply = stream_reply(b"".join(CHUNKS[:-1]).rstrip(b"\n"))
    upstream.reply(Reply(headers=reply.headers, pieces=reply.pieces, framing="chunked", trailers=TRAILERS))

    _, _, body = exchange(stack_with_trailers, question(**ASKED), request_id).partition(b"\r\n\r\n")

    assert dechunk(body)[0] == reply.body
    assert costs_of(stack_with_trailers, request_id) == {"tokens": 18, "out": 7}


def test_trailers_after_a_document_arrive_and_it_is_charged(stack_with_trailers, upstream):
    request_id = new_id("trailers")
    document = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    reply = json_reply(document)
    upstream.reply(Reply(headers=reply.headers, pieces=reply.pieces, framing="chunked", trailers=TRAILERS))

    head, _, body = exchange(stack_with_trailers, question(), request_id).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    content, trailers = dechunk(body)
    assert json.loads(content) == document
    assert set(TRAILERS) <= set(trailers)
    assert costs_of(stack_with_trailers, request_id) == {"tokens": 3, "out": 2}


def exchange(stack, document, request_id):
    """All bytes of one answer; the clients that tests use otherwise drop trailers."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
    headers = {"content-type": "application/json", "x-request-id": request_id, "connection": "close"}
    connection.request("POST", CHAT, body=json.dumps(document).encode(), headers=headers)
    received = b"".join(iter(lambda: connection.sock.recv(1 << 16), b""))
    connection.close()
    return received


def dechunk(body):
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        content, body = content + body[:length], body[length + 2 :]
    lines = body.decode().removesuffix("\r\n\r\n").split("\r\n")
    return content, [tuple(line.split(": ", 1)) for line in lines if line]


@pytest.fixture(scope="module")
def whole(start):
    """An Envoy that ignores the wish to have the answer streamed (field report BR-35)."""

    def forbid(document):
        for config in envoy_document.ext_procs(document):
            config.pop("allow_mode_override", None)

    return start(rewrite=edited(forbid))


@pytest.mark.parametrize("encoding", [None, "gzip"])
@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
def test_a_stream_that_envoy_hands_over_whole_is_charged_all_the_same(whole, upstream, fields, encoding):
    request_id = new_id("whole")
    upstream.reply(stream_reply(*CHUNKS, encoding=encoding))

    with connect(whole) as client:
        response = client.post(CHAT, json=question(**fields), headers={"x-request-id": request_id})

    assert response.status_code == 200
    assert response.content == (BODY if fields is ASKED else BODY_WITHOUT_USAGE)
    assert costs_of(whole, request_id) == {"tokens": 18, "out": 7}

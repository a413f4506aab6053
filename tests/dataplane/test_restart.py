"""The processor goes and comes while clients ask: what Envoy and a drain bridge together."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

ASKED = {"stream": True, "stream_options": {"include_usage": True}}


CHUNKS = chat_chunks("real", "a", "b", prompt=11, completion=7)
ANSWERS = {"document": json_reply(chat_completion("real", prompt=11, completion=7)), "stream": stream_reply(*CHUNKS)}


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(autouse=True)
def _answer(upstream):
    upstream.always(lambda received: ANSWERS["stream" if received.json().get("stream") else "document"])


@pytest.fixture
def start(start_stack, upstream):
    def run(drain, **arguments):
        where = route(rule(upstream, models=["small"]))
        entry = backend(where.backend_name(0, 0), model="real", key="sk")
        return start_stack(
            routes=[where],
            config=filter_config(entry, globalLLMRequestCosts=[cost("tokens")]),
            cost_keys=["tokens"],
            environment={"EXTPROC_DRAIN_SECONDS": drain},
            # Many retries: a machine that is busy with other tests may take long to start a processor.
            processor_settings={"connect_retries": 100, "message_timeout": 60.0},
            **arguments,
        )

    return run


KINDS = {"document": question(), "stream": question(**ASKED)}


def load_on(stack, kind):
    """Clients that want every answer as the upstream gave it."""
    expected = ANSWERS[kind].body
    return Load(stack, KINDS[kind], good=lambda status, body: (status, body) == (200, expected))


def charged(stack, served):
    """The costs in the access log, once it has a line for every request."""
    wait_until(lambda: len(stack.access_log.entries()) >= served, "every request is in the access log")
    return {entry["costs"]["tokens"] for entry in stack.access_log.entries()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rolling_restart_fails_no_request(start, kind):
    stack = start("0.2")
    with load_on(stack, kind) as load:
        for _ in range(2):
            # The new process serves before the old one is told to stop.
            assert stack.restart_processor(overlap=True) == 0
            load.wait_for_more(20)

    print(f"{load.served} requests served through two rolling restarts")
    assert load.failures == []
    assert charged(stack, load.served) == {18}
    assert stack.metrics().sum("extproc_attempts_total", outcome="success") > 0


def test_a_restart_in_place_fails_no_request(start):
    stack = start("0")
    with load_on(stack, "document") as load:
        for _ in range(2):
            # Nobody listens for as long as the new process takes to start.
            assert stack.restart_processor() == 0
            load.wait_for_more(20)

    print(f"{load.served} requests served through two restarts in place")
    assert load.failures == []
    assert charged(stack, load.served) == {18}


def test_the_successor_keeps_the_socket_when_its_predecessor_ends(start):
    stack = start("0")

    assert stack.restart_processor(overlap=True) == 0

    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200


def test_a_drain_leaves_no_error_in_the_log(start):
    stack = start("0")
    with load_on(stack, "document"):
        log = stack.processor.log
        stack.restart_processor()

    assert "level=ERROR" not in log.read_text(encoding="utf-8")


def test_a_processor_that_is_killed_comes_back(start):
    stack = start("0")
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
        stack.processor.child.kill()
        stack.restart_processor()
        assert client.post(CHAT, json=question()).status_code == 200


def test_open_streams_finish_after_a_signal(start, upstream):
    stack = start("0")
    gate = Gate()
    first, *rest = CHUNKS
    upstream.reply(*[stream_reply(first, gate, *rest)] * 20)
    begun, finished = threading.Barrier(21), []

    def read(number):
        with OpenAnswer(stack, question(**ASKED), **{"x-request-id": f"open-{number}"}) as answer:
            answer.until(b'"a"')
            begun.wait(30)
            finished.append(answer.rest())

    clients = [threading.Thread(target=read, args=(number,)) for number in range(20)]
    for each in clients:
        each.start()
    begun.wait(30)
    old = stack.processor.child
    old.signal(signal.SIGTERM)
    old.wait_for_line("shutting down the server now", timeout=30)
    assert old.running
    gate.open()
    for each in clients:
        each.join(30)

    assert old.wait(30) == 0
    assert finished == [b"".join((first, *rest))] * 20
    for number in range(20):
        assert stack.access_log.wait_for(f"open-{number}")["costs"] == {"tokens": 18}


def test_nobody_waits_for_a_stream_that_the_old_process_has_yet_to_finish(start, upstream):
    stack = start("0")
    gate = Gate()
    first, *rest = CHUNKS
    upstream.reply(stream_reply(first, gate, *rest))
    old = stack.processor.child

    with OpenAnswer(stack, question(**ASKED)) as answer, ThreadPoolExecutor(1) as pool, connect(stack) as client:
        answer.until(b'"a"')
        restarted = pool.submit(stack.restart_processor, overlap=True)
        old.wait_for_line("shutting down the server now", timeout=30)
        try:
            assert [client.post(CHAT, json=question()).status_code for _ in range(5)] == [200] * 5
            assert old.running
        finally:
            gate.open()
        assert answer.rest() == b"".join(CHUNKS)
        assert restarted.result() == 0


def test_while_it_drains_it_serves_and_is_not_ready(start):
    stack = start("60")
    old = stack.processor.child

    old.signal(signal.SIGTERM)
    wait_until(lambda: stack.processor.admin("/ready")[0] == 503, "it says that it is not ready")

    readiness = json.loads(stack.processor.admin("/ready")[1])
    assert (readiness["ready"], readiness["draining"]) == (False, True)
    assert stack.processor.admin("/health") == (500, "unhealthy status: NOT_SERVING\n")
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    # A second signal is for people who do not want to wait.
    old.signal(signal.SIGTERM)
    assert old.wait(30) == 0


def test_a_stream_that_does_not_end_is_cut_when_its_time_is_over(start, upstream):
    stack = start("0", processor_arguments=("-shutdownTimeout", "200ms"))
    gate = Gate()
    first, *rest = CHUNKS
    upstream.reply(stream_reply(first, gate, *rest))

    with OpenAnswer(stack, question(**ASKED)) as answer:
        answer.until(b'"a"')
        assert stack.processor.stop(grace=30) == 0
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()
    gate.open()

"""Two workers behind one address, with each request spread over both: nothing that a client sees tells."""

from __future__ import annotations

import json
import os
import signal
import threading

import httpx
import pytest

from deploy.envoy.model import Retry
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.split import SplitStack
from tests.dataplane.harness.waiting import wait_until

ANSWER = json_reply(chat_completion("m", prompt=11, completion=7))
CHUNKS = chat_chunks("m", "a", "b", prompt=11, completion=7)
BUSY = json_reply({"error": {"message": "busy"}}, status=503)
ASKED = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def first(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module")
def where(first, second):
    return route(
        rule(first, models=["small"]), rule(first, second, models=["both"], retry=Retry()), rule(first, models=["own"])
    )


@pytest.fixture(scope="module")
def config(where):
    def build(model="real"):
        own_key = {"apiKey": {"key": "sk-unused"}, "credentialOverride": {"headerName": "x-own-key"}}
        return filter_config(
            backend(where.backend_name(0, 0), model=model, key="sk-first"),
            backend(where.backend_name(1, 0), model="first-model", key="sk-first"),
            backend(where.backend_name(1, 1), model="second-model", key="sk-second"),
            backend(where.backend_name(2, 0), auth=own_key),
            globalLLMRequestCosts=[cost("tokens")],
        )

    return build


@pytest.fixture(scope="module")
def start_split(_parts, tmp_path_factory, socket_directory, where, config, request):
    from tests.dataplane.conftest import _STACKS

    def start(drain="0", **arguments):
        stack = SplitStack(
            tmp_path_factory.mktemp("stack"),
            socket_directory=socket_directory,
            routes=[where],
            config=config(),
            cost_keys=["tokens"],
            environment={"EXTPROC_DRAIN_SECONDS": drain},
            processor_settings={"connect_retries": 100, "message_timeout": 60.0},
            **arguments,
        )
        request.node.stash.setdefault(_STACKS, []).append(stack)
        return _parts.enter_context(stack)

    return start


@pytest.fixture(scope="module")
def shared(start_split):
    return start_split()


@pytest.fixture
def stack(shared):
    """A stack on which the test finds, at its end, that all its attempts were relayed, and every stream is over."""
    wait_until(lambda: shared.metrics().sum("extproc_streams") == 0, "former requests are over")
    before = relayed(shared), attempts(shared)
    yield shared
    wait_until(lambda: shared.metrics().sum("extproc_streams") == 0, "every stream is over")
    assert relayed(shared) - before[0] == attempts(shared) - before[1]


@pytest.fixture
def client(stack):
    with connect(stack) as client:
        yield client


def relayed(stack):
    return stack.metrics().sum("extproc_relayed_attempts_total")


def attempts(stack):
    return stack.metrics().sum("extproc_messages_total", level="upstream")


def workers(stack):
    return stack.live_config()["workers"]


def hashes(stack):
    return {worker["hash"] for worker in workers(stack)}


def test_both_workers_serve_and_each_attempt_is_relayed(stack, client, first):
    first.always(ANSWER)
    before = relayed(stack)
    for _ in range(10):
        request_id = new_id("plain")
        response = client.post(CHAT, json=question(), headers={"x-request-id": request_id})
        assert (response.status_code, response.content) == (200, ANSWER.body)
        assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": 18}
    assert relayed(stack) - before == 10
    assert [worker["state"] for worker in workers(stack)] == ["serving", "serving"]
    assert all(worker["connections"] for worker in workers(stack))
    assert first.last.json()["model"] == "real"
    assert first.last.header("authorization") == "Bearer sk-first"
    assert stack.processor.admin("/health") == (200, "OK\n")


def test_a_streamed_answer(stack, first):
    first.always(stream_reply(*CHUNKS, piece=7))
    request_id = new_id("stream")
    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": request_id}) as answer:
        assert answer.rest() == b"".join(CHUNKS)
    assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": 18}


def test_failover(stack, client, first, second):
    first.always(BUSY)
    second.always(ANSWER)
    request_id = new_id("failover")
    before = relayed(stack)
    response = client.post(CHAT, json=question("both"), headers={"x-request-id": request_id})
    assert (response.status_code, response.content) == (200, ANSWER.body)
    assert first.last.json()["model"] == "first-model"
    assert second.last.json()["model"] == "second-model"
    assert second.last.header("authorization") == "Bearer sk-second"
    entry = stack.access_log.wait_for(request_id)
    assert (entry["attempts"], entry["costs"]) == (2, {"tokens": 18})
    assert relayed(stack) - before == 2


def test_an_attempt_that_is_refused(client, first):
    response = client.post(CHAT, json=question("own"))
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "missing upstream credential"
    assert first.requests == []


def test_a_malformed_body(stack, client, first):
    before = relayed(stack)
    response = client.post(CHAT, content=b'{"model": ', headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert first.requests == []
    assert relayed(stack) == before


def test_a_large_body(client, first):
    first.always(ANSWER)
    document = question(user="x" * 8_000_000)
    assert client.post(CHAT, json=document).status_code == 200
    assert first.last.json() == document | {"model": "real"}


def test_a_client_that_leaves(stack, first):
    gate = Gate()
    first.always(stream_reply(CHUNKS[0], gate, *CHUNKS[1:]))
    before = stack.metrics().sum("extproc_attempts_total", outcome="client_cancelled")
    with OpenAnswer(stack, question(**ASKED)) as answer:
        answer.until(b'"a"')
    gate.open()
    wait_until(
        lambda: stack.metrics().sum("extproc_attempts_total", outcome="client_cancelled") == before + 1,
        "the request is accounted for",
    )


def test_a_config_that_changes_under_load_reaches_both(stack, config, first):
    first.always(ANSWER)
    with Load(stack, question(), good=lambda status, body: (status, body) == (200, ANSWER.body)) as load:
        for name in ("next", "last"):
            digest = stack.swap_config(config(name))
            wait_until(lambda digest=digest: hashes(stack) == {digest}, "both workers have it")
            load.wait_for_more(20)
        assert first.last.json()["model"] == "last"
    assert load.failures == []
    refused = stack.live_config()["refusals"]
    stack.swap_config(b"backends: none", wait=False)
    wait_until(lambda: stack.live_config()["refusals"] > refused, "the config is refused")
    assert hashes(stack) == {digest}
    stack.swap_config(config())


def kill(stack, number):
    """Kill a worker as the kernel would, and wait for the next one in its place."""
    dead = workers(stack)[number - 1]
    os.kill(dead["pid"], signal.SIGKILL)

    def replaced():
        now = workers(stack)[number - 1]
        return now["pid"] != dead["pid"] and now["state"] == "serving"

    wait_until(replaced, "the worker is replaced", timeout=30)


@pytest.mark.parametrize("number", [1, 2], ids=["owner", "stranger"])
def test_a_worker_that_is_killed_takes_only_its_own_streams_along(shared, first, number):
    first.always(ANSWER)
    wait_until(lambda: shared.metrics().sum("extproc_streams") == 0, "former requests are over")
    before = shared.metrics()
    clients = 4
    with Load(shared, question(), clients=clients, good=lambda status, _: status == 200) as load:
        kill(shared, number)
        load.wait_for_more(50)
        survived = len(load.failures)
        load.wait_for_more(50)
    print(f"{survived} requests failed with their worker, {load.served} were served")

    # Each client has one request at a time, and only those that were in flight can fail.
    assert survived <= clients
    assert len(load.failures) == survived
    wait_until(lambda: shared.metrics().sum("extproc_streams") == 0, "every stream is over")
    after = shared.metrics()
    assert after.sum("extproc_worker_ends_total") == before.sum("extproc_worker_ends_total") + 1
    for name in ("extproc_messages_total", "extproc_attempts_total", "gen_ai_client_token_usage_sum"):
        assert after.sum(name) > before.sum(name), name
    assert after.sum("extproc_workers") == 2
    died = [line for line in shared.processor.log.read_text().splitlines() if "worker died" in line]
    assert f"worker=w{number}." in died[-1]
    assert "signal SIGKILL" in died[-1]


def test_open_streams_finish_after_a_signal(start_split, first):
    stack = start_split()
    gate = Gate()
    head, *rest = CHUNKS
    first.always(stream_reply(head, gate, *rest))
    begun, finished = threading.Barrier(11), []

    def read(number):
        with OpenAnswer(stack, question(**ASKED), **{"x-request-id": f"open-{number}"}) as answer:
            answer.until(b'"a"')
            begun.wait(30)
            finished.append(answer.rest())

    clients = [threading.Thread(target=read, args=(number,)) for number in range(10)]
    for each in clients:
        each.start()
    begun.wait(30)
    pids = [worker["pid"] for worker in workers(stack)]
    old = stack.processor.child
    old.signal(signal.SIGTERM)
    old.wait_for_line("shutting down the server now", timeout=30)
    assert old.running
    gate.open()
    for each in clients:
        each.join(30)

    assert old.wait(30) == 0
    assert finished == [b"".join(CHUNKS)] * 10
    assert [pid for pid in pids if is_running(pid)] == []
    assert "level=ERROR" not in stack.processor.log.read_text(encoding="utf-8")
    for number in range(10):
        assert stack.access_log.wait_for(f"open-{number}")["costs"] == {"tokens": 18}


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_while_it_drains_it_serves_and_is_not_ready(start_split, first):
    first.always(ANSWER)
    stack = start_split(drain="60")
    old = stack.processor.child
    old.signal(signal.SIGTERM)
    wait_until(lambda: stack.processor.admin("/ready")[0] == 503, "it says that it is not ready")

    readiness = json.loads(stack.processor.admin("/ready")[1])
    assert (readiness["ready"], readiness["draining"]) == (False, True)
    assert readiness["workers"] == {"wanted": 2, "serving": 2, "with_another_config": 0}
    wait_until(
        lambda: stack.processor.admin("/health") == (500, "unhealthy status: NOT_SERVING\n"), "workers say it too"
    )
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    # A second signal is for people who do not want to wait.
    old.signal(signal.SIGTERM)
    assert old.wait(30) == 0


def test_a_stream_that_does_not_end_is_cut_when_its_time_is_over(start_split, first):
    stack = start_split(processor_arguments=("-shutdownTimeout", "200ms"))
    gate = Gate()
    first.reply(stream_reply(CHUNKS[0], gate, *CHUNKS[1:]))
    with OpenAnswer(stack, question(**ASKED)) as answer:
        answer.until(b'"a"')
        assert stack.processor.stop(grace=30) == 0
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()
    gate.open()


def test_a_restart_in_place_fails_no_request(start_split, first):
    first.always(ANSWER)
    stack = start_split()
    with Load(stack, question(), good=lambda status, body: (status, body) == (200, ANSWER.body)) as load:
        assert stack.restart_processor() == 0
        load.wait_for_more(20)
    assert load.failures == []

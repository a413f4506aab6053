"""A config that changes while clients ask: nobody notices, except by the new config's effect."""

from __future__ import annotations

import json
import statistics
import threading
import time

import pytest

from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

SWAPS = 20
POLL = "1s"
"""What the safety net may take to see a file that is there again; the default is 5 s."""


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def where(upstream):
    return route(rule(upstream, models=["small"]))


@pytest.fixture(scope="module")
def config(where):
    """``config(name)``: the backend calls the model so, and its key is the same with ``sk-`` in front."""

    def build(name, **fields):
        entry = backend(where.backend_name(0, 0), model=name, key=f"sk-{name}")
        return filter_config(entry, uuid=name, globalLLMRequestCosts=[cost("tokens")], **fields)

    return build


@pytest.fixture(scope="module")
def stack(start_stack, where, config):
    return start_stack(
        routes=[where],
        config=config("start"),
        cost_keys=["tokens"],
        environment={"EXTPROC_CONFIG_POLL_INTERVAL": POLL},
    )


@pytest.fixture
def first_seen(upstream):
    """When the upstream was first asked for a model, by model; and each request must fit together."""
    seen = {}
    changed = threading.Condition()

    def answer(received):
        model = received.json()["model"]
        fits = received.header("authorization") == f"Bearer sk-{model}"
        fits = fits and received.header("content-length") == str(len(received.body))
        with changed:
            seen.setdefault(model, time.monotonic())
            changed.notify_all()
        return json_reply(chat_completion(model), status=200 if fits else 500)

    def wait_for(model):
        with changed:
            assert changed.wait_for(lambda: model in seen, 30.0), f"{model} was never asked for"
            return seen[model]

    upstream.always(answer)
    return wait_for


def good(status, body):
    return status == 200 and b'"chat.completion"' in body


def test_twenty_swaps_under_load_fail_no_request(stack, config, first_seen):
    latencies = []
    with Load(stack, question(), good=good) as load:
        for number in range(SWAPS):
            name = f"under-load-{number}"
            begun = time.monotonic()
            digest = stack.config.swap(config(name))
            latencies.append(first_seen(name) - begun)
            load.wait_for_more(5)
    stack.wait_for_config(digest)

    median, worst = statistics.median(latencies) * 1000, max(latencies) * 1000
    print(
        f"swap to first request with the new model: median {median:.0f} ms, worst {worst:.0f} ms, {load.served} served"
    )
    assert load.failures == []
    live = stack.live_config()
    assert (live["live"]["hash"], live["live"]["config"]["uuid"]) == (digest, f"under-load-{SWAPS - 1}")
    assert live["refusals"] == 0


def test_swaps_without_load_are_seen_one_by_one(stack, config):
    latencies = []
    for number in range(SWAPS):
        begun = time.monotonic()
        stack.swap_config(config(f"idle-{number}"))
        latencies.append(time.monotonic() - begun)

    print(f"swap to /config, nothing else to do: median {statistics.median(latencies) * 1000:.0f} ms")
    assert stack.live_config()["live"]["config"]["uuid"] == f"idle-{SWAPS - 1}"


def test_of_many_swaps_at_once_the_last_one_counts(stack, config, upstream):
    for number in range(50):
        digest = stack.config.swap(config(f"burst-{number}"))
    stack.wait_for_config(digest)
    upstream.always(json_reply(chat_completion("m")))

    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    assert upstream.last.json()["model"] == "burst-49"
    assert stack.live_config()["last_refused"] is None


def test_a_stream_keeps_the_config_that_it_began_with(stack, config, upstream):
    gate = Gate()
    stack.swap_config(config("old"))
    first, *rest = chat_chunks("old", "a", prompt=11, completion=7)
    upstream.reply(stream_reply(first, gate, *rest))

    with OpenAnswer(stack, question(stream=True), **{"x-request-id": "keeps"}) as answer:
        answer.until(b'"a"')
        stack.swap_config(config("new") | {"globalLLMRequestCosts": [cost("tokens", cel="1000u")]})
        gate.open()
        assert answer.rest().endswith(b"data: [DONE]\n\n")

    assert stack.access_log.wait_for("keeps")["costs"] == {"tokens": 18}


REFUSED = {
    "not YAML": lambda config: b"version: dev\nbackends: [{name: a",
    "not a mapping": lambda config: b"[1, 2]",
    "cost that does not compile": lambda config: (
        config("bad") | {"globalLLMRequestCosts": [cost("x", cel="input_tokens *")]}
    ),
    "cost of mixed types": lambda config: (
        config("bad") | {"globalLLMRequestCosts": [cost("x", cel="input_tokens * 2")]}
    ),
    "another version": lambda config: config("bad") | {"version": "v99"},
    "value of a wrong type": lambda config: config("bad") | {"backends": "none"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_config_that_cannot_be_used_leaves_the_last_good_one_live(stack, config, upstream, name):
    good_name = f"before-{name.replace(' ', '-')}"
    live = stack.swap_config(config(good_name))
    refusals, counted = stack.live_config()["refusals"], reloads(stack, "refused")
    upstream.always(json_reply(chat_completion("m")))

    bad = stack.swap_config(REFUSED[name](config), wait=False)
    wait_until(lambda: stack.live_config()["refusals"] > refusals, "the config is refused")

    page = stack.live_config()
    assert page["live"]["hash"] == live
    assert (page["last_refused"]["hash"], page["last_refused"]["current"]) == (bad, True)
    assert page["last_refused"]["reason"]
    status, text = stack.processor.admin("/ready")
    readiness = json.loads(text)
    assert (status, readiness["ready"], readiness["config"]["hash"]) == (200, True, live)
    assert readiness["last_error"] == page["last_refused"]["reason"]
    assert reloads(stack, "refused") == counted + 1
    assert stack.metrics().sum("extproc_config_info", digest=live) == 1
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    assert upstream.last.json()["model"] == good_name

    # The way back is the next good one, the one that is live included.
    for document in (config(good_name), config("after")):
        stack.swap_config(document)
        wait_until(lambda: last_error(stack) is None, "the refused config is gone, and so is its error")


def reloads(stack, result):
    return stack.metrics().sum("extproc_config_reloads_total", result=result)


def last_error(stack):
    return json.loads(stack.processor.admin("/ready")[1])["last_error"]


@pytest.mark.parametrize("restored", ["the same", "another"])
def test_a_config_that_is_deleted_stays_live_until_there_is_another(stack, config, upstream, restored):
    live = stack.swap_config(config("deleted"))
    upstream.always(json_reply(chat_completion("m")))

    stack.config.path.resolve().unlink()
    wait_until(lambda: last_error(stack) is not None, "the config is missed")

    status, _ = stack.processor.admin("/ready")
    assert (status, stack.live_config()["live"]["hash"]) == (200, live)
    with connect(stack) as client:
        assert client.post(CHAT, json=question()).status_code == 200
    assert upstream.last.json()["model"] == "deleted"

    document = config("deleted" if restored == "the same" else "restored")
    digest = stack.swap_config(document)
    wait_until(lambda: last_error(stack) is None, "the config is there again")
    assert stack.live_config()["live"]["hash"] == digest


def test_no_page_shows_a_key(stack, config):
    stack.swap_config(config("secretive"))

    shown = {path: stack.processor.admin(path)[1] for path in ("/config", "/ready", "/metrics")}

    assert "secretive" in shown["/config"]
    for text in (*shown.values(), *stack.logs().values()):
        assert "sk-secretive" not in text

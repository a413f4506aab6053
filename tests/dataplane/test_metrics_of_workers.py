"""What workers have counted stays counted when one of them is killed, on the page and in what is pushed, and once."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.waiting import wait_until
from tests.support.collector import Collector

ANSWER = json_reply(chat_completion("real-1", prompt=11, completion=7))
DURATION = "gen_ai.server.request.duration"
TOKENS = "gen_ai.client.token.usage"


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(params=["delta", "cumulative"])
def collector(request):
    with Collector() as collector:
        collector.temporality = request.param
        yield collector


@pytest.fixture
def stack(start_stack, upstream, collector):
    where = route(rule(upstream, models=["small"]))
    unset = {name: "" for name in os.environ if name.startswith("OTEL_")}
    pushing = {
        **collector.environment,
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": collector.temporality,
    }
    return start_stack(
        routes=[where],
        config=filter_config(backend(where.backend_name(0, 0), model="real", key="sk-first")),
        processor_arguments=("-workers", "2"),
        environment={**unset, **pushing},
    )


def ask(stack, times):
    # A connection of Envoy's for each of its threads: several clients meet both workers.
    for _ in range(times):
        with connect(stack) as client:
            assert client.post(CHAT, json=question()).status_code == 200


def shown(stack):
    page = stack.metrics()
    return (
        page.sum("gen_ai_server_request_duration_seconds_count"),
        page.sum("gen_ai_client_token_usage_sum"),
        page.sum("extproc_attempts_total"),
    )


def pushed(collector):
    """The same as they arrived: all deltas together, or the newest of each series."""
    together = Counter()
    seen = set()
    for point in collector.points():
        series = (point.metric, *sorted(point.attributes.items()))
        if collector.temporality == "cumulative" and series in seen:
            continue
        seen.add(series)
        if point.metric == DURATION:
            together[DURATION] += sum(point.counts)
        elif point.metric in (TOKENS, "extproc_attempts"):
            together[point.metric] += point.value
    return together[DURATION], together[TOKENS], together["extproc_attempts"]


def kill(stack, number):
    dead = stack.live_config()["workers"][number]
    os.kill(dead["pid"], signal.SIGKILL)

    def replaced():
        now = stack.live_config()["workers"][number]
        return now["pid"] != dead["pid"] and now["state"] == "serving"

    wait_until(replaced, "the worker is replaced", timeout=30)


def test_killed_workers_leave_what_they_had_told(stack, upstream, collector):
    upstream.always(ANSWER)
    asked = 0
    for number in (0, 1, 0):
        ask(stack, 10)
        asked += 10
        # Showing the page has workers tell what they have.
        wait_until(lambda asked=asked: shown(stack) == (asked, 18 * asked, asked), "all is counted")
        kill(stack, number)
        assert shown(stack) == (asked, 18 * asked, asked)
    collector.wait(lambda it: pushed(it) == shown(stack))
    assert stack.processor.stop(grace=30.0) == 0
    assert pushed(collector) == (asked, 18 * asked, asked)

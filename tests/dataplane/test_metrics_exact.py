"""A scrape before and one after known traffic: their difference is that traffic, to the last series."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from deploy.envoy.model import Retry
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
ANSWER = json_reply(chat_completion("real-1", prompt=11, completion=7) | {"usage": USAGE})
CHUNKS = chat_chunks("real-1", "a", "b", prompt=11, completion=7)
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
NO = {"error": {"message": "no", "type": "t"}}
HEADERS = {"x-team": "search"}


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module", params=["one process", "two workers"])
def stack(request, start_stack, upstream, second):
    where = route(
        rule(upstream, models=["small"]),
        rule(upstream, models=["own-key"]),
        rule(upstream, second, models=["both"], retry=Retry()),
    )
    own_key = {"apiKey": {"key": ""}, "credentialOverride": {"headerName": "x-my-key"}}
    config = filter_config(
        backend(where.backend_name(0, 0), model="real", key="sk"),
        backend(where.backend_name(1, 0), auth=own_key),
        backend(where.backend_name(2, 0), model="first", key="sk"),
        backend(where.backend_name(2, 1), model="second", key="sk"),
        globalLLMRequestCosts=[cost("llm_cost"), cost("fragile", cel="1u / (7u - output_tokens)")],
    )
    arguments = ("-workers", "2") if request.param == "two workers" else ()
    return start_stack(
        routes=[where],
        config=config,
        processor_arguments=[*arguments, "-metricsRequestHeaderAttributes", "x-team:team.name"],
        # As many as the most threads that two workers are fed by.
        concurrency=2 if arguments else 1,
    )


Series = Counter[tuple[str, frozenset[tuple[str, str]]]]


def scraped(stack) -> Series:
    """Every series whose value can be known beforehand: of times only how many there are, of pieces nothing."""
    values: Series = Counter()
    for sample in stack.metrics().all():
        labels = {key: value for key, value in sample.labels.items() if not key.startswith("otel_scope_")}
        if "le" in labels:
            labels["le"] = str(float(labels["le"]))
        timed = sample.name.endswith(("_seconds_sum", "_seconds_bucket"))
        of_pieces = labels.get("phase", "").startswith("response_")
        if sample.name.startswith(("gen_ai_", "extproc_")) and not (timed or of_pieces):
            values[sample.name, frozenset(labels.items())] = sample.value
    return values


def difference(before: Series, after: Series) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """What has changed, by name."""
    changed: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for (name, labels), value in after.items():
        if grown := value - before[name, labels]:
            changed.setdefault(name, {})[labels] = grown
    return changed


class Expected:
    """The same, worked out from what was sent."""

    def __init__(self) -> None:
        self.values: dict[str, Counter[frozenset[tuple[str, str]]]] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        self.values.setdefault(name, Counter())[frozenset(labels.items())] += amount

    def attempt(
        self,
        outcome: str,
        *,
        asked: str = "small",
        model: str = "real",
        answered: str = "unknown",
        streamed: bool = False,
        tokens: Mapping[str, int] | None = None,
    ) -> None:
        """Count an attempt, from the model that was asked for to the one that answered."""
        labels = {
            "gen_ai_operation_name": "chat",
            "gen_ai_provider_name": "openai",
            "gen_ai_original_model": asked,
            "gen_ai_request_model": model,
            "gen_ai_response_model": answered,
            "team_name": "search",
        }
        errors = {"success": {}, "client_cancelled": {"error_type": "client_cancelled"}}
        error = errors.get(outcome, {"error_type": "_OTHER"})
        self.add("extproc_attempts_total", operation="chat", outcome=outcome)
        self.messages("upstream", "request_headers")
        self.add("gen_ai_server_request_duration_seconds_count", **labels, **error)
        if streamed:
            self.add("gen_ai_server_time_to_first_token_seconds_count", **labels)
            if outcome == "success":
                self.add("gen_ai_server_time_per_output_token_seconds_count", **labels)
        for kind, amount in (tokens or {}).items():
            self.tokens(amount, labels | {"gen_ai_token_type": kind})
        if tokens:
            self.add("extproc_cost_errors_total", metadata_key="fragile")

    def tokens(self, amount: int, labels: Mapping[str, str]) -> None:
        name = "gen_ai_client_token_usage"
        for edge in [*(4**power for power in range(14)), "inf"]:
            if amount <= float(edge):
                self.add(f"{name}_bucket", **labels, le=str(float(edge)))
        self.add(f"{name}_count", **labels)
        if amount:
            self.add(f"{name}_sum", amount, **labels)

    def messages(self, level: str, *phases: str) -> None:
        for phase in phases:
            self.add("extproc_messages_total", level=level, phase=phase)
            self.add("extproc_message_seconds_count", level=level, phase=phase)

    def request(self) -> None:
        self.messages("router", "request_headers", "request_body")

    def unattempted(self, status: int, by: str) -> None:
        self.add("extproc_unattempted_requests_total", operation="chat", status=str(status), by=by)


DETAILED = {"input": 11, "cached_input": 3, "cache_creation_input": 0, "output": 7, "reasoning": 2}
PLAIN = {"input": 11, "output": 7}


def send(stack, upstream, second, expected):
    """One request of every kind, and what each must be counted as."""
    with connect(stack) as client:

        def post(document, status):
            expected.request()
            assert client.post(CHAT, json=document, headers=HEADERS).status_code == status

        for _ in range(2):
            upstream.reply(ANSWER)
            post(question(), 200)
            expected.attempt("success", answered="real-1", tokens=DETAILED)
        upstream.reply(json_reply(NO, status=429))
        post(question(), 429)
        expected.attempt("failed")
        post(question("own-key"), 401)
        expected.attempt("refused", asked="own-key", model="own-key")
        post([], 400)
        expected.unattempted(400, "processor")
        post(question("nobody"), 404)
        expected.unattempted(404, "envoy")
        upstream.reply(json_reply(NO, status=503))
        second.reply(ANSWER)
        post(question("both"), 200)
        expected.attempt("retried", asked="both", model="first")
        expected.attempt("success", asked="both", model="second", answered="real-1", tokens=DETAILED)
    # Each stream comes in two pieces at least, or it would have no time between tokens.
    for pieces, outcome in ((CHUNKS, "success"), (CHUNKS[:-1], "client_cancelled")):
        expected.request()
        first, last = Gate(), Gate()
        upstream.reply(stream_reply(pieces[0], first, *pieces[1:], *([] if outcome == "success" else [last])))
        with OpenAnswer(stack, question(**ASKED), **HEADERS) as answer:
            answer.until(b'"a"')
            first.open()
            answer.until(b'"usage"')
            if outcome == "success":
                answer.rest()
        last.open()
        expected.attempt(outcome, answered="real-1", streamed=True, tokens=PLAIN)


def wait_until_settled(stack, before, expected):
    """Block until every attempt that is expected after ``before`` has been counted, and nothing is under way."""

    def attempts(series):
        return sum(value for (name, _), value in series.items() if name == "extproc_attempts_total")

    wanted = attempts(before) + sum(expected.values["extproc_attempts_total"].values())

    def settled():
        return attempts(scraped(stack)) == wanted and not stack.metrics().sum("extproc_streams")

    wait_until(settled, "every attempt has ended")


def test_every_series_moves_by_what_was_sent(stack, upstream, second):
    """BR-112, BR-115: each attempt once, whichever way it ends, under the documented names."""
    before = scraped(stack)
    expected = Expected()
    send(stack, upstream, second, expected)
    wait_until_settled(stack, before, expected)
    changed = difference(before, scraped(stack))
    changed.pop("extproc_relayed_attempts_total", None)
    assert changed == expected.values


def test_times_are_within_the_time_that_passed(stack, upstream, second):
    before = scraped(stack)
    expected = Expected()
    send(stack, upstream, second, expected)
    wait_until_settled(stack, before, expected)
    metrics = stack.metrics()
    for name in ("request_duration", "time_to_first_token", "time_per_output_token"):
        total, count = (metrics.sum(f"gen_ai_server_{name}_seconds_{part}") for part in ("sum", "count"))
        assert 0 < total < count * 60
    processor = metrics.sum("extproc_message_seconds_sum")
    assert 0 < processor < metrics.sum("gen_ai_server_request_duration_seconds_sum")

"""Field reports about money, told of every provider's way of counting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.field_reports import ASKED, watched
from tests.support.playbook import cost
from tests.support.translated import (
    ALL,
    CLAUDE,
    TRANSLATED,
    Counts,
    Read,
    backend,
    config,
    document,
    events,
    framed,
    streams_as,
)

USER = [{"role": "user", "content": "q"}]
PLAIN = {"model": "m", "messages": USER}
STREAM = {**json.loads(ASKED), "messages": USER}
JSON = {"content-type": "application/json"}


class Charged:
    """What an answer costs, and what its client reads of the usage.

    Attributes:
        metadata: what was written last.
        usage: of the client's document, or of the one chunk that has any; ``None`` when there is none.
    """

    def __init__(self, gateway: Any, schema: str, body: bytes | list[bytes]) -> None:
        exchange = gateway.start(STREAM if isinstance(body, list) else PLAIN)
        exchange.consistent = False
        exchange.response(streams_as(schema) if isinstance(body, list) else JSON)
        played = exchange.play([*body, b""] if isinstance(body, list) else [body])
        exchange.close()
        self.metadata = played.metadata
        if isinstance(body, list):
            read = Read.of(played.output)
            assert read.done
            assert len(read.usages) <= 1
            self.usage = read.usages[0] if read.usages else None
        else:
            self.usage = json.loads(played.output).get("usage")

    def of(self, like: dict[str, int]) -> dict[str, Any]:
        return {key: self.metadata.get(key) for key in like}


def tidy(usage: dict[str, Any]) -> dict[str, Any]:
    """Without details that say nothing."""
    details = ("prompt_tokens_details", "completion_tokens_details")
    return {**usage, **{name: {k: v for k, v in usage.get(name, {}).items() if v} for name in details}}


REPORTS = {
    "BR-54, BR-62: nearly all from the cache": Counts(fresh=3, read=32651, written=17, output=5),
    "BR-76, BR-95: nearly all reasoning": Counts(fresh=6, read=4, written=0, output=120, reasoning=100),
    "BR-59: nothing cached": Counts(fresh=9, read=0, written=0, output=16),
    "nothing at all": Counts(fresh=0, read=0, written=0, output=0),
    "all from the cache": Counts(fresh=0, read=10, written=0, output=1),
    "only reasoning": Counts(fresh=1, read=0, written=0, output=7, reasoning=7),
    "very much": Counts(fresh=2**31, read=2**32, written=1, output=2**20),
}


@pytest.mark.parametrize("schema", ALL)
@pytest.mark.parametrize("case", REPORTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_every_way_of_counting_is_billed_alike(open_gateway, schema, case, streamed):
    """BR-54, BR-59, BR-62, BR-76, BR-95: what the client reads, what is metered and what CEL sees are one thing."""
    counts = REPORTS[case]
    gateway = open_gateway(config(backend(schema)))
    charged = Charged(gateway, schema, (events if streamed else document)(schema, usage=counts))
    expected = counts.costs(schema)
    if expected["bill"] >= 2**53:
        expected["bill"] = charged.metadata["bill"]
    if case == "all from the cache":
        expected["bill"] = 10 * 1000 + 10**9
    assert charged.of(expected) == expected
    if schema != "AzureOpenAI" and charged.usage is not None:
        assert tidy(charged.usage) == counts.usage(schema)
    assert charged.usage is not None or case == "nothing at all"
    for kind, key in (("input", "in"), ("output", "out")):
        assert gateway.count("gen_ai_client_token_usage_sum", f'token_type="{kind}"') == expected[key]


counts = st.integers(min_value=0, max_value=2**20)
reports = st.builds(
    lambda fresh, read, written, output, share: Counts(
        fresh=fresh, read=read, written=written, output=output, reasoning=output * share // 100
    ),
    counts,
    counts,
    counts,
    counts,
    st.integers(min_value=0, max_value=100),
)


@settings(max_examples=40, deadline=None)
@given(report=reports, schema=st.sampled_from(TRANSLATED), streamed=st.booleans())
def test_any_report_adds_up(report, schema, streamed):
    """BR-54, BR-76: prompt and completion are the total, for the client and for the bill."""
    with watched(config(backend(schema))) as gateway:
        charged = Charged(gateway, schema, (events if streamed else document)(schema, usage=report))
        expected = report.costs(schema)
        assert charged.of(expected) == expected
        if charged.usage is not None:
            assert tidy(charged.usage) == report.usage(schema)


NONSENSE = [-1, -(2**70), 2**60, 1.5, "7", "", None, True, [7], {"x": 7}, float(2**80)]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), schema=st.sampled_from(TRANSLATED), streamed=st.booleans())
def test_nonsense_neither_bills_nor_breaks(data, schema, streamed):
    """BR-12: members that are no counts are not reported; the others count, and still add up."""
    usage = Counts().report(schema)
    for name in data.draw(st.sets(st.sampled_from(sorted(usage)))):
        usage[name] = data.draw(st.sampled_from(NONSENSE))
    with watched(config(backend(schema))) as gateway:
        charged = Charged(gateway, schema, (events if streamed else document)(schema, usage=usage))
        metadata = charged.metadata
        assert metadata["in"] + metadata["out"] == metadata["total"]
        assert 0 <= metadata["in"] <= 12
        assert 0 <= metadata["out"] <= 5
        if charged.usage is not None:
            assert charged.usage["prompt_tokens"] == metadata["in"]
            assert charged.usage["completion_tokens"] == metadata["out"]
            assert charged.usage["total_tokens"] == metadata["total"]


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_report_of_no_form_costs_nothing(open_gateway, schema, streamed):
    """An answer is not lost because of what stands beside it."""
    gateway = open_gateway(config(backend(schema)))
    for usage in (None, [], [1], "x", 7, {}, True):
        charged = Charged(gateway, schema, (events if streamed else document)(schema, usage=usage))
        assert [charged.metadata[key] for key in ("in", "out", "total")] == [0, 0, 0], usage


def test_counts_beside_the_answer_never_cost_the_client_it(open_gateway):
    """Gemini: logprobs, feedback and an index of no form count as absent."""
    gateway = open_gateway(config(backend("GCPVertexAI")))
    answer = json.loads(document("GCPVertexAI"))
    answer["promptFeedback"] = "x"
    answer["candidates"][0] |= {"index": "0", "logprobsResult": "x", "safetyRatings": 5, "groundingMetadata": []}
    assert Charged(gateway, "GCPVertexAI", json.dumps(answer).encode()).metadata["in"] == 10
    assert Charged(gateway, "GCPVertexAI", [framed("GCPVertexAI", answer)]).metadata["in"] == 10


METRICS = {"inputTokenCount": 3, "outputTokenCount": 5, "cacheReadInputTokenCount": 32651}


@pytest.mark.parametrize("schema", CLAUDE)
class TestClaude:
    """BR-59, BR-71: reports in several events, and those of Bedrock itself."""

    def stream(self, *reports: Any, start: Any = None, metrics: Any = None) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "usage": start}}]
        told += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": each} for each in reports]
        stop: dict[str, Any] = {"type": "message_stop"}
        return [*told, stop if metrics is None else {**stop, "amazon-bedrock-invocationMetrics": metrics}]

    def charged(self, open_gateway: Any, schema: str, told: list[dict[str, Any]]) -> list[int]:
        gateway = open_gateway(config(backend(schema)))
        metadata = Charged(gateway, schema, [framed(schema, each) for each in told]).metadata
        return [metadata[key] for key in ("in", "cached", "creation", "out", "total")]

    def test_several_deltas(self, open_gateway, schema):
        start = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 0}
        told = self.stream({**start, "output_tokens": 5}, {"output_tokens": 16}, start=start)
        assert self.charged(open_gateway, schema, told) == [10, 1, 0, 16, 26]

    def test_the_start_counts_one_token_that_the_end_counts_in(self, open_gateway, schema):
        """BR-08: 100/50/150, never 100/51."""
        told = self.stream({"output_tokens": 50}, start={"input_tokens": 100, "output_tokens": 1})
        assert self.charged(open_gateway, schema, told) == [100, 0, 0, 50, 150]

    def test_a_cache_that_is_corrected_at_the_end(self, open_gateway, schema):
        start = {"input_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
        report = {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1}
        told = self.stream(report, start=start)
        assert self.charged(open_gateway, schema, told) == [29, 7, 2, 1, 30]

    def test_a_cache_that_is_written(self, open_gateway, schema):
        start = {"input_tokens": 200, "cache_creation_input_tokens": 5000, "output_tokens": 1}
        report = {"input_tokens": 200, "cache_creation_input_tokens": 5000, "output_tokens": 8}
        assert self.charged(open_gateway, schema, self.stream(report, start=start)) == [5200, 0, 5000, 8, 5208]

    def test_metrics_of_the_service_do_not_replace_the_message(self, open_gateway, schema):
        start = {"input_tokens": 3, "cache_read_input_tokens": 32651, "cache_creation_input_tokens": 17}
        told = self.stream({"output_tokens": 5}, start=start, metrics={**METRICS, "cacheReadInputTokenCount": 0})
        assert self.charged(open_gateway, schema, told) == [32671, 32651, 17, 5, 32676]

    def test_metrics_of_the_service_fill_what_is_missing(self, open_gateway, schema):
        start = {"input_tokens": 3, "cache_read_input_tokens": 32651}
        assert self.charged(open_gateway, schema, self.stream({}, start=start, metrics=METRICS)) == [
            *(32654, 32651, 0, 5, 32659)
        ]
        assert self.charged(open_gateway, schema, self.stream(None, metrics=METRICS)) == [*(32654, 32651, 0, 5, 32659)]

    @pytest.mark.parametrize("metrics", [[], "x", 5, {}, dict.fromkeys(METRICS, "5"), dict.fromkeys(METRICS, -1)])
    def test_metrics_of_no_form(self, open_gateway, schema, metrics):
        told = self.stream({"output_tokens": 5}, start={"input_tokens": 3}, metrics=metrics)
        assert self.charged(open_gateway, schema, told) == [3, 0, 0, 5, 8]


def test_what_gemini_adds_to_the_prompt_is_input(open_gateway):
    """BR-76: tokens that its own tools put into the prompt are on the prompt's side."""
    usage = {**Counts(written=0).report("GCPVertexAI"), "toolUsePromptTokenCount": 6, "totalTokenCount": 21}
    for body in (document("GCPVertexAI", usage=usage), events("GCPVertexAI", usage=usage)):
        charged = Charged(open_gateway(config(backend("GCPVertexAI"))), "GCPVertexAI", body)
        assert [charged.metadata[key] for key in ("in", "out", "total")] == [16, 5, 21]


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_rule_that_fails_on_a_report_leaves_the_others(open_gateway, schema):
    """BR-89: one that would go below zero is left out, and harms neither the answer nor the other rules."""
    rules = [cost("less", "CEL", cel="cached_input_tokens - input_tokens"), cost("in", "InputToken")]
    gateway = open_gateway({**config(backend(schema)), "llmRequestCosts": rules})
    for body in (document(schema), events(schema)):
        metadata = Charged(gateway, schema, body).metadata
        assert "less" not in metadata
        assert metadata["in"] == Counts().costs(schema)["in"]


@pytest.mark.parametrize("schema", ALL)
def test_what_an_access_log_wants_stands_beside_the_costs(open_gateway, schema):
    """BR-34, BR-42, BR-95, BR-114: backend, route and both names of the model, streamed or not."""
    gateway = open_gateway(config(backend(schema, override="real")))
    for body in (document(schema), events(schema)):
        metadata = Charged(gateway, schema, body).metadata
        assert metadata["model_name_override"] == "real"
        assert metadata["ai_service_backend_name"] == "default/openai"
        assert metadata["route_name"] == "default/chat"
        assert metadata["response_model"] in {"said", "real"}
        assert "response_error" not in metadata

"""Pushed metrics are those of ``/metrics``, under the names of OpenTelemetry (contract, instruments 7.1)."""

from __future__ import annotations

import json

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import AggregationTemporality
from opentelemetry.sdk.resources import Resource

import extproc
from extproc.telemetry.metrics import AttemptLabels, Metrics
from extproc.telemetry.otel.points import Point, Points
from extproc.usage import TokenUsage

LABELS = AttemptLabels(
    operation="chat",
    provider="openai",
    original_model="small",
    request_model="gpt",
    response_model="gpt-1",
    attributes=(("tenant.id", "acme"), ("user_name", "eve")),
)
ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.original.model": "small",
    "gen_ai.request.model": "gpt",
    "gen_ai.response.model": "gpt-1",
    "tenant.id": "acme",
    "user_name": "eve",
}
MAPPED = (("x-tenant", "tenant.id"), ("x-user", "user_name"))
RESOURCE = Resource({"service.name": "ai-gateway"})


class Pushed:
    """Metrics, and what an export of them has."""

    def __init__(self, *, delta=False):
        self.metrics = Metrics({})
        self.points = Points(RESOURCE, started=100, delta=delta, attributes=MAPPED)
        self.delivery = None

    def export(self, now):
        data, self.delivery = self.points.export(self.metrics.registry.collect(), now)
        return {} if data is None else {metric.name: (scope, metric) for scope, metric in _metrics(data)}

    def count(self, name, now):
        """The data points of one metric."""
        found = self.export(now).get(name)
        return [] if found is None else found[1].data.data_points


def _metrics(data):
    (whole,) = data.resource_metrics
    assert whole.resource is RESOURCE
    return [(part.scope, metric) for part in whole.scope_metrics for metric in part.metrics]


@pytest.fixture
def pushed():
    return Pushed()


INSTRUMENTS = {
    "gen_ai.client.token.usage": ("token", "Number of tokens processed.", 4.0, 67108864.0),
    "gen_ai.server.request.duration": (
        "s",
        "Generative AI server request duration such as time-to-last byte or last output token.",
        0.02,
        81.92,
    ),
    "gen_ai.server.time_to_first_token": (
        "s",
        "Time to receive first token in streaming responses.",
        0.005,
        60.0,
    ),
    "gen_ai.server.time_per_output_token": (
        "s",
        "Time per output token generated after the first token for successful responses.",
        0.025,
        2.5,
    ),
}


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_the_instruments_of_the_peer(pushed, name):
    unit, description, second_bound, last_bound = INSTRUMENTS[name]
    pushed.metrics.tokens(LABELS, [TokenUsage(input=5)])
    pushed.metrics.request_durations(LABELS, [5])
    pushed.metrics.time_to_first_token(LABELS, 5)
    pushed.metrics.times_per_output_token(LABELS, [5])
    scope, metric = pushed.export(200)[name]
    assert (scope.name, scope.version or "", scope.schema_url or "") == ("envoyproxy/ai-gateway", "", "")
    assert (metric.unit, metric.description) == (unit, description)
    assert metric.data.aggregation_temporality is AggregationTemporality.CUMULATIVE
    (point,) = metric.data.data_points
    extra = {"gen_ai.token.type": "input"} if "token.usage" in name else {}
    assert point.attributes == ATTRIBUTES | extra
    assert (point.count, point.sum, point.start_time_unix_nano, point.time_unix_nano) == (1, 5, 100, 200)
    assert (point.explicit_bounds[1], point.explicit_bounds[-1]) == (second_bound, last_bound)


def test_buckets_are_counted_one_by_one(pushed):
    for count in (1, 2, 4, 5, 10**9):
        pushed.metrics.tokens(LABELS, [TokenUsage(output=count)])
    (point,) = pushed.count("gen_ai.client.token.usage", 200)
    assert point.bucket_counts[:4] == (1, 2, 1, 0)
    assert point.bucket_counts[-1] == 1
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1 == 15
    assert (point.count, point.sum) == (5, 12 + 10**9)


def test_an_error_is_an_attribute(pushed):
    pushed.metrics.request_durations(LABELS, [1], "_OTHER")
    (point,) = pushed.count("gen_ai.server.request.duration", 200)
    assert point.attributes["error.type"] == "_OTHER"


def test_our_own_keep_their_names(pushed):
    pushed.metrics.outcome("chat", "success")
    pushed.metrics.streams["router"].messages["request_body"].observe(0.5)
    exported = pushed.export(200)
    scope, attempts = exported["extproc_attempts"]
    assert (scope.name, scope.version) == ("envoy-llm-extproc", extproc.__version__)
    assert attempts.data.is_monotonic
    (point,) = attempts.data.data_points
    assert (point.attributes, point.value) == ({"operation": "chat", "outcome": "success"}, 1)
    _, seconds = exported["extproc_message_seconds"]
    assert (seconds.unit, seconds.data.data_points[0].count) == ("s", 1)
    _, messages = exported["extproc_messages"]
    assert (messages.unit, messages.data.data_points[0].value) == ("", 1)


def test_gauges_are_as_they_are(pushed):
    pushed.metrics.streams["router"].open.add()
    _, streams = pushed.export(200)["extproc_streams"]
    (point,) = streams.data.data_points
    assert (point.attributes, point.value) == ({"level": "router"}, 1)


def test_the_resource_is_no_metric(pushed):
    assert "target_info" not in pushed.export(200)


def test_cumulated_counts_go_on(pushed):
    pushed.metrics.outcome("chat", "success")
    pushed.export(200)
    pushed.delivery.done()
    pushed.metrics.outcome("chat", "success")
    (point,) = pushed.count("extproc_attempts", 300)
    assert (point.value, point.start_time_unix_nano, point.time_unix_nano) == (2, 100, 300)


class TestDelta:
    def test_each_tells_what_was_added_since_the_last_that_arrived(self):
        pushed = Pushed(delta=True)
        pushed.metrics.tokens(LABELS, [TokenUsage(input=5)])
        (point,) = pushed.count("gen_ai.client.token.usage", 200)
        assert (point.count, point.sum, point.start_time_unix_nano) == (1, 5, 100)
        pushed.delivery.done()
        pushed.metrics.tokens(LABELS, [TokenUsage(input=7)])
        (point,) = pushed.count("gen_ai.client.token.usage", 300)
        assert (point.count, point.sum, point.start_time_unix_nano) == (1, 7, 200)

    def test_what_did_not_arrive_is_told_again(self):
        pushed = Pushed(delta=True)
        pushed.metrics.outcome("chat", "success")
        pushed.export(200)
        pushed.metrics.outcome("chat", "success")
        (point,) = pushed.count("extproc_attempts", 300)
        assert (point.value, point.start_time_unix_nano, point.time_unix_nano) == (2, 100, 300)

    def test_a_series_without_news_is_left_out(self):
        pushed = Pushed(delta=True)
        pushed.metrics.outcome("chat", "success")
        pushed.export(200)
        pushed.delivery.done()
        pushed.metrics.outcome("chat", "client_cancelled")
        (point,) = pushed.count("extproc_attempts", 300)
        assert point.attributes["outcome"] == "client_cancelled"
        pushed.delivery.done()
        assert pushed.count("extproc_attempts", 400) == []

    def test_the_kind_is_told_and_gauges_have_none(self):
        pushed = Pushed(delta=True)
        pushed.metrics.outcome("chat", "success")
        pushed.metrics.streams["router"].open.add()
        exported = pushed.export(200)
        assert exported["extproc_attempts"][1].data.aggregation_temporality is AggregationTemporality.DELTA
        pushed.delivery.done()
        assert "extproc_streams" in pushed.export(300)

    def test_a_series_that_began_anew_is_told_whole(self):
        assert Point(2).since(Point(5)) == Point(2)
        assert Point(9.0, (1, 2)).since(Point(1.0, (2, 0))) == Point(9.0, (1, 2))
        assert Point(9.0, (3, 2)).since(Point(1.0, (2, 0))) == Point(8.0, (1, 2))


def test_a_sum_that_lost_its_last_digit_did_not_begin_anew():
    before, after = Point(0.6000000000000001, (2, 1)), Point(0.6, (2, 1))
    assert after.since(before).idle
    assert Point(0.6, (2, 2)).since(before) == Point(0.0, (0, 1))
    assert Point(0.5, (1, 0)).since(before) == Point(0.5, (1, 0))


def test_nothing_counted_is_nothing_to_send():
    points = Points(RESOURCE, started=100, delta=False)
    assert points.export([], 200)[0] is None


def test_the_sdk_can_encode_it(pushed):
    pushed.metrics.tokens(LABELS, [TokenUsage(input=5)])
    data, _ = pushed.points.export(pushed.metrics.registry.collect(), 200)
    (whole,) = encode_metrics(data).resource_metrics
    (peers, _) = whole.scope_metrics
    (point,) = peers.metrics[0].histogram.data_points
    assert not point.HasField("min")
    assert not point.HasField("max")
    assert json.loads(data.to_json())["resource_metrics"]

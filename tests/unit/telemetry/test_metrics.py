"""``golden/gen_ai.txt`` is what the peer's exporter (OTel Go SDK and Prometheus) prints for the same records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from extproc.auth.sources import CellState
from extproc.telemetry import metrics as module
from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import OTHER, Metrics, label_name, resource_attributes
from tests.support.every_metric import LABELS, everything

GOLDEN = Path(__file__).parent / "golden" / "gen_ai.txt"
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@dataclass
class Usage:
    input: int | None = None
    cached_input: int | None = None
    cache_creation_input: int | None = None
    output: int | None = None
    reasoning: int | None = None


def samples(metrics, name):
    """(labels without scope, value) of each sample of a name."""
    found = []
    for family in text_string_to_metric_families(render(metrics.registry)):
        for sample in family.samples:
            if sample.name == name:
                labels = {key: value for key, value in sample.labels.items() if not key.startswith("otel_scope_")}
                found.append((labels, sample.value))
    return found


def test_the_page_is_what_the_peer_would_print():
    metrics = Metrics()
    metrics.tokens(LABELS, [Usage(input=7, cached_input=0, output=1234567)])
    metrics.request_durations(LABELS, [0.123])
    metrics.request_durations(LABELS, [0.64], "_OTHER")
    mapped = (
        ("tenant.id", 'a "quoted"\\ one\n'),
        ("tenant_id", "b"),
        ("9x", "n"),
        ("a..b", "n"),
        ("_u", "n"),
        ("a-é", "n"),
        ("empty", ""),
    )
    metrics.request_durations(replace(LABELS, request_model="m", response_model="", attributes=mapped), [0.5])
    metrics.time_to_first_token(LABELS, 0.05)
    metrics.times_per_output_token(LABELS, [0.0123])
    page = "".join(
        line
        for line in render(metrics.registry).splitlines(keepends=True)
        if not re.match(r"(# \w+ )?(extproc_|target_info)", line)
    )
    assert page == GOLDEN.read_text(encoding="utf-8")


def test_only_counts_that_are_set_are_recorded():
    metrics = Metrics()
    metrics.tokens(LABELS, [Usage(input=0, reasoning=5)])
    counts = {
        labels["gen_ai_token_type"]: value for labels, value in samples(metrics, "gen_ai_client_token_usage_count")
    }
    assert counts == {"input": 1, "reasoning": 1}


def test_many_values_are_recorded_as_one_after_the_other():
    together, singly = Metrics(clock=lambda: 1.0), Metrics(clock=lambda: 1.0)
    usages = [Usage(input=5), Usage(input=0, output=1234567), Usage(), Usage(cached_input=1, reasoning=2)] * 30
    seconds = [0.1, 0.2, 300.0] * 40
    together.tokens(LABELS, usages)
    together.request_durations(LABELS, seconds)
    together.times_per_output_token(LABELS, seconds)
    together.outcome("chat", "success", len(usages))
    for usage in usages:
        singly.tokens(LABELS, [usage])
        singly.outcome("chat", "success")
    for each in seconds:
        singly.request_durations(LABELS, [each])
        singly.times_per_output_token(LABELS, [each])
    assert sums_aside(together) == sums_aside(singly)
    counts = [value for _, value in samples(together, "gen_ai_client_token_usage_count")]
    assert sorted(counts) == [30, 30, 30, 60]


def sums_aside(metrics):
    """The page without sums, whose last digit depends on the order in which they were added up."""
    return [line for line in render(metrics.registry).splitlines() if "_seconds_sum" not in line]


def test_success_has_no_error_type():
    metrics = Metrics()
    metrics.request_durations(LABELS, [1])
    ((labels, count),) = samples(metrics, "gen_ai_server_request_duration_seconds_count")
    assert "error_type" not in labels
    assert count == 1


def test_equal_labels_share_their_series():
    metrics = Metrics()
    metrics.time_to_first_token(LABELS, 1)
    metrics.time_to_first_token(replace(LABELS, operation="completion"), 1)
    metrics.time_to_first_token(replace(LABELS), 2)
    counts = {labels["gen_ai_operation_name"]: value for labels, value in samples(metrics, FIRST_TOKEN_COUNT)}
    assert counts == {"chat": 2, "completion": 1}


FIRST_TOKEN_COUNT = "gen_ai_server_time_to_first_token_seconds_count"


def test_a_mapped_header_replaces_a_built_in_attribute():
    metrics = Metrics()
    metrics.time_to_first_token(replace(LABELS, attributes=(("gen_ai.request.model", "mine"),)), 1)
    ((labels, _),) = samples(metrics, FIRST_TOKEN_COUNT)
    assert labels["gen_ai_request_model"] == "mine"


@pytest.mark.parametrize("field", ["original_model", "request_model", "response_model"])
def test_models_are_capped(field):
    metrics = Metrics()
    for number in range(module.MAX_MODELS + 50):
        metrics.time_to_first_token(replace(LABELS, **{field: f"m{number}"}), 1)
    label = f"gen_ai_{field.replace('_', '_')}"
    counts = {labels[label]: value for labels, value in samples(metrics, FIRST_TOKEN_COUNT)}
    assert len(counts) == module.MAX_MODELS + 1
    assert counts["m0"] == 1
    assert counts[OTHER] == 50


def test_a_known_model_stays_itself_when_the_cap_is_reached():
    metrics = Metrics()
    for number in [*range(module.MAX_MODELS + 1), 0]:
        metrics.time_to_first_token(replace(LABELS, request_model=f"m{number}"), 1)
    counts = {labels["gen_ai_request_model"]: value for labels, value in samples(metrics, FIRST_TOKEN_COUNT)}
    assert counts["m0"] == 2


def test_all_series_together_are_capped(monkeypatch):
    monkeypatch.setattr(module, "MAX_ATTEMPT_SERIES", 3)
    metrics = Metrics()
    for number in range(10):
        metrics.time_to_first_token(replace(LABELS, request_model=f"m{number}", attributes=(("t", str(number)),)), 1)
    counts = {labels["gen_ai_request_model"]: value for labels, value in samples(metrics, FIRST_TOKEN_COUNT)}
    assert counts == {"m0": 1, "m1": 1, "m2": 1, OTHER: 7}


def test_values_of_a_mapped_header_are_capped(monkeypatch):
    monkeypatch.setattr(module, "MAX_ATTRIBUTE_VALUES", 2)
    metrics = Metrics()
    for number in range(5):
        metrics.time_to_first_token(replace(LABELS, attributes=(("tenant", f"t{number}"),)), 1)
    counts = {labels["tenant"]: value for labels, value in samples(metrics, FIRST_TOKEN_COUNT)}
    assert counts == {"t0": 1, "t1": 1, OTHER: 3}


@pytest.mark.parametrize("field", ["original_model", "request_model", "response_model", "attributes"])
def test_a_value_of_any_length_makes_a_short_label(field):
    metrics = Metrics()
    for end in "ab":
        value = "x" * 60_000 + end
        metrics.time_to_first_token(replace(LABELS, **{field: (("t", value),) if field == "attributes" else value}), 1)
    ((labels, count),) = samples(metrics, FIRST_TOKEN_COUNT)
    assert count == 2
    assert max(map(len, labels.values())) == module.MAX_VALUE
    assert len(render(metrics.registry)) < 30_000


STRANGE = [
    '"',
    "\\",
    "\n",
    "\r",
    "\0",
    "\t",
    "\u2028",
    "\x85",
    "}",
    '{a="b"} 1',
    "\ufffd",
    "\N{GRINNING FACE}",
    " ",
    "#",
]


def test_whatever_a_label_holds_a_scraper_reads_it_back():
    metrics = Metrics()
    for value in STRANGE:
        labels = replace(LABELS, original_model=value, response_model=value, attributes=(("t", value),))
        metrics.time_to_first_token(labels, 1)
    families = text_string_to_metric_families(render(metrics.registry))
    read = [sample.labels for family in families for sample in family.samples if sample.name == FIRST_TOKEN_COUNT]
    for name in ("gen_ai_original_model", "gen_ai_response_model", "t"):
        assert sorted(labels[name] for labels in read) == sorted(STRANGE)


def test_a_header_cannot_be_mapped_to_the_label_of_buckets():
    metrics = Metrics()
    for value in "ab":
        metrics.time_to_first_token(replace(LABELS, attributes=(("le", value),)), 1)
    lines = render(metrics.registry).splitlines()
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series))
    assert [labels["key_le"] for labels, _ in samples(metrics, FIRST_TOKEN_COUNT)] == ["a", "b"]


def test_messages_are_counted_and_timed():
    metrics = Metrics()
    metrics.streams["router"].messages["request_body"].observe(0.00002)
    metrics.streams["router"].messages["request_body"].observe(0.5)
    metrics.streams["upstream"].messages["request_headers"].observe(0.00005)
    assert samples(metrics, "extproc_messages_total") == [
        ({"level": "router", "phase": "request_body"}, 2),
        ({"level": "upstream", "phase": "request_headers"}, 1),
    ]
    ((_, seconds), _) = samples(metrics, "extproc_message_seconds_sum")
    assert seconds == pytest.approx(0.50002)


def test_streams_go_up_and_down():
    metrics = Metrics()
    for _ in range(3):
        metrics.streams["router"].open.add()
    metrics.streams["router"].open.add(-1)
    assert samples(metrics, "extproc_streams") == [({"level": "router"}, 2)]


def test_only_the_live_config_is_shown():
    metrics = Metrics(clock=lambda: 1700000000.1239)
    metrics.live_config("aaa")
    metrics.live_config("bbb")
    assert samples(metrics, "extproc_config_info") == [({"digest": "bbb"}, 1)]
    assert samples(metrics, "extproc_config_live_timestamp_seconds") == [({}, 1700000000.124)]


def test_the_small_counters():
    metrics = Metrics()
    metrics.outcome("chat", "success")
    metrics.outcome("chat", "success")
    metrics.unknown_encoding("lzma")
    metrics.cost_error("cost")
    metrics.config_reload("refused")
    metrics.config_version_mismatch()
    assert samples(metrics, "extproc_attempts_total") == [({"operation": "chat", "outcome": "success"}, 2)]
    assert samples(metrics, "extproc_unknown_encodings_total") == [({"coding": "lzma"}, 1)]
    assert samples(metrics, "extproc_cost_errors_total") == [({"metadata_key": "cost"}, 1)]
    # From the start, so that the first one is seen to grow.
    reloads = samples(metrics, "extproc_config_reloads_total")
    assert reloads == [({"result": "ok"}, 0), ({"result": "refused"}, 1), ({"result": "unavailable"}, 0)]
    assert samples(metrics, "extproc_config_version_mismatch_total") == [({}, 1)]


def test_codings_that_an_upstream_makes_up_are_capped():
    metrics = Metrics()
    for number in range(module.MAX_NAMES + 10):
        metrics.unknown_encoding(f"c{number}")
    found = samples(metrics, "extproc_unknown_encodings_total")
    assert ({"coding": OTHER}, 10) in found
    assert len(found) == module.MAX_NAMES + 1


NAMES = {"a.b": "a_b", "a..b": "a_b", "9x": "key_9x", "_u": "_u", "a-é": "a_", "plain": "plain"}


@pytest.mark.parametrize("attribute", NAMES)
def test_label_names(attribute):
    assert label_name(attribute) == NAMES[attribute]


RESOURCES = {
    "nothing set": ({}, "unknown_service:extproc"),
    "service name": ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
    "resource attributes": ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=its,zone=a%20b"}, "its"),
    "service name goes first": (
        {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.name=its"},
        "mine",
    ),
    "malformed attributes": ({"OTEL_RESOURCE_ATTRIBUTES": "nonsense,=x"}, "unknown_service:extproc"),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_resource(name):
    environ, service = RESOURCES[name]
    ((labels, value),) = samples(Metrics(environ), "target_info")
    assert labels["service_name"] == service
    assert labels["telemetry_sdk_language"] == "python"
    assert value == 1


def test_resource_attributes_are_percent_decoded():
    assert resource_attributes({"OTEL_RESOURCE_ATTRIBUTES": "zone=a%20b"})["zone"] == "a b"


def test_credentials_that_are_gone_are_said_nothing_of():
    metrics = Metrics()
    states = [
        CellState(name=name, expires_at=end, usable=usable, refreshed_at=None, error=None)
        for name, end, usable in (("a", 2.5, True), ("b", None, True), ("c", None, False))
    ]
    metrics.credentials(states)
    assert samples(metrics, "extproc_credential_expiry_timestamp_seconds") == [({"source": "a"}, 2.5)]
    assert samples(metrics, "extproc_credential_missing") == [
        ({"source": "a"}, 0),
        ({"source": "b"}, 0),
        ({"source": "c"}, 1),
    ]
    metrics.credentials(states[1:2])
    assert samples(metrics, "extproc_credential_expiry_timestamp_seconds") == []
    assert samples(metrics, "extproc_credential_missing") == [({"source": "b"}, 0)]


def test_the_reference_page_names_exactly_what_a_scrape_shows():
    """Field report BR-115: documented names that do not exist."""
    page = render(everything().registry)
    scraped = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    assert documented == scraped


COMMON = ("operation_name", "provider_name", "original_model", "request_model", "response_model")


def test_the_reference_page_names_exactly_the_labels_that_a_scrape_shows():
    text = DOCS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", text, re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    for labels in COMMON:
        assert f"`gen_ai_{labels}`" in text
    scraped = {}
    for metric in everything().registry.collect():
        for sample in metric.samples:
            name = metric.name + ("_total" if metric.type == "counter" else "")
            scraped.setdefault(name, set()).update(sample.labels)
    common = {f"gen_ai_{label}" for label in COMMON} | {
        f"otel_scope_{each}" for each in ("name", "schema_url", "version")
    }
    for name, labels in scraped.items():
        labels.discard("le")
        if name.startswith("gen_ai_"):
            assert labels >= common
            labels.difference_update(common)
    scraped["target_info"].clear()
    assert documented == scraped


def test_help_texts_are_escaped():
    metrics = Metrics()
    metrics._scalars("gauge", "g", "one\\two\nthree").series().add()
    assert "# HELP g one\\\\two\\nthree\n" in render(metrics.registry)

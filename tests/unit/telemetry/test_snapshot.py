"""The metrics of several processes are shown as one set."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import AttemptLabels, Metrics
from extproc.telemetry.snapshot import Snapshot

LABELS = AttemptLabels(operation="chat", provider="openai", original_model="a", request_model="b", response_model="c")
# What a process may record; whole numbers, so that the order of a sum does not show.
RECORDS = {
    "duration": lambda metrics, n: metrics.request_durations(LABELS, [n]),
    "failed": lambda metrics, n: metrics.request_durations(LABELS, [n], "_OTHER"),
    "first token": lambda metrics, n: metrics.time_to_first_token(LABELS, n),
    "message": lambda metrics, n: metrics.streams["router"].messages[f"phase {n % 3}"].observe(n),
    "opened": lambda metrics, n: metrics.streams["router"].open.add(),
    "outcome": lambda metrics, n: metrics.outcome("chat", f"outcome {n % 3}"),
    "cost error": lambda metrics, n: metrics.cost_error(f"key {n % 2}"),
    "relayed": lambda metrics, n: metrics.relayed(),
}
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(sorted(RECORDS)), st.integers(0, 9)), max_size=40)


def travelled(metrics):
    """A snapshot as it arrives in another process."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(metrics.snapshot()), type=Snapshot)


@given(EVENTS)
def test_three_processes_show_what_one_would(events):
    parts, whole, merged = [Metrics() for _ in range(3)], Metrics(), Metrics()
    for part, kind, number in events:
        RECORDS[kind](parts[part], number)
        RECORDS[kind](whole, number)
    for part in parts:
        merged.absorb(travelled(part))
    assert render(merged.registry) == render(whole.registry)


SECONDS = st.lists(st.floats(0, 1e4), min_size=1, max_size=9)


@given(st.lists(SECONDS, min_size=2, max_size=4))
def test_no_sum_goes_down_when_a_process_ends(processes):
    """Its part is then added at another place; who scrapes would take less for a new beginning."""
    parts = []
    for values in processes:
        metrics = Metrics()
        for value in values:
            metrics.request_durations(LABELS, [value])
        parts.append(travelled(metrics))
    ended, before, after = Metrics(), Metrics(), Metrics()
    ended.absorb(parts[0], ended=True)
    for part in parts:
        before.absorb(part)
    for part in (*parts[1:], travelled(ended)):
        after.absorb(part)
    assert render(before.registry) == render(after.registry)


def test_a_process_that_has_ended_leaves_what_it_counted_and_nothing_open():
    ended, merged = Metrics(), Metrics()
    ended.streams["router"].open.add()
    ended.outcome("chat", "success")
    ended.streams["router"].messages["request_body"].observe(0.5)
    ended.live_config("digest")
    merged.absorb(travelled(ended), ended=True)

    page = render(merged.registry)
    assert 'extproc_attempts_total{operation="chat",outcome="success"} 1\n' in page
    assert 'extproc_messages_total{level="router",phase="request_body"} 1\n' in page
    assert "extproc_streams" not in page
    assert "extproc_config_info" not in page


def test_what_every_process_says_of_itself_is_not_added_up():
    environ = {"OTEL_SERVICE_NAME": "gateway"}
    merged = Metrics(environ)
    for since in (100.0, 300.0, 200.0):
        part = Metrics(environ, clock=lambda since=since: since)
        part.live_config("digest")
        merged.absorb(travelled(part))
    page = render(merged.registry)
    assert 'extproc_config_info{digest="digest"} 1\n' in page
    assert "extproc_config_live_timestamp_seconds 300\n" in page
    assert "target_info{" in page
    assert page.partition("target_info{")[2].partition("} ")[2].startswith("1\n")

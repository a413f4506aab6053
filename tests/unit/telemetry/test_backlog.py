"""What ends is recorded some at a time, and whoever reads finds all of it."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from extproc.telemetry import backlog
from extproc.telemetry.backlog import Backlog
from extproc.telemetry.exposition import render
from extproc.telemetry.ledger import SLOT_SECONDS, Ledger
from extproc.telemetry.snapshot import Snapshot
from tests.support.playbook import NOW, Gateway, openai_backend

CONFIG = {"version": "dev", "backends": [openai_backend()]}
ANSWER = json.dumps({"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}).encode()
SUCCESSES = 'extproc_attempts_total{operation="chat",outcome="success"}'
SLOT = int(NOW) // SLOT_SECONDS


def test_what_has_ended_waits_for_others_and_keeps_its_order():
    done, everything = [], Backlog()
    waiting = everything.kind(done.extend)
    for number in range(backlog._BATCH - 1):
        waiting.add(number)
    assert not done
    waiting.add("last")
    assert done == [*range(backlog._BATCH - 1), "last"]
    waiting.settle()
    assert len(done) == backlog._BATCH


def test_whoever_reads_finds_every_kind_recorded_once():
    numbers, words, waiting = [], [], Backlog()
    kinds = waiting.kind(numbers.append), waiting.kind(words.append)
    for number in range(3):
        kinds[0].add(number)
        kinds[1].add(str(number))
    waiting.settle()
    waiting.settle()
    assert (numbers, words) == ([[0, 1, 2]], [["0", "1", "2"]])


def test_a_fault_in_one_kind_harms_no_other_and_is_logged():
    done, waiting = [], Backlog()
    waiting.kind(lambda ended: 1 / len(ended[1:])).add(1)
    waiting.kind(done.extend).add(2)
    with capture_logs() as lines:
        waiting.settle()
    assert done == [2]
    (line,) = lines
    assert line["event"] == "fault while recording what has ended"
    assert line["count"] == 1


def test_one_may_add_another():
    done, everything = [], Backlog()
    waiting = everything.kind(done.extend)
    everything.kind(lambda ended: waiting.add(ended[0] + 1)).add(1)
    everything.settle()
    everything.settle()
    assert done == [2]


@pytest.fixture
def gateway():
    return Gateway(CONFIG)


def answered(gateway):
    exchange = gateway.exchange()
    exchange.request({"model": "m"})
    exchange.attempt()
    exchange.response()
    exchange.piece(ANSWER, eos=True)
    return exchange


READERS = {
    "a scrape": lambda metrics: render(metrics.registry),
    "one sample": lambda metrics: (
        SUCCESSES + " 1\n"
        if metrics.registry.get_sample_value("extproc_attempts_total", {"operation": "chat", "outcome": "success"})
        else ""
    ),
    "what goes to another process": lambda metrics: "".join(
        f"{SUCCESSES} {value:g}\n"
        for name, values in Snapshot.whole(metrics.parts(10)).scalars.items()
        if name == "extproc_attempts"
        for _, value in values
    ),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_whoever_reads_metrics_finds_what_waits(gateway, read):
    answered(gateway)
    assert SUCCESSES + " 1\n" in read(gateway.metrics)


@pytest.mark.parametrize("read", [lambda ledger: ledger.take(), lambda ledger: list(ledger.slots(SLOT, SLOT))])
def test_whoever_reads_the_ledger_finds_what_waits(gateway, read):
    ledger = Ledger()
    ledger.backlog = gateway.metrics.backlog
    gateway.processor._context.accounts.ledger = ledger
    answered(gateway)
    (slot,) = read(ledger)
    assert sum(tally.succeeded for tally in slot.tallies.values()) == 1


def test_what_waits_keeps_no_answer(gateway):
    exchange = gateway.exchange()
    exchange.request({"model": "m", "stream": True})
    exchange.attempt()
    exchange.response()
    exchange.piece(b'data: {"half": ')
    attempt = exchange.router._router._attempt
    assert attempt.translator
    exchange.router.close()
    assert attempt.outcome == "client_cancelled"
    assert not hasattr(attempt, "translator")
    assert 'outcome="client_cancelled"} 1' in render(gateway.metrics.registry)

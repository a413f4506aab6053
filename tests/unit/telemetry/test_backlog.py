"""What ends is recorded some at a time, and whoever reads finds all of it."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from extproc.telemetry import backlog
from extproc.telemetry.backlog import Backlog
from extproc.telemetry.exposition import render
from extproc.telemetry.ledger import SLOT_SECONDS, Ledger, slowness
from extproc.telemetry.snapshot import Snapshot
from tests.support.playbook import BACKEND, NOW, SECOND_BACKEND, Gateway, cost, openai_backend

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


def played(size, monkeypatch):
    """The page and the ledger after requests of every fate, with so many recorded at a time."""
    monkeypatch.setattr(backlog, "_BATCH", size)
    backends = [openai_backend(), openai_backend(SECOND_BACKEND)]
    costs = [cost("total"), cost("fixed", "CEL", cel="3u")]
    gateway = Gateway(
        {"version": "dev", "backends": backends, "llmRequestCosts": costs}, metric_attributes={"x-team": "team"}
    )
    ledger = gateway.processor._context.accounts.ledger = Ledger()
    ledger.backlog = gateway.metrics.backlog
    for number in range(60):
        exchange = gateway.exchange(**{"x-team": f"team {number % 2}"})
        exchange.request({"model": f"m{number % 3}", "stream": number % 4 == 0})
        exchange.attempt(SECOND_BACKEND if number % 5 == 0 else BACKEND)
        gateway.clock.advance(number / 100)
        if number % 7 == 0:
            exchange.attempt()
        if number % 11:
            exchange.response(status="500" if number % 6 == 0 else "200")
            gateway.clock.advance(0.25)
            exchange.piece(ANSWER, eos=number % 9 != 0)
        exchange.close()
    return render(gateway.metrics.registry), slots_of(ledger)


def slots_of(ledger):
    (slot,) = ledger.take()
    return slot.number, slot.tallies, sorted(slot.slowest, key=slowness)


def test_what_is_recorded_together_is_what_is_recorded_singly(monkeypatch):
    assert played(1, monkeypatch) == played(1000, monkeypatch)


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

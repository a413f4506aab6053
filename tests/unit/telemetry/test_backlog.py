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


def test_recordings_wait_for_others_and_keep_their_order():
    done, waiting = [], Backlog()
    for number in range(backlog._BATCH - 1):
        waiting.add(lambda number=number: done.append(number))
    assert not done
    waiting.add(lambda: done.append("last"))
    assert done == [*range(backlog._BATCH - 1), "last"]
    waiting.settle()
    assert len(done) == backlog._BATCH


def test_one_that_fails_harms_no_other_and_is_logged():
    done, waiting = [], Backlog()
    waiting.add(lambda: done.append(1))
    waiting.add(lambda: 1 / 0)
    waiting.add(lambda: done.append(2))
    with capture_logs() as lines:
        waiting.settle()
    assert done == [1, 2]
    (line,) = lines
    assert line["event"] == "fault while recording what has ended"


def test_one_may_add_another():
    done, waiting = [], Backlog()
    waiting.add(lambda: waiting.add(lambda: done.append(1)))
    waiting.settle()
    waiting.settle()
    assert done == [1]


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
    gateway.processor._context.ledger = ledger
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
    assert attempt.finished
    assert not hasattr(attempt, "translator")
    assert 'outcome="client_cancelled"} 1' in render(gateway.metrics.registry)

"""The cell of a fetched credential: what a request reads, when the source is asked (BR-99; contract, rotation 8.2)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from extproc.auth.sources import (
    EARLIEST,
    FIRST_RETRY,
    LAST_RETRY,
    MAX_WATCHED_BYTES,
    Cells,
    Fetched,
    RefreshedCell,
    digests,
)
from extproc.errors import BackendUnavailable


@dataclass(frozen=True, kw_only=True)
class Named:
    """A source that nobody asks."""

    name: str = "a-source"
    secret: str = field(default="", repr=False)
    watches: tuple[Path, ...] = ()

    @property
    def key(self):
        return (self.name, self.secret)

    def fetch(self):
        raise AssertionError


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cell(clock):
    return RefreshedCell(Named(), clock=clock, jitter=lambda: 0.0)


def reason(cell):
    with pytest.raises(BackendUnavailable) as raised:
        cell.read()
    assert raised.value.status == 503
    return str(raised.value)


def test_before_the_first_answer_it_is_due_and_empty(cell):
    assert cell.due == 0
    assert reason(cell) == "the credential of the backend has not been fetched yet (a-source)"
    assert not cell.state().usable


def test_what_the_source_said_is_for_operators_and_not_for_clients(cell):
    cell.failed("AccessDenied:\n  who are you", {})
    assert reason(cell) == "the credential of the backend cannot be had (a-source)"
    assert cell.state().error == "AccessDenied: who are you"


LIFETIMES = {
    "an hour": (3600, EARLIEST),
    "25 minutes": (1500, EARLIEST),
    "ten minutes": (600, 120),
    "30 seconds": (30, 10),
    "eight seconds": (8, 4),
    "a second, no sooner than a retry": (1, 0),
}


@pytest.mark.parametrize(("lifetime", "ahead"), LIFETIMES.values(), ids=LIFETIMES)
def test_it_is_renewed_ahead_of_its_end(cell, lifetime, ahead):
    assert cell.succeeded(Fetched("c", 1000 + lifetime), {})
    assert cell.due == 1000 + lifetime - ahead


def test_what_lasts_is_renewed_only_when_a_file_changes(cell):
    assert cell.succeeded(Fetched("c"), {})
    assert cell.due is None
    cell.outdated()
    assert cell.due == 0
    assert cell.read() == "c"


def test_many_processes_do_not_ask_at_once(clock):
    dues = []
    for share in (0.0, 0.5, 1.0):
        cell = RefreshedCell(Named(), clock=clock, jitter=lambda share=share: share)
        cell.succeeded(Fetched("c", 4600), {})
        dues.append(cell.due)
    assert dues == [4300, 4270, 4240]


def test_the_old_credential_serves_through_failures_until_its_end_and_no_longer(cell, clock):
    cell.succeeded(Fetched("old", 1030), {})
    for now in (1024.0, 1026.0, 1029.9):
        clock.now = now
        cell.failed("down", {})
        assert cell.read() == "old"
        assert cell.state().usable
    clock.now = 1030.0
    assert reason(cell) == "the credential of the backend has expired (a-source)"
    assert cell.unserved == 1
    cell.succeeded(Fetched("new", 1060), {})
    assert cell.read() == "new"
    assert cell.state().error is None


def test_pauses_grow_and_are_short_while_requests_fail(cell, clock):
    pauses = {}
    for usable in (False, True):
        if usable:
            cell.succeeded(Fetched("c", 9000), {})
        pauses[usable] = []
        for _ in range(8):
            cell.failed("down", {})
            pauses[usable].append(cell.due - clock.now)
    assert pauses[False] == [1, 2, 4, 8, 10, 10, 10, 10]
    assert pauses[True] == [FIRST_RETRY, 2, 4, 8, 16, 32, LAST_RETRY, LAST_RETRY]


def test_an_answer_that_has_expired_is_a_failure_and_takes_nothing_away(cell, clock):
    cell.succeeded(Fetched("old", 1100), {})
    assert not cell.succeeded(Fetched("stale", 1000), {})
    assert cell.read() == "old"
    assert "is the clock of this machine right?" in cell.state().error
    assert cell.due == 1001


def test_a_cell_shows_no_credential(cell):
    fetched = Fetched("canary", 2000)
    cell.succeeded(fetched, {})
    assert "canary" not in f"{cell!r} {cell} {fetched!r} {cell.state()!r}"


# --- cells of a runtime ---


def test_a_source_has_one_cell_across_configs():
    cells = Cells()
    cell = cells.of(Named(name="a"))
    assert cells.of(Named(name="a")) is cell
    again = Cells({cell.source.key: cell})
    assert again.of(Named(name="a")) is cell
    assert again.of(Named(name="b")) is not cell
    assert [used.source.name for used in again.used] == ["a", "b"]


def test_a_changed_secret_uses_the_old_credential_until_the_new_one_is_there():
    cells = Cells()
    old = cells.of(Named(secret="one"))
    old.succeeded(Fetched("c"), {})
    new = Cells({old.source.key: old}).of(Named(secret="two"))
    assert new is not old
    assert new.read() == "c"
    assert new.due == 0


def test_another_identity_inherits_nothing():
    old = Cells().of(Named(name="a"))
    old.succeeded(Fetched("c"), {})
    assert not Cells({old.source.key: old}).of(Named(name="b")).state().usable


# --- files ---


def test_content_alone_tells_files_apart(tmp_path):
    file, missing = tmp_path / "a", tmp_path / "b"
    file.write_text("x")
    before = digests([file, missing])
    assert before[missing] == ""
    stamp = file.stat()
    file.write_text("y")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert digests([file])[file] != before[file]
    file.write_text("x")
    assert digests([file, missing]) == before


def test_what_is_no_file_of_bounded_size_counts_as_missing(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * (MAX_WATCHED_BYTES + 1))
    assert set(digests([tmp_path, tmp_path / "large", Path("/dev/zero")]).values()) == {""}


# --- any order of events ---

SPANS = st.floats(min_value=0, max_value=400, allow_nan=False)


class AnyOrder(RuleBasedStateMachine):
    """Answers, failures, changed files and the passing of time, as they may come."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.jitter = 0.0
        self.cell = RefreshedCell(Named(), clock=self.clock, jitter=lambda: self.jitter)
        self.newest = None
        self.number = 0

    @rule(span=SPANS)
    def time_passes(self, span):
        self.clock.now += span

    @precondition(lambda self: self.cell.due is not None)
    @rule()
    def it_becomes_due(self):
        self.clock.now = max(self.clock.now, self.cell.due)

    @rule(lifetime=st.one_of(st.none(), st.floats(min_value=-100, max_value=8000)), jitter=st.floats(0, 1))
    def the_source_answers(self, lifetime, jitter):
        self.jitter = jitter
        self.number += 1
        end = None if lifetime is None else self.clock.now + lifetime
        taken = self.cell.succeeded(Fetched(self.number, end), {})
        assert taken == (end is None or end > self.clock.now)
        if taken:
            self.newest = (self.number, end)

    @rule()
    def the_source_fails(self):
        self.cell.failed("down", {})

    @rule()
    def a_file_changes(self):
        self.cell.outdated()

    @invariant()
    def a_request_gets_the_newest_credential_for_as_long_as_it_lasts(self):
        valid = self.newest is not None and (self.newest[1] is None or self.newest[1] > self.clock.now)
        assert self.cell.state().usable == valid
        if valid:
            assert self.cell.read() == self.newest[0]
        else:
            with pytest.raises(BackendUnavailable):
                self.cell.read()

    @invariant()
    def it_is_due_before_it_ends(self):
        if self.newest is None or self.newest[1] is None or self.cell.state().error is not None:
            return
        # Only what ends within the first pause may end before.
        assert self.cell.due <= self.newest[1] or self.cell.due - FIRST_RETRY <= self.newest[1]

    @invariant()
    def after_a_failure_it_is_asked_again_soon(self):
        if self.cell.state().error is not None:
            assert self.cell.due is not None
            assert self.cell.due <= self.clock.now + 1.2 * LAST_RETRY


def test_in_any_order_of_events_a_request_gets_the_newest_valid_credential():
    run_state_machine_as_test(AnyOrder, settings=settings(max_examples=60, stateful_step_count=30))


@given(st.floats(min_value=0.001, max_value=1e7), st.floats(0, 1))
def test_the_time_of_renewal_is_within_the_lifetime(lifetime, jitter):
    cell = RefreshedCell(Named(), clock=lambda: 0.0, jitter=lambda: jitter)
    cell.succeeded(Fetched("c", lifetime), {})
    assert FIRST_RETRY <= cell.due <= max(lifetime, FIRST_RETRY)

"""Who asks the sources of credentials, when, and what requests see of it: nothing (field reports BR-99 and BR-100)."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from extproc import credentials as module
from extproc.auth.sources import Cells, Fetched, RefreshedCell, SourceError
from extproc.credentials import MAX_THREADS, PATIENCE, CredentialKeeper, in_daemon_thread
from extproc.errors import BackendUnavailable
from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import Metrics
from filter_config.redact import Secret
from tests.support import virtual_time
from tests.support.virtual_time import wall_clock


@dataclass(eq=False)
class Provider:
    """A source; ``answer`` may be replaced by an error to raise."""

    name: str = "provider"
    lifetime: float | None = 3600.0
    answer: Exception | None = None
    watches: tuple[Path, ...] = ()
    calls: list[float] = field(default_factory=list)

    @property
    def key(self):
        return self.name

    def fetch(self):
        self.calls.append(wall_clock())
        if self.answer is not None:
            raise self.answer
        return Fetched(
            Secret(f"canary-{len(self.calls)}"),
            None if self.lifetime is None else wall_clock() + self.lifetime,
        )


class Scene:
    """A keeper in virtual time. ``latency`` is how long a source takes, in seconds."""

    def __init__(self, *sources):
        self.latency = 0.0
        self.asking = self.most = 0
        self.metrics = Metrics()
        self.keeper = CredentialKeeper(self.metrics, clock=wall_clock, blocking=self._blocking)
        self.cells = self.use(*sources)

    def use(self, *sources):
        """Make these the sources of the live config; gives their cells."""
        cells = Cells(self.keeper.known, lambda source: RefreshedCell(source, clock=wall_clock, jitter=float))
        made = [cells.of(source) for source in sources]
        self.keeper.keep(cells.used)
        return made

    async def _blocking(self, work):
        if work.func is not module._ask:
            return work()
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(self.latency)
        self.asking -= 1
        return work()

    def metric(self, line):
        return line in render(self.metrics.registry).splitlines()

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.keeper.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def scenario(function):
    """Run a coroutine function as a test in virtual time."""

    def test():
        virtual_time.run(function)

    test.__name__ = function.__name__
    return test


def text(cell):
    return cell.read().reveal()


@scenario
async def test_a_source_is_asked_when_its_config_goes_live_and_nobody_waits_for_it():
    provider = Provider()
    scene = Scene(provider)
    scene.latency = 5.0
    async with scene.running():
        await asyncio.sleep(4)
        with pytest.raises(BackendUnavailable):
            scene.cells[0].read()
        await asyncio.sleep(2)
        assert text(scene.cells[0]) == "canary-1"
    assert len(provider.calls) == 1


@scenario
async def test_before_any_config_the_keeper_rests_and_one_that_comes_wakes_it():
    scene = Scene()
    async with scene.running():
        await asyncio.sleep(1000)
        (cell,) = scene.use(Provider())
        await asyncio.sleep(0.1)
        assert text(cell) == "canary-1"


@scenario
async def test_thirty_second_credentials_are_renewed_for_an_hour_without_one_request_noticing():
    provider = Provider(lifetime=30.0)
    scene = Scene(provider)
    scene.latency = 2.0
    async with scene.running():
        await asyncio.sleep(3)
        for _ in range(6_000):
            scene.cells[0].read()
            await asyncio.sleep(0.6)
    assert 3600 / 30 <= len(provider.calls) <= 3600 / 20
    assert scene.cells[0].unserved == 0
    assert scene.most == 1


@scenario
async def test_two_hundred_requests_at_the_end_of_a_credential_make_one_call_of_two_seconds():
    provider = Provider(lifetime=100.0)
    scene = Scene(provider)
    async with scene.running():
        await asyncio.sleep(1)
        scene.latency = 2.0
        cell = scene.cells[0]
        await asyncio.sleep(80)
        assert scene.asking == 1
        began = wall_clock()

        async def request():
            return text(cell)

        got = await asyncio.gather(*(request() for _ in range(200)))
        assert got == ["canary-1"] * 200
        assert wall_clock() == began
        await asyncio.sleep(2.5)
        assert text(cell) == "canary-2"
    assert len(provider.calls) == 2


@scenario
async def test_after_the_end_requests_fail_at_once_and_still_make_one_call():
    provider = Provider(lifetime=10.0)
    scene = Scene(provider)
    async with scene.running():
        await asyncio.sleep(1)
        scene.latency = 30.0
        await asyncio.sleep(12)
        for _ in range(200):
            with pytest.raises(BackendUnavailable, match="has expired"):
                scene.cells[0].read()
        await asyncio.sleep(30)
        assert len(provider.calls) >= 2
        assert scene.most == 1
        assert scene.metric('extproc_credential_unavailable_requests_total{source="provider"} 200')


@scenario
async def test_an_outage_is_bridged_until_the_credential_ends_and_over_soon_after():
    provider = Provider(lifetime=600.0)
    scene = Scene(provider)
    with capture_logs() as logs:
        async with scene.running():
            await asyncio.sleep(1)
            provider.answer = SourceError("503 from the token endpoint")
            await asyncio.sleep(590)
            assert text(scene.cells[0]) == "canary-1"
            assert scene.keeper.states()[0].error == "503 from the token endpoint"
            await asyncio.sleep(20)
            with pytest.raises(BackendUnavailable, match="has expired"):
                scene.cells[0].read()
            await asyncio.sleep(600)
            assert scene.metric('extproc_credential_missing{source="provider"} 1')
            provider.answer = None
            await asyncio.sleep(14)
            assert text(scene.cells[0]).startswith("canary-")
            assert scene.metric('extproc_credential_missing{source="provider"} 0')
    # A minute at most between two attempts, ten seconds while requests fail; no more often than that either.
    assert 50 < len(provider.calls) < 90
    events = {(entry["event"], entry["log_level"]) for entry in logs}
    assert events == {
        ("credential fetched", "info"),
        ("credential not renewed, the old one is used", "warning"),
        ("credential cannot be had, requests that need it fail", "error"),
    }
    assert "canary" not in str(logs)


@scenario
async def test_a_source_that_does_not_answer_counts_as_failing_and_is_not_asked_twice():
    provider = Provider(lifetime=600.0)
    scene = Scene(provider)
    scene.latency = 1000.0
    async with scene.running():
        await asyncio.sleep(PATIENCE + 1)
        assert scene.keeper.states()[0].error == "no answer within 60 seconds"
        assert scene.metric('extproc_credential_refreshes_total{result="failed",source="provider"} 1')
        await asyncio.sleep(930)
        assert scene.most == 1
        assert provider.calls == []
        await asyncio.sleep(10)
        assert text(scene.cells[0]) == "canary-1"
        assert scene.keeper.states()[0].error is None


@scenario
async def test_a_source_that_fails_harms_no_other():
    broken, good = Provider(name="broken", answer=SourceError("no")), Provider(name="good")
    scene = Scene(broken, good)
    async with scene.running():
        await asyncio.sleep(100)
        assert text(scene.cells[1]) == "canary-1"
        assert len(good.calls) == 1
        assert [(state.name, state.usable) for state in scene.keeper.states()] == [("broken", False), ("good", True)]


@scenario
async def test_a_fault_in_a_source_is_named_and_not_quoted():
    scene = Scene(Provider(answer=ZeroDivisionError("canary")))
    with capture_logs() as logs:
        async with scene.running():
            await asyncio.sleep(1)
    (state,) = scene.keeper.states()
    assert state.error.startswith("internal error: ZeroDivisionError in test_keeper.py:")
    assert "canary" not in str(logs)


@scenario
async def test_a_reload_keeps_the_cell_of_an_unchanged_source_and_does_not_ask_it_again():
    kept, gone, new = Provider(name="kept"), Provider(name="gone", lifetime=100.0), Provider(name="new")
    scene = Scene(kept, gone)
    async with scene.running():
        await asyncio.sleep(1)
        before = scene.cells
        after = scene.use(Provider(name="kept"), new)
        assert after[0] is before[0]
        assert text(after[0]) == "canary-1"
        await asyncio.sleep(200)
        assert text(after[1]) == "canary-1"
        assert (len(kept.calls), len(gone.calls), len(new.calls)) == (1, 1, 1)
        # A stream with the older config may still be about to read.
        with pytest.raises(BackendUnavailable):
            before[1].read()
        assert 'source="gone"' not in "".join(
            line for line in render(scene.metrics.registry).splitlines(keepends=True) if "_missing" in line
        )


@scenario
async def test_a_config_that_is_replaced_while_its_source_is_asked_is_no_trouble():
    first, second = Provider(name="first"), Provider(name="second")
    scene = Scene(first)
    scene.latency = 5.0
    async with scene.running():
        await asyncio.sleep(1)
        scene.use(second)
        await asyncio.sleep(1)
        (again, other) = scene.use(first, second)
        await asyncio.sleep(11)
        assert text(again).startswith("canary")
        assert text(other) == "canary-1"
        assert scene.most <= 2


@scenario
async def test_threads_are_bounded_and_everybody_gets_a_turn():
    providers = [Provider(name=f"p{number}") for number in range(3 * MAX_THREADS)]
    scene = Scene(*providers)
    scene.latency = 1.0
    async with scene.running():
        await asyncio.sleep(4)
        assert scene.most == MAX_THREADS
        assert all(state.usable for state in scene.keeper.states())


@scenario
async def test_when_no_thread_can_be_had_the_keeper_goes_on():
    provider = Provider()
    scene = Scene(provider)
    hurdle = [RuntimeError("can't start new thread")]

    async def blocking(work):
        if hurdle:
            raise hurdle[0]
        return await scene._blocking(work)

    scene.keeper._blocking = blocking
    async with scene.running():
        await asyncio.sleep(5)
        assert scene.keeper.states()[0].error == "internal error: RuntimeError"
        hurdle.clear()
        await asyncio.sleep(20)
        assert text(scene.cells[0]) == "canary-1"


@scenario
async def test_a_fault_of_the_keeper_costs_a_pause():
    provider = Provider(lifetime=100.0)
    scene = Scene(provider)
    publish, faults = scene.metrics.credentials, [LookupError("planted")] * 2

    def credentials(states):
        if faults:
            raise faults.pop()
        publish(states)

    scene.metrics.credentials = credentials
    with capture_logs() as logs:
        async with scene.running():
            await asyncio.sleep(300)
            scene.cells[0].read()
    assert [entry["event"] for entry in logs].count("the credential keeper failed; starting it again") == 2
    assert len(provider.calls) >= 3


# --- files ---


def rewrite_in_place(path, content):
    """Another content with the same length and the same times."""
    stamp = path.stat()
    path.write_text(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def swap_the_volume(path, content):
    """What the kubelet does: another directory behind a link."""
    new = path.parent.parent / f"..{content}"
    new.mkdir()
    (new / path.name).write_text(content)
    link = path.parent.parent / "..tmp"
    link.symlink_to(new.name)
    link.replace(path.parent.parent / "..data")


def restore_an_older_one(path, content):
    path.write_text(content)
    os.utime(path, (1, 1))


CHANGES = {"same time": rewrite_in_place, "swapped volume": swap_the_volume, "older time": restore_an_older_one}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_file_is_noticed_within_two_seconds_and_the_old_credential_serves_meanwhile(tmp_path, change):
    (tmp_path / "..one").mkdir()
    (tmp_path / "..data").symlink_to("..one")
    file = tmp_path / "..data" / "token"
    file.write_text("one")

    async def rotate():
        provider = Provider(lifetime=None, watches=(file,))
        scene = Scene(provider)
        async with scene.running():
            await asyncio.sleep(100)
            assert len(provider.calls) == 1
            change(file, "two")
            scene.latency = 0.5
            for _ in range(20):
                assert text(scene.cells[0]) in ("canary-1", "canary-2")
                await asyncio.sleep(0.1)
            assert text(scene.cells[0]) == "canary-2"
            await asyncio.sleep(100)
            assert len(provider.calls) == 2

    virtual_time.run(rotate)


def test_a_half_written_file_costs_a_failure_and_nothing_else(tmp_path):
    file = tmp_path / "credentials"
    file.write_text("whole")

    async def rotate():
        provider = Provider(watches=(file,))
        scene = Scene(provider)
        async with scene.running():
            await asyncio.sleep(10)
            file.write_text("ha")
            provider.answer = SourceError("half")
            await asyncio.sleep(10)
            assert text(scene.cells[0]) == "canary-1"
            assert scene.keeper.states()[0].error == "half"
            file.write_text("whole again")
            provider.answer = None
            await asyncio.sleep(2)
            assert scene.keeper.states()[0].error is None
            assert text(scene.cells[0]) != "canary-1"

    virtual_time.run(rotate)


def test_a_file_that_changes_while_its_source_is_asked_is_asked_about_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")

    class Careless(Provider):
        def fetch(self):
            fetched = super().fetch()
            file.write_text("two")  # right after it was read
            return fetched

    async def rotate():
        provider = Careless(lifetime=None, watches=(file,))
        scene = Scene(provider)
        async with scene.running():
            await asyncio.sleep(20)
            assert len(provider.calls) == 2

    virtual_time.run(rotate)


class Forgetful(Provider):
    """Cannot say what it watches."""

    @property
    def watches(self):
        raise OSError("canary")

    @watches.setter
    def watches(self, _):
        pass


@scenario
async def test_a_source_that_cannot_say_what_it_watches_fails_alone():
    scene = Scene(Forgetful(name="f"), Provider(name="good"))
    async with scene.running():
        await asyncio.sleep(30)
        assert text(scene.cells[1]) == "canary-1"
        assert "internal error: OSError" in scene.keeper.states()[0].error


# --- any order of events ---

OUTAGES = st.lists(st.tuples(st.floats(min_value=0, max_value=2000), st.floats(min_value=0, max_value=200)), max_size=3)


@settings(max_examples=10)
@given(outages=OUTAGES, latency=st.floats(min_value=0, max_value=10), lifetime=st.sampled_from([1500.0, 3600.0]))
def test_no_outage_of_three_minutes_is_noticed_by_a_request(outages, latency, lifetime):
    async def live():
        provider = Provider(lifetime=lifetime)
        scene = Scene(provider)
        scene.latency = latency

        async def request_regularly():
            while True:
                scene.cells[0].read()
                await asyncio.sleep(5)

        async with scene.running():
            await asyncio.sleep(latency + 1)
            requests = asyncio.create_task(request_regularly())
            for pause, length in outages:
                await asyncio.sleep(pause)
                provider.answer = SourceError("down")
                await asyncio.sleep(length)
                provider.answer = None
                await asyncio.sleep(100)
            assert not requests.done()
            requests.cancel()

    virtual_time.run(live)


@pytest.mark.parametrize("turns", range(4))
def test_it_ends_when_it_is_cancelled_at_the_moment_it_wakes(turns):
    async def live():
        keeper = CredentialKeeper(Metrics())
        cells = Cells()
        cells.of(Provider()).succeeded(Fetched(Secret("s"), None), {})
        keeper.keep(cells.used)
        running = asyncio.create_task(keeper.run())
        for _ in range(20):
            await asyncio.sleep(0)
        keeper.keep(cells.used)
        # It is to go on, and has not been told yet.
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=5)
        assert done

    asyncio.run(live())


# --- real threads ---


class Blocked(Provider):
    """Answers when it is let to."""

    def __init__(self):
        super().__init__(name="blocked")
        self.go, self.entered = threading.Event(), threading.Event()

    def fetch(self):
        self.calls.append(0.0)
        self.entered.set()
        assert self.go.wait(30)
        return Fetched(Secret("canary"), None)


def test_a_blocking_source_does_not_hold_up_the_event_loop():
    async def live():
        blocked = Blocked()
        keeper = CredentialKeeper(Metrics())
        cells = Cells()
        cell = cells.of(blocked)
        cell.succeeded(Fetched(Secret("old"), None), {})
        cell.outdated()
        keeper.keep(cells.used)
        running = asyncio.create_task(keeper.run())
        assert await asyncio.to_thread(blocked.entered.wait, 30)
        # The source is in its call, and stays there until the loop has served these.
        for _ in range(200):
            assert text(cell) == "old"
            await asyncio.sleep(0)
        assert len(blocked.calls) == 1
        blocked.go.set()
        async with asyncio.timeout(30):
            while text(cell) == "old":  # noqa: ASYNC110 - what a thread does
                await asyncio.sleep(0.001)
        assert len(blocked.calls) == 1
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(live())


def test_the_end_of_the_process_does_not_wait_for_a_source():
    blocked = Blocked()
    # Those of other tests may not have ended yet.
    before = threading.enumerate()

    async def live():
        keeper = CredentialKeeper(Metrics())
        cells = Cells()
        cells.of(blocked)
        keeper.keep(cells.used)
        running = asyncio.create_task(keeper.run())
        assert await asyncio.to_thread(blocked.entered.wait, 30)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(live())
    (thread,) = (each for each in threading.enumerate() if each.name == "credentials" and each not in before)
    assert thread.daemon
    # Its answer comes to a loop that is closed, which is no fault.
    blocked.go.set()
    thread.join(30)
    assert not thread.is_alive()


def test_what_a_thread_raises_is_raised_where_it_is_awaited():
    def work():
        raise LookupError("here")

    async def live():
        with pytest.raises(LookupError, match="here"):
            await in_daemon_thread(work)

    asyncio.run(live())

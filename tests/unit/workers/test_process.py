"""The whole processor with several workers, as a user starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.unit.app.test_app import CONFIG, DISABLED, KEY, Running
from tests.unit.workers.fleets import Client, credential, is_running


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "filter-config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def start(config):
    with contextlib.ExitStack() as stack:

        def start(*argv, **environ):
            running = Running(
                *("-configPath", str(config), "-extProcAddr", "127.0.0.1:0", "-adminPort", "0"),
                *("-adminHost", "127.0.0.1", "-transport", "http2", "-workers", "2", "-drainSeconds", "0"),
                *argv,
                **environ,
            )
            stack.callback(running.close)
            return running

        yield start


def workers(running):
    return running.get("/config").json()["workers"]


def pids(running):
    return [worker["pid"] for worker in workers(running)]


def wait_until_gone(processes):
    for _ in range(3000):
        if not any(map(is_running, processes)):
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"still there: {processes}")


def test_the_pages_are_about_all_workers(start, config):
    running = start()
    running.wait_for("is ready")
    digest = running.get("/config").json()["live"]["hash"]

    readiness = running.get("/ready")
    assert readiness.status_code == 200
    assert readiness.json()["workers"] == {"wanted": 2, "serving": 2, "with_another_config": 0}
    assert running.get("/health").text == "OK\n"
    for number, worker in enumerate(workers(running), 1):
        assert worker["pid"] != running.process.pid
        assert {key: worker[key] for key in ("worker", "state", "hash", "refused", "deaths")} == {
            "worker": f"w{number}.1",
            "state": "serving",
            "hash": digest,
            "refused": None,
            "deaths": 0,
        }
    assert running.get("/metrics").text.count("target_info{") == 1

    config.write_text(CONFIG.replace("uuid: first", "uuid: second") + DISABLED, encoding="utf-8")
    running.until(lambda: digest not in {worker["hash"] for worker in workers(running)})
    (hashes,) = {(worker["hash"], running.get("/config").json()["live"]["hash"]) for worker in workers(running)}
    assert hashes[0] == hashes[1]

    running.process.send_signal(signal.SIGTERM)
    assert running.wait() == 0
    assert KEY not in "".join(running.log)
    assert not [line for line in running.log if "level=ERROR" in line and "backend disabled" not in line]


def test_no_worker_outlives_a_supervisor_that_is_killed(start):
    running = start()
    running.wait_for("is ready")
    left = pids(running)
    assert all(map(is_running, left))
    running.process.kill()
    running.process.wait(10)
    wait_until_gone(left)


def test_a_signal_to_every_process_is_one_to_the_supervisor(start):
    """Service managers signal the whole group; streams in flight finish all the same."""

    async def story(running):
        async with Client(running.address) as client:
            router = client.stream()
            carried = await router.begin()
            for pid in (*pids(running), running.process.pid):
                os.kill(pid, signal.SIGTERM)
            await asyncio.to_thread(running.wait_for, "signal received")
            assert credential(await client.stream().attempt(carried)) == [f"Bearer {KEY}".encode()]
            await router.call.done_writing()
            assert await router.code() == "OK"

    running = start()
    running.wait_for("is ready")
    left = pids(running)
    asyncio.run(story(running))
    assert running.wait() == 0
    wait_until_gone(left)


def test_workers_that_cannot_live_are_an_error(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'extproc.workers' in sys.orig_argv:\n    os._exit(3)\n", encoding="utf-8"
    )
    running = start(PYTHONPATH=str(tmp_path))
    assert running.wait() == 1
    assert running.log[-2].partition(" error: ")[2] in {
        f"worker {number} died 3 times in a row, the last time with status 3\n" for number in (1, 2)
    }
    assert not [line for line in running.log if "is ready" in line or "Traceback" in line]


def test_a_signal_before_all_workers_have_started_ends_it(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif 'extproc.workers' in sys.orig_argv:\n    time.sleep(600)\n", encoding="utf-8"
    )
    running = start(PYTHONPATH=str(tmp_path))
    running.wait_for("starting admin server")
    readiness = running.get("/ready")
    assert (readiness.status_code, readiness.json()["workers"]["serving"]) == (503, 0)
    assert running.get("/health").status_code == 500
    left = pids(running)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait() == 0
    wait_until_gone(left)
    assert not [line for line in running.log if "is ready" in line]


def test_one_process_starts_no_other(start):
    running = start("-workers", "1")
    running.wait_for("is ready")
    assert "workers" not in running.get("/config").json()
    assert "workers" not in running.get("/ready").json()
    assert not [line for line in running.log if "worker" in line]


def test_a_worker_is_nothing_to_start_by_hand():
    ended = subprocess.run([sys.executable, "-m", "extproc.workers", "1"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "a worker is started by `extproc -workers N`, not by hand\n"

"""Child processes: their words, their end, and that they do not outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from deploy.local.children import Child, ChildFailed

SAY = "import sys, time; print('ready now', flush=True); print('bad', file=sys.stderr, flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    "while True: time.sleep(60)"
)


def child(tmp_path, script, **fields):
    return Child("worker", [sys.executable, "-c", script], log=tmp_path / "worker.log", **fields)


def test_it_waits_for_a_line_and_keeps_all_of_them(tmp_path):
    worker = child(tmp_path, SAY)
    try:
        assert worker.wait_for_line("ready", timeout=10) == "ready now\n"
        assert worker.wait_for_line("bad", timeout=10) == "bad\n"
        assert worker.wait_for_line("ready", timeout=0.1) == "ready now\n"
    finally:
        status = worker.stop()

    assert status == -signal.SIGTERM
    assert (tmp_path / "worker.log").read_text() == "ready now\nbad\n"
    assert not worker.running


def test_a_child_that_ends_early(tmp_path):
    worker = child(tmp_path, "print('one'); print('two'); raise SystemExit(7)")

    with pytest.raises(ChildFailed) as caught:
        worker.wait_for_line("ready", timeout=10)

    assert str(caught.value) == "worker ended with status 7: one | two"


def test_a_child_that_says_nothing(tmp_path):
    worker = child(tmp_path, "import time; time.sleep(60)")
    try:
        with pytest.raises(ChildFailed, match=r"worker did not say 'ready' within 0\.05 s"):
            worker.wait_for_line("ready", timeout=0.05)
    finally:
        worker.kill()


def test_long_words_are_cut(tmp_path):
    worker = child(tmp_path, "print('x' * 5000)")
    worker.wait(10)

    assert len(worker.last_words()) < 500


def test_one_that_ignores_the_signal_is_killed(tmp_path):
    worker = child(tmp_path, STUBBORN)
    worker.wait_for_line("up", timeout=10)

    assert worker.stop(grace=0.1) == -signal.SIGKILL
    assert worker.stop() == -signal.SIGKILL
    assert worker.returncode == -signal.SIGKILL


def test_the_environment_is_added_to_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "1")
    worker = child(tmp_path, "import os; print(os.environ['OURS'], os.environ['THEIRS'])", environment={"THEIRS": "2"})

    assert worker.wait_for_line("", timeout=10) == "1 2\n"
    assert worker.wait(10) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_it_does_not_outlive_a_parent_that_is_killed(tmp_path):
    script = (
        "import pathlib, sys, time\n"
        "from deploy.local.children import Child\n"
        "worker = Child('w', [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)'],"
        " log=pathlib.Path(sys.argv[1]))\n"
        "worker.wait_for_line('1', timeout=10)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()

    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # there is no event for the end of a process that is not our child
    assert not alive(pid)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - it may vanish between the two lines
        return stat.read().rpartition(")")[2].split()[0] != "Z"

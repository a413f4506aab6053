"""Reading CPU time and memory of a process tree from a made-up ``/proc``."""

import os

import pytest

from tests.bench import processes
from tests.bench.machine import cpu_model


def process(proc, pid, *, parent, tasks=(), ticks=(0, 0), pages=1, name="python"):
    home = proc / str(pid)
    fields = ["S", str(parent), *["0"] * 9, *map(str, ticks), "0"]
    for number, nanoseconds in enumerate(tasks):
        task = home / "task" / str(pid + number)
        task.mkdir(parents=True)
        if nanoseconds is not None:
            (task / "schedstat").write_text(f"{nanoseconds} 5 7\n")
    (home / "task").mkdir(parents=True, exist_ok=True)
    (home / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (home / "statm").write_text(f"900 {pages} 3 4 5 6 7\n")


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "uptime").write_text("1 1")
    process(tmp_path, 1, parent=0, tasks=[10**12], pages=1000)
    process(tmp_path, 20, parent=1, tasks=[500_000_000, 250_000_000], pages=10)
    process(tmp_path, 30, parent=20, tasks=[125_000_000], pages=20, name="a (b) c) S 1")
    process(tmp_path, 40, parent=30, tasks=[125_000_000], pages=30)
    process(tmp_path, 50, parent=1, tasks=[10**12], pages=1000)
    return tmp_path


def test_a_tree_holds_children_of_children_and_no_others(proc):
    assert sorted(processes.tree(20, proc=proc)) == [20, 30, 40]


def test_the_time_of_all_threads_and_processes_is_added_up(proc):
    assert processes.cpu_seconds(20, proc=proc) == pytest.approx(1.0)


def test_memory_is_added_up_over_the_processes(proc):
    assert processes.resident_bytes(20, proc=proc) == 60 * os.sysconf("SC_PAGE_SIZE")


def test_a_kernel_without_schedstat_tells_ticks(tmp_path):
    hertz = os.sysconf("SC_CLK_TCK")
    process(tmp_path, 20, parent=1, tasks=[None, None], ticks=(3 * hertz, hertz))
    assert processes.cpu_seconds(20, proc=tmp_path) == pytest.approx(4.0)


def test_a_process_that_is_gone_counts_as_nothing(tmp_path):
    assert processes.cpu_seconds(20, proc=tmp_path) == 0.0
    assert processes.resident_bytes(20, proc=tmp_path) == 0


def test_this_process_is_in_the_real_proc():
    assert os.getpid() in processes.tree(os.getppid())
    assert processes.cpu_seconds(os.getpid()) > 0
    assert processes.resident_bytes(os.getpid()) > 1 << 20


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: Abacus 9000 \nflags\t: fpu\n", "Abacus 9000"),
        ("processor\t: 0\n", os.uname().machine),
    ],
    ids=["named", "without a name"],
)
def test_the_processor_has_a_name(cpuinfo, name):
    assert cpu_model(cpuinfo) == name

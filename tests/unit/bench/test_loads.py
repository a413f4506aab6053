"""Reading what wrk and h2load print, and what apt says it would install."""

import json
import os

import pytest

from tests.bench.loads import LoadFailed, chat_body, parse_h2load, parse_wrk
from tests.bench.tools import Tool, ToolMissing, at_hand, main, packages_of, tool

WRK = """\
Running 2s test @ http://127.0.0.1:1/v1/chat/completions
  1 threads and 16 connections
  651 requests in 2.06s, 400.00KB read
RESULT {"requests":651,"seconds":2.057562,"p50_us":49412.0,"p99_us":87342.0,"max_us":90024.0,"failures":%d}
"""
H2LOAD = """\
progress: 100%% done

finished in %s, 2370.77 req/s, 1.58MB/s
requests: 300 total, 300 started, %s done, 300 succeeded, %s failed, 0 errored, 0 timeout
status codes: %s 2xx, 0 3xx, 0 4xx, 0 5xx
"""


def test_wrk_tells_latencies_in_seconds():
    load = parse_wrk(WRK % 0)
    assert (load.requests, load.seconds) == (651, 2.057562)
    assert load.p50 == pytest.approx(0.049412)
    assert load.p99 == pytest.approx(0.087342)
    assert load.longest == pytest.approx(0.090024)
    assert load.rate == pytest.approx(651 / 2.057562)


@pytest.mark.parametrize(
    "output",
    [
        "unable to connect to 127.0.0.1:1 Connection refused\n",
        WRK % 3,
        (WRK % 0).replace('"requests":651', '"requests":0'),
    ],
    ids=["no result", "failed requests", "no requests"],
)
def test_a_run_of_wrk_that_failed_gives_no_figure(output):
    with pytest.raises(LoadFailed):
        parse_wrk(output)


@pytest.mark.parametrize(
    ("time", "seconds"), [("126.54ms", 0.12654), ("1.04s", 1.04), ("2.50m", 150.0), ("900us", 9e-4)]
)
def test_h2load_tells_how_many_and_how_long(time, seconds):
    load = parse_h2load(H2LOAD % (time, 300, 0, 300))
    assert load.requests == 300
    assert load.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "output",
    ["-n, -c: too few", H2LOAD % ("1.00s", 300, 2, 300), H2LOAD % ("1.00s", 300, 0, 299), H2LOAD % ("1.00s", 0, 0, 0)],
    ids=["no result", "failed requests", "another status", "no requests"],
)
def test_a_run_of_h2load_that_failed_gives_no_figure(output):
    with pytest.raises(LoadFailed):
        parse_h2load(output)


@pytest.mark.parametrize("size", [100, 600, 100_000])
def test_a_chat_body_has_exactly_the_size_that_is_asked_for(size):
    body = chat_body(size, "m-1")
    assert len(body) == size
    assert json.loads(body)["model"] == "m-1"


def test_the_libraries_that_the_system_lacks_are_found_in_apts_plan():
    plan = (
        "Reading package lists...\n"
        "Inst libev4 (1:4.33-1 Debian:12/stable [amd64])\n"
        "Inst libnghttp2-14 [1.52.0-1] (1.52.0-2 Debian:12/stable [amd64])\n"
        "Inst wrk (4.1.0-3+b2 Debian:12/stable [amd64])\n"
        "Conf wrk (4.1.0-3+b2 Debian:12/stable [amd64])\n"
    )
    assert packages_of(plan) == ["libev4", "libnghttp2-14", "wrk"]


def test_without_apt_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"^no apt-get here: install wrk yourself$"):
        tool("wrk", home=tmp_path / "tools")


def test_an_unpacked_tool_finds_its_libraries(tmp_path, monkeypatch):
    (tmp_path / "usr" / "lib" / "x86_64-linux-gnu").mkdir(parents=True)
    program = tmp_path / "usr" / "bin" / "h2load"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$1 $LD_LIBRARY_PATH"\n')
    program.chmod(0o755)
    found = tool("h2load", home=tmp_path)
    assert found.run("hello", timeout=5) == f"hello {tmp_path}/usr/lib/x86_64-linux-gnu\n"


def test_an_unpacked_tool_finds_libraries_that_only_its_packages_use(tmp_path):
    private = tmp_path / "usr" / "lib" / "x86_64-linux-gnu" / "pulseaudio"
    program = tmp_path / "usr" / "lib" / "chromium" / "chromium"
    for folder in (private, program.parent):
        folder.mkdir(parents=True)
    (private / "libpulsecommon-16.1.so").touch()
    program.touch()
    found = at_hand("chromium", home=tmp_path)
    assert found.path == program
    assert found.environment["LD_LIBRARY_PATH"] == f"{private.parent}{os.pathsep}{private}"


def test_a_program_of_another_name_is_not_fetched(capsys):
    assert main(["lynx"]) == 2
    assert capsys.readouterr().err.startswith("tools: no such program: lynx; there are wrk, ")


def test_a_tool_that_fails_says_why(tmp_path):
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(ToolMissing, match="broken ended with status 3: out of luck"):
        Tool(path=program).run(timeout=5)

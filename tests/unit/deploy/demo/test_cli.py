"""``extproc demo`` when it cannot: one line, and a status."""

from __future__ import annotations

import signal
import sys

import pytest

from deploy.demo import cli


@pytest.fixture(autouse=True)
def _signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_storage_that_cannot_be_used(capsys):
    assert cli.main(["--once", "--redis-url", "floppy://x"]) == 1

    assert capsys.readouterr().err == "extproc demo: unusable storage: redis://HOST:PORT/DB is needed\n"


def test_without_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "limits", None)
    for name in [name for name in sys.modules if name.startswith(("deploy.demo.", "deploy.ratelimit"))]:
        if name != "deploy.demo.cli":
            monkeypatch.delitem(sys.modules, name)

    assert cli.main(["--once"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line == "extproc demo: limits is missing: install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')"


def test_a_signal_wakes_however_early_it_comes():
    came = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))

    with cli._waking() as awake:
        awake.settimeout(10)
        signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
        assert awake.recv(1)

    assert signal.set_wakeup_fd(-1) == -1


WRONG = {
    "option that there is not": (["--twice"], "unrecognized arguments: --twice"),
    "budgets where there are none": (
        ["--backends", "--redis-url", "redis://127.0.0.1/0"],
        "--backends has no budgets to keep in --redis-url",
    ),
    "port that is too high": (["--port", "99999"], "'99999' is not a port: a number from 0 to 65535 is needed"),
    "port that is negative": (["--port=-1"], "'-1' is not a port: a number from 0 to 65535 is needed"),
    "port that is a word": (["--port", "http"], "'http' is not a port: a number from 0 to 65535 is needed"),
}


@pytest.mark.parametrize(("arguments", "complaint"), WRONG.values(), ids=WRONG)
def test_a_wrong_option(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("extproc demo: ")
    assert complaint in line
    assert line.endswith("; see extproc demo --help")

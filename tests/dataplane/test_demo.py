"""``extproc demo``: the walk succeeds, and whatever ends it, nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.children import child

SCHEMAS = ["OpenAI", "AzureOpenAI", "AWSBedrock", "GCPVertexAI", "GCPAnthropic", "AWSAnthropic", "Anthropic"]
SECRETS = ["sk-demo-openai-0001", "az-demo-0002", "sk-ant-demo-0003", "ya29.demo-0004", "demo-secret-0006"]


@contextmanager
def run(tmp_path, *arguments):
    """The scratch directory of a demo, and its process."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch)}
    with child(
        [
            sys.executable,
            "-c",
            "import sys; from extproc.cli import main; sys.exit(main(sys.argv[1:]))",
            "demo",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield scratch, process


def test_the_walk_once(tmp_path):
    logs = tmp_path / "logs"

    with run(tmp_path, "--once", "--keep-logs", str(logs)) as (scratch, process):
        out, err = process.communicate(timeout=120)

    assert process.returncode == 0, err
    assert [line[0] for line in out.splitlines() if line[:2] in {"1.", "2.", "3.", "4.", "5."}] == list("12345")
    assert "x-ratelimit-remaining: 0" in out
    assert out.endswith("All five steps went as they should.\n")
    assert err == ""
    assert list(scratch.iterdir()) == []
    kept = {path.name for path in logs.iterdir()}
    assert {"access.log", "envoy.log", "envoy.yaml", "filter-config.yaml", "processor.log"} <= kept


def test_the_walk_through_the_backends_once(tmp_path):
    logs = tmp_path / "logs"

    with run(tmp_path, "--backends", "--once", "--keep-logs", str(logs)) as (scratch, process):
        out, err = process.communicate(timeout=120)

    assert process.returncode == 0, err + out[-3000:]
    titles = [line.split(":")[0] for line in out.splitlines() if line[:1].isdigit()]
    assert titles == [f"{number}. {schema}" for number, schema in enumerate(SCHEMAS, 1)]
    table = out.partition("Side by side")[2].splitlines()
    assert [line.split()[0] for line in table[3:10]] == SCHEMAS
    assert out.endswith("All seven backends gave the client the same answers.\n")
    assert err == ""
    assert list(scratch.iterdir()) == []
    assert not [secret for secret in SECRETS if secret in out]


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with run(tmp_path, "--once", "--port", str(port)) as (scratch, process):
            out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (1, "", f"extproc demo: port {port} is taken\n")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_stays_until_it_is_told_to_stop(tmp_path, number):
    with run(tmp_path) as (scratch, process):
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C stops everything" in line:
                break
        children = children_of(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out == "\nStopping.\n"
    assert err == ""
    assert sum("curl" in line for line in said) >= 6
    assert list(scratch.iterdir()) == []
    assert len(children) >= 2
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]

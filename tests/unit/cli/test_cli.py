from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import extproc
from extproc import app, cli
from extproc.settings import Settings
from extproc.telemetry import logs

ROOT = Path(__file__).parents[3]
STAMP = r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d error: "


@pytest.fixture
def served(monkeypatch):
    """What ``serve`` would have run with."""
    seen = []
    monkeypatch.setattr(app, "run", lambda settings, environ: seen.append(settings))
    monkeypatch.setattr(logs, "configure", lambda level, style: None)
    for name in [name for name in cli.os.environ if name.startswith("EXTPROC_")]:
        monkeypatch.delenv(name)
    return seen


SERVES = {
    "flags alone": ["-configPath", "/c"],
    "gnu spelling": ["--config-path=/c"],
    "by name": ["serve", "-configPath", "/c"],
}


@pytest.mark.parametrize("name", SERVES)
def test_serving(served, name):
    assert cli.main(SERVES[name]) == 0
    assert served == [Settings(config_path="/c")]


def test_serving_from_the_environment_alone(served, monkeypatch):
    monkeypatch.setenv("EXTPROC_CONFIG_PATH", "/e")
    assert cli.main([]) == 0
    assert served == [Settings(config_path="/e")]


def test_the_processs_own_arguments(served, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["extproc", "-configPath", "/argv"])
    assert cli.main() == 0
    assert served == [Settings(config_path="/argv")]


ERRORS = {
    "nothing given": ([], "either configPath or configBundlePath must be provided"),
    "unknown flag": (
        ["-nope"],
        "failed to parse extProcFlags: flag provided but not defined: -nope",
    ),
    "help": (["-h"], "failed to parse extProcFlags: flag: help requested"),
    "missing value": (["-configPath"], "failed to parse extProcFlags: flag needs an argument: -configPath"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_in_flags_are_the_peers(served, capsys, name):
    argv, text = ERRORS[name]
    assert cli.main(argv) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(STAMP + f"failed to parse and validate extProcFlags: {re.escape(text)}\n\\Z", err, re.MULTILINE)
    assert ("Usage: extproc" in err) is (name in ("unknown flag", "help"))


def test_every_fault_of_the_flags_is_told(served, capsys):
    assert cli.main(["-logLevel", "invalid"]) == 1
    assert capsys.readouterr().err.partition("extProcFlags: ")[2] == (
        "either configPath or configBundlePath must be provided\n"
        'failed to unmarshal log level: slog: level string "invalid": unknown name\n'
    )
    assert served == []


def test_a_start_up_error(served, capsys, monkeypatch):
    def fail(*_):
        raise app.StartupError("failed to listen for admin server: no")

    monkeypatch.setattr(app, "run", fail)
    assert cli.main(["-configPath", "/c"]) == 1
    assert re.fullmatch(STAMP + "failed to listen for admin server: no\n", capsys.readouterr().err)


def test_a_fault_is_one_line_too(served, capsys, monkeypatch):
    def fail(*_):
        raise KeyError("boom")

    monkeypatch.setattr(app, "run", fail)
    assert cli.main(["-configPath", "/c"]) == 1
    assert re.search(STAMP + "internal error: KeyError: 'boom'\n\\Z", capsys.readouterr().err, re.MULTILINE)


def test_an_interrupt(monkeypatch, served):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupt)
    assert cli.main(["-configPath", "/c"]) == 130


def test_help(capsys):
    assert cli.main(["help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for command in ("serve", "run", "translate", "check", "schema", "controller", "demo", "version", "help"):
        assert command in out


@pytest.mark.parametrize("argv", [["version"], ["--version"]])
def test_version(capsys, argv):
    assert cli.main(argv) == 0
    assert capsys.readouterr().out == f"envoy-llm-extproc {extproc.__version__}\n"


def test_the_version_is_that_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == extproc.__version__
    assert project["scripts"]["extproc"] == "extproc.cli:main"


USAGE = {
    "unknown command": (
        ["sreve"],
        'extproc: unknown command "sreve"; use one of serve, run, translate, explain, check',
    ),
    "version with arguments": (["version", "x"], "extproc: version takes no arguments"),
    "schema with arguments": (["schema", "x"], "extproc: schema takes no arguments"),
    "check of nothing": (["check"], "extproc check: the following arguments are required: FILE"),
    "check with a flag of another": (["check", "-nope"], "extproc check: "),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage_errors(capsys, name):
    argv, text = USAGE[name]
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert err.count("\n") == 1


def test_schema(capsys):
    assert cli.main(["schema"]) == 0
    assert "$schema" in json.loads(capsys.readouterr().out)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


CHECKS = {
    "good": ("version: v1\n", [], 0),
    "bad": ("version: [v1]\n", [], 1),
    "another version": ("version: v1\n", ["--version-string", "v2"], 1),
    "another version, relaxed": ("version: v1\n", ["--version-string=v2", "--relax-version-check"], 0),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check(capsys, config, name):
    text, flags, code = CHECKS[name]
    path = config(text)
    assert cli.main(["check", *flags, path]) == code
    out, err = capsys.readouterr()
    assert err == ""
    assert path in out


def test_check_of_a_file_that_is_not_there(capsys):
    assert cli.main(["check", "/nonexistent.yaml"]) == 2
    assert "/nonexistent.yaml" in "".join(capsys.readouterr())


def test_check_tells_how_it_is_used(capsys):
    assert cli.main(["check", "--help"]) == 0
    assert "FILE" in capsys.readouterr().out


def test_the_demo_without_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "deploy.demo.cli", None)
    assert cli.main(["demo", "--once"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("extproc: demo needs ")
    assert "pip install 'envoy-llm-extproc[demo]'" in err
    assert err.count("\n") == 1


def test_the_controller_without_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "deploy.controller.command", None)
    assert cli.main(["controller"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("extproc: controller needs ")
    assert "pip install 'envoy-llm-extproc[kubernetes]'" in err


def test_the_controller_gets_its_arguments_and_the_way_to_log(monkeypatch):
    from deploy.controller import command
    from extproc.telemetry import logs

    asked = []
    monkeypatch.setattr(logs, "configure", lambda *how: asked.append(how))

    def main(argv, environ, set_up_logs):
        set_up_logs("warn", "json")
        return len(argv) + len(environ["A"])

    monkeypatch.setattr(command, "main", main)
    monkeypatch.setenv("A", "xyz")
    assert cli.main(["controller", "--port=:1"]) == 4
    assert asked == [(4, "json")]


def test_the_demo_gets_its_arguments(monkeypatch):
    from deploy.demo import cli as demo

    monkeypatch.setattr(demo, "main", len)
    assert cli.main(["demo", "--once", "--port", "1"]) == 3


def test_nobody_reads_on(tmp_path):
    """``extproc schema | head -1`` ends without a traceback."""
    command = f"{sys.executable} -m extproc schema | head -c 1"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "{"
    assert done.stderr == ""


def test_a_command_loads_no_more_than_it_needs():
    """``version`` must not wait for gRPC to load."""
    code = (
        "import sys; from extproc import cli; cli.main(['version']); print(sorted({'grpc', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


# What the processor would disable at load: file, and how the line about it begins.
DISABLED = {
    "keys that are none": ("AWSBedrock", "{aws: {region: r, credentialFileLiteral: none of it}}"),
    "no default profile": (
        "AWSBedrock",
        '{aws: {region: r, credentialFileLiteral: "[other]\\naws_access_key_id = a"}}',
    ),
    "no secret": ("AWSBedrock", '{aws: {region: r, credentialFileLiteral: "[default]\\naws_access_key_id = a"}}'),
    "no project": ("GCPVertexAI", "{gcp: {accessToken: t, region: r}}"),
    "no region": ("GCPVertexAI", "{gcp: {accessToken: t, projectName: p}}"),
}


@pytest.mark.parametrize("name", DISABLED)
def test_check_reports_what_disables_a_backend(tmp_path, capsys, name):
    schema, auth = DISABLED[name]
    file = tmp_path / "c.yaml"
    file.write_text(
        f"version: dev\nbackends: [{{name: b, schema: {{name: {schema}}}, auth: {auth}}}]\n", encoding="utf-8"
    )

    assert cli.main(["check", str(file)]) == 1

    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{file}:backends[0].auth: fault: ")
    assert line.endswith("; mend it; until then requests to this backend are answered with 503")
    assert "none of it" not in line


def test_check_says_that_no_credential_was_tried(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("version: [1]\n", encoding="utf-8")

    assert cli.main(["check", "--credentials", str(file)]) == 1

    assert capsys.readouterr().out.splitlines()[-1] == f"{file}: no credential was tried: the config cannot be used"

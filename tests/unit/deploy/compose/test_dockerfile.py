"""The image's facts, read from the Dockerfile."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import deploy

ROOT = Path(deploy.__file__).resolve().parents[1]
TEXT = (ROOT / "deploy" / "Dockerfile").read_text()


def instructions():
    """Keyword and arguments, continuation lines joined, comments left out; per stage."""
    lines = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)
    stages = []
    for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
        if not line.strip():
            continue
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "FROM":
            stages.append([])
        stages[-1].append((keyword, rest.strip()))
    return stages


BUILD, FINAL = instructions()


def last(keyword, stage=FINAL):
    return [rest for found, rest in stage if found == keyword][-1]


def test_both_stages_start_from_the_same_pinned_slim_python():
    images = [last("FROM", stage).removesuffix(" AS build") for stage in (BUILD, FINAL)]

    assert len(set(images)) == 1
    assert re.fullmatch(r"python:3\.[0-9]+-slim", images[0])


def test_it_does_not_run_as_root():
    assert last("USER") == "65532:65532"
    position = [keyword for keyword, _ in FINAL].index("USER")
    assert "RUN" not in [keyword for keyword, _ in FINAL[position:]]


def test_it_writes_nothing_when_it_runs():
    assert "PYTHONDONTWRITEBYTECODE=1" in last("ENV")
    assert not [rest for keyword, rest in FINAL if keyword in {"RUN", "VOLUME", "WORKDIR"}]


def test_the_entry_point():
    assert json.loads(last("ENTRYPOINT")) == ["extproc"]
    assert last("EXPOSE") == "1063 1064"


def test_the_health_check_asks_the_admin_port():
    options, _, command = last("HEALTHCHECK").partition(" CMD ")
    python, flag, script = json.loads(command)

    assert (python, flag) == ("python", "-c")
    ast.parse(script)
    assert "/health" in script
    assert "EXTPROC_ADMIN_PORT" in script
    assert "'1064'" in script
    assert {word.split("=")[0] for word in shlex.split(options)} == {
        "--interval",
        "--timeout",
        "--start-period",
        "--retries",
    }


def test_requirements_are_installed_by_hash():
    installs = [command for command in commands() if " install " in command]

    assert [command.split(" install ")[1] for command in installs] == [
        "--require-hashes -r requirements/runtime.txt",
        "--require-hashes -r requirements/build.txt",
        "--no-deps dist/*.whl",
    ]
    for name in ("runtime.txt", "build.txt"):
        assert "--hash=sha256:" in (ROOT / "requirements" / name).read_text()


def commands():
    return [command.strip() for keyword, rest in BUILD if keyword == "RUN" for command in re.split(r"\s+&&\s+", rest)]


def test_what_builds_is_not_in_what_runs():
    into_the_image = [command for command in commands() if "/opt/extproc" in command]

    assert not [command for command in into_the_image if "build.txt" in command]
    assert "--without-pip" in into_the_image[0]
    assert "--no-build-isolation" in next(command for command in commands() if "pip wheel" in command)
    assert last("COPY") == "--from=build /opt/extproc /opt/extproc"
    assert not re.search("^hatchling==", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    for name in ("build.txt", "demo.txt", "dev.txt"):
        assert re.search("^hatchling==", (ROOT / "requirements" / name).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["aws", "gcp", "kubernetes", "otel"])
def test_the_image_has_the_extra(name):
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][name]
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE))

    assert {re.match(r"[a-z0-9-]+", requirement)[0] for requirement in extra} <= pinned


def test_one_version_of_each_requirement_in_all_files():
    pins = [
        dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("dev.txt", "demo.txt", "build.txt", "runtime.txt")
    ]

    for others in pins[1:]:
        assert others.items() <= pins[0].items()


def test_what_is_copied_is_not_kept_out_of_the_context():
    ignored = {line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"}
    copied = {word.split("/")[0] for keyword, rest in BUILD if keyword == "COPY" for word in rest.split()[:-1]}

    assert {".git", ".venv", "tests", "**/__pycache__"} <= ignored
    assert not ignored & copied


@pytest.mark.parametrize("source", [word for keyword, rest in BUILD if keyword == "COPY" for word in rest.split()[:-1]])
def test_what_is_copied_exists(source):
    assert (ROOT / source).exists()


def test_every_package_of_the_distribution_is_copied():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    copied = {word for keyword, rest in BUILD if keyword == "COPY" for word in rest.split()[:-1]}

    assert set(packages) <= copied

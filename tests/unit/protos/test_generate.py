"""The generated modules are those that the declarations give, and a difference is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTOS = Path(__file__).parents[3] / "protos"


def check(protos):
    # In a process of its own: the compiler brings its own copy of the runtime, and warnings of its own.
    command = [sys.executable, str(protos / "generate.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(PROTOS, tmp_path / "protos", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "protos"


def test_the_committed_modules_are_up_to_date():
    done = check(PROTOS)

    assert (done.returncode, done.stderr) == (0, "")


def edit_declaration(protos):
    path = protos / "health.proto"
    path.write_text(path.read_text().replace("string service = 1;", "string service = 2;"))


def edit_module(protos):
    path = protos / "health_pb2.pyi"
    path.write_text(path.read_text() + "# edited by hand\n")


def remove_module(protos):
    (protos / "health_pb2.py").unlink()


def leave_module(protos):
    shutil.copy(protos / "health_pb2.py", protos / "gone_pb2.py")


CHANGES = {
    "a declaration that was changed": (edit_declaration, "protos/health_pb2.py"),
    "a module that was edited": (edit_module, "protos/health_pb2.pyi"),
    "a module that is missing": (remove_module, "protos/health_pb2.py"),
    "a module without a declaration": (leave_module, "protos/gone_pb2.py"),
}


@pytest.mark.parametrize(("change", "named"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_found_and_named(copy, change, named):
    change(copy)

    done = check(copy)

    assert done.returncode == 1
    assert f"{named}: out of date" in done.stderr


def test_generating_again_mends_it(copy):
    edit_declaration(copy)

    subprocess.run([sys.executable, str(copy / "generate.py")], capture_output=True, timeout=120, check=True)

    assert check(copy).returncode == 0

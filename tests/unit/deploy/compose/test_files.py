"""The generated files of the compose setup: up to date, and accepted by those who read them."""

from __future__ import annotations

import pytest
import yaml

from deploy.compose import __main__ as command
from deploy.compose import files
from deploy.ratelimit import budgets
from filter_config.load import decode


def test_they_are_up_to_date(capsys):
    assert command.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_envoy_accepts_its_file(envoy_accepts):
    assert envoy_accepts(command.HERE / files.ENVOY) is None


def test_the_processor_accepts_its_file():
    decoded = decode((command.HERE / files.FILTER_CONFIG).read_bytes())

    assert decoded.problems == ()
    assert decoded.config is not None


def test_the_rate_limit_service_accepts_its_file():
    tree = budgets.load(command.HERE / files.RATE_LIMIT)

    assert tree.domain == "llm-demo"


@pytest.mark.parametrize("name", [files.ENVOY, files.FILTER_CONFIG, files.RATE_LIMIT])
def test_a_stale_file_is_named_and_then_written(name, tmp_path, capsys):
    assert command.main(["--directory", str(tmp_path)]) == 0
    (tmp_path / name).write_text("old")

    assert command.main(["--check", "--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{tmp_path / name}: out of date, run python -m deploy.compose\n"
    assert (tmp_path / name).read_text() == "old"
    assert command.main(["--directory", str(tmp_path)]) == 0
    assert isinstance(yaml.safe_load((tmp_path / name).read_text()), dict)

"""Whole examples: files of resources, and the filter config and the faults that they give, read line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.cli import main
from filter_config.bundle import read_bundle
from filter_config.load import decode
from filter_config.sources import emit
from filter_config.sources.envoy_ai_gateway import compile_files

CASES = sorted((Path(__file__).parents[4] / "golden" / "resources").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_example_gives_its_config(case, request, monkeypatch):
    monkeypatch.chdir(case)
    compiled = compile_files(["resources.yaml"])
    (made,) = compiled.gateways
    said = "".join(f"{fault}\n" for fault in compiled.faults)
    config, faults = case / "filter-config.yaml", case / "faults.txt"
    if request.config.getoption("--update-golden"):
        config.write_bytes(made.payload)
        faults.unlink(missing_ok=True) if not said else faults.write_text(said)
    assert made.payload.decode() == config.read_text()
    assert said == (faults.read_text() if faults.exists() else "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_processor_takes_the_config_of_an_example(case, tmp_path, capsys):
    (made,) = compile_files([case / "resources.yaml"]).gateways
    decoded = decode(made.payload)
    assert decoded.problems == ()
    assert decoded.config == made.config
    file, bundle = tmp_path / "filter-config.yaml", tmp_path / "bundle"
    file.write_bytes(made.payload)
    emit.write(bundle, made.config)
    assert read_bundle(bundle).data == made.payload
    assert main(["check", str(file), str(bundle)]) == 0
    assert capsys.readouterr().out.count(": ok (") == 2

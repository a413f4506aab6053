"""Whole configurations as Envoy Gateway sends them, and what the hook answers, for a person to read.

``resources.yaml`` and ``in.yaml`` are written by hand; ``out.yaml`` comes from ``--update-golden``, and is then read
line by line against the contract (control plane 6).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deploy.extension_server.knowledge import Snapshot
from filter_config.sources.envoy_ai_gateway import compile_files
from tests.support import envoy_gateway as eg

CASES = sorted(path for path in (Path(__file__).parent / "golden").iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_the_one_that_was_read(case, translate, request):
    compiled = compile_files([case / "resources.yaml"])
    assert compiled.faults == ()
    known = Snapshot(made.model for made in compiled.gateways)

    result = translate(known, **yaml.safe_load((case / "in.yaml").read_text()))

    text = yaml.safe_dump(result.lists, sort_keys=False, width=120)
    golden = case / "out.yaml"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert result.findings == []
    assert text == golden.read_text()
    assert eg.again(result.response).clusters == result.response.clusters

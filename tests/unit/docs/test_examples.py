"""Filter configs that the documentation shows are filter configs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extproc.runtime import build_runtime
from filter_config.load import decode

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
WHOLE = [
    pytest.param(text, id=f"{path.relative_to(DOCS)}:{number}")
    for path in sorted(DOCS.rglob("*.md"))
    for number, text in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")))
    if text.startswith("version:") and "backends:" in text
]


def test_there_are_some():
    assert len(WHOLE) >= 2


@pytest.mark.parametrize("text", WHOLE)
def test_an_example_can_be_used_as_it_stands(text):
    decoded = decode(text.encode())
    assert decoded.config is not None, decoded.problems
    runtime = build_runtime(decoded.config, digest="", problems=decoded.problems)
    assert runtime.faults == {}

"""Rerank on both kinds of backends, as files that one can read."""

import json

import pytest

from extproc.endpoints.rerank import Rerank
from tests.support.golden import cases, check

FOLDERS = {"cohere": "Cohere", "openai": "OpenAI"}
CASES = [
    pytest.param(case, schema, id=f"{folder}: {case.name}")
    for folder, schema in FOLDERS.items()
    for case in cases(f"rerank/{folder}")
]


def accept(path: str, body: bytes) -> None:
    """What every server of this API demands, as documented by Cohere, vLLM and Jina."""
    assert path.endswith("/rerank")
    request = json.loads(body)
    assert request["model"]
    assert isinstance(request["query"], str | dict)
    assert isinstance(request["documents"], list)


@pytest.mark.parametrize(("case", "schema"), CASES)
def test_golden(case, schema, request):
    check(case, schema, accept, update=request.config.getoption("--update-golden"), endpoint=Rerank())

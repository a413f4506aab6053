"""Counts of every kind of backend, as files that one can read."""

import pytest

from extproc.endpoints.tokenize import Tokenize
from tests.support.golden import cases, check
from tests.unit.translate.tokenize.oracle import ACCEPTS

FOLDERS = {
    "openai": "OpenAI",
    "bedrock": "AWSBedrock",
    "gemini": "GCPVertexAI",
    "anthropic": "Anthropic",
    "gcp-anthropic": "GCPAnthropic",
    "aws-anthropic": "AWSAnthropic",
}
CASES = [
    pytest.param(case, schema, id=f"{folder}: {case.name}")
    for folder, schema in FOLDERS.items()
    for case in cases(f"tokenize/{folder}")
]


@pytest.mark.parametrize(("case", "schema"), CASES)
def test_golden(case, schema, request):
    update = request.config.getoption("--update-golden")
    check(case, schema, ACCEPTS[schema], update=update, endpoint=Tokenize())

"""Counts by Anthropic's API in each of the three places, as files that one can read."""

import pytest

from tests.support.golden import cases, check
from tests.unit.translate.messages.native.attempts import COUNT_TOKENS
from tests.unit.translate.messages.native.oracle import accepts

FOLDERS = {"anthropic": "Anthropic", "gcp-anthropic": "GCPAnthropic", "aws-anthropic": "AWSAnthropic"}
CASES = [
    pytest.param(case, schema, id=f"{folder}: {case.name}")
    for folder, schema in FOLDERS.items()
    for case in cases(f"count_tokens/{folder}")
]


@pytest.mark.parametrize(("case", "schema"), CASES)
def test_golden(case, schema, request):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=COUNT_TOKENS)

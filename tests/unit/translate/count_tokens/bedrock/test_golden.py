"""Counts by AWSBedrock backends, written down in ``tests/golden/count_tokens/bedrock``."""

from pathlib import Path

import pytest

from extproc.endpoints.count_tokens import CountTokens
from tests.support.golden import cases, check
from tests.unit.translate.count_tokens.bedrock.oracle import accept


@pytest.mark.parametrize("case", cases("count_tokens/bedrock"), ids=lambda case: case.name)
def test_a_count_is_translated_as_written_down(case: Path, request: pytest.FixtureRequest):
    check(case, "AWSBedrock", accept, update=request.config.getoption("--update-golden"), endpoint=CountTokens())

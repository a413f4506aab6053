"""Messages of AWSBedrock backends, written down in ``tests/golden/messages/bedrock``."""

from pathlib import Path

import pytest

from extproc.endpoints.messages import Messages
from tests.support.converse import accept
from tests.support.golden import cases, check


@pytest.mark.parametrize("case", cases("messages/bedrock"), ids=lambda case: case.name)
def test_a_conversation_is_translated_as_written_down(case: Path, request: pytest.FixtureRequest):
    check(case, "AWSBedrock", accept, update=request.config.getoption("--update-golden"), endpoint=Messages())

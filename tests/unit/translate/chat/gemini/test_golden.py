"""Conversations with GCPVertexAI backends, written down in ``tests/golden/chat/gemini``."""

from pathlib import Path

import pytest

from tests.support.golden import cases, check
from tests.unit.translate.chat.gemini.oracle import accept


@pytest.mark.parametrize("case", cases("chat/gemini"), ids=lambda case: case.name)
def test_a_conversation_is_translated_as_written_down(case: Path, request: pytest.FixtureRequest):
    check(case, "GCPVertexAI", accept, update=request.config.getoption("--update-golden"))

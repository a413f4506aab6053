"""Conversations with backends that speak the client's API, written down in ``tests/golden/chat/{openai,azure}``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from tests.support.golden import cases, check

SCHEMAS = {"openai": "OpenAI", "azure": "AzureOpenAI"}
CASES = {
    f"{folder}: {case.name}": (schema, case) for folder, schema in SCHEMAS.items() for case in cases(f"chat/{folder}")
}
REQUEST = TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)


def accept(path: str, body: bytes) -> None:
    """The SDK's own type takes what is sent; where it goes is for the file to say."""
    assert path.endswith("/chat/completions") or "/chat/completions?api-version=" in path
    REQUEST.validate_python({**json.loads(body), "stream": False})


@pytest.mark.parametrize(("schema", "case"), CASES.values(), ids=CASES)
def test_a_conversation_goes_on_as_written_down(schema: str, case: Path, request: pytest.FixtureRequest):
    check(case, schema, accept, update=request.config.getoption("--update-golden"))

"""Conversations in the responses API, written down in ``tests/golden/responses*``: a folder for a kind of backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extproc.endpoints.responses import Responses, ResponsesInputTokens
from tests.support import converse
from tests.support.golden import cases, check
from tests.unit.translate.chat.anthropic import oracle as anthropic
from tests.unit.translate.chat.gemini import oracle as gemini
from tests.unit.translate.responses.oracle import (
    accepts_chat,
    accepts_native,
    follow_stream,
    read_events,
    read_response,
)

BACKENDS = {
    # folder: schema, what judges a request, whether the answer is of our making
    "openai": ("OpenAI", accepts_native, False),
    "azure": ("AzureOpenAI", accepts_native, False),
    "chat-only": ("OpenAI", accepts_chat, True),
    "azure-chat-only": ("AzureOpenAI", accepts_chat, True),
    "anthropic": ("Anthropic", anthropic.accepts, True),
    "bedrock": ("AWSBedrock", converse.accept, True),
    "gemini": ("GCPVertexAI", gemini.accept, True),
}
CASES = [
    pytest.param(folder, case, id=f"{folder}: {case.name}")
    for folder in BACKENDS
    for case in cases(f"responses/{folder}")
]
COUNTS = [
    pytest.param(schema, case, id=f"{folder}: {case.name}")
    for folder, schema in (("openai", "OpenAI"), ("azure", "AzureOpenAI"))
    for case in cases(f"responses_input_tokens/{folder}")
]


@pytest.mark.parametrize(("folder", "case"), CASES)
def test_a_conversation_goes_on_as_written_down(folder: str, case: Path, request: pytest.FixtureRequest):
    schema, accepts, ours = BACKENDS[folder]
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=Responses())
    if ours and (case / "reply.txt").exists():
        _read(case / "reply.txt")


@pytest.mark.parametrize(("schema", "case"), COUNTS)
def test_tokens_are_counted_as_written_down(schema: str, case: Path, request: pytest.FixtureRequest):
    update = request.config.getoption("--update-golden")
    check(case, schema, accepts_native, update=update, endpoint=ResponsesInputTokens())


def _read(reply: Path) -> None:
    """The SDK reads what is written down."""
    head, _, rest = reply.read_text(encoding="utf-8").partition("\n\n")
    body = rest[: rest.rindex("\n-- usage: ")].encode() if "\n-- usage: " in rest else b""
    if not head.startswith("HTTP 200"):
        return
    if body.startswith(b"event: "):
        stream = body.strip() + b"\n\n"
        read_events(stream)
        follow_stream(stream)
    else:
        read_response(json.dumps(json.loads(body)).encode())

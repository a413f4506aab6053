"""Conversations of Anthropic's clients with backends of chat completions, as files that one can read."""

import json

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from extproc.endpoints.messages import Messages
from tests.support.golden import cases, check
from tests.unit.translate.messages.carried.oracle import accepts

SCHEMAS = {"openai": "OpenAI", "azure": "AzureOpenAI", "gemini": "GCPVertexAI"}
CASES = {
    f"{folder}: {case.name}": (case, schema)
    for folder, schema in SCHEMAS.items()
    for case in cases(f"messages/{folder}")
}
STREAM_EVENT = TypeAdapter(RawMessageStreamEvent)


@pytest.mark.parametrize(("case", "schema"), CASES.values(), ids=CASES)
def test_golden(case, schema, request):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=Messages())


REPLIES = {name: case for name, (case, _) in CASES.items() if (case / "upstream-reply.txt").exists()}


@pytest.mark.parametrize("case", REPLIES.values(), ids=REPLIES)
def test_the_sdk_s_types_read_what_golden_files_say(case):
    head, _, rest = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")
    if head.startswith("refused"):
        return
    body = rest[: rest.rindex("\n-- usage")]
    if head.startswith("HTTP 200") and "\ndata: " in body:
        for data in (line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")):
            if (event := json.loads(data))["type"] == "error":
                assert event["error"]["type"].endswith("_error")
            else:
                STREAM_EVENT.validate_python(event, strict=True)
    elif head.startswith("HTTP 200"):
        Message.model_validate_json(body, strict=True)
    else:
        error = json.loads(body)
        assert error["type"] == "error"
        assert error["error"]["message"]

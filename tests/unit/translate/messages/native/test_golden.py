"""Conversations by Anthropic's API in each of the three places, as files that one can read."""

import json

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from pydantic import TypeAdapter

from tests.support.golden import cases, check
from tests.unit.translate.messages.native.attempts import MESSAGES
from tests.unit.translate.messages.native.oracle import accepts

FOLDERS = {"anthropic": "Anthropic", "gcp-anthropic": "GCPAnthropic", "aws-anthropic": "AWSAnthropic"}
CASES = [
    pytest.param(case, schema, id=f"{folder}: {case.name}")
    for folder, schema in FOLDERS.items()
    for case in cases(f"messages/{folder}")
]
STREAM_EVENT = TypeAdapter(BetaRawMessageStreamEvent)


@pytest.mark.parametrize(("case", "schema"), CASES)
def test_golden(case, schema, request):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=MESSAGES)


@pytest.mark.parametrize(("case", "schema"), CASES)
def test_the_sdks_types_read_what_the_client_gets(case, schema):
    head, _, body = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")
    body = body[: body.rindex("\n-- usage")]
    if not head.startswith("HTTP 200"):
        document = json.loads(body)
        assert document["type"] == "error"
        assert document["error"].keys() == {"type", "message"}
    elif body.startswith("{"):
        # One backend does not name its model, which is what that case is about.
        BetaMessage.model_validate({"model": "unnamed", **json.loads(body)})
    else:
        for line in body.splitlines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {"type": "ping"}
            if event["type"] not in {"ping", "error"}:
                STREAM_EVENT.validate_python(event)

"""Counts of tokens where no Claude is, as files that one can read."""

import json

import pytest
from anthropic.types import MessageTokensCount

from extproc.endpoints.count_tokens import CountTokens
from tests.support.golden import cases, check
from tests.unit.translate.count_tokens.others.oracle import accepts

SCHEMAS = {"openai": "OpenAI", "azure": "AzureOpenAI", "gemini": "GCPVertexAI"}
CASES = {
    f"{folder}: {case.name}": (case, schema)
    for folder, schema in SCHEMAS.items()
    for case in cases(f"count_tokens/{folder}")
}


@pytest.mark.parametrize(("case", "schema"), CASES.values(), ids=CASES)
def test_golden(case, schema, request):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=CountTokens())


COUNTED = {name: case for name, (case, _) in CASES.items() if case.name.startswith(("native", "estimated"))}


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
def test_the_sdk_s_types_read_what_golden_files_say(case):
    _, _, rest = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")
    body = rest[: rest.rindex("\n-- usage")]
    assert MessageTokensCount.model_validate_json(body, strict=True).input_tokens > 0
    assert json.loads(body).keys() == {"input_tokens"}

"""Text completions on both kinds of backends that have them, written down in ``tests/golden/completions``."""

import json
import re
from pathlib import Path

import pytest
from openai.types import Completion
from openai.types.completion_create_params import CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from extproc.endpoints.completions import Completions
from tests.support.golden import cases, check

FOLDERS = {"openai": "OpenAI", "azure": "AzureOpenAI"}
CASES = [(folder, case) for folder in FOLDERS for case in cases(f"completions/{folder}")]
PATHS = {"openai": r"/v1/completions", "azure": r"/openai/deployments/[^/?#]+/completions\?api-version=[^&#]+"}
DOCUMENTS = [case for _, case in CASES if "stream" not in case.name and "error" not in case.name]

_REQUESTS = {
    False: TypeAdapter(CompletionCreateParamsNonStreaming),
    True: TypeAdapter(CompletionCreateParamsStreaming),
}


@pytest.mark.parametrize(("folder", "case"), CASES, ids=[f"{folder}/{case.name}" for folder, case in CASES])
def test_completions_pass_as_written_down(folder: str, case: Path, request: pytest.FixtureRequest):
    def accept(path: str, body: bytes) -> None:
        assert re.fullmatch(PATHS[folder], path)
        _REQUESTS["stream" in json.loads(body)].validate_json(body)

    check(case, FOLDERS[folder], accept, update=request.config.getoption("--update-golden"), endpoint=Completions())


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_openais_types_read_what_the_client_gets(case: Path):
    text = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")[2].partition("\n-- ")[0]
    assert Completion.model_validate_json(text, strict=True).choices[0].text

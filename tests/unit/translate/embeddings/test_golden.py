"""Requests and answers of every kind of backend, written down in ``tests/golden/embeddings``."""

import json
from pathlib import Path

import pytest

from extproc.endpoints.embeddings import Embeddings
from tests.support.embeddings import ACCEPTS, as_openai_reads
from tests.support.golden import cases, check


def _has_answer(case: Path) -> bool:
    reply = case / "reply.txt"
    return reply.exists() and reply.read_bytes().startswith(b"HTTP 200\n")


FOLDERS = {"openai": "OpenAI", "azure": "AzureOpenAI", "bedrock": "AWSBedrock", "vertex": "GCPVertexAI"}
CASES = [(folder, case) for folder in FOLDERS for case in cases(f"embeddings/{folder}")]
ANSWERED = [case for _, case in CASES if _has_answer(case)]


@pytest.mark.parametrize(("folder", "case"), CASES, ids=[f"{folder}/{case.name}" for folder, case in CASES])
def test_embeddings_are_translated_as_written_down(folder: str, case: Path, request: pytest.FixtureRequest):
    schema = FOLDERS[folder]
    check(case, schema, ACCEPTS[schema], update=request.config.getoption("--update-golden"), endpoint=Embeddings())


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_openais_sdk_reads_every_answer(case: Path):
    text = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")[2]
    asked = json.loads((case / "request.json").read_bytes())
    read = as_openai_reads(text.partition("\n-- ")[0].encode(), encoding_format=asked.get("encoding_format", "float"))
    assert [each.index for each in read.data] == list(range(len(read.data)))

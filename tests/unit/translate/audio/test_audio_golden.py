"""Requests for sound and their answers, written down in ``tests/golden/audio``."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.endpoints.speech import Speech
from extproc.endpoints.transcriptions import Transcriptions
from extproc.endpoints.translations import Translations
from tests.support.golden import cases, check
from tests.unit.translate.audio.oracle import accept_speech, accept_transcription, accept_translation

APIS = {
    "speech": (Speech(), accept_speech),
    "transcriptions": (Transcriptions(), accept_transcription),
    "translations": (Translations(), accept_translation),
}
SCHEMAS = {"openai": "OpenAI", "azure": "AzureOpenAI"}
CASES = {
    f"{api}, {backend}: {case.name}": (case, schema, *of_api)
    for api, of_api in APIS.items()
    for backend, schema in SCHEMAS.items()
    for case in cases(f"audio/{api}-{backend}")
}


@pytest.mark.parametrize(("case", "schema", "endpoint", "accepts"), CASES.values(), ids=CASES)
def test_sound_goes_on_as_written_down(case: Path, schema, endpoint, accepts, request: pytest.FixtureRequest):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=endpoint)

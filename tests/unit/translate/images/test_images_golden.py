"""Requests for images and their answers, written down in ``tests/golden/images``."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.endpoints.image_edits import ImageEdits
from extproc.endpoints.images import ImageGenerations
from tests.support.golden import cases, check
from tests.unit.translate.images.oracle import accept_edit, accept_generation

APIS = {"generations": (ImageGenerations(), accept_generation), "edits": (ImageEdits(), accept_edit)}
SCHEMAS = {"openai": "OpenAI", "azure": "AzureOpenAI"}
CASES = {
    f"{api}, {backend}: {case.name}": (case, schema, *of_api)
    for api, of_api in APIS.items()
    for backend, schema in SCHEMAS.items()
    for case in cases(f"images/{api}-{backend}")
}


@pytest.mark.parametrize(("case", "schema", "endpoint", "accepts"), CASES.values(), ids=CASES)
def test_images_go_on_as_written_down(case: Path, schema, endpoint, accepts, request: pytest.FixtureRequest):
    check(case, schema, accepts, update=request.config.getoption("--update-golden"), endpoint=endpoint)

"""What traces tell of requests and answers of every client API, by both conventions; see ``support.golden_spans``."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.endpoints.base import Operation
from tests.support import golden_spans

CASES = golden_spans.cases()


@pytest.mark.parametrize("case", CASES, ids=golden_spans.name_of)
def test_a_span_tells_what_it_told_when_a_person_read_it(case: Path, request: pytest.FixtureRequest) -> None:
    golden_spans.check(case, update=request.config.getoption("--update-golden"))


@pytest.mark.parametrize("operation", list(Operation))
def test_every_operation_has_an_answer_and_an_error(operation: Operation) -> None:
    answers = {path.stem.partition("-")[0] for path in (golden_spans.TRACES / operation).glob("*/*.*")}
    assert {"answer", "error"} <= answers

"""docs/howto/observe.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import deploy
from deploy.envoy.access_log import access_log
from deploy.envoy.model import AccessLog
from deploy.envoy.text import to_document
from tests.support.promql import faults

PAGE = (Path(deploy.__file__).resolve().parents[1] / "docs" / "howto" / "observe.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```promql\n(.*?)```", PAGE, re.DOTALL)


def test_the_fields_of_the_access_log_are_those_that_are_built():
    built = to_document(access_log(AccessLog(cost_keys=("llm_cost",))))["typed_config"]["log_format"]["json_format"]
    section = PAGE.partition("## The access log")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(built)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_ask_for_what_is_exposed(query):
    assert faults(query) == []


def test_there_are_queries():
    assert len(QUERIES) >= 2

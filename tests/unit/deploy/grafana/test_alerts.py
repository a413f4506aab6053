"""The alerts ask only for what a process exposes, and say what is the matter."""

from __future__ import annotations

import re

import pytest
import yaml

from deploy.grafana import __main__ as command
from tests.support.promql import faults

DOCUMENT = yaml.safe_load((command.HERE / "alerts.yaml").read_text(encoding="utf-8"))
RULES = {rule["alert"]: rule for group in DOCUMENT["groups"] for rule in group["rules"]}
PAGE = (command.HERE.parents[1] / "docs" / "howto" / "observe.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_name_in_an_alert_is_exposed(rule):
    summary = rule["annotations"]["summary"]
    assert faults(rule["expr"], summary) == []
    # What a summary shows must be left by the aggregation.
    for label in re.findall(r"\$labels\.(\w+)", summary):
        assert re.search(rf"\bby \([^)]*\b{label}\b", rule["expr"])


def test_every_alert_is_explained():
    assert re.findall(r"^\| `(LLM\w+)` \|", PAGE, re.MULTILINE) == list(RULES)

"""Budgets: the file format of envoyproxy/ratelimit, and which limit a descriptor meets."""

from __future__ import annotations

import pytest

from deploy.ratelimit import budgets
from deploy.ratelimit.budgets import BudgetsInvalid


def limit(amount, unit="hour"):
    return {"rate_limit": {"unit": unit, "requests_per_unit": amount}}


TREE = {
    "domain": "llm",
    "descriptors": [
        {"key": "user", "value": "ann"} | limit(1),
        {"key": "user"} | limit(2, "MINUTE"),
        {
            "key": "team",
            "descriptors": [{"key": "model", "value": "large"} | limit(3), {"key": "model"} | limit(4, "day")],
        },
        {"key": "port", "value": 80} | limit(5, "second"),
    ],
}
LOOKUPS = {
    "exact value": ((("user", "ann"),), (1, "hour")),
    "any value": ((("user", "bob"),), (2, "minute")),
    "nested": ((("team", "red"), ("model", "large")), (3, "hour")),
    "nested, any value": ((("team", "red"), ("model", "small")), (4, "day")),
    "inner node without a limit": ((("team", "red"),), None),
    "unknown key": ((("nobody", "x"),), None),
    "too deep": ((("user", "ann"), ("model", "large")), None),
    "number as text": ((("port", "80"),), (5, "second")),
    "no entries": ((), None),
}


@pytest.mark.parametrize(("entries", "wanted"), LOOKUPS.values(), ids=LOOKUPS)
def test_lookup(entries, wanted):
    found = budgets.parse(TREE).limit_of(entries)

    assert wanted == (None if found is None else (found.amount, found.GRANULARITY.name))


FAULTS = {
    "no domain": ({"descriptors": []}, "domain: a non-empty string is needed"),
    "descriptors": ({"domain": "d", "descriptors": {}}, "descriptors: a list is needed"),
    "no key": ({"domain": "d", "descriptors": [{"value": "x"}]}, "descriptors[0]: a mapping with a key is needed"),
    "unit": (
        {"domain": "d", "descriptors": [{"key": "a"} | limit(1, "fortnight")]},
        "descriptors[0].rate_limit.unit: one of second, minute, hour, day, month, year is needed",
    ),
    "amount": (
        {"domain": "d", "descriptors": [{"key": "a", "descriptors": [{"key": "b"} | limit(amount=True)]}]},
        "descriptors[0].descriptors[0].rate_limit.requests_per_unit: a whole number is needed",
    ),
    "rate_limit": (
        {"domain": "d", "descriptors": [{"key": "a", "rate_limit": 5}]},
        "descriptors[0].rate_limit: a mapping is needed",
    ),
}


@pytest.mark.parametrize(("document", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_name_their_place(document, message):
    with pytest.raises(BudgetsInvalid) as caught:
        budgets.parse(document)

    assert str(caught.value) == message


TEXTS = {
    "not YAML": ("{", "not YAML"),
    "not a mapping": ("- 1", "not a mapping"),
}


@pytest.mark.parametrize(("text", "part"), TEXTS.values(), ids=TEXTS)
def test_a_file_that_is_not_budgets(text, part, tmp_path):
    path = tmp_path / "budgets.yaml"
    path.write_text(text)

    with pytest.raises(BudgetsInvalid) as caught:
        budgets.load(path)

    assert str(caught.value).startswith(f"{path}: {part}")
    assert "\n" not in str(caught.value)

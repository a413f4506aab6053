"""Looks over PromQL: whether the names in it are those that a process exposes. It is no parser."""

from __future__ import annotations

import re
from typing import Final

from tests.support.every_metric import everything


def _exposed() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for metric in everything().registry.collect():
        for sample in metric.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


EXPOSED: Final = _exposed()
"""Labels, by the names under which Prometheus keeps the samples of a process."""

# Those that Prometheus adds when it scrapes.
_ADDED: Final = {"job", "instance"}
_WORDS: Final = {
    *("absent", "by", "changes", "count", "group_left", "histogram_quantile", "increase", "min", "on", "or"),
    *("rate", "sum", "time", "vector"),
}
_SELECTOR: Final = re.compile(r"([a-zA-Z_:][\w:]*)\{([^{}]*)\}")
_MATCHER: Final = re.compile(r'(?:^|,\s*)(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING: Final = re.compile(r"\bby \(([^)]*)\)")


def faults(expr: str, legend: str = "") -> list[str]:
    """What is wrong with an expression, or with the labels that its ``legend`` shows; nothing is an empty list."""
    selectors = _SELECTOR.findall(expr)
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|label_values\(.*', "", re.sub(r"\{[^{}]*\}", "", expr))
    names = set(re.findall(r"(?<![\w$])[a-z_]{3,}\b", _GROUPING.sub("", bare)))
    known = _ADDED.union(*(EXPOSED.get(name, set()) for name in names | {metric for metric, _ in selectors}))
    found = [f"no metric {metric}" for metric, _ in selectors if metric not in EXPOSED]
    for metric, matchers in selectors:
        missing = set(_MATCHER.findall(matchers)) - EXPOSED.get(metric, known) - _ADDED
        found += [f"{metric} has no label {label}" for label in sorted(missing)]
    grouped = [label for labels in _GROUPING.findall(bare) for label in re.findall(r"\w+", labels)]
    found += [f"no label {label} to group by" for label in grouped if label not in known]
    shown = re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", legend)
    found += [f"no label {label} for the legend" for label in shown if label not in known]
    found += [f"what is {name}?" for name in sorted(names - _WORDS - EXPOSED.keys())]
    if expr.count("(") != expr.count(")"):
        found.append("parentheses do not match")
    return found

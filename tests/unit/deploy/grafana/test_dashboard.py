"""The dashboard is what Grafana can import, and asks only for what a process exposes."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from deploy.grafana import __main__ as command
from deploy.grafana.dashboard import NAME, ROWS, Panel, Query, Row, dashboard, render
from tests.support.promql import EXPOSED, faults

DOCUMENT = json.loads((command.HERE / NAME).read_text(encoding="utf-8"))
PANELS = [panel for panel in DOCUMENT["panels"] if panel["type"] != "row"]


def expressions():
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"]
    for note in DOCUMENT["annotations"]["list"]:
        yield note["name"], note["expr"], ""
    for variable in DOCUMENT["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"], ""


EXPRESSIONS = {name: (expr, legend) for name, expr, legend in expressions()}


@pytest.mark.parametrize(("expr", "legend"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_name_in_an_expression_is_exposed(expr, legend):
    assert faults(expr, legend) == []


WRONG = {
    "a metric": ("rate(extproc_attempt_total{}[5m])", "", "no metric extproc_attempt_total"),
    "a metric without a selector": ("sum(extproc_nothing)", "", "what is extproc_nothing?"),
    "a label": ('extproc_streams{mode="x"}', "", "extproc_streams has no label mode"),
    "a label after one that is right": (
        'extproc_streams{level="a", mode="x"}',
        "",
        "extproc_streams has no label mode",
    ),
    "a grouping": ("sum by (mode) (extproc_streams{})", "", "no label mode to group by"),
    "a legend": ("extproc_streams{}", "{{mode}}", "no label mode for the legend"),
    "a function": ("quantile_of(extproc_streams{})", "", "what is quantile_of?"),
    "a parenthesis": ("sum(extproc_streams{}", "", "parentheses do not match"),
}


@pytest.mark.parametrize(("expr", "legend", "fault"), WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(expr, legend, fault):
    assert faults(expr, legend)[:1] == [fault]


def test_every_metric_is_on_the_dashboard():
    """Of those that answer a question; ``target_info`` says who a process is."""
    shown = " ".join(expr for expr, _ in EXPRESSIONS.values())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in EXPOSED} - {"target_info"}
    assert [family for family in sorted(families) if family not in shown] == []


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    ids = [panel["id"] for panel in DOCUMENT["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in DOCUMENT["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_panels_are_of_kinds_that_come_with_grafana_and_say_what_they_answer():
    assert {panel["type"] for panel in PANELS} == {"timeseries", "stat"}
    assert all(panel["title"] and panel["description"] for panel in PANELS)


def test_the_data_source_is_a_variable():
    assert DOCUMENT["templating"]["list"][0]["type"] == "datasource"
    sources = re.findall(r'"uid": "([^"]*)"', render())
    assert set(sources) == {"${datasource}", DOCUMENT["uid"]}


def test_variables_are_declared_before_they_are_used():
    names = [variable["name"] for variable in DOCUMENT["templating"]["list"]]
    assert set(re.findall(r"\$(\w+)", " ".join(expr for expr, _ in EXPRESSIONS.values()))) <= {
        *names,
        "__rate_interval",
        "__range",
    }
    for variable in DOCUMENT["templating"]["list"]:
        used = re.findall(r"\$(\w+)", variable.get("definition", ""))
        assert all(names.index(each) < names.index(variable["name"]) for each in used)


def test_the_file_is_up_to_date(capsys):
    assert command.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_named_and_written(tmp_path, capsys):
    assert command.main(["--check", "--directory", str(tmp_path)]) == 1
    assert str(tmp_path / NAME) in capsys.readouterr().err
    assert command.main(["--directory", str(tmp_path)]) == 0
    assert (tmp_path / NAME).read_text(encoding="utf-8") == render()


def test_a_row_that_is_full_goes_on_below():
    panel = Panel(title="t", about="a", queries=(Query(expr="extproc_streams"),), width=10, height=3)
    made = dashboard((Row(title="one", panels=(panel,) * 3), *ROWS[:1]))["panels"]
    places = [each["gridPos"] for each in made[:4]]
    assert [(place["x"], place["y"]) for place in places] == [(0, 0), (0, 1), (10, 1), (0, 4)]
    assert all(below["gridPos"]["y"] >= above["gridPos"]["y"] for above, below in pairwise(made))

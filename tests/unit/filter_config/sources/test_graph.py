"""Which results a change makes due."""

from __future__ import annotations

from filter_config.sources.graph import Graph


def test_a_unit_is_due_for_what_it_read_last():
    graph = Graph()
    graph.made("u", [("a",), ("b",)])
    graph.touch([("c",)])
    assert graph.due() == []
    graph.made("u", [("b",), ("c",)])
    graph.touch([("a",)])
    assert graph.due() == []
    graph.touch([("c",)])
    assert graph.due() == ["u"]
    graph.made("u", [])
    graph.want("v")
    assert graph.due() == ["v"]
    graph.forget("v")
    assert graph.due() == []

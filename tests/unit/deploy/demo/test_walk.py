"""The checks of the walk: a fact that is not as it should be stops it, and says which."""

from __future__ import annotations

import io

import pytest

from deploy.demo import walk
from deploy.demo.screen import Screen


def test_a_wrong_fact_is_named():
    with pytest.raises(walk.StepFailed, match=r"^model at alpha: 'a', should be 'b'$"):
        walk._check("model at alpha", "a", "b")


def test_the_walk_stops_at_the_first_wrong_step(monkeypatch):
    done = []

    def fails(stage, screen):
        raise walk.StepFailed("no")

    steps = {"good": lambda stage, screen: done.append("good"), "bad": fails, "never": lambda *_: done.append("never")}
    monkeypatch.setattr(walk, "_STEPS", steps)
    out = io.StringIO()

    with pytest.raises(walk.StepFailed):
        walk.walk(None, Screen(out))

    assert done == ["good"]
    assert out.getvalue() == "\n1. good\n\n2. bad\n"


def test_costs_are_shown_without_those_that_are_missing():
    assert walk._costs({"costs": {"b": 2, "a": 1.0, "c": None}}) == "a 1, b 2"


def test_the_screen_puts_facts_under_each_other():
    out = io.StringIO()
    screen = Screen(out)

    screen.title("1. First")
    screen.fact("label", "text")
    screen.start("pieces")
    screen.piece("a")
    screen.piece("b")
    screen.line()

    assert out.getvalue() == f"\n1. First\n   {'label':<24}text\n   {'pieces':<24}ab\n"

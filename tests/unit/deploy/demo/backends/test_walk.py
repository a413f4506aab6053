"""The comparison of the backends: one that answers differently is named, and so is what differs."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from deploy.demo.backends import walk
from deploy.demo.backends.conversation import Heard, Held, NotUnderstood
from deploy.demo.screen import Screen
from deploy.demo.seen import Seen
from deploy.demo.walk import StepFailed

ASKED = Heard(text="x", calls=(("f", "{}"),), finish="tool_calls", usage=(3, 2, 5), metered=5)
TOLD = Heard(text="y", calls=(), finish="stop", usage=(4, 1, 5), metered=5)
HELD = Held(asked=ASKED, told=TOLD)


def test_the_same_everywhere():
    assert walk._differences({"A": (HELD, HELD), "B": (HELD, HELD)}) == []
    assert walk._differences({}) == []


DIFFERENT = {
    "text": (replace(HELD, told=replace(TOLD, text="z")), ["B, streamed, told: text 'z', should be 'y'"]),
    "calls": (
        replace(HELD, asked=replace(ASKED, calls=())),
        ["B, streamed, asked: calls (), should be (('f', '{}'),)"],
    ),
    "finish": (
        replace(HELD, told=replace(TOLD, finish="length")),
        ["B, streamed, told: finish 'length', should be 'stop'"],
    ),
    "metered": (
        replace(HELD, told=replace(TOLD, metered=4)),
        ["B, streamed, told: metered 4, should be 5", "B: 4 tokens metered, (4, 1, 5) told to the client"],
    ),
}


@pytest.mark.parametrize(("streamed", "differences"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_is_named(streamed, differences):
    assert walk._differences({"A": (HELD, HELD), "B": (HELD, streamed)}) == differences


def test_a_sum_that_is_none():
    wrong = Held(asked=ASKED, told=replace(TOLD, usage=(4, 2, 5)))

    assert "A: 5 tokens metered, (4, 2, 5) told to the client" in walk._differences({"A": (wrong, wrong)})


class Stage:
    port = 0
    access_log = None

    def seen(self, speaker):
        return [Seen(method="POST", path=f"/{speaker.asked_as}", headers=(), body=b"{}")] * 4


def test_a_backend_that_fails_does_not_hide_the_others(monkeypatch):
    def hold(client, log, model, *, stream):
        if model == "demo-gemini":
            raise NotUnderstood("status 500:\n busy")
        if model == "demo-claude":
            raise KeyError("choices")
        return HELD

    monkeypatch.setattr(walk, "hold", hold)
    out = io.StringIO()

    with pytest.raises(StepFailed) as failed:
        walk.walk(Stage(), Screen(out))

    assert str(failed.value) == (
        "GCPVertexAI: status 500: busy; Anthropic: the answer lacks something: KeyError('choices')"
    )
    shown = out.getvalue()
    assert "\n4. GCPVertexAI: " in shown
    assert "\n   failed                  status 500: busy\n" in shown
    assert len([line for line in shown.splitlines() if line.endswith("4 + 1 = 5  5")]) == 5

"""The walk through the backends: the same conversation with each, and the proof that clients cannot tell them apart."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from deploy.demo.backends import report
from deploy.demo.backends.conversation import Heard, Held, NotUnderstood, hold
from deploy.demo.backends.scene import SPEAKERS, Speaker
from deploy.demo.backends.stage import BackendsStage
from deploy.demo.client import Client, StreamBroken
from deploy.demo.screen import Screen
from deploy.demo.walk import StepFailed


def walk(stage: BackendsStage, screen: Screen) -> None:
    """All backends in order, the table, and the comparison.

    Raises:
        StepFailed: a backend did not answer, or not as the others did; every one of them is named.
    """
    held: dict[str, tuple[Held, Held]] = {}
    rows: list[dict[str, str]] = []
    faults: list[str] = []
    for number, speaker in enumerate(SPEAKERS, 1):
        screen.title(f"{number}. {speaker.name}: clients ask for {speaker.asked_as!r}, there it is {speaker.model!r}")
        try:
            held[speaker.name] = whole, _ = _hold_both(stage, screen, speaker)
        except (NotUnderstood, StreamBroken, KeyError, TypeError) as failure:
            faults.append(f"{speaker.name}: {_told(failure)}")
            screen.fact("failed", _told(failure))
        else:
            # The second of its four requests has the whole conversation in it.
            rows.append(report.row(speaker.name, stage.seen(speaker)[1], whole))
    if rows:
        screen.title("Side by side, after the tool's result")
        report.show_table(screen, rows)
    faults.extend(_differences(held))
    if faults:
        raise StepFailed("; ".join(faults))


def _hold_both(stage: BackendsStage, screen: Screen, speaker: Speaker) -> tuple[Held, Held]:
    client = Client(stage.port, user="alice")
    whole = hold(client, stage.access_log, speaker.asked_as, stream=False)
    request = stage.seen(speaker)[-1]
    streamed = hold(client, stage.access_log, speaker.asked_as, stream=True)
    report.show_request(screen, request, stage.seen(speaker)[-1].path)
    return whole, streamed


def _told(failure: Exception) -> str:
    if isinstance(failure, KeyError | TypeError):
        return f"the answer lacks something: {failure!r}"
    return " ".join(str(failure).split())


def _differences(held: dict[str, tuple[Held, Held]]) -> list[str]:
    """Where an answer is not what the first backend gave, whole or streamed."""
    if not held:
        return []
    reference = next(iter(held.values()))[0]
    return [
        f"{name}, {mode}, {when}: {difference}"
        for name, both in held.items()
        for mode, found in zip(("whole", "streamed"), both, strict=True)
        for when in ("asked", "told")
        for difference in _difference(getattr(found, when), getattr(reference, when))
    ] + [fault for name, both in held.items() for fault in _mismetered(name, both)]


def _difference(found: Heard, wanted: Heard) -> list[str]:
    pairs: list[tuple[str, Any, Any]] = [
        (field.name, getattr(found, field.name), getattr(wanted, field.name)) for field in fields(Heard)
    ]
    return [f"{name} {one!r}, should be {other!r}" for name, one, other in pairs if one != other]


def _mismetered(name: str, both: tuple[Held, Held]) -> list[str]:
    answers = [heard for held in both for heard in (held.asked, held.told)]
    return [
        f"{name}: {heard.metered} tokens metered, {heard.usage} told to the client"
        for heard in answers
        if not heard.metered == heard.usage[2] == heard.usage[0] + heard.usage[1]
    ]

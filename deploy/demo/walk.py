"""The walk: five things that a gateway for LLMs must do, shown one after the other on real traffic.

Each step checks what it shows, so a demo that prints nonsense cannot end well.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from deploy.demo import scene
from deploy.demo.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.demo.screen import Screen
    from deploy.demo.stage import Stage

CHAT: Final = "/v1/chat/completions"
_EDIT_DEADLINE: Final = 10.0
_MANY_REQUESTS: Final = 20
_CAROL: Final = ("user", "carol")


class StepFailed(AssertionError):
    """What a step has shown is not what should have happened."""


def walk(stage: Stage, screen: Screen) -> None:
    """All steps in order.

    Raises:
        StepFailed: at the first step whose facts are not as they should be.
    """
    for number, (title, step) in enumerate(_STEPS.items(), 1):
        screen.title(f"{number}. {title}")
        step(stage, screen)


def rename_and_key(stage: Stage, screen: Screen) -> None:
    answer = Client(stage.port, user="alice", key="alices-token").post(CHAT, _question())
    seen = stage.alpha.last
    screen.fact("the client sent", f"model {scene.CHAT_MODEL!r}, Authorization: Bearer alices-token")
    screen.fact(
        "backend alpha saw", f"model {seen.json().get('model')!r}, Authorization: {seen.header('authorization')}"
    )
    _check("status", answer.status, 200)
    _check("model at alpha", seen.json().get("model"), scene.ALPHA_MODEL)
    _check("key at alpha", seen.header("authorization"), f"Bearer {scene.ALPHA_KEY}")
    screen.fact("the client got", repr(answer.json()["choices"][0]["message"]["content"]))
    entry = stage.access_log.wait_for(answer.request_id)
    screen.fact("metered in Envoy", _costs(entry))
    _check("cost", entry["costs"][scene.COST_KEY], _price(answer.json()["usage"]))


def streaming(stage: Stage, screen: Screen) -> None:
    stage.alpha.script.pause = 0.05
    request_id, chunks = Client(stage.port, user="alice").stream(CHAT, _question())
    screen.start("as it comes")
    count, stray = 0, 0
    for chunk in chunks:
        count += 1
        stray += not chunk["choices"]
        screen.piece("".join(choice["delta"].get("content", "") for choice in chunk["choices"]))
    stage.alpha.script.pause = 0.0
    entry = stage.access_log.wait_for(request_id)
    screen.line()
    screen.fact("chunks", f"{count}, none with the usage that the client did not ask for")
    screen.fact("metered in Envoy", f"{_costs(entry)}; first token after {entry['ttft_ms']:g} ms")
    _check("usage chunks at the client", stray, 0)
    _check("usage asked of alpha", stage.alpha.last.json().get("stream_options"), {"include_usage": True})
    _check("cost of the stream", entry["costs"][scene.COST_KEY], _price(stage.alpha.script.usages[-1]))


def failover(stage: Stage, screen: Screen) -> None:
    stage.alpha.script.failing = 503
    try:
        answer = Client(stage.port, user="alice").post(CHAT, _question())
    finally:
        stage.alpha.script.failing = None
    first, second = stage.alpha.last, stage.beta.last
    screen.fact("backend alpha saw", f"model {first.json().get('model')!r} and answered 503")
    screen.fact(
        "backend beta saw", f"model {second.json().get('model')!r}, Authorization: {second.header('authorization')}"
    )
    screen.fact("the client got", f"{answer.status} {answer.json()['choices'][0]['message']['content']!r}")
    entry = stage.access_log.wait_for(answer.request_id)
    screen.fact("attempts", f"{entry['attempts']}, charged once: {_costs(entry)}")
    _check("status", answer.status, 200)
    _check("model at beta", second.json().get("model"), scene.BETA_MODEL)
    _check("key at beta", second.header("authorization"), f"Bearer {scene.BETA_KEY}")
    _check("attempts", entry["attempts"], 2)
    _check("cost", entry["costs"][scene.COST_KEY], _price(answer.json()["usage"]))


def live_edit(stage: Stage, screen: Screen) -> None:
    client = Client(stage.port, user="alice")
    screen.fact("edit", f"modelNameOverride of alpha: {scene.ALPHA_MODEL!r} becomes {scene.ALPHA_MODEL_AFTER_EDIT!r}")
    stage.edit(scene.ALPHA_MODEL_AFTER_EDIT)
    renamed = time.monotonic()
    requests = 0
    while True:
        asked = time.monotonic()
        answer = client.post(CHAT, _question())
        requests += 1
        _check("status", answer.status, 200)
        if stage.alpha.last.json().get("model") == scene.ALPHA_MODEL_AFTER_EDIT:
            break
        if asked - renamed > _EDIT_DEADLINE:
            raise StepFailed(f"the edit has no effect after {_EDIT_DEADLINE:g} s")
    took = (asked - renamed) * 1000
    screen.fact("in effect after", f"{took:.0f} ms; {requests} requests meanwhile, none failed, no restart")


def budget(stage: Stage, screen: Screen) -> None:
    client = Client(stage.port, user="carol")
    screen.fact("Carol may spend", f"{scene.CAROLS_BUDGET} an hour, at a price of  {scene.COST_RULE}")
    spent = stage.limiter.charged(_CAROL)
    for _ in range(_MANY_REQUESTS):
        answer = client.post(CHAT, _question())
        if answer.status == 429:
            break
        price = _price(answer.json()["usage"])
        spent += price
        # Envoy charges when the stream is done, which is after the client has read the answer.
        stage.limiter.wait_until_charged(_CAROL, amount=spent)
        left = stage.limiter.remaining(_CAROL)
        screen.fact(f"{answer.status}", f"cost {price}, charged so far {stage.limiter.charged(_CAROL)}, left {left}")
        _check("charged by Envoy", stage.limiter.charged(_CAROL), spent)
    screen.fact(f"{answer.status}", f"x-ratelimit-remaining: {answer.headers.get('x-ratelimit-remaining')}, no charge")
    _check("status at the end", answer.status, 429)
    _check("charged for the refused request", stage.limiter.charged(_CAROL), spent)
    _check("left of the budget", stage.limiter.remaining(_CAROL), 0)


_STEPS: Final = {
    "A model is renamed and a key is injected": rename_and_key,
    "An answer is streamed, and metered": streaming,
    "A backend fails, the other one answers under its own model name": failover,
    "The config is edited while requests run": live_edit,
    "A client runs out of its token budget": budget,
}


def _question() -> dict[str, Any]:
    return {"model": scene.CHAT_MODEL, "messages": [{"role": "user", "content": "What have you read so far?"}]}


def _price(usage: Mapping[str, int]) -> int:
    """The cost rule of the demo, worked out independently of the processor."""
    return usage["prompt_tokens"] + 3 * usage["completion_tokens"]


def _costs(entry: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in sorted(entry["costs"].items()) if value is not None)


def _check(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise StepFailed(f"{what}: {found!r}, should be {wanted!r}")

"""One conversation with a tool call, held by a client that knows only OpenAI's API.

It is held twice, whole and streamed. What comes back is told in values that can be compared across backends: ids and
model names differ between providers, what was said does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from deploy.demo.access_log import AccessLogReader
from deploy.demo.backends.scene import COST_KEY
from deploy.demo.client import Client

CHAT: Final = "/v1/chat/completions"
RESULT: Final = "18 degrees and sunny"

Message: TypeAlias = Mapping[str, Any]

_OPENING: Final[tuple[Message, ...]] = (
    {"role": "system", "content": "You are a weather service. Be brief."},
    {"role": "user", "content": "What is the weather in Paris?"},
)
_WEATHER: Final = {
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city."}},
        "required": ["city"],
    },
}


class NotUnderstood(RuntimeError):
    """The gateway's answer is not one: an error, or no chat completion. The message says what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An answer. ``calls`` are names and arguments, ``usage`` prompt, completion and total tokens.

    ``metered`` is the total that Envoy has in its access log, which budgets are charged with.
    """

    text: str
    calls: tuple[tuple[str, str], ...]
    finish: str
    usage: tuple[int, int, int]
    metered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The conversation as one backend held it: the answer with the call, and the one after the tool's result."""

    asked: Heard
    told: Heard


def hold(client: Client, access_log: AccessLogReader, model: str, *, stream: bool) -> Held:
    """Ask, do what the model asks for, and tell it.

    Raises:
        NotUnderstood: an answer is an error, or the model does not call the tool.
    """
    asked, message = _ask(client, access_log, model, _OPENING, stream=stream)
    calls = message.get("tool_calls") or ()
    if not calls:
        raise NotUnderstood(f"the model did not call the tool: {asked.text!r}")
    results = [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]
    told, _ = _ask(client, access_log, model, (*_OPENING, message, *results), stream=stream)
    return Held(asked=asked, told=told)


def _ask(
    client: Client, access_log: AccessLogReader, model: str, messages: Iterable[Message], *, stream: bool
) -> tuple[Heard, Message]:
    """The answer as a value, and as the message with which the conversation goes on."""
    request = {"model": model, "messages": list(messages), "tools": [{"type": "function", "function": _WEATHER}]}
    request_id, choice, usage = (_streamed if stream else _whole)(client, request)
    message = choice["message"]
    heard = Heard(
        text=message.get("content") or "",
        calls=tuple(
            (call["function"]["name"], _same_spelling(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ),
        finish=choice["finish_reason"],
        usage=(usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
        metered=int(access_log.wait_for(request_id)["costs"][COST_KEY] or 0),
    )
    kept = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
    return heard, kept


def _whole(client: Client, request: Mapping[str, Any]) -> tuple[str, Message, Message]:
    answer = client.post(CHAT, request)
    if answer.status != 200:
        raise NotUnderstood(f"status {answer.status}: {answer.body[:300].decode('utf-8', 'replace')}")
    body = answer.json()
    return answer.request_id, body["choices"][0], body["usage"]


def _streamed(client: Client, request: Mapping[str, Any]) -> tuple[str, Message, Message]:
    """The same from chunks, put together as every client does it."""
    request_id, chunks = client.stream(CHAT, {**request, "stream_options": {"include_usage": True}})
    text, finish, usage = "", "", None
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        if "error" in chunk:
            raise NotUnderstood(f"an error in the stream: {chunk['error']}")
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice.get("finish_reason") or finish
            for piece in choice["delta"].get("tool_calls") or ():
                _add(calls, piece)
    if usage is None:
        raise NotUnderstood("the stream has no usage")
    message = {"role": "assistant", "content": text, "tool_calls": [calls[index] for index in sorted(calls)]}
    return request_id, {"message": message, "finish_reason": finish}, usage


def _add(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """A piece with an id starts a call, one without adds to its arguments."""
    function = piece["function"]
    if piece.get("id"):
        started = {"name": function["name"], "arguments": ""}
        calls[piece["index"]] = {"id": piece["id"], "type": "function", "function": started}
    calls[piece["index"]]["function"]["arguments"] += function.get("arguments") or ""


def _same_spelling(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))

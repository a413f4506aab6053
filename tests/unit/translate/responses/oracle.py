"""What OpenAI's own SDK makes of both sides: the requests that backends get, and the answers that clients read."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx2
import openai
from openai.types.chat import completion_create_params
from openai.types.responses import Response, ResponseStreamEvent, response_create_params
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

_CHAT_PATH = re.compile(r"(/[\w./-]+)?/chat/completions(\?.*)?")
_NATIVE_PATH = re.compile(r"(/[\w./-]+)?/responses(/input_tokens)?(\?.*)?")


def _strict(node: Any) -> Any:
    """The schema with unknown members forbidden, and iterables read to their end, unlike the SDK's users' own."""
    if isinstance(node, dict):
        node = {key: _strict(value) for key, value in node.items()}
        if node.get("type") == "typed-dict" and "extra_fields_behavior" not in node.get("config", {}):
            node["extra_behavior"] = "forbid"
        return {**node, "type": "list"} if node.get("type") == "generator" else node
    if isinstance(node, list | tuple):
        return type(node)(_strict(each) for each in node)
    return node


_CHAT = SchemaValidator(_strict(TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming).core_schema))
_NATIVE = TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming)
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def accepts_chat(path: str, body: bytes) -> dict[str, Any]:
    """Take a chat completion request, and return it.

    Raises:
        AssertionError: OpenAI would answer 400. An error of pydantic's says that it is not what the SDK can send.
    """
    assert _CHAT_PATH.fullmatch(path), path
    request: dict[str, Any] = json.loads(body)
    stream = request.get("stream", False)
    assert stream is ("stream" in request)
    assert request.get("stream_options", {}) == ({"include_usage": True} if stream else {})
    _CHAT.validate_python({name: value for name, value in request.items() if name not in {"stream", "thinking"}})
    _check_conversation(request["messages"])
    tools = [tool["function"]["name"] for tool in request.get("tools", ())]
    assert tools or not request.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    assert len(set(tools)) == len(tools)
    return request


def _check_conversation(messages: list[dict[str, Any]]) -> None:
    """Results follow the call that they belong to, and nothing else comes between."""
    calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in calls, "a result without its call"
        elif message["role"] == "assistant":
            calls = {call["id"] for call in message.get("tool_calls", ())}
            assert message["content"] or calls, "an empty answer"
        else:
            calls = set()


def accepts_native(path: str, body: bytes) -> None:
    """Take a request of the responses API, whatever items and tools it has beside those that the SDK knows."""
    assert _NATIVE_PATH.fullmatch(path), path
    request = json.loads(body)
    assert isinstance(request.get("model"), str)
    _NATIVE.validate_python({"model": request["model"], "input": "checked by OpenAI"})


def read_response(body: bytes) -> Response:
    """The response that a client reads; every member has to have its type."""
    return Response.model_validate_json(body, strict=True)


def read_events(stream: bytes) -> list[Any]:
    """The events that a client reads, each of them of its type, and numbered without a gap."""
    events = []
    for block in stream.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = _EVENT.validate_json(data.removeprefix("data: "))
        assert name == f"event: {event.type}"
        events.append(event)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


def follow_stream(stream: bytes) -> tuple[list[Any], Response]:
    """What ``client.responses.stream`` makes of it: its events, and the response that they end with."""
    _Answering.stream = stream
    with _client().responses.stream(model="m", input="q") as events:
        told = list(events)
        return told, told[-1].response


class _Answering(httpx2.BaseTransport):
    """A service that answers whatever it is asked with the stream of the day."""

    stream = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=_Answering.stream)


@cache
def _client() -> openai.OpenAI:
    """Made once, as that takes longer than a test."""
    return openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=_Answering()), max_retries=0)

"""What Anthropic would say to a request: the types of its own SDK made strict, and the rules that types cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

_VERTEX = re.compile(r"publishers/anthropic/models/[^/]+:(rawPredict|streamRawPredict)")
_BEDROCK = re.compile(r"/model/[^/]+/(?:invoke|invoke-with-response-stream)")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THOUGHTS = ("thinking", "redacted_thinking")


class RefusedError(Exception):
    """The provider's 400."""


def accepts(path: str, body: bytes) -> dict[str, Any]:
    """Take a request as one of the three places would, and return what they make of it: the parameters of a message.

    Raises:
        RefusedError: it would be refused.
        pydantic_core.ValidationError: it is not what the SDK lets its users send.
    """
    params = json.loads(body)
    stream = params.pop("stream", None)
    if vertex := _VERTEX.fullmatch(path):
        _demand(params.pop("anthropic_version", "").startswith("vertex-"), "anthropic_version")
        _demand(stream is (True if vertex[1] == "streamRawPredict" else None), "stream")
    elif _BEDROCK.fullmatch(path):
        _demand(params.pop("anthropic_version", "").startswith("bedrock-"), "anthropic_version")
        _demand(stream is None, "stream: Extra inputs are not permitted")
    else:
        _demand(path.endswith("/messages"), f"{path} is not found")
        _demand(bool(params.get("model")), "model: Field required")
    if not path.endswith("/messages"):
        _demand("model" not in params, "model: Extra inputs are not permitted")
        params["model"] = "in the path"
    # The API of 2023 takes them, for models that do; the types of the SDK follow a later one.
    typed = {name: value for name, value in params.items() if name not in {"temperature", "top_p"}}
    _PARAMS.validate_json(json.dumps(typed))
    _check(params)
    return params


def _strict(node: Any) -> Any:
    """The schema with unknown members forbidden, and iterables read to their end, unlike the SDK's users' own."""
    if isinstance(node, dict):
        node = {key: _strict(value) for key, value in node.items()}
        if node.get("type") == "typed-dict" and "extra_fields_behavior" not in node.get("config", {}):
            node["extra_behavior"] = "forbid"
        # Blocks of answers are taken as well, and are lenient as answers must be.
        if node.get("type") == "model":
            node["config"] = {**node.get("config", {}), "extra_fields_behavior": "forbid"}
        if node.get("type") == "generator":
            node = {**node, "type": "list"}
        return node
    if isinstance(node, list | tuple):
        return type(node)(_strict(each) for each in node)
    return node


_PARAMS = SchemaValidator(_strict(TypeAdapter(MessageCreateParamsNonStreaming).core_schema))


def _demand(condition: bool, complaint: str) -> None:  # noqa: FBT001 - an assertion with another exception
    if not condition:
        raise RefusedError(complaint)


def _check(params: dict[str, Any]) -> None:
    messages = params["messages"]
    _demand(bool(messages), "messages: at least one message is required")
    roles = [message["role"] for message in messages]
    _demand(set(roles) <= {"user", "assistant"}, "messages: unexpected role")
    _demand(all(a != b for a, b in pairwise(roles)), "messages: roles must alternate")
    for message in messages:
        _check_turn(message["role"], message["content"])
    if roles[-1] == "assistant":
        last = messages[-1]["content"][-1]
        _demand(last["type"] not in _THOUGHTS, "the final block in an assistant message cannot be thinking")
        _demand(last.get("text", "") == last.get("text", "").rstrip(), "final content ends with white space")
    for block in params.get("system", ()):
        _demand(bool(block["text"].strip()), "system: text content blocks must be non-empty")
    _demand("tools" in params or "tool_choice" not in params, "tool_choice may only be specified with tools")
    for tool in params.get("tools", ()):
        _demand(_NAME.fullmatch(tool["name"]) is not None, "tools: name: String should match pattern")
        _demand(tool["input_schema"].get("type") == "object", "input_schema.type: Input should be 'object'")
    names = [tool["name"] for tool in params.get("tools", ())]
    _demand(len(set(names)) == len(names), "tools: Tool names must be unique")
    _demand(params.get("tool_choice", {}).get("name") in [None, *names], "tool_choice: no such tool")
    thinking = params.get("thinking", {})
    _demand(thinking.get("budget_tokens", -1) < params["max_tokens"], "max_tokens must be greater than the budget")
    _demand(all(0 <= params.get(name, 0) <= 1 for name in ("temperature", "top_p")), "temperature, top_p: range")
    _demand(all(each.strip() for each in params.get("stop_sequences", ())), "stop_sequences: white space")


def _check_turn(role: str, content: list[dict[str, Any]]) -> None:
    _demand(bool(content), "messages: content is empty")
    kinds = [block["type"] for block in content]
    texts = [block["text"] for block in content if block["type"] == "text"]
    _demand(all(texts), "messages: text content blocks must be non-empty")
    _demand(not texts or any(text.strip() for text in texts), "text content blocks must contain non-whitespace text")
    if role == "assistant":
        _demand(set(kinds) <= {"text", "tool_use", *_THOUGHTS}, f"assistant: unexpected {kinds}")
        _demand(kinds[0] in _THOUGHTS or not set(kinds) & set(_THOUGHTS), "the first block must be thinking")
    else:
        _demand(not set(kinds) & {"tool_use", *_THOUGHTS}, f"user: unexpected {kinds}")
        results = [kind == "tool_result" for kind in kinds]
        _demand(results == sorted(results, reverse=True), "tool_result blocks must come first")
    for block in content:
        for name in ("id", "tool_use_id"):
            _demand(_ID.fullmatch(block.get(name, "a")) is not None, f"{name}: String should match pattern")
        for text in _texts(block.get("content", ())):
            _demand(bool(text), "tool_result: text content blocks must be non-empty")


def _texts(content: Any) -> Iterator[str]:
    return (each["text"] for each in content)

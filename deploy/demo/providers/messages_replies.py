"""Answers of Anthropic's Messages API: the document, and the same as events, from ``message_start`` to its stop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from deploy.demo.providers.script import Said, Stop, Tokens, halves, pieces
from deploy.demo.providers.service import event

Document = dict[str, Any]

_STOP: Final = {Stop.END: "end_turn", Stop.TOOLS: "tool_use", Stop.LENGTH: "max_tokens"}


def message(said: Said, *, model: str) -> Document:
    """The whole answer."""
    return {
        **_head(said, model),
        "content": _content(said),
        "stop_reason": _STOP[said.stop],
        "stop_sequence": None,
        "usage": usage(said.tokens),
    }


def count(said: Said) -> Document:
    """The answer to a request for a count: all of the prompt, also what would be read from the cache."""
    return {"input_tokens": said.tokens.prompt}


def usage(tokens: Tokens) -> Document:
    """What is read from the cache or written there is not part of the input, thinking is part of the output."""
    return {
        **_thought_of(tokens),
        "input_tokens": tokens.fresh,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.output,
        "service_tier": "standard",
    }


def _thought_of(tokens: Tokens) -> Document:
    return {"output_tokens_details": {"thinking_tokens": tokens.thinking}} if tokens.thinking else {}


def events(said: Said, *, model: str) -> Iterator[Document]:
    """The answer as a stream of objects; how each is framed is the host's business."""
    started = usage(replace(said.tokens, answer=1, thinking=0))
    yield {
        "type": "message_start",
        "message": {**_head(said, model), "content": [], "stop_reason": None, "stop_sequence": None, "usage": started},
    }
    for index, block in enumerate(_content(said)):
        yield {"type": "content_block_start", "index": index, "content_block": _EMPTY[block["type"]](block)}
        if index == 0:
            yield {"type": "ping"}
        for delta in _DELTAS[block["type"]](block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": _STOP[said.stop], "stop_sequence": None},
        "usage": {**_thought_of(said.tokens), "output_tokens": said.tokens.output},
    }
    yield {"type": "message_stop"}


def framed(stream: Iterator[Document]) -> Iterator[bytes]:
    """The events as Anthropic and Google send them."""
    for each in stream:
        yield event(each, name=each["type"])


def fault(kind: str, message: str) -> Document:
    """Anthropic's error object; in the middle of a stream it is the event ``error``."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def _head(said: Said, model: str) -> Document:
    return {"id": f"msg_01{said.id}", "type": "message", "role": "assistant", "model": model}


def _content(said: Said) -> list[Document]:
    blocks: list[Document] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": said.signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    blocks.extend(
        {"type": "tool_use", "id": f"toolu_01{call.id}", "name": call.name, "input": dict(call.arguments)}
        for call in said.calls
    )
    return blocks


_EMPTY: Final = {
    "thinking": lambda block: {**block, "thinking": "", "signature": ""},
    "text": lambda block: {**block, "text": ""},
    "tool_use": lambda block: {**block, "input": {}},
}


def _thinking_deltas(block: Mapping[str, Any]) -> Iterator[Document]:
    for word in pieces(block["thinking"]):
        yield {"type": "thinking_delta", "thinking": word}
    yield {"type": "signature_delta", "signature": block["signature"]}


def _text_deltas(block: Mapping[str, Any]) -> Iterator[Document]:
    for word in pieces(block["text"]):
        yield {"type": "text_delta", "text": word}


def _input_deltas(block: Mapping[str, Any]) -> Iterator[Document]:
    for part in ("", *halves(compact(block["input"]))):
        yield {"type": "input_json_delta", "partial_json": part}


_DELTAS: Final = {"thinking": _thinking_deltas, "text": _text_deltas, "tool_use": _input_deltas}


def compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

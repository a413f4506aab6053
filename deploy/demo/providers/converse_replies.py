"""Answers of Converse, and those of ConverseStream as frames of Amazon's event stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from deploy.demo.providers.eventstream import event_frame
from deploy.demo.providers.script import Said, Stop, Tokens, ToolCall, halves, pieces

Document = dict[str, Any]

_STOP: Final = {Stop.END: "end_turn", Stop.TOOLS: "tool_use", Stop.LENGTH: "max_tokens"}
_METRICS: Final = {"latencyMs": 420}


def response(said: Said) -> Document:
    return {
        "metrics": _METRICS,
        "output": {"message": {"content": list(_content(said)), "role": "assistant"}},
        "stopReason": _STOP[said.stop],
        "usage": usage(said.tokens),
    }


def usage(tokens: Tokens) -> Document:
    """What is read from the cache or written there is not part of the input; the total counts it."""
    return {
        "inputTokens": tokens.fresh,
        "outputTokens": tokens.output,
        "totalTokens": tokens.total,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": tokens.written,
    }


def frames(said: Said) -> Iterator[bytes]:
    """``messageStart``, the blocks (only calls have a start), ``messageStop``, ``metadata``."""
    yield event_frame("messageStart", {"role": "assistant"})
    for index, block in enumerate(_blocks(said)):
        for name, body in block:
            yield event_frame(name, {"contentBlockIndex": index, **body})
        yield event_frame("contentBlockStop", {"contentBlockIndex": index})
    yield event_frame("messageStop", {"stopReason": _STOP[said.stop]})
    yield event_frame("metadata", {"metrics": _METRICS, "usage": usage(said.tokens)})


def _content(said: Said) -> Iterator[Document]:
    if said.thinking:
        yield {"reasoningContent": {"reasoningText": {"signature": said.signature, "text": said.thinking}}}
    if said.text:
        yield {"text": said.text}
    for call in said.calls:
        yield {"toolUse": {"input": dict(call.arguments), "name": call.name, "toolUseId": f"tooluse_{call.id}"}}


def _blocks(said: Said) -> Iterator[list[tuple[str, Document]]]:
    if said.thinking:
        deltas = [_delta({"reasoningContent": {"text": word}}) for word in pieces(said.thinking)]
        yield [*deltas, _delta({"reasoningContent": {"signature": said.signature}})]
    if said.text:
        yield [_delta({"text": word}) for word in said.words()]
    for call in said.calls:
        yield [_start(call), *(_delta({"toolUse": {"input": half}}) for half in halves(call.json))]


def _delta(delta: Document) -> tuple[str, Document]:
    return "contentBlockDelta", {"delta": delta}


def _start(call: ToolCall) -> tuple[str, Document]:
    return "contentBlockStart", {"start": {"toolUse": {"name": call.name, "toolUseId": f"tooluse_{call.id}"}}}

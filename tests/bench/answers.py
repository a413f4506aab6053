"""What backends of each API schema answer to a chat request: one plain answer, and one in many pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support import eventstream

_TEXT: Final = "the quick brown fox jumps over the lazy dog " * 8
_WORD: Final = " token"
_SSE: Final = "text/event-stream"
_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One backend's answers.

    Attributes:
        plain: the body of an answer that is not streamed.
        stream_type: content type of a streamed one.
        opening: what a stream begins with, before the pieces.
        piece: one event with a bit of text; all are alike.
        ending: what it ends with, the usage included.
    """

    plain: bytes
    stream_type: str
    opening: bytes
    piece: bytes
    ending: bytes


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _data(value: object) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _openai() -> Answer:
    usage = {"prompt_tokens": 12, "completion_tokens": 200, "total_tokens": 212}
    head: dict[str, Any] = {"id": "chatcmpl-bench", "created": 1_700_000_000, "model": "bench"}
    message = {"role": "assistant", "content": _TEXT}
    chunk = {**head, "object": "chat.completion.chunk"}
    return Answer(
        plain=_json(
            {
                **head,
                "object": "chat.completion",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": usage,
            }
        ),
        stream_type=_SSE,
        opening=_data({**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        piece=_data({**chunk, "choices": [{"index": 0, "delta": {"content": _WORD}, "finish_reason": None}]}),
        ending=_data({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        + _data({**chunk, "choices": [], "usage": usage})
        + b"data: [DONE]\n\n",
    )


_ANTHROPIC_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_bench",
    "type": "message",
    "role": "assistant",
    "model": "bench",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "content": [{"type": "text", "text": _TEXT}],
    "usage": {"input_tokens": 12, "output_tokens": 200},
}
_ANTHROPIC_OPENING: Final[Sequence[dict[str, Any]]] = (
    {"type": "message_start", "message": {**_ANTHROPIC_MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
_ANTHROPIC_PIECE: Final = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": _WORD},
}
_ANTHROPIC_ENDING: Final[Sequence[dict[str, Any]]] = (
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"input_tokens": 12, "output_tokens": 200},
    },
    {"type": "message_stop"},
)


def _anthropic_event(event: dict[str, Any]) -> bytes:
    return b"event: " + event["type"].encode() + b"\n" + _data(event)


def _aws_anthropic_event(event: dict[str, Any]) -> bytes:
    return eventstream.event("chunk", {"bytes": base64.b64encode(_json(event)).decode()})


def _anthropic() -> Answer:
    return Answer(
        plain=_json(_ANTHROPIC_MESSAGE),
        stream_type=_SSE,
        opening=b"".join(map(_anthropic_event, _ANTHROPIC_OPENING)),
        piece=_anthropic_event(_ANTHROPIC_PIECE),
        ending=b"".join(map(_anthropic_event, _ANTHROPIC_ENDING)),
    )


def _aws_anthropic() -> Answer:
    return Answer(
        plain=_json(_ANTHROPIC_MESSAGE),
        stream_type=_EVENT_STREAM,
        opening=b"".join(map(_aws_anthropic_event, _ANTHROPIC_OPENING)),
        piece=_aws_anthropic_event(_ANTHROPIC_PIECE),
        ending=b"".join(map(_aws_anthropic_event, _ANTHROPIC_ENDING)),
    )


def _bedrock() -> Answer:
    usage = {"inputTokens": 12, "outputTokens": 200, "totalTokens": 212}
    return Answer(
        plain=_json(
            {
                "output": {"message": {"role": "assistant", "content": [{"text": _TEXT}]}},
                "stopReason": "end_turn",
                "usage": usage,
                "metrics": {"latencyMs": 10},
            }
        ),
        stream_type=_EVENT_STREAM,
        opening=eventstream.event("messageStart", {"role": "assistant"}),
        piece=eventstream.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": _WORD}}),
        ending=eventstream.event("contentBlockStop", {"contentBlockIndex": 0})
        + eventstream.event("messageStop", {"stopReason": "end_turn"})
        + eventstream.event("metadata", {"usage": usage, "metrics": {"latencyMs": 10}}),
    )


def _gemini() -> Answer:
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 200, "totalTokenCount": 212}

    def said(text: str, **more: object) -> dict[str, Any]:
        return {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}

    head: dict[str, Any] = {"modelVersion": "bench", "responseId": "bench"}
    return Answer(
        plain=_json({**head, "candidates": [said(_TEXT, finishReason="STOP")], "usageMetadata": usage}),
        stream_type=_SSE,
        opening=_data({**head, "candidates": [said("Well")]}),
        piece=_data({**head, "candidates": [said(_WORD)]}),
        ending=_data({**head, "candidates": [said("", finishReason="STOP")], "usageMetadata": usage}),
    )


ANSWERS: Final[dict[str, Answer]] = {
    "OpenAI": _openai(),
    "AzureOpenAI": _openai(),
    "Anthropic": _anthropic(),
    "GCPAnthropic": _anthropic(),
    "AWSAnthropic": _aws_anthropic(),
    "AWSBedrock": _bedrock(),
    "GCPVertexAI": _gemini(),
}
"""API schema of the backend → its answers."""

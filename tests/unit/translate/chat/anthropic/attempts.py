"""One attempt at a chat completion by Claude, as tests drive it, and the streams that stand-ins answer with."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.translate.base import TranslatedRequest, TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import eventstream
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic.oracle import accepts

SCHEMAS = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
HELLO = [{"role": "user", "content": "Hello"}]


def ask(schema: str, request: Mapping[str, Any], **backend: str) -> tuple[Translator, TranslatedRequest]:
    """Translate a request, which the provider must accept."""
    body = json.dumps({"model": "claude-x", "messages": HELLO, **request}).encode()
    parsed = ChatCompletions().parse(body, content_type="application/json", metering=False)
    translator = make_translator(schema, backend)
    translated = translator.request(parsed, query="", force=False)
    assert translated.body is not None
    accepts(translated.path, translated.body)
    return translator, translated


def sent(request: Mapping[str, Any], schema: str = "GCPAnthropic", **backend: str) -> dict[str, Any]:
    """The body that goes to the provider."""
    body = ask(schema, request, **backend)[1].body
    assert body is not None
    result: dict[str, Any] = json.loads(body)
    return result


def turns(*messages: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that the provider gets for these of the client."""
    result: list[dict[str, Any]] = sent({"messages": list(messages)})["messages"]
    return result


# --- streams ---


def sse(events: Iterable[Mapping[str, Any]], *, line: str = "\n", named: bool = True) -> bytes:
    """Events as Anthropic and Vertex AI send them."""
    return b"".join(
        (f"event: {event['type']}{line}" if named else "").encode()
        + f"data: {json.dumps(event, ensure_ascii=False)}{line}{line}".encode()
        for event in events
    )


def frames(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Events as Bedrock sends them."""
    return b"".join(
        eventstream.event("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()}) for event in events
    )


def wire(schema: str, events: Iterable[Mapping[str, Any]]) -> bytes:
    return frames(events) if schema == "AWSAnthropic" else sse(events)


def start(**usage: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-x",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, content: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking_block(index: int, signature: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    content = {"type": "thinking", "thinking": "", "signature": ""}
    return block(index, content, *deltas, {"type": "signature_delta", "signature": signature})


def tool_block(index: int, name: str, *pieces: str, kind: str = "tool_use") -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return block(index, {"type": kind, "id": f"toolu_{index}", "name": name, "input": {}}, *deltas)


def stop(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5, **usage}},
        {"type": "message_stop"},
    ]


PING = {"type": "ping"}

CONVERSATION = [
    start(cache_read_input_tokens=3),
    PING,
    *thinking_block(0, "c2ln", "Let me ", "see.\n"),
    *block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
    *text_block(2, "Hello", " ", "wörld \n"),
    *tool_block(3, "weather", "", '{"city":', ' "Köln"}'),
    *tool_block(4, "now"),
    *stop("tool_use", output_tokens=40, output_tokens_details={"thinking_tokens": 12}),
]
"""A stream with everything in it."""


def converse(translator: Translator, pieces: Iterable[bytes]) -> list[TranslatedResponse]:
    """Give the pieces of a body to a translator, and its end."""
    results = [translator.response_body(piece, end_of_stream=False) for piece in pieces]
    return [*results, translator.response_body(b"", end_of_stream=True)]


def read(schema: str, stream: bytes, *, usage: bool = True, size: int = 0) -> tuple[str, TokenUsage, str]:
    """What a client reads of a stream, the usage in the end, and the name of the failure.

    Args:
        schema: of the backend.
        stream: the answer's body.
        usage: the client asks for it.
        size: of the pieces; 0 for all in one.
    """
    translator, _ = ask(schema, {"stream": True, "stream_options": {"include_usage": usage}})
    size = size or max(len(stream), 1)
    results = converse(translator, [stream[at : at + size] for at in range(0, len(stream), size)])
    known = NO_USAGE
    for result in results:
        known = known.merge(result.usage)
    assert results[-1].complete
    return b"".join(result.body or b"" for result in results).decode(), known, results[-1].failure


def chunks(text: str) -> list[dict[str, Any]]:
    """The chunks of a stream that a client has read, without its end."""
    lines = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    return [json.loads(each) for each in lines if each != "[DONE]"]


def deltas(text: str) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks(text) for choice in chunk.get("choices", ())]

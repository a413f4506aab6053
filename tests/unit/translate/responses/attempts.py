"""One attempt at a response, as tests drive it, and the chat completions that stand-ins answer with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extproc.endpoints.base import Operation
from extproc.endpoints.responses import Responses
from extproc.translate.base import TranslatedRequest, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import make_translator
from tests.unit.translate.responses.oracle import accepts_chat

CHAT_ONLY: dict[str, Any] = {"chat_only": True, "prefix": "v1"}
DONE = b"data: [DONE]\n\n"


def ask(request: Mapping[str, Any], schema: str = "OpenAI", **backend: Any) -> tuple[Translator, TranslatedRequest]:
    """Translate a request; by default for a backend that only serves chat completions."""
    members = backend or (CHAT_ONLY if schema == "OpenAI" else {"version": "v"} if schema == "GCPAnthropic" else {})
    translator = make_translator(schema, members, operation=Operation.RESPONSES)
    body = json.dumps({"model": "m", "input": "Hello", **request}).encode()
    parsed = Responses().parse(body, content_type="application/json", metering=True)
    return translator, translator.request(parsed, query="", force=False)


def sent(request: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion request, which the SDK's types accept."""
    translated = ask(request)[1]
    assert translated.body is not None
    return accepts_chat(translated.path, translated.body)


def messages(*items: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that items become."""
    result: list[dict[str, Any]] = sent({"input": list(items)})["messages"]
    return result


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a client reads, and what is known of it for costs."""

    body: bytes
    usage: TokenUsage
    model: str
    complete: bool
    failure: str


def hear(translator: Translator, body: bytes, *, stream: bool, size: int = 0) -> Heard:
    """Give an answer to a translator, in pieces of ``size`` bytes if it is not 0."""
    headers = {":status": "200", "content-type": "text/event-stream" if stream else "application/json"}
    translator.response_headers(headers)
    size = size or max(len(body), 1)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    results = [translator.response_body(piece, end_of_stream=False) for piece in pieces]
    results.append(translator.response_body(b"", end_of_stream=True))
    usage = NO_USAGE
    for result in results:
        usage = usage.merge(result.usage)
    replaced = b"".join(
        piece if result.body is None else result.body for piece, result in zip([*pieces, b""], results, strict=True)
    )
    return Heard(
        body=replaced,
        usage=usage,
        model=results[-1].model,
        complete=any(result.complete for result in results),
        failure=next((result.failure for result in results if result.failure), ""),
    )


def told(message: Mapping[str, Any], request: Mapping[str, Any] | None = None, **members: Any) -> Heard:
    """What a client reads of a whole chat completion with this message; ``members`` are those of its choice."""
    choice = {"index": 0, "message": message, "finish_reason": "stop", **members}
    return hear(ask(request or {})[0], json.dumps({"choices": [choice], "usage": USAGE}).encode(), stream=False)


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def chunk(delta: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """A chunk; ``members`` are those of its choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None, **members}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "real", "choices": [choice]}


def text(piece: str) -> dict[str, Any]:
    return chunk({"content": piece})


def call(index: int | None, arguments: str | None = None, **members: Any) -> dict[str, Any]:
    """A piece of a call; ``members`` are its id and its name."""
    function = {name: value for name, value in (("name", members.pop("name", None)), ("arguments", arguments)) if value}
    numbered = {} if index is None else {"index": index}
    return chunk({"tool_calls": [{**numbered, **members, "function": function}]})


def end(reason: str = "stop") -> dict[str, Any]:
    return chunk(finish_reason=reason)


REPORT = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "real", "choices": [], "usage": USAGE}


def sse(chunks: Iterable[Mapping[str, Any]], *, line: str = "\n") -> bytes:
    return b"".join(f"data: {json.dumps(each)}{line}{line}".encode() for each in chunks)


def streamed(*chunks: Mapping[str, Any], request: Mapping[str, Any] | None = None, size: int = 0) -> Heard:
    """What a client reads of a stream of these chunks, with usage and end after them."""
    translator, _ = ask({**(request or {}), "stream": True})
    return hear(translator, sse([*chunks, REPORT]) + DONE, stream=True, size=size)

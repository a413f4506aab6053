"""One attempt at a message, or at a count, where Anthropic's API is spoken, as tests drive it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from extproc.endpoints.base import Endpoint
from extproc.endpoints.count_tokens import CountTokens
from extproc.endpoints.messages import Messages
from extproc.translate.base import TranslatedRequest, TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import eventstream
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic.attempts import sse

SCHEMAS = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
CLOUDS = ("GCPAnthropic", "AWSAnthropic")
MESSAGES = Messages()
COUNT_TOKENS = CountTokens()
HELLO = [{"role": "user", "content": "Hello"}]

CONTENT_TYPES = {
    "Anthropic": "text/event-stream; charset=utf-8",
    "GCPAnthropic": "text/event-stream",
    "AWSAnthropic": "application/vnd.amazon.eventstream",
}


def ask(
    schema: str,
    body: bytes | Mapping[str, Any],
    *,
    endpoint: Endpoint = MESSAGES,
    headers: Mapping[str, str] | None = None,
    query: str = "",
    force: bool = False,
    **backend: str,
) -> tuple[Translator, TranslatedRequest]:
    """Translate a request; a mapping is completed with a model and a message, and written compactly."""
    if not isinstance(body, bytes):
        whole = {"model": "claude-x", "messages": HELLO, **body}
        body = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    parsed = endpoint.parse(body, content_type="application/json", metering=True)
    translator = make_translator(schema, backend, operation=endpoint.operation, headers=headers)
    return translator, translator.request(parsed, query=query, force=force)


def sent(schema: str, body: bytes | Mapping[str, Any], **more: Any) -> bytes:
    """The body that goes to the provider, which is another than the client's."""
    translated = ask(schema, body, **more)[1]
    assert translated.body is not None
    return translated.body


def frames(events: Sequence[Mapping[str, Any]]) -> bytes:
    """Events as Bedrock sends them, with the JSON that they have elsewhere."""
    texts = (json.dumps(event, ensure_ascii=False).encode() for event in events)
    return b"".join(eventstream.event("chunk", {"bytes": base64.b64encode(text).decode()}) for text in texts)


def wire(schema: str, events: Sequence[Mapping[str, Any]]) -> bytes:
    return frames(events) if schema == "AWSAnthropic" else sse(events)


def stream(
    schema: str, pieces: Sequence[bytes], *, content_type: str | None = None, **backend: str
) -> tuple[bytes, list[TranslatedResponse]]:
    """What the client reads of a streamed answer, and what is known after each piece; the last piece is the end."""
    translator, _ = ask(schema, {"stream": True, "max_tokens": 9}, **backend)
    translator.response_headers({":status": "200", "content-type": content_type or CONTENT_TYPES[schema]})
    results = [
        translator.response_body(piece, end_of_stream=number == len(pieces) - 1) for number, piece in enumerate(pieces)
    ]
    output = (piece if result.body is None else result.body for piece, result in zip(pieces, results, strict=True))
    return b"".join(output), results


def document(
    schema: str, body: bytes, *, endpoint: Endpoint = MESSAGES, content_type: str = "application/json", **backend: str
) -> TranslatedResponse:
    """What becomes of a whole answer."""
    translator, _ = ask(schema, {"max_tokens": 9}, endpoint=endpoint, **backend)
    translator.response_headers({":status": "200", "content-type": content_type})
    return translator.response_body(body, end_of_stream=True)


def error(
    schema: str, status: str, body: bytes, *, endpoint: Endpoint = MESSAGES, **headers: str
) -> TranslatedResponse:
    """What becomes of an error answer; names of headers with ``_`` for ``-``."""
    translator, _ = ask(schema, {"max_tokens": 9}, endpoint=endpoint)
    return translator.response_error(
        status, {":status": status, **{name.replace("_", "-"): value for name, value in headers.items()}}, body
    )


def total(results: Sequence[TranslatedResponse]) -> TokenUsage:
    """The usage that the exchange has after all pieces."""
    usage = NO_USAGE
    for result in results:
        usage = usage.merge(result.usage)
    return usage


def counts(usage: TokenUsage) -> str:
    """``in/cached/created/out/total``, with ``-`` for what is unknown."""
    values = (usage.input, usage.cached_input, usage.cache_creation_input, usage.output, usage.total)
    return "/".join("-" if value is None else str(value) for value in values)

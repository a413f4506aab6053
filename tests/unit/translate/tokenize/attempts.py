"""Attempts to have tokens counted, for tests of what is sent and what is read."""

from __future__ import annotations

import base64
import json
from typing import Any

from extproc.endpoints.base import Operation
from extproc.endpoints.tokenize import Tokenize
from extproc.translate.base import TranslatedRequest, Translator
from tests.support.golden import make_translator

COUNT_MEMBERS = {
    "AWSBedrock": "inputTokens",
    "GCPVertexAI": "totalTokens",
    "Anthropic": "input_tokens",
    "GCPAnthropic": "input_tokens",
    "AWSAnthropic": "inputTokens",
}
COUNTING = tuple(COUNT_MEMBERS)
CLAUDE = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
PROMPT = {"model": "m", "prompt": "hi"}
USER = {"role": "user", "content": "hi"}


def send(
    schema: str, request: Any = PROMPT, *, query: str = "", force: bool = False, **backend: str
) -> tuple[Translator, TranslatedRequest]:
    """A translator that has sent a request, and what it has sent; ``backend`` as in ``make_translator``."""
    translator = make_translator(schema, backend, operation=Operation.TOKENIZE)
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    parsed = Tokenize().parse(body, content_type="", metering=True)
    sent = translator.request(parsed, query=query, force=force)
    assert parsed.body == body
    return translator, sent


def counted(schema: str, request: Any, **backend: str) -> dict[str, Any]:
    """What the provider is to count, out of its wrapping."""
    _, sent = send(schema, request, **backend)
    assert sent.body is not None
    body: dict[str, Any] = json.loads(sent.body)
    match schema:
        case "AWSBedrock":
            body = body["input"]["converse"]
        case "AWSAnthropic":
            body = json.loads(base64.b64decode(body["input"]["invokeModel"]["body"]))
    return body


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


def text_of(schema: str, content: str) -> dict[str, Any]:
    """A turn of the user with one text, as the provider has it."""
    match schema:
        case "AWSBedrock":
            return {"content": [{"text": content}], "role": "user"}
        case "GCPVertexAI":
            return {"parts": [{"text": content}], "role": "user"}
    return {"content": [{"text": content, "type": "text"}], "role": "user"}


def turns(body: dict[str, Any]) -> Any:
    return body.get("contents", body.get("messages"))

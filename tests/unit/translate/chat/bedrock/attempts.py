"""Attempts at a Bedrock backend, in a word: what goes upstream, and what comes back of an answer."""

from __future__ import annotations

import json
from typing import Any

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.translate.base import TranslatedRequest, TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.converse import accept
from tests.support.golden import make_translator

MODEL = "anthropic.claude-x"
REQUEST_ID = "rid"
USER = {"role": "user", "content": "q"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def send(translator: Translator, request: dict[str, Any]) -> TranslatedRequest:
    body = json.dumps({"model": MODEL, "messages": [USER], **request}).encode()
    parsed = ChatCompletions().parse(body, content_type="", metering=False)
    return translator.request(parsed, query="", force=False)


def upstream(**request: Any) -> dict[str, Any]:
    """The body that is sent, which the service accepts."""
    sent = send(make_translator("AWSBedrock", {}), request)
    assert sent.body is not None
    return accept(sent.path, sent.body)


def sent_text(**request: Any) -> str:
    """The body that is sent, byte by byte."""
    sent = send(make_translator("AWSBedrock", {}), request)
    assert sent.body is not None
    accept(sent.path, sent.body)
    return sent.body.decode()


def messages(*sent: Any) -> list[Any]:
    """What becomes of these messages."""
    found = upstream(messages=list(sent))["messages"]
    assert isinstance(found, list)
    return found


def completion(answer: object, **request: Any) -> dict[str, Any]:
    """What the client reads of this answer."""
    return whole(answer, **request)[0]


def whole(answer: object, **request: Any) -> tuple[dict[str, Any], TokenUsage]:
    translator = make_translator("AWSBedrock", {})
    send(translator, request)
    translator.response_headers({"x-amzn-requestid": REQUEST_ID})
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    result = translator.response_body(body, end_of_stream=True)
    return json.loads(result.body or b""), result.usage


class Stream:
    """A streamed answer, fed in these pieces.

    Attributes:
        text: all that the client reads.
        events: the data of its events, ``[DONE]`` as text.
        usage: what is known for costs.
        last: the result of the last piece.
    """

    def __init__(self, *pieces: bytes, include_usage: bool = True) -> None:
        translator = make_translator("AWSBedrock", {})
        send(translator, {"stream": True, "stream_options": {"include_usage": include_usage}})
        translator.response_headers({"x-amzn-requestid": REQUEST_ID})
        self.usage = NO_USAGE
        self.last = TranslatedResponse()
        out = [self._feed(translator, piece, end=False) for piece in pieces]
        out.append(self._feed(translator, b"", end=True))
        self.text = b"".join(out).decode()
        blocks = self.text.removesuffix("\n\n").split("\n\n") if self.text else []
        assert all(block.startswith("data: ") for block in blocks)
        data = [block.removeprefix("data: ") for block in blocks]
        self.events = [each if each == "[DONE]" else json.loads(each) for each in data]

    def _feed(self, translator: Translator, piece: bytes, *, end: bool) -> bytes:
        self.last = translator.response_body(piece, end_of_stream=end)
        self.usage = self.usage.merge(self.last.usage)
        assert self.last.body is not None
        return self.last.body

    @property
    def deltas(self) -> list[Any]:
        return [event["choices"][0]["delta"] for event in self.events if event != "[DONE]" and event.get("choices")]

    @property
    def finish_reasons(self) -> list[str]:
        chunks = [event for event in self.events if event != "[DONE]" and event.get("choices")]
        return [chunk["choices"][0]["finish_reason"] for chunk in chunks if "finish_reason" in chunk["choices"][0]]

    @property
    def error(self) -> Any:
        return self.events[-1]["error"] if self.events[-1] != "[DONE]" else None

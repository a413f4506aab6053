"""Attempts at a message on a Bedrock backend, in a word: what goes upstream, and what the client's SDK reads."""

from __future__ import annotations

import json
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from extproc.endpoints.base import Operation
from extproc.endpoints.messages import Messages
from extproc.translate.base import TranslatedRequest, TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import golden
from tests.support.converse import accept

MODEL = "anthropic.claude-x"
REQUEST_ID = "rid"
USER = {"role": "user", "content": "q"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}

_MESSAGE = TypeAdapter(Message)
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def make_translator(*, headers: dict[str, str] | None = None, **backend: str) -> Translator:
    return golden.make_translator("AWSBedrock", backend, operation=Operation.MESSAGES, headers=headers)


def send(translator: Translator, request: dict[str, Any]) -> TranslatedRequest:
    body = json.dumps({"model": MODEL, "messages": [USER], **request}).encode()
    parsed = Messages().parse(body, content_type="", metering=False)
    return translator.request(parsed, query="beta=true", force=False)


def sent_text(*, headers: dict[str, str] | None = None, **request: Any) -> str:
    """The body that is sent, which the service accepts, byte by byte."""
    sent = send(make_translator(headers=headers), request)
    assert sent.body is not None
    accept(sent.path, sent.body)
    return sent.body.decode()


def upstream(*, headers: dict[str, str] | None = None, **request: Any) -> dict[str, Any]:
    """The same, read."""
    sent = json.loads(sent_text(headers=headers, **request))
    assert isinstance(sent, dict)
    return sent


def messages(*sent: Any, **request: Any) -> list[Any]:
    """What becomes of these messages."""
    found = upstream(messages=list(sent), **request)["messages"]
    assert isinstance(found, list)
    return found


def whole(answer: object, *, request_id: str = REQUEST_ID) -> tuple[dict[str, Any], TokenUsage]:
    """What the client reads of this answer, which its SDK's types accept, and what is known for costs."""
    translator = make_translator()
    send(translator, {})
    translator.response_headers({"x-amzn-requestid": request_id} if request_id else {})
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    result = translator.response_body(body, end_of_stream=True)
    message = json.loads(result.body or b"")
    # The SDK's types insist on a usage, which is left out where the service reports none.
    _MESSAGE.validate_python({"usage": {"input_tokens": 0, "output_tokens": 0}, **message})
    return message, result.usage


def content(*blocks: Any, reason: str = "end_turn") -> list[Any]:
    """The content that the client reads of an answer of these blocks."""
    found = whole({"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": reason})[0]["content"]
    assert isinstance(found, list)
    return found


class Stream:
    """A streamed answer, fed in these pieces, and read by the client's SDK.

    Attributes:
        text: all that the client reads.
        events: the data of its events.
        message: what the SDK gathers, as JSON; ``None`` when the message has not begun.
        usage: what is known for costs.
        last: the result of the last piece.
    """

    def __init__(self, *pieces: bytes, request_id: str = REQUEST_ID) -> None:
        translator = make_translator()
        send(translator, {"stream": True})
        translator.response_headers({"x-amzn-requestid": request_id} if request_id else {})
        self.usage = NO_USAGE
        self.last = TranslatedResponse()
        out = [self._feed(translator, piece, end=False) for piece in pieces]
        out.append(self._feed(translator, b"", end=True))
        self.text = b"".join(out).decode()
        self.events = [_read_event(block) for block in self.text.removesuffix("\n\n").split("\n\n")]
        self.message = _gather(self.events)

    def _feed(self, translator: Translator, piece: bytes, *, end: bool) -> bytes:
        self.last = translator.response_body(piece, end_of_stream=end)
        self.usage = self.usage.merge(self.last.usage)
        assert self.last.body is not None
        return self.last.body

    @property
    def names(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def error(self) -> Any:
        return self.events[-1]["error"] if self.names[-1] == "error" else None


def _read_event(block: str) -> Any:
    name, data = block.split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    return event


def _gather(events: list[Any]) -> Any:
    snapshot = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] == "error":
            assert event is events[-1], "an error is the last that is said"
            break
        if event["type"] == "content_block_start":
            assert event["index"] == len(snapshot.content if snapshot else ()), "indexes are dense"
        typed = _EVENT.validate_python(event)
        snapshot = accumulate_event(event=typed, current_snapshot=snapshot, json_bufs=buffers)
    return None if snapshot is None else snapshot.to_dict()

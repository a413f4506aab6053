"""One attempt of a client of Anthropic's at a backend of chat completions, as tests drive it."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx2

from extproc.endpoints.base import Operation
from extproc.endpoints.messages import Messages
from extproc.translate.base import TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import make_translator
from tests.unit.translate.messages.carried.oracle import accepts_types

HELLO = [{"role": "user", "content": "Hello"}]
JSON = {":status": "200", "content-type": "application/json"}
SSE = {":status": "200", "content-type": "text/event-stream"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object"}}


def ask(request: Mapping[str, Any], schema: str = "OpenAI") -> tuple[Translator, str, bytes]:
    """A translator that has sent a request, with its path and body."""
    body = json.dumps({"model": "gpt-x", "max_tokens": 100, "messages": HELLO, **request}).encode()
    return ask_bytes(body, schema)


def ask_bytes(body: bytes, schema: str = "OpenAI") -> tuple[Translator, str, bytes]:
    parsed = Messages().parse(body, content_type="application/json", metering=True)
    translator = make_translator(schema, {"prefix": "v1"}, operation=Operation.MESSAGES)
    translated = translator.request(parsed, query="beta=true", force=False)
    assert translated.body is not None
    return translator, translated.path, translated.body


def sent(schema: str = "OpenAI", **request: Any) -> dict[str, Any]:
    """The chat request, if OpenAI's SDK would send it."""
    _, path, body = ask(request, schema)
    return accepts_types(path, body)


def sent_messages(*messages: Mapping[str, Any], **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent(messages=list(messages), **request)["messages"]
    return found


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def completion(message: Mapping[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "gpt-x", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def answered(document: object, **request: Any) -> TranslatedResponse:
    translator, _, _ = ask(request)
    translator.response_headers(JSON)
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return translator.response_body(body, end_of_stream=True)


def answer(document: object, **request: Any) -> dict[str, Any]:
    """The message that the client reads."""
    found: dict[str, Any] = json.loads(answered(document, **request).body or b"")
    return found


# --- streams ---


def chunk(delta: Mapping[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "gpt-x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(index: int | None = None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    """The delta of one piece of a call; ``name`` and ``id`` are in ``more``."""
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in more:
        function["name"] = more.pop("name")
    return {"tool_calls": [{**({} if index is None else {"index": index}), **more, "function": function}]}


def sse(*events: object) -> bytes:
    """Events as backends send them; text and bytes are taken as they are."""
    return b"".join(b"data: " + _data(each) + b"\n\n" for each in events)


def _data(event: object) -> bytes:
    match event:
        case bytes():
            return event
        case str():
            return event.encode()
    return json.dumps(event, ensure_ascii=False).encode()


class Told:
    """What the client has read of a stream.

    Attributes:
        events: the data of the events, decoded.
        ends: whether the last of them is the sign of a good end.
        usage: what is known for costs.
        failure: the name of the error it has ended with.
    """

    def __init__(self, stream: bytes, *, size: int = 0, headers: Mapping[str, str] = SSE, **request: Any) -> None:
        translator, _, _ = ask({"stream": True, **request})
        translator.response_headers(headers)
        size = size or max(len(stream), 1)
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        results = [translator.response_body(piece, end_of_stream=False) for piece in pieces]
        results.append(translator.response_body(b"", end_of_stream=True))
        assert all(result.body is not None for result in results)
        self.text = b"".join(result.body or b"" for result in results)
        self.model = results[-1].model
        self.failure = next((result.failure for result in results if result.failure), "")
        self.usage: TokenUsage = NO_USAGE
        for result in results:
            self.usage = self.usage.merge(result.usage)
        *blocks, rest = self.text.split(b"\n\n")
        assert rest == b""
        self.events: list[dict[str, Any]] = []
        for block in blocks:
            name, data = block.split(b"\n")
            self.events.append(json.loads(data.removeprefix(b"data: ")))
            assert name == b"event: " + self.events[-1]["type"].encode()
        self.ends = bool(self.events) and self.events[-1]["type"] == "message_stop"
        assert [each["type"] for each in self.events].count("message_stop") == self.ends

    @property
    def types(self) -> list[str]:
        return [each["type"] for each in self.events]

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.events[-1]["error"]
        return found

    def check_order(self) -> None:
        """Blocks come one after the other, numbered, and between the beginning and the end of the message."""
        opened, closed = -1, -1
        for number, each in enumerate(self.events):
            match each["type"]:
                case "message_start":
                    assert number == 0
                case "content_block_start":
                    assert opened == closed
                    opened += 1
                    assert each["index"] == opened
                case "content_block_delta":
                    assert opened == closed + 1
                    assert each["index"] == opened
                case "content_block_stop":
                    assert opened == closed + 1
                    closed += 1
                    assert each["index"] == closed
                case "message_delta":
                    assert opened == closed
                    assert number == len(self.events) - 2
                case "message_stop" | "error":
                    assert number == len(self.events) - 1

    def read(self) -> anthropic.types.Message:
        """The message that Anthropic's own SDK gathers."""
        return gathered(self.text)


def told(*events: object, **request: Any) -> Told:
    """A stream that ends as it should."""
    found = Told(sse(*events), **request)
    found.check_order()
    return found


class _Replies:
    """A client of the official SDK, and what it is to be told: making one takes longer than all that it reads."""

    def __init__(self) -> None:
        self.text = b""
        http_client = httpx2.Client(transport=httpx2.MockTransport(self._reply))
        self.client = anthropic.Anthropic(api_key="none", http_client=http_client, max_retries=0)

    def _reply(self, _: object) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self.text)


_replies = functools.cache(_Replies)


def gathered(text: bytes) -> anthropic.types.Message:
    replies = _replies()
    replies.text = text
    question: Any = HELLO
    with replies.client.messages.stream(model="m", max_tokens=10, messages=question) as events:
        return events.get_final_message()


def blocks_of(message: anthropic.types.Message) -> list[Any]:
    """The blocks in short: text, (thought, signature), {data}, or [name, input]."""
    return [_short(block) for block in message.content]


def _short(block: Any) -> Any:
    match block.type:
        case "text":
            return block.text
        case "thinking":
            return (block.thinking, block.signature)
        case "redacted_thinking":
            return {block.data}
    return [block.name, block.input]


def error_of(status: str, headers: Mapping[str, str], body: bytes, schema: str = "OpenAI") -> SimpleNamespace:
    """The type and the message of an error that the client reads."""
    translator, _, _ = ask({}, schema)
    result = translator.response_error(status, {":status": status, **headers}, body)
    assert result.headers == (("content-type", "application/json"),)
    document = json.loads(result.body or b"")
    assert document["type"] == "error"
    assert document.keys() == {"type", "error"}
    return SimpleNamespace(**document["error"])


def pieces(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The stream, cut at these places."""
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    return [stream[start:end] for start, end in itertools.pairwise(places)]

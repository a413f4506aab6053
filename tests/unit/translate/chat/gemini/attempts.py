"""One attempt at a Gemini backend, as tests ask for it: what is sent, and what becomes of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.translate.base import TranslatedResponse, Translator
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import make_translator
from tests.unit.translate.chat.gemini.oracle import accept

MODEL = "gemini-2.5-flash"
USER = {"role": "user", "content": "Hi"}


def attempt(request: dict[str, Any], *, override: str = "") -> tuple[Translator, str, bytes]:
    """A translator that has sent a request, with its path and body."""
    return attempt_bytes(json.dumps({"model": MODEL, "messages": [USER], **request}).encode(), override=override)


def attempt_bytes(body: bytes, *, override: str = "") -> tuple[Translator, str, bytes]:
    """The same for a request as it comes over the wire."""
    translator = make_translator("GCPVertexAI", {"model_override": override})
    parsed = ChatCompletions().parse(body, content_type="application/json", metering=False)
    translated = translator.request(parsed, query="", force=False)
    assert translated.body is not None
    return translator, translated.path, translated.body


def sent(**request: Any) -> dict[str, Any]:
    """The body that goes upstream, after Google's own types have accepted it."""
    _, path, body = attempt(request)
    return accept(path, body)


def sent_parts(*messages: dict[str, Any], model: str = MODEL) -> list[list[dict[str, Any]]]:
    """The parts of each content that messages become."""
    return [content["parts"] for content in sent(model=model, messages=list(messages))["contents"]]


def answer(document: object, **request: Any) -> dict[str, Any]:
    """The document that the client reads."""
    return json.loads(answered(document, **request).body or b"")


def answered(document: object, **request: Any) -> TranslatedResponse:
    translator, _, _ = attempt(request)
    return translator.response_body(_json(document), end_of_stream=True)


def events(*documents: object, end: bytes = b"\r\n\r\n") -> bytes:
    """A stream of documents; those that are bytes are taken as they are."""
    return b"".join(b"data: " + _json(each) + end for each in documents)


def _json(document: object) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()


class Stream:
    """What the client has read of a stream.

    Attributes:
        chunks: the data of its events, decoded, without the mark of the end.
        ends: whether it ends as a whole answer does.
        usage: what is known for costs.
        failure: the name of the error it has ended with.
    """

    def __init__(self, pieces: Iterable[bytes], **request: Any) -> None:
        translator, _, _ = attempt({"stream": True, "stream_options": {"include_usage": True}, **request})
        results = [translator.response_body(piece, end_of_stream=False) for piece in pieces]
        results.append(translator.response_body(b"", end_of_stream=True))
        self.text = b"".join(result.body or b"" for result in results)
        assert all(result.body is not None for result in results)
        self.model = results[-1].model
        self.failure = results[-1].failure
        self.usage: TokenUsage = NO_USAGE
        for result in results:
            self.usage = self.usage.merge(result.usage)
        *blocks, rest = self.text.split(b"\n\n")
        assert rest == b""
        data = [block.removeprefix(b"data: ") for block in blocks]
        self.ends = bool(data) and data[-1] == b"[DONE]"
        self.chunks: list[dict[str, Any]] = [json.loads(each) for each in (data[:-1] if self.ends else data)]

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [choice["delta"] for chunk in self.chunks for choice in chunk.get("choices", ())]

    @property
    def finish_reasons(self) -> list[str]:
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices", ())]
        return [choice["finish_reason"] for choice in choices if "finish_reason" in choice]

    def joined(self, member: str) -> str:
        return "".join(delta.get(member, "") for delta in self.deltas)


def streamed(*documents: object, **request: Any) -> Stream:
    return Stream([events(*documents)], **request)


def candidate(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An answer with one candidate."""
    found: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, **more}
    if finish:
        found["finishReason"] = finish
    return {"candidates": [found]}

"""Answers of Gemini: the document, and the same as events whose usage grows with the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from deploy.demo.providers.script import Said, Stop, Tokens, ToolCall, pieces
from deploy.demo.providers.service import event

Document = dict[str, Any]

_FINISH: Final = {Stop.END: "STOP", Stop.TOOLS: "STOP", Stop.LENGTH: "MAX_TOKENS"}
_CREATED: Final = "2023-11-14T22:13:20.000000Z"


def response(said: Said, *, model: str, thoughts: bool, signed: bool) -> Document:
    """The whole answer. ``thoughts`` shows the thinking, ``signed`` its signature."""
    signature = {"thoughtSignature": said.signature} if signed else {}
    parts: list[Document] = [{"text": said.thinking, "thought": True}] if thoughts and said.thinking else []
    if said.text:
        parts.append({"text": said.text, **({} if said.calls else signature)})
    parts.extend(_calls(said, signature))
    return _document(said, parts, said.tokens, model=model, finish=_FINISH[said.stop])


def events(said: Said, *, model: str, thoughts: bool, signed: bool) -> Iterator[bytes]:
    """Thoughts and text a word at a time, each call whole, and an end whose text is empty."""
    signature = {"thoughtSignature": said.signature} if signed else {}
    steps: list[Document] = []
    if thoughts:
        steps.extend({"text": word, "thought": True} for word in pieces(said.thinking))
    steps.extend({"text": word} for word in said.words())
    steps.extend(_calls(said, signature))
    spent = 0
    for step in steps:
        spent += 0 if step.get("thought") else 1
        so_far = replace(said.tokens, answer=min(spent, said.tokens.answer))
        yield _event(_document(said, [step], so_far, model=model, finish=None))
    # Where there was no call to carry it, the signature comes with the end.
    last = {"text": "", **({} if said.calls else signature)}
    yield _event(_document(said, [last], said.tokens, model=model, finish=_FINISH[said.stop]))


def fault(status: int, name: str, message: str) -> Document:
    """Google's error object; in the middle of a stream it is an event like any other."""
    return {"error": {"code": status, "message": message, "status": name}}


def usage(tokens: Tokens) -> Document:
    """Cached tokens are part of the prompt, thoughts are not part of the candidates."""
    counts: Document = {
        "promptTokenCount": tokens.prompt,
        "candidatesTokenCount": tokens.answer,
        "totalTokenCount": tokens.total,
        "trafficType": "ON_DEMAND",
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.prompt}],
        "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.answer}],
    }
    if tokens.cached:
        counts["cachedContentTokenCount"] = tokens.cached
    if tokens.thinking:
        counts["thoughtsTokenCount"] = tokens.thinking
    return counts


def _calls(said: Said, signature: Document) -> Iterator[Document]:
    for index, call in enumerate(said.calls):
        yield {"functionCall": _call(call), **({} if index else signature)}


def _call(call: ToolCall) -> Document:
    return {"name": call.name, "args": dict(call.arguments)}


def _document(said: Said, parts: list[Document], tokens: Tokens, *, model: str, finish: str | None) -> Document:
    candidate: Document = {"content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate |= {"finishReason": finish, "avgLogprobs": -0.125}
    return {
        "candidates": [candidate],
        "usageMetadata": usage(tokens),
        "modelVersion": model,
        "createTime": _CREATED,
        "responseId": said.id,
    }


def _event(each: Document) -> bytes:
    return event(each, end=b"\r\n\r\n")

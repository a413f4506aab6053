"""Gathers streams of chat completions and of completions, whose chunks have pieces of every choice.

Of the members at the top those are kept that OpenAI's documents have.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.formats.sse import SSEEvent
from extproc.telemetry.tracing.readers.answers import ENTRY, Budget, ReadDocument
from extproc.telemetry.tracing.readers.joining import Joined
from extproc.telemetry.tracing.readers.lenient import JSONObject, as_object, as_objects, as_text, encode, read
from extproc.telemetry.tracing.views import AnswerView

_MAX_REASON: Final = 64


class _Chunk(Struct, frozen=True):
    """A chunk. Members may be of a wrong type."""

    id: object = None
    created: object = None
    model: object = None
    service_tier: object = None
    system_fingerprint: object = None
    choices: object = None
    usage: Raw | UnsetType = UNSET


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_HEAD: Final = ("id", "created", "model", "service_tier", "system_fingerprint")

_MEMBERS: Final = ("id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint")
"""Of a document, in the API's order."""


class Chunks:
    """A stream of chunks.

    Args:
        budget: for the choices.
        kind: what a document is called in its member ``object``.
        read: reads the document.
    """

    __slots__ = ("_budget", "_choices", "_head", "_kind", "_read", "_reasons", "_usage")

    def __init__(self, budget: Budget, *, kind: str, read: ReadDocument) -> None:
        self._budget = budget
        self._kind = kind
        self._read = read
        self._head: JSONObject = {}
        self._usage = b""
        self._choices: dict[int, Joined] = {}
        # These come last, and count even when nothing else does any more.
        self._reasons: dict[int, str] = {}

    def event(self, event: SSEEvent) -> bool:
        chunk = read(_CHUNK, event.data)
        if chunk is None:
            return False
        for choice in as_objects(chunk.choices):
            self._choice(choice)
        for name in _HEAD:
            if (value := getattr(chunk, name)) and isinstance(value, str | int | float):
                self._head[name] = value
        if isinstance(chunk.usage, Raw) and (usage := bytes(chunk.usage)) != b"null":
            self._usage = usage
        return True

    def view(self) -> AnswerView:
        if not (self._head or self._choices):
            return AnswerView()
        return self._read(encode(self._document()))

    def _choice(self, choice: JSONObject) -> None:
        index = choice.pop("index", None)
        if index is None:
            index = 0
        if type(index) is not int:
            return
        joined = self._choices.get(index)
        if joined is None:
            if not self._budget.take(ENTRY):
                return
            joined = self._choices[index] = Joined(self._budget)
        if reason := as_text(choice.pop("finish_reason", None)):
            self._reasons[index] = reason[:_MAX_REASON]
        joined.add(choice)

    def _document(self) -> JSONObject:
        told = self._head | {"object": self._kind}
        told["choices"] = [self._whole_choice(index) for index in sorted(self._choices)]
        if self._usage:
            told["usage"] = Raw(self._usage)
        return {name: told[name] for name in _MEMBERS if name in told}

    def _whole_choice(self, index: int) -> JSONObject:
        members = self._choices[index].value()
        if "delta" in members:
            message: JSONObject = {"role": "assistant", "content": None}
            members["message"] = message | as_object(members.pop("delta"))
        return {"index": index, **members, "finish_reason": self._reasons.get(index)}

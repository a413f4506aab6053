"""Gathers streams of the responses API.

Their last event has the whole response. Without it, the response is put together from its items, as far as they came.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from extproc.formats.sse import SSEEvent
from extproc.telemetry.tracing.readers.answers import ENTRY, Budget, ReadDocument, Text
from extproc.telemetry.tracing.readers.lenient import JSONObject, Members, as_text, encode, members_of, objects_of, read
from extproc.telemetry.tracing.views import AnswerView


class _Event(Struct, frozen=True):
    """An event. Members may be of a wrong type."""

    type: object = None
    output_index: object = None
    content_index: object = None
    summary_index: object = None
    delta: object = None
    item: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET


_EVENT: Final = msgspec.json.Decoder(_Event)

COMPLETED: Final = "response.completed"
_ENDS: Final = frozenset({COMPLETED, "response.failed", "response.incomplete"})
_BEGINS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ITEMS: Final = frozenset({"response.output_item.added", "response.output_item.done"})


class _Delta(Struct, frozen=True):
    """What a delta adds to.

    Attributes:
        item: type of the item.
        member: of the item: the text itself, or an array of parts.
        part: type of the part; empty where the member is the text.
        text: member of the part.
    """

    item: str
    member: str
    part: str = ""
    text: str = "text"


_DELTAS: Final = {
    "response.output_text.delta": _Delta("message", "content", "output_text"),
    "response.refusal.delta": _Delta("message", "content", "refusal", "refusal"),
    "response.reasoning_text.delta": _Delta("reasoning", "content", "reasoning_text"),
    "response.reasoning_summary_text.delta": _Delta("reasoning", "summary", "summary_text"),
    "response.function_call_arguments.delta": _Delta("function_call", "arguments"),
    "response.custom_tool_call_input.delta": _Delta("custom_tool_call", "input"),
    "response.mcp_call_arguments.delta": _Delta("mcp_call", "arguments"),
    "response.code_interpreter_call_code.delta": _Delta("code_interpreter_call", "code"),
}

_Place = tuple[_Delta, int]


class _Item:
    """An item that is being written."""

    __slots__ = ("_budget", "_texts", "_told")

    def __init__(self, told: bytes, budget: Budget) -> None:
        self._told = told
        self._budget = budget
        self._texts: dict[_Place, Text] = {}

    def add(self, delta: _Delta, index: int, piece: str) -> None:
        place = (delta, index)
        if place not in self._texts:
            if not self._budget.take(ENTRY):
                return
            self._texts[place] = Text(self._budget)
        self._texts[place].add(piece)

    @property
    def size(self) -> int:
        return len(self._told) + sum(ENTRY + text.size for text in self._texts.values())

    def value(self) -> Raw | JSONObject:
        if not self._texts:
            return Raw(self._told)
        item: JSONObject = dict(members_of(self._told))
        parts: dict[str, list[JSONObject]] = {}
        for (delta, _), text in sorted(self._texts.items(), key=lambda each: each[0][1]):
            if delta.part:
                parts.setdefault(delta.member, []).append({"type": delta.part, delta.text: str(text)})
            else:
                item[delta.member] = str(text)
        return item | parts


class ResponseEvents:
    """The events of one response.

    Args:
        budget: for the items.
        read: reads the response.
    """

    __slots__ = ("_budget", "_completed", "_items", "_read", "_response", "_whole")

    def __init__(self, budget: Budget, read: ReadDocument) -> None:
        self._budget = budget
        self._read = read
        self._response = b""
        self._whole = b""
        self._completed = False
        self._items: dict[int, _Item] = {}

    def event(self, event: SSEEvent) -> bool:
        seen = read(_EVENT, event.data)
        if seen is None:
            return False
        kind = as_text(seen.type) or (event.event or b"").decode(errors="replace")
        index = seen.output_index if type(seen.output_index) is int else None
        if (delta := _DELTAS.get(kind)) is not None:
            self._add(delta, index or 0, seen)
        elif kind in _ITEMS and index is not None and isinstance(seen.item, Raw):
            self._put(index, bytes(seen.item))
        elif isinstance(seen.response, Raw):
            self._take(kind, bytes(seen.response))
        return True

    def view(self) -> AnswerView:
        if not (self._whole or self._response or self._items):
            return AnswerView()
        return replace(self._read(self._whole or self._rebuilt()), completed=self._completed)

    def _take(self, kind: str, response: bytes) -> None:
        self._completed = self._completed or kind == COMPLETED
        if kind in _ENDS and response.startswith(b"{"):
            # It has all that its items have.
            self._whole = response
            self._items.clear()
        elif kind in _BEGINS:
            self._response = response

    def _put(self, index: int, item: bytes) -> None:
        """What an item is when it begins, and again when it is done."""
        if (old := self._items.pop(index, None)) is not None:
            self._budget.give(old.size)
        if self._budget.take(ENTRY + len(item)):
            self._items[index] = _Item(item, self._budget)
        elif old is not None:
            self._items[index] = old

    def _add(self, delta: _Delta, index: int, seen: _Event) -> None:
        item = self._items.get(index)
        if item is None:
            if not self._budget.take(ENTRY):
                return
            item = self._items[index] = _Item(encode({"type": delta.item}), self._budget)
        nth = seen.summary_index if delta.member == "summary" else seen.content_index
        item.add(delta, nth if type(nth) is int else 0, as_text(seen.delta))

    def _rebuilt(self) -> bytes:
        response: Members = members_of(self._response)
        # What a model has said before may be in there already.
        output = [self._items[index].value() for index in sorted(self._items)] or list(
            objects_of(response.get("output"))
        )
        return encode({**response, "output": output})

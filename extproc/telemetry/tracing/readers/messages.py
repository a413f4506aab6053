"""Reads messages of Anthropic's API, and requests to count their tokens (contract, messages 4 to 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from extproc.formats.sse import SSEEvent
from extproc.telemetry.tracing.readers.answers import ENTRY, Budget, Text
from extproc.telemetry.tracing.readers.lenient import (
    JSONObject,
    Members,
    as_integer,
    as_object,
    as_raw,
    as_text,
    decoded,
    elements_of,
    encode,
    members_of,
    read,
    spelled,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import answer_message, part, parts_of, text_part
from extproc.telemetry.tracing.readers.requests import APIReader, tools_of
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, Tokenization, ToolCall

# Servers of tools are named with the credentials for them.
_CONTENT: Final = frozenset({"messages", "system", "tools", "mcp_servers"})


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(
        view,
        system=parts_of(value_of(members.get("system"))),
        messages=tuple(found for each in elements_of(members.get("messages")) for found in _messages(each)),
        tools=tools_of(members, "tools"),
    )


def _messages(message: Raw) -> Iterator[Message]:
    """What a message says. Results of tools, which are blocks of it, are messages of their own in a view."""
    members = members_of(message)
    if not members:
        return
    role, content = as_text(value_of(members.get("role"))), members.get("content")
    text = value_of(content) if content is not None else None
    if isinstance(text, str):
        yield Message(role=role, text=text)
        return
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for block in elements_of(content):
        match _said(block):
            case Message() as result:
                if parts or calls:
                    yield Message(role=role, parts=tuple(parts), tool_calls=tuple(calls))
                yield replace(result, role=role)
                parts, calls = [], []
            case ToolCall() as call:
                calls.append(call)
            case Part() as said:
                parts.append(said)
    if parts or calls:
        yield Message(role=role, parts=tuple(parts), tool_calls=tuple(calls))


def _said(block: Raw) -> Part | ToolCall | Message | None:
    """A block: a result of the client's tool as a message, a call, or a part of the content."""
    said = value_of(block)
    if not isinstance(said, dict):
        return text_part(said) if isinstance(said, str) else None
    match as_text(said.get("type")):
        case "tool_result":
            return _result(said)
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            arguments = _arguments(members_of(block))
            return ToolCall(id=as_text(said.get("id")), name=as_text(said.get("name")), arguments=arguments)
    return part(said)


def _result(block: JSONObject) -> Message:
    content, call = block.get("content"), as_text(block.get("tool_use_id"))
    if isinstance(content, str):
        return Message(role="", text=content, answers=call)
    return Message(role="", parts=parts_of(content), answers=call)


def _arguments(use: Members) -> str:
    """The input as it is spelled; one that was cut off is not JSON, and stands there as a text."""
    given = use.get("input")
    if given is None:
        return ""
    cut_off = value_of(given)
    return cut_off if isinstance(cut_off, str) else spelled(given)


# --- the answer ---


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    reason = as_text(value_of(members.get("stop_reason")))
    said = [_said(block) for block in elements_of(members.get("content"))]
    message = answer_message(
        as_text(value_of(members.get("role"))) or "assistant",
        [each for each in said if isinstance(each, Part)],
        tool_calls=[each for each in said if isinstance(each, ToolCall)],
        finish=reason,
    )
    return AnswerView(
        text=decoded(document),
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        finish_reasons=(reason,) if reason else (),
        messages=(message,) if said or reason else (),
    )


def _read_count(document: bytes) -> AnswerView:
    count = as_integer(value_of(members_of(document).get("input_tokens")))
    return AnswerView(text=decoded(document), token_count=count)


# --- streams ---


class _Event(Struct, frozen=True):
    """An event. Members may be of a wrong type."""

    type: object = None
    index: object = None
    message: Raw | UnsetType = UNSET
    content_block: Raw | UnsetType = UNSET
    delta: object = None
    usage: object = None


_EVENT: Final = msgspec.json.Decoder(_Event)

# Type of a delta → the member that it adds to. A tool's input comes as text.
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
    "compaction_delta": ("content", "content"),
}


class _Block:
    """A block of content that is being written."""

    def __init__(self, start: Members, budget: Budget) -> None:
        self.start = start
        self._budget = budget
        self._texts: dict[str, Text] = {}
        self._citations: list[Raw] = []

    def add(self, delta: JSONObject) -> None:
        kind = as_text(delta.get("type"))
        if kind == "citations_delta":
            citation = as_raw(delta.get("citation"))
            if citation is not None and self._budget.take(ENTRY + len(bytes(citation))):
                self._citations.append(citation)
            return
        source, member = _DELTAS.get(kind, ("", ""))
        piece = as_text(delta.get(source))
        if not piece:
            return
        if member not in self._texts:
            text = self._texts[member] = Text(self._budget)
            # What the block began with is a piece as well, but for the input, which is an empty object there.
            text.add(as_text(value_of(self.start.get(member))))
        self._texts[member].add(piece)

    def value(self) -> JSONObject:
        texts: JSONObject = {name: str(text) for name, text in self._texts.items()}
        if "input" in texts:
            texts["input"] = _json_or_text(str(texts["input"]))
        return {**self.start, **texts, **({"citations": self._citations} if self._citations else {})}


def _json_or_text(text: str) -> Raw | str:
    return text if value_of(text.encode()) is None else Raw(text.encode())


class _MessageStream:
    """The events of one message."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._message: Members = {}
        self._blocks: dict[int, _Block] = {}
        # How it ended comes last, and counts even when nothing else does any more.
        self._ending: JSONObject = {}
        self._delta: dict[str, Raw] = {}
        self._usage: dict[str, Raw] = {}

    def event(self, event: SSEEvent) -> bool:
        seen = read(_EVENT, event.data)
        if seen is None:
            return False
        match as_text(seen.type) or (event.event or b"").decode(errors="replace"):
            case "message_start" if isinstance(seen.message, Raw):
                self._message = members_of(bytes(seen.message))
                self._usage = dict(members_of(self._message.get("usage")))
            case "content_block_start" if type(seen.index) is int and isinstance(seen.content_block, Raw):
                self._start(seen.index, bytes(seen.content_block))
            case "content_block_delta" if type(seen.index) is int:
                self._add(seen.index, as_object(seen.delta))
            case "message_delta":
                self._end(as_object(seen.delta))
                self._report(self._usage, as_object(seen.usage))
        return True

    def view(self) -> AnswerView:
        if not (self._message or self._blocks):
            return AnswerView()
        document: JSONObject = {
            **self._message,
            "content": [self._blocks[index].value() for index in sorted(self._blocks)],
            **self._delta,
            **self._ending,
            "usage": self._usage,
        }
        return _read(encode(document))

    def _start(self, index: int, block: bytes) -> None:
        if self._budget.take(ENTRY + len(block)):
            self._blocks[index] = _Block(members_of(block), self._budget)

    def _end(self, delta: JSONObject) -> None:
        for name in ("stop_reason", "stop_sequence"):
            if text := as_text(delta.pop(name, None)):
                self._ending[name] = text
        self._report(self._delta, delta)

    def _report(self, known: dict[str, Raw], report: JSONObject) -> None:
        """Later reports take the place of earlier ones, member by member, as far as they say something."""
        for name, value in report.items():
            spelled = None if value is None else as_raw(value)
            if spelled is not None and self._budget.take(ENTRY + len(bytes(spelled))):
                known[name] = spelled

    def _add(self, index: int, delta: JSONObject) -> None:
        if index not in self._blocks:
            kind = _BLOCKS.get(as_text(delta.get("type")), b'"text"')
            self._start(index, b'{"type":%b}' % kind)
        if index in self._blocks:
            self._blocks[index].add(delta)


# What a block is whose start has not been seen, by its deltas.
_BLOCKS: Final = {"thinking_delta": b'"thinking"', "signature_delta": b'"thinking"', "input_json_delta": b'"tool_use"'}


# --- readers ---


def _understand_count(view: RequestView, members: Members) -> RequestView:
    count = len(elements_of(members.get("messages")))
    return replace(_understand(view, members), tokenization=Tokenization(kind="chat", message_count=count))


MESSAGES: Final = APIReader(content=_CONTENT, understand=_understand, read=_read, gather=_MessageStream)

COUNT_TOKENS: Final = APIReader(content=_CONTENT, understand=_understand_count, read=_read_count)

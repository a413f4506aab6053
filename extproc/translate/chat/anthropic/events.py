"""The events of a streamed message as chunks of a chat completion (contract, chat 11.5).

What counts of an event is its JSON; the name beside it is needed only where the JSON has no type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from extproc.translate.anthropic import (
    NO_REPORT,
    MessageUsage,
    error_status,
    finish_reason,
    read_invocation_metrics,
    read_message_usage,
    read_messages_error,
)
from extproc.translate.chat.anthropic.answer import NO_INPUT, ContentBlock, arguments_of, text_of, thinking_block
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.completion import (
    EMPTY_DELTA,
    Delta,
    FunctionDelta,
    ThinkingBlock,
    ToolCallDelta,
    usage_object,
)
from extproc.translate.chat.translator import BackendError
from extproc.usage import NO_USAGE, TokenUsage


class _Delta(Struct, frozen=True, gc=False):
    """The delta of a block of content, or of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Start(Struct, frozen=True):
    id: object = ""
    usage: object = None


class _Event(Struct, frozen=True):
    type: str = ""
    index: object = None
    delta: _Delta | None = None
    content_block: ContentBlock | None = None
    message: _Start | None = None
    usage: object = None
    # Bedrock's own count, beside the last event.
    metrics: object = msgspec.field(default=None, name="amazon-bedrock-invocationMetrics")


class _Kind(Struct, frozen=True):
    """Of an event that is not of its form: what it says it is."""

    type: object = ""
    delta: object = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_DELTAS: Final = frozenset({"text_delta", "input_json_delta", "thinking_delta", "signature_delta"})
_BAD_GATEWAY: Final = "502"


class _Call:
    """A tool call that is being told.

    Attributes:
        whole: its arguments came with its start, so that later pieces repeat them.
        begun: there have been arguments.
    """

    __slots__ = ("begun", "index", "whole")

    def __init__(self, index: int, *, whole: bool) -> None:
        self.index = index
        self.whole = whole
        self.begun = whole


class _Thought:
    __slots__ = ("signature", "texts")

    def __init__(self, text: str, signature: str) -> None:
        self.texts = [text]
        self.signature = signature


class MessageEvents:
    """Writes what the events of one message say.

    Thoughts are told as they come, as text; the blocks that a client gives back follow in one piece when the message
    is whole, because SDKs that gather a stream take a list whose items have no index only once.

    Attributes:
        usage: see ``StreamReader``.
        model: see ``StreamReader``.
    """

    def __init__(self, writer: ChunkWriter, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self.usage: TokenUsage = NO_USAGE
        self.model = writer.model
        self._writer = writer
        self._now = now
        self._new_id = new_id
        self._reported = NO_REPORT
        self._stop_reason = ""
        self._role: str | UnsetType = "assistant"
        self._calls = 0
        # By the index of their block. Providers send one block after the other, but need not.
        self._open_calls: dict[int | None, _Call] = {}
        self._open_thoughts: dict[int | None, _Thought] = {}
        self._thoughts: list[ThinkingBlock] = []

    def event(self, data: bytes, name: bytes | None = None) -> None:
        """Write what one event says; an unknown one says nothing.

        Args:
            data: its JSON.
            name: that stands beside it.
        """
        if self._writer.ended:
            # Otherwise it would depend on the cut of the bytes whether what follows is counted.
            return
        try:
            event = _decode(data)
        except _UNREADABLE as error:
            self._unreadable(data, name, str(error))
            return
        kind = event.type or _text(name)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        elif kind == "error":
            self._error(data)

    def end(self) -> None:
        """The stream is over: before the end of the message, it has broken off."""
        self.fail(BackendError(type="stream_truncated", message="the stream ended before the answer was complete"))

    def fail(self, error: BackendError, *, code: str = _BAD_GATEWAY) -> None:
        """Tell that the stream has broken off, unless the message is whole."""
        self._writer.fail(error.type, error.message, code=code)

    def unreadable(self, reason: str) -> None:
        """Tell that the stream is not what it should be."""
        self.fail(BackendError(type="stream_unreadable", message=f"the stream cannot be read: {reason}"))

    def _unreadable(self, data: bytes, name: bytes | None, reason: str) -> None:
        """An event whose JSON is broken, or has not its form: nothing to care for if it is one that is not known."""
        try:
            kind = _decode_kind(data)
        except _UNREADABLE:
            if name is None or _text(name) in _NEEDED:
                self.unreadable(reason)
            elif _text(name) == "error":
                self._error(data)
            return
        event_type = kind.type if isinstance(kind.type, str) and kind.type else _text(name)
        if event_type == "error":
            self._error(data)
        elif event_type == "content_block_delta" and isinstance(kind.delta, dict):
            # Unless it is a delta of a kind that is still to come.
            if text_of(kind.delta.get("type")) in _DELTAS:
                self.unreadable(reason)
        elif event_type in _NEEDED:
            self.unreadable(reason)

    def _error(self, data: bytes) -> None:
        error = read_messages_error(data)
        if error is None or not (error.type or error.message):
            self.fail(BackendError(type="api_error", message=data.decode(errors="replace")), code="500")
        else:
            kind = error.type or "api_error"
            self.fail(BackendError(type=kind, message=error.message), code=error_status(kind))

    # --- events ---

    def message_start(self, event: _Event) -> None:
        self._writer.created = int(self._now())
        if event.message is not None:
            self._writer.id = text_of(event.message.id) or UNSET
            # What is counted as output here has not been said yet; the last report counts it in.
            self._report(msgspec.structs.replace(read_message_usage(event.message.usage), output=None))

    def block_start(self, event: _Event) -> None:
        block = event.content_block
        if block is None:
            return
        match block.type:
            case "text":
                if text := text_of(block.text):
                    self._say(text)
            case "tool_use":
                self._begin_call(_key(event.index), block)
            case "thinking":
                self._begin_thought(_key(event.index), block)
            case "redacted_thinking":
                if data := text_of(block.data):
                    self._thoughts.append(ThinkingBlock(type="redacted_thinking", data=data))

    def block_delta(self, event: _Event) -> None:
        delta = event.delta
        if delta is None:
            return
        match delta.type:
            case "text_delta":
                self._say(delta.text or "")
            case "input_json_delta":
                self._add_arguments(_key(event.index), delta.partial_json or "")
            case "thinking_delta":
                self._think(_key(event.index), delta.thinking or "")
            case "signature_delta":
                if (thought := self._open_thoughts.get(_key(event.index))) is not None:
                    thought.signature = delta.signature or ""

    def block_stop(self, event: _Event) -> None:
        self._close(_key(event.index))

    def message_delta(self, event: _Event) -> None:
        if event.delta is not None and event.delta.stop_reason:
            self._stop_reason = event.delta.stop_reason
        self._report(read_message_usage(event.usage))

    def message_stop(self, event: _Event) -> None:
        # What the message has said itself goes first.
        self._report(read_invocation_metrics(event.metrics).merge(self._reported))
        for index in [*self._open_calls, *self._open_thoughts]:
            self._close(index)
        if self._thoughts:
            self._writer.delta(Delta(thinking_blocks=self._thoughts))
        reason, native = finish_reason(self._stop_reason, has_tool_calls=self._calls > 0)
        self._writer.delta(EMPTY_DELTA, finish_reason=reason, native_finish_reason=native)
        self._writer.finish(None if self.usage is NO_USAGE else usage_object(self.usage, details=True))

    def ping(self, _: _Event) -> None:
        self._writer.delta(EMPTY_DELTA)

    # --- what they say ---

    def _say(self, text: str) -> None:
        self._writer.delta(Delta(content=text, role=self._take_role()))

    def _take_role(self) -> str | UnsetType:
        """The role, the first time."""
        role, self._role = self._role, UNSET
        return role

    def _begin_thought(self, index: int | None, block: ContentBlock) -> None:
        self._say("")
        text = text_of(block.thinking)
        self._open_thoughts[index] = _Thought(text, text_of(block.signature))
        if text:
            self._writer.delta(Delta(reasoning_content=text))

    def _think(self, index: int | None, text: str) -> None:
        if (thought := self._open_thoughts.get(index)) is not None:
            thought.texts.append(text)
        self._writer.delta(Delta(role=self._take_role(), reasoning_content=text))

    def _begin_call(self, index: int | None, block: ContentBlock) -> None:
        given = arguments_of(block)
        # Nearly always an empty object stands here, as the place that the pieces are going to fill.
        arguments = given if given.startswith("{") and given[1:-1].strip() else ""
        call = _Call(self._calls, whole=bool(arguments))
        self._calls += 1
        self._open_calls[index] = call
        start = ToolCallDelta(
            index=call.index,
            id=text_of(block.id) or self._new_id(),
            function=FunctionDelta(arguments=arguments, name=text_of(block.name)),
            type="function",
        )
        self._writer.delta(Delta(role=self._take_role(), tool_calls=[start]))

    def _add_arguments(self, index: int | None, piece: str) -> None:
        call = self._open_calls.get(index)
        # Without a call of the client's, these are arguments for a tool of the provider's own.
        if call is not None and piece and not call.whole:
            call.begun = True
            self._continue_call(call, piece)

    def _continue_call(self, call: _Call, arguments: str) -> None:
        piece = ToolCallDelta(index=call.index, function=FunctionDelta(arguments=arguments))
        self._writer.delta(Delta(tool_calls=[piece]))

    def _close(self, index: int | None) -> None:
        call = self._open_calls.pop(index, None)
        if call is not None and not call.begun:
            self._continue_call(call, NO_INPUT)
        thought = self._open_thoughts.pop(index, None)
        if thought is not None and ((text := "".join(thought.texts)) or thought.signature):
            self._thoughts.append(thinking_block(text, thought.signature))

    def _report(self, newer: MessageUsage) -> None:
        merged = self._reported.merge(newer)
        if merged != self._reported:
            self._reported = merged
            self.usage = merged.total()


_HANDLERS: Final[Mapping[str, Callable[[MessageEvents, _Event], None]]] = {
    "message_start": MessageEvents.message_start,
    "content_block_start": MessageEvents.block_start,
    "content_block_delta": MessageEvents.block_delta,
    "content_block_stop": MessageEvents.block_stop,
    "message_delta": MessageEvents.message_delta,
    "message_stop": MessageEvents.message_stop,
    "ping": MessageEvents.ping,
}
_NEEDED: Final = _HANDLERS.keys() - {"ping"}


def _key(index: object) -> int | None:
    return index if isinstance(index, int) else None


def _text(name: bytes | None) -> str:
    return name.decode(errors="replace").strip() if name else ""

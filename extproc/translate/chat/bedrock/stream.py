"""Reads ConverseStream answers: JSON events in the messages of an AWS event stream (contract, chat 8.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from extproc.formats.eventstream import EventMessage, EventStreamReader
from extproc.translate.aws import stream_error
from extproc.translate.base import Target
from extproc.translate.chat.bedrock.answer import (
    NO_INPUT,
    NO_REPORT,
    finish_reason,
    member,
    read_usage,
    text_of,
    thinking_block,
)
from extproc.translate.chat.bedrock.events import ConverseEvent, UnreadableEvent, joined_base64, read_event
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.completion import Delta, FunctionDelta, ThinkingBlock, ToolCallDelta, usage_object
from extproc.usage import NO_USAGE, TokenUsage


class _Call:
    """A tool call that is being told; ``begun``: some of its arguments have come."""

    __slots__ = ("begun", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.begun = False


class _Thought:
    """A reasoning block that is being told: its text and signature, or encrypted pieces, each in base64."""

    __slots__ = ("redacted", "signatures", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.signatures: list[str] = []
        self.redacted: list[str] = []

    def blocks(self) -> Iterator[ThinkingBlock]:
        if block := thinking_block("".join(self.texts), "".join(self.signatures)):
            yield block
        if self.redacted:
            yield ThinkingBlock(type="redacted_thinking", data=joined_base64(self.redacted))


class ConverseStreamReader:
    """See ``StreamReader``.

    Reasoning is told as it comes, as text. The blocks that a client sends back follow in one piece when the message is
    whole, and only if the provider has signed or encrypted one: clients that gather a stream take a list whose items
    have no index only once.

    Args:
        writer: takes the chunks.
        request_id: gives the id of the completion, once the headers have come.
        target: clock and ids.
    """

    def __init__(self, writer: ChunkWriter, *, request_id: Callable[[], str], target: Target) -> None:
        self.usage: TokenUsage = NO_USAGE
        self.model = writer.model
        self._now = target.now
        self._new_id = target.new_id
        self._writer = writer
        self._request_id = request_id
        self._messages = EventStreamReader()
        self._role: str | UnsetType = UNSET
        self._stopped = False
        self._reported = NO_REPORT
        # By the index of their block, as it comes. Blocks follow each other today, but nothing says that they must.
        self._calls: dict[object, _Call] = {}
        self._open_thoughts: dict[object, _Thought] = {}
        self._thoughts: list[ThinkingBlock] = []
        self._call_count = 0

    def feed(self, data: bytes) -> None:
        writer = self._writer
        if writer.id is UNSET:
            writer.id = self._request_id() or UNSET
        writer.created = int(self._now())
        for message in self._messages.feed(data):
            self._read(message)
        if self._messages.fault:
            writer.fail("stream_unreadable", self._messages.fault, code="502")

    def end(self) -> None:
        """Without the end of the message, the stream has been cut off."""
        if self._stopped and not self._messages.pending:
            self._finish()
        self._writer.fail("stream_truncated", "the stream ended before the message was complete", code="502")

    def _read(self, message: EventMessage) -> None:
        if error := stream_error(message):
            self._writer.fail(error.type, error.message, code=error.code)
            return
        try:
            event = read_event(message, _HANDLERS)
        except UnreadableEvent as error:
            self._writer.fail("stream_unreadable", str(error), code="502")
            return
        if event is not None and (handler := _HANDLERS.get(event.kind(message))) is not None:
            handler(self, event)

    # --- events ---

    def _message_start(self, event: ConverseEvent) -> None:
        if role := text_of(event.role):
            self._role = role
            self._writer.delta(Delta(content="", role=role))

    def _block_start(self, event: ConverseEvent) -> None:
        use = member(event.start, "toolUse")
        if not isinstance(use, dict):
            return
        key = event.key
        self._close(key)
        call = self._calls[key] = _Call(self._call_count)
        self._call_count += 1
        start = ToolCallDelta(
            index=call.index,
            id=text_of(use.get("toolUseId")) or self._new_id(),
            function=FunctionDelta(arguments="", name=text_of(use.get("name"))),
            type="function",
        )
        self._writer.delta(Delta(role=self._role, tool_calls=[start]))

    def _block_delta(self, event: ConverseEvent) -> None:
        delta = event.delta
        if not isinstance(delta, dict):
            return
        if isinstance(text := delta.get("text"), str):
            self._writer.delta(Delta(content=text, role=self._role))
        elif (use := delta.get("toolUse")) is not None:
            self._arguments(event, text_of(member(use, "input")))
        elif (reasoning := delta.get("reasoningContent")) is not None:
            self._reasoning(event, reasoning)

    def _arguments(self, event: ConverseEvent, piece: str) -> None:
        call = self._calls.get(event.key)
        # Without a start it is no call of the client's.
        if call is not None:
            call.begun = call.begun or bool(piece)
            self._continue(call, piece)

    def _continue(self, call: _Call, arguments: str) -> None:
        piece = ToolCallDelta(index=call.index, function=FunctionDelta(arguments=arguments))
        self._writer.delta(Delta(role=self._role, tool_calls=[piece]))

    def _reasoning(self, event: ConverseEvent, reasoning: object) -> None:
        key = event.key
        thought = self._open_thoughts.get(key) or self._open_thoughts.setdefault(key, _Thought())
        if text := text_of(member(reasoning, "text")):
            thought.texts.append(text)
            self._writer.delta(Delta(role=self._role, reasoning_content=text))
        if signature := text_of(member(reasoning, "signature")):
            thought.signatures.append(signature)
        if redacted := text_of(member(reasoning, "redactedContent")):
            thought.redacted.append(redacted)

    def _block_stop(self, event: ConverseEvent) -> None:
        self._close(event.key)

    def _close(self, key: object) -> None:
        call = self._calls.pop(key, None)
        if call is not None and not call.begun:
            # Clients read the arguments as JSON.
            self._continue(call, NO_INPUT)
        thought = self._open_thoughts.pop(key, None)
        if thought is not None:
            self._thoughts += thought.blocks()

    def _message_stop(self, event: ConverseEvent) -> None:
        if self._stopped:
            return
        self._stopped = True
        for key in [*self._calls, *self._open_thoughts]:
            self._close(key)
        if any(thought.type != "thinking" or thought.signature for thought in self._thoughts):
            self._writer.delta(Delta(role=self._role, thinking_blocks=self._thoughts))
        if event.stop_reason is not None:
            reason, native = finish_reason(event.stop_reason)
            self._writer.delta(Delta(content="", role=self._role), finish_reason=reason, native_finish_reason=native)

    def _metadata(self, event: ConverseEvent) -> None:
        self._reported = self._reported.merge(read_usage(event.usage))
        self.usage = self._reported.total()
        self._writer.service_tier = text_of(member(event.service_tier, "type")) or self._writer.service_tier
        # It is the last event.
        if self._stopped:
            self._finish()

    def _finish(self) -> None:
        self._writer.finish(None if self.usage is NO_USAGE else usage_object(self.usage, details=False))


_HANDLERS: Final[Mapping[str, Callable[[ConverseStreamReader, ConverseEvent], None]]] = {
    "messageStart": ConverseStreamReader._message_start,  # noqa: SLF001 - the table of this class
    "contentBlockStart": ConverseStreamReader._block_start,  # noqa: SLF001
    "contentBlockDelta": ConverseStreamReader._block_delta,  # noqa: SLF001
    "contentBlockStop": ConverseStreamReader._block_stop,  # noqa: SLF001
    "messageStop": ConverseStreamReader._message_stop,  # noqa: SLF001
    "metadata": ConverseStreamReader._metadata,  # noqa: SLF001
}

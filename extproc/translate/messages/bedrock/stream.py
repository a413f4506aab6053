"""Reads ConverseStream answers and tells them as the events of a messages stream (contract, messages 5.5).

The two differ in what a client can rely on. Converse starts only the blocks of tools, leaves out indexes, and reports
usage after the end of the message; here every block is started and stopped, indexes are dense in the order in which
blocks begin, and what ends the message waits for the usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from extproc.formats import jsonvalue
from extproc.formats.eventstream import EventMessage, EventStreamReader
from extproc.formats.sse import encode_event
from extproc.translate.aws import messages_error_body, stream_error
from extproc.translate.base import Target
from extproc.translate.chat.bedrock.answer import NO_REPORT, member, read_usage, text_of
from extproc.translate.chat.bedrock.events import ConverseEvent, UnreadableEvent, joined_base64, read_event
from extproc.translate.messages.bedrock import wire
from extproc.translate.messages.bedrock.answer import message_id, stop_reason, unknown_stop
from extproc.translate.messages.bedrock.citations import citation
from extproc.translate.messages.native_errors import answer_error_type
from extproc.usage import NO_USAGE, TokenUsage

_BAD_GATEWAY: Final = "502"


class _Open:
    """A block that has been started: its index with the client, and which deltas it takes."""

    __slots__ = ("index", "kind")

    def __init__(self, index: int, kind: type[wire.Block]) -> None:
        self.index = index
        self.kind = kind


class MessageStream:
    """One streamed answer.

    Any cut of the same bytes gives the same events. The stream ends in one of two ways: with ``message_stop``, when
    the service has said that the message is whole, or with an ``error`` event.

    Args:
        model: that the backend was asked for; events do not name one.
        request_id: gives the service's id, once the headers have come.
        target: for ids.

    Attributes:
        usage: what has been reported so far; a new object whenever it changes.
        ended: nothing follows.
        failure: the name of the error that the stream ended with; empty without one.
        unknown_stop: see ``TranslatedResponse``.
    """

    def __init__(self, model: str, *, request_id: Callable[[], str], target: Target) -> None:
        self.usage: TokenUsage = NO_USAGE
        self.ended = False
        self.failure = ""
        self._model = model
        self._request_id = request_id
        self._target = target
        self._messages = EventStreamReader()
        self._output: list[bytes] = []
        self._started = False
        self._stopped = False
        self._stop_reason: str | None = None
        self.unknown_stop = ""
        self._reported = NO_REPORT
        self._next_index = 0
        # By the index of their block, as it comes.
        self._open: dict[object, _Open] = {}
        # Encrypted thoughts that are being told, in pieces of base64; the client's API tells one only whole.
        self._redacted: dict[object, list[str]] = {}

    def feed(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            self._read(message)
        if self._messages.fault:
            self._fail("stream_unreadable", self._messages.fault, status=_BAD_GATEWAY)

    def end(self) -> None:
        """No more bytes will come; without the end of the message, the stream has been cut off."""
        if self._stopped and not self._messages.pending:
            self._finish()
        self._fail("stream_truncated", "the stream ended before the message was complete", status=_BAD_GATEWAY)

    def take(self) -> bytes:
        """What has been written since it was last asked."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def _write(self, event: wire.Event) -> None:
        if not self.ended:
            self._output.append(encode_event(jsonvalue.encode(event), event.name))

    def _read(self, message: EventMessage) -> None:
        if error := stream_error(message):
            self._fail(error.type, error.message or error.type, status=error.code)
            return
        try:
            event = read_event(message, _HANDLERS)
        except UnreadableEvent as error:
            self._fail("stream_unreadable", str(error), status=_BAD_GATEWAY)
            return
        if event is None:
            return
        handler = _HANDLERS.get(event.kind(message))
        # Behind the end of a message, only its usage counts.
        if handler is not None and (not self._stopped or handler is MessageStream._metadata):
            handler(self, event)

    # --- events ---

    def _message_start(self, _: ConverseEvent | None = None) -> None:
        if self._started:
            return
        self._started = True
        message = wire.Message(
            id=message_id(self._request_id(), self._target),
            content=[],
            model=self._model,
            stop_reason=None,
            # Nothing is known yet; the event that ends the message has all counts.
            usage=wire.Usage(),
        )
        self._write(wire.MessageStart(message=message))

    def _block_start(self, event: ConverseEvent) -> None:
        key = event.key
        self._close(key)
        self._tell_redacted()
        use = member(event.start, "toolUse")
        if isinstance(use, dict):
            call_id = text_of(use.get("toolUseId")) or f"toolu_{self._target.new_id()}"
            self._start(key, wire.ToolUse(id=call_id, name=text_of(use.get("name")), input={}))

    def _block_delta(self, event: ConverseEvent) -> None:
        delta = event.delta
        if not isinstance(delta, dict):
            return
        key = event.key
        if isinstance(text := delta.get("text"), str):
            if text:
                self._delta(key, wire.Text(text=""), wire.TextDelta(text=text))
        elif (use := delta.get("toolUse")) is not None:
            self._arguments(key, text_of(member(use, "input")))
        elif (reasoning := delta.get("reasoningContent")) is not None:
            self._reasoning(key, reasoning)
        elif (found := citation(delta.get("citation"))) is not None:
            self._delta(key, wire.Text(text=""), wire.CitationDelta(citation=found))

    def _arguments(self, key: object, piece: str) -> None:
        block = self._open.get(key)
        # Without a start it is no call of the client's.
        if block is not None and block.kind is wire.ToolUse:
            self._write(wire.BlockDelta(index=block.index, delta=wire.InputDelta(partial_json=piece)))

    def _reasoning(self, key: object, reasoning: object) -> None:
        if redacted := text_of(member(reasoning, "redactedContent")):
            if key in self._open:
                self._close(key)
            self._message_start()
            self._redacted.setdefault(key, []).append(redacted)
        if text := text_of(member(reasoning, "text")):
            self._delta(key, wire.Thinking(), wire.ThinkingDelta(thinking=text))
        if signature := text_of(member(reasoning, "signature")):
            self._delta(key, wire.Thinking(), wire.SignatureDelta(signature=signature))

    def _block_stop(self, event: ConverseEvent) -> None:
        self._close(event.key)

    def _message_stop(self, event: ConverseEvent) -> None:
        self._message_start()
        for key in [*self._open, *self._redacted]:
            self._close(key)
        self._stopped = True
        self._stop_reason = stop_reason(event.stop_reason)
        self.unknown_stop = unknown_stop(event.stop_reason)

    def _metadata(self, event: ConverseEvent) -> None:
        self._reported = self._reported.merge(read_usage(event.usage))
        total = self._reported.total()
        if total != self.usage:
            self.usage = total
        # It is the last event.
        if self._stopped:
            self._finish()

    # --- blocks ---

    def _start(self, key: object, block: wire.Block) -> _Open:
        self._message_start()
        opened = self._open[key] = _Open(self._next_index, type(block))
        self._next_index += 1
        self._write(wire.BlockStart(index=opened.index, content_block=block))
        return opened

    def _delta(self, key: object, block: wire.Block, delta: wire.Delta) -> None:
        """Write a delta of the block at ``key``, which is started as ``block`` unless one of its kind is open."""
        opened = self._open.get(key)
        if opened is None or opened.kind is not type(block):
            self._close(key)
            self._tell_redacted()
            opened = self._start(key, block)
        self._write(wire.BlockDelta(index=opened.index, delta=delta))

    def _tell_redacted(self) -> None:
        """Another block begins, so those that are held back are whole, and come first."""
        for key in [*self._redacted]:
            self._close(key)

    def _close(self, key: object) -> None:
        redacted = self._redacted.pop(key, None)
        if redacted is not None:
            self._start(key, wire.RedactedThinking(data=joined_base64(redacted)))
        opened = self._open.pop(key, None)
        if opened is not None:
            self._write(wire.BlockStop(index=opened.index))

    # --- ends ---

    def _finish(self) -> None:
        usage = wire.usage_of(self._reported) or wire.OutputOnly()
        self._write(wire.MessageDelta(delta=wire.Stopped(stop_reason=self._stop_reason), usage=usage))
        self._write(wire.MessageStop())
        self.ended = True

    def _fail(self, name: str, message: str, *, status: str) -> None:
        """Tell that the stream has broken off, unless it is whole; the type of the error follows from its status."""
        if self.ended:
            return
        body = messages_error_body(answer_error_type(status), message, self._request_id())
        self._output.append(encode_event(body, b"error"))
        self.ended, self.failure = True, name


_HANDLERS: Final[Mapping[str, Callable[[MessageStream, ConverseEvent], None]]] = {
    "messageStart": MessageStream._message_start,  # noqa: SLF001 - the table of this class
    "contentBlockStart": MessageStream._block_start,  # noqa: SLF001
    "contentBlockDelta": MessageStream._block_delta,  # noqa: SLF001
    "contentBlockStop": MessageStream._block_stop,  # noqa: SLF001
    "messageStop": MessageStream._message_stop,  # noqa: SLF001
    "metadata": MessageStream._metadata,  # noqa: SLF001
}

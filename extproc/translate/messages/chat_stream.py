"""Chunks of a chat completion as the events of a streamed message (contract, messages to chat completions 5.6).

Anthropic's stream tells one block after the other; a chat stream may tell several calls at once, and text in between.
So blocks stand in a queue in the order in which they begin. The first is told as it comes, the ones behind it wait.
Text and thoughts are over when something else begins; a call is when its arguments are a JSON object, or when the
answer ends. What a backend sends one after the other is thus told at once, and what it mixes is told in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from extproc.translate.messages.chat_answer import is_object, made_id, read_usage, reasoning, stop_reason
from extproc.translate.messages.chat_errors import errored, object_type
from extproc.translate.via_chat.answers import Answer, ErrorObject, Message, ThinkingBlock, ToolCall
from extproc.usage import TokenUsage

_encode: Final = msgspec.json.Encoder().encode
_MESSAGE_START: Final = b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n'
_START: Final = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_DELTA: Final = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MESSAGE_DELTA: Final = b'event: message_delta\ndata: {"type":"message_delta","delta":%b,"usage":%b}\n\n'
_MESSAGE_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_ERROR: Final = b"event: error\ndata: %b\n\n"


class _StartUsage(Struct, frozen=True, kw_only=True):
    """Counts come at the end of a chat stream; SDKs take those of ``message_delta`` in the place of these."""

    input_tokens: int = 0
    output_tokens: int = 0


class _Start(Struct, frozen=True, kw_only=True):
    id: str
    type: str = "message"
    role: str = "assistant"
    content: tuple[()] = ()
    model: str
    stop_reason: None = None
    stop_sequence: None = None
    usage: _StartUsage = _StartUsage()


class _End(Struct, frozen=True, kw_only=True):
    stop_reason: str
    stop_sequence: None = None


class _EndUsage(Struct, frozen=True, kw_only=True):
    """Counts of the cache are left out when there are none, as the peer does."""

    cache_creation_input_tokens: int | UnsetType
    cache_read_input_tokens: int | UnsetType
    input_tokens: int
    output_tokens: int


# --- blocks ---


class _Block(Protocol):
    """A block of content.

    Attributes:
        told: takes the deltas, as JSON, that are to be told next.
    """

    told: list[bytes]

    @property
    def is_ready(self) -> bool:
        """Whether enough is known to tell that it begins."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing of it can follow, now that something else has begun."""
        ...

    def start(self) -> bytes:
        """The block as it begins, as JSON."""
        ...


class _Text:
    __slots__ = ("told",)

    is_ready = is_over = True

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def start(self) -> bytes:
        return b'{"type":"text","text":""}'

    def add(self, text: str) -> None:
        self.told.append(b'{"type":"text_delta","text":%b}' % _encode(text))


class _Thinking:
    """Attributes: ``is_signed``: a signature ends it."""

    __slots__ = ("is_signed", "told")

    is_ready = is_over = True

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.is_signed = False

    def start(self) -> bytes:
        return b'{"type":"thinking","thinking":"","signature":""}'

    def add(self, text: str) -> None:
        self.told.append(b'{"type":"thinking_delta","thinking":%b}' % _encode(text))

    def sign(self, signature: str) -> None:
        self.told.append(b'{"type":"signature_delta","signature":%b}' % _encode(signature))
        self.is_signed = True


class _Redacted:
    __slots__ = ("_data", "told")

    is_ready = is_over = True

    def __init__(self, data: str) -> None:
        self.told: list[bytes] = []
        self._data = data

    def start(self) -> bytes:
        return b'{"type":"redacted_thinking","data":%b}' % _encode(self._data)


class _Call:
    """A tool call. Arguments that do not begin as an object are none, as in a document.

    Attributes:
        id: that the backend gave it; empty without one.
        name: of the tool; empty while it is not known.
    """

    __slots__ = ("_arguments", "_begun", "_muted", "_new_id", "id", "name", "told")

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.told: list[bytes] = []
        self.id = ""
        self.name = ""
        self._new_id = new_id
        self._arguments: list[str] = []
        self._begun = False
        self._muted = False

    @property
    def is_ready(self) -> bool:
        return bool(self.name)

    @property
    def is_over(self) -> bool:
        return bool(self._arguments) and self._arguments[-1].endswith(("}", " ", "\n")) and is_object(self._text())

    def _text(self) -> str:
        return "".join(self._arguments)

    def start(self) -> bytes:
        identity = self.id or made_id(self._new_id)
        return b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % (_encode(identity), _encode(self.name))

    def add(self, piece: str) -> None:
        if not piece:
            return
        self._arguments.append(piece)
        if not self._begun:
            piece = self._text()
            if not (first := piece.lstrip()[:1]):
                return
            self._begun, self._muted = True, first != "{"
        if not self._muted:
            self.told.append(b'{"type":"input_json_delta","partial_json":%b}' % _encode(piece))


# --- the stream ---


class MessageStream:
    """Writes the events of one message, see ``StreamWriter``.

    Args:
        model: that the backend was asked for.
        new_id: for a call without an id.
        maker: what stands before a signature, to tell whose it is.
    """

    def __init__(self, *, model: str, new_id: Callable[[], str], maker: str = "") -> None:
        self._model = model
        self._maker = maker
        self._new_id = new_id
        self._out: list[bytes] = []
        self._started = False
        self._finish_reason: str | None = None
        self._refused = False
        self._queue: deque[_Block] = deque()
        # Of the first block in the queue.
        self._index = 0
        self._open = False
        self._calls: dict[int, _Call] = {}
        self._last_call: _Call | None = None
        # Reasoning that has been told and that no thinking block has repeated.
        self._heard: list[str] = []

    def chunk(self, answer: Answer) -> None:
        choice = answer.first
        if choice is None:
            return
        if not self._started:
            self._start(answer)
        self._finish_reason = choice.finish_reason or self._finish_reason
        delta = choice.delta or choice.message
        if delta is not None:
            self._say(delta)

    def finish(self, usage: TokenUsage) -> None:
        self._tell(final=True)
        counts = read_usage(usage)
        told = _EndUsage(
            cache_creation_input_tokens=counts.cache_creation_input_tokens or UNSET,
            cache_read_input_tokens=counts.cache_read_input_tokens or UNSET,
            input_tokens=counts.input_tokens,
            output_tokens=counts.output_tokens,
        )
        reason = stop_reason(self._finish_reason, has_calls=bool(self._calls), refused=self._refused)
        self._out += (_MESSAGE_DELTA % (_encode(_End(stop_reason=reason)), _encode(told)), _MESSAGE_STOP)

    def fail(self, error: ErrorObject) -> None:
        self._out.append(_ERROR % errored(object_type(error), error))

    def take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _start(self, answer: Answer) -> None:
        self._started = True
        self._out.append(_MESSAGE_START % _encode(_Start(id=answer.id or "", model=answer.model or self._model)))

    # --- what a chunk says ---

    def _say(self, delta: Message) -> None:
        if delta.reasoning_content or delta.reasoning:
            thought = reasoning(delta)
            self._heard.append(thought.text)
            self._think(thought.text, thought.signature)
            if thought.redacted:
                self._queue.append(_Redacted(thought.redacted))
        for block in delta.thinking_blocks or ():
            self._thinking_block(block)
        if delta.content:
            self._text(delta.content)
        if delta.refusal:
            self._refused = True
            self._text(delta.refusal)
        for piece in delta.tool_calls or ():
            self._call(piece)
        self._tell()

    def _text(self, text: str) -> None:
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, _Text):
            last = _Text()
            self._queue.append(last)
        last.add(text)

    def _think(self, text: str, signature: str) -> None:
        """Tell a piece of a thought; a signature that comes when the thought is over stands in a block of its own."""
        if not (text or signature):
            return
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, _Thinking) or last.is_signed:
            last = _Thinking()
            self._queue.append(last)
        if text:
            last.add(text)
        if signature:
            last.sign(self._maker + signature)

    def _thinking_block(self, block: ThinkingBlock) -> None:
        """Tell a block, or what is new of it: some backends give the text as reasoning before, or beside it."""
        if block.data:
            self._queue.append(_Redacted(block.data))
            return
        text = block.thinking or ""
        if text and (heard := "".join(self._heard)).startswith(text):
            self._heard = [heard[len(text) :]]
            text = ""
        self._think(text, block.signature or "")

    def _call(self, piece: ToolCall) -> None:
        call = self._known_call(piece)
        if call is None:
            call = self._last_call = _Call(self._new_id)
            index = len(self._calls) if piece.index is None else piece.index
            while piece.index is None and index in self._calls:
                index += 1
            self._calls[index] = call
            self._queue.append(call)
        call.id = call.id or piece.id or ""
        call.name = call.name or piece.function.name or ""
        call.add(piece.function.arguments or "")

    def _known_call(self, piece: ToolCall) -> _Call | None:
        """The call that a piece goes on with. Some backends number all calls alike, or none (BR-77)."""
        if piece.index is not None:
            call = self._calls.get(piece.index)
            begins = call is not None and piece.id and call.id and piece.id != call.id and piece.function.name
            return None if begins else call
        if piece.id:
            return next((call for call in self._calls.values() if call.id == piece.id), None)
        return None if piece.function.name else self._last_call

    # --- what the client is told ---

    def _tell(self, *, final: bool = False) -> None:
        """Tell what can be told by now, or all that there is."""
        while self._queue:
            block = self._queue[0]
            if not (block.is_ready or final):
                return
            if not self._open:
                self._open = True
                self._out.append(_START % (self._index, block.start()))
            self._out += [_DELTA % (self._index, delta) for delta in block.told]
            block.told.clear()
            if not final and (len(self._queue) == 1 or not block.is_over):
                return
            self._out.append(_STOP % self._index)
            self._queue.popleft()
            self._index += 1
            self._open = False

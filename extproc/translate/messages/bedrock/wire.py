"""What a client of the messages API reads, whole or in events, as typed values in the contract's order."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.formats.jsonvalue import JSONObject
from extproc.translate.chat.bedrock.answer import NO_REPORT, ConverseUsage


class Text(Struct, frozen=True, kw_only=True):
    type: str = "text"
    text: str
    citations: list[JSONObject] | UnsetType = UNSET


class ToolUse(Struct, frozen=True, kw_only=True):
    type: str = "tool_use"
    id: str
    name: str
    input: JSONObject | Raw


class Thinking(Struct, frozen=True, kw_only=True):
    """The API's SDKs demand a signature, which other models than Claude do not have; theirs is empty."""

    type: str = "thinking"
    thinking: str = ""
    signature: str = ""


class RedactedThinking(Struct, frozen=True, kw_only=True):
    """Attributes: ``data``: base64, as the service has it."""

    type: str = "redacted_thinking"
    data: str


Block = Text | ToolUse | Thinking | RedactedThinking


class Usage(Struct, frozen=True, kw_only=True):
    """All four counts always, as cached tokens stand beside ``input_tokens`` with both APIs."""

    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def usage_of(reported: ConverseUsage) -> Usage | None:
    """The usage that the client reads; ``None`` when nothing has been reported."""
    if reported == NO_REPORT:
        return None
    return Usage(
        cache_creation_input_tokens=reported.cache_write or 0,
        cache_read_input_tokens=reported.cache_read or 0,
        input_tokens=reported.fresh or 0,
        output_tokens=reported.output or 0,
    )


class Message(Struct, frozen=True, kw_only=True):
    id: str
    type: str = "message"
    role: str = "assistant"
    content: list[Block]
    model: str
    stop_reason: str | None
    stop_sequence: str | None = None
    usage: Usage | UnsetType = UNSET


# --- events ---


class Event(Struct, frozen=True, kw_only=True):
    """Attributes: ``name``: of the event, which its ``type`` repeats."""

    name: ClassVar[bytes]


class MessageStart(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"message_start"
    type: str = "message_start"
    message: Message


class BlockStart(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"content_block_start"
    type: str = "content_block_start"
    index: int
    content_block: Block


class TextDelta(Struct, frozen=True, kw_only=True):
    type: str = "text_delta"
    text: str


class InputDelta(Struct, frozen=True, kw_only=True):
    type: str = "input_json_delta"
    partial_json: str


class ThinkingDelta(Struct, frozen=True, kw_only=True):
    type: str = "thinking_delta"
    thinking: str


class SignatureDelta(Struct, frozen=True, kw_only=True):
    type: str = "signature_delta"
    signature: str


class CitationDelta(Struct, frozen=True, kw_only=True):
    type: str = "citations_delta"
    citation: JSONObject


Delta = TextDelta | InputDelta | ThinkingDelta | SignatureDelta | CitationDelta


class BlockDelta(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"content_block_delta"
    type: str = "content_block_delta"
    index: int
    delta: Delta


class BlockStop(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"content_block_stop"
    type: str = "content_block_stop"
    index: int


class Stopped(Struct, frozen=True, kw_only=True):
    stop_reason: str | None
    stop_sequence: str | None = None


class OutputOnly(Struct, frozen=True):
    """A usage that was not reported; the API demands this count."""

    output_tokens: int = 0


class MessageDelta(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"message_delta"
    type: str = "message_delta"
    delta: Stopped
    usage: Usage | OutputOnly


class MessageStop(Event, frozen=True, kw_only=True):
    name: ClassVar[bytes] = b"message_stop"
    type: str = "message_stop"

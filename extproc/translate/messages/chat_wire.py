"""The chat completion request that a request of the messages API becomes: members in the contract's order (3.3)."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import UnprocessableRequest
from extproc.translate.via_chat import wire as common

# --- content ---


class File(Struct, frozen=True):
    """Attributes: ``file_data``: a data URI; ``filename``: OpenAI takes no data without one."""

    file_data: str
    filename: str


class FilePart(Struct, frozen=True):
    file: File
    type: Literal["file"] = "file"


Part = common.TextPart | common.ImagePart | FilePart

# --- messages ---


class SystemMessage(Struct, frozen=True):
    content: str
    role: Literal["system"] = "system"


class UserMessage(Struct, frozen=True):
    content: str | list[Part]
    role: Literal["user"] = "user"


class ToolMessage(Struct, frozen=True, kw_only=True):
    content: str
    role: Literal["tool"] = "tool"
    tool_call_id: str


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    type: Literal["thinking"] = "thinking"
    thinking: str | UnsetType
    signature: str | UnsetType


class AssistantMessage(Struct, frozen=True, kw_only=True):
    """Attributes: ``thinking_blocks``: only for translators of ours; no provider takes them."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    tool_calls: list[common.ToolCall] | UnsetType
    thinking_blocks: list[ThinkingBlock] | UnsetType


ChatMessage = SystemMessage | UserMessage | ToolMessage | AssistantMessage
ToolChoice = str | common.NamedToolChoice

# --- thinking ---


class ThinkingEnabled(Struct, frozen=True, kw_only=True):
    budget_tokens: int
    include_thoughts: bool | UnsetType = msgspec.field(name="includeThoughts")
    type: Literal["enabled"] = "enabled"


class ThinkingOfType(Struct, frozen=True):
    """``adaptive`` or ``disabled``."""

    type: str


Thinking = ThinkingEnabled | ThinkingOfType

# --- the request ---


class JSONSchema(Struct, frozen=True, kw_only=True):
    name: str
    schema: Raw
    strict: bool


class ResponseFormat(Struct, frozen=True, kw_only=True):
    type: Literal["json_schema"] = "json_schema"
    json_schema: JSONSchema


class ChatBody(Struct, frozen=True, kw_only=True):
    """The request. Up to ``thinking`` the order is the peer's, which has none of the members before ``stop``."""

    messages: list[ChatMessage]
    model: str
    max_completion_tokens: int | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    stream_options: common.StreamOptions | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    tools: list[common.Tool] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    thinking: Thinking | UnsetType = UNSET
    reasoning_effort: str | UnsetType = UNSET
    response_format: ResponseFormat | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    user: str | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode


def encode(body: Struct) -> bytes:
    """Write it.

    Raises:
        UnprocessableRequest: a schema in it is nested too deep.
    """
    try:
        return _encode(body)
    except RecursionError as error:
        raise UnprocessableRequest("JSON that is nested too deep") from error

"""The chat completion request that a request of the responses API becomes (contract, JSON output 3.3).

Members stand in the contract's order; those that it does not order follow by name.
"""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.translate.via_chat import wire as common

# --- messages ---


class RefusalPart(Struct, frozen=True, kw_only=True):
    refusal: str
    type: str = "refusal"


class FileSource(Struct, frozen=True, kw_only=True):
    file_data: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET


class File(Struct, frozen=True, kw_only=True):
    file: FileSource
    type: str = "file"


class AudioData(Struct, frozen=True, kw_only=True):
    data: str
    format: str


class Audio(Struct, frozen=True, kw_only=True):
    input_audio: AudioData
    type: str = "input_audio"


Part = common.TextPart | RefusalPart | common.ImagePart | File | Audio


class Message(Struct, frozen=True, kw_only=True):
    """What a system or a user says."""

    content: str | list[Part]
    role: str


class ToolResult(Struct, frozen=True, kw_only=True):
    content: str | list[Part]
    role: str = "tool"
    tool_call_id: str


class AssistantMessage(Struct, frozen=True, kw_only=True):
    """What the model has said. Attributes: ``thinking_blocks``: its signed thoughts, as this gateway writes them."""

    role: str = "assistant"
    content: str | list[Part] | None
    tool_calls: list[common.ToolCall] | UnsetType = UNSET
    thinking_blocks: list[Raw] | UnsetType = UNSET


ChatMessage = Message | ToolResult | AssistantMessage

# --- tools and output ---


class JSONSchema(Struct, frozen=True, kw_only=True):
    name: str
    description: str | UnsetType = UNSET
    schema: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class ResponseFormat(Struct, frozen=True, kw_only=True):
    type: str
    json_schema: JSONSchema | UnsetType = UNSET


class ChatBody(Struct, frozen=True, kw_only=True):
    messages: list[ChatMessage]
    model: str
    max_completion_tokens: int | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    stream_options: common.StreamOptions | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    tools: list[common.Tool] | UnsetType = UNSET
    tool_choice: str | common.NamedToolChoice | UnsetType = UNSET
    thinking: Raw | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    reasoning_effort: str | UnsetType = UNSET
    response_format: ResponseFormat | UnsetType = UNSET
    safety_identifier: str | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    user: str | UnsetType = UNSET
    verbosity: str | UnsetType = UNSET

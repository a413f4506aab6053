"""What the Converse API is sent, as typed values; members stand in the contract's order (contract, chat 8.2 to 8.4).

Content blocks are unions on the wire: an object with one member, whose name says which kind it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.formats.jsonvalue import JSONObject


class Text(Struct, frozen=True):
    text: str


class CachePoint(Struct, frozen=True, kw_only=True):
    type: str = "default"
    ttl: str | UnsetType = UNSET


class CachePointBlock(Struct, frozen=True, rename="camel"):
    """The prompt up to here is worth caching. It stands after what it marks, in content, system and tools alike."""

    cache_point: CachePoint


class Bytes(Struct, frozen=True):
    """Binary data, in base64."""

    bytes: str


class Image(Struct, frozen=True, kw_only=True):
    format: str
    source: Bytes


class ImageBlock(Struct, frozen=True):
    image: Image


class Video(Struct, frozen=True, kw_only=True):
    format: str
    source: Bytes


class VideoBlock(Struct, frozen=True):
    video: Video


class Citations(Struct, frozen=True):
    """Whether the model is to say where in a document, or a search result, it has found what it says."""

    enabled: bool


class DocumentContent(Struct, frozen=True):
    """A document in chunks, which are cited by their number."""

    content: list[Text]


class Document(Struct, frozen=True, kw_only=True):
    format: str | UnsetType = UNSET
    name: str
    source: Bytes | DocumentContent
    context: str | UnsetType = UNSET
    citations: Citations | UnsetType = UNSET


class DocumentBlock(Struct, frozen=True):
    document: Document


class SearchResult(Struct, frozen=True, kw_only=True):
    source: str
    title: str
    content: list[Text]
    citations: Citations | UnsetType = UNSET


class SearchResultBlock(Struct, frozen=True, rename="camel"):
    search_result: SearchResult


class ReasoningText(Struct, frozen=True, kw_only=True):
    text: str
    signature: str | UnsetType = UNSET


class ReasoningContent(Struct, frozen=True, kw_only=True, rename="camel"):
    """Either member: what the model thought, or the same encrypted, in base64."""

    reasoning_text: ReasoningText | UnsetType = UNSET
    redacted_content: str | UnsetType = UNSET


class ReasoningBlock(Struct, frozen=True, rename="camel"):
    reasoning_content: ReasoningContent


class ToolUse(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    input: JSONObject | Raw
    tool_use_id: str


class ToolUseBlock(Struct, frozen=True, rename="camel"):
    tool_use: ToolUse


ToolResultContent = Text | ImageBlock | DocumentBlock | SearchResultBlock


class ToolResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """Attributes: ``status``: ``error`` for a call that has failed; the service refuses null."""

    content: Sequence[ToolResultContent]
    status: str | UnsetType = UNSET
    tool_use_id: str


class ToolResultBlock(Struct, frozen=True, rename="camel"):
    tool_result: ToolResult


ContentBlock = (
    Text
    | CachePointBlock
    | ImageBlock
    | VideoBlock
    | DocumentBlock
    | SearchResultBlock
    | ReasoningBlock
    | ToolUseBlock
    | ToolResultBlock
)


class Message(Struct, frozen=True, kw_only=True):
    content: list[ContentBlock]
    role: str


class InferenceConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    max_tokens: int | UnsetType = UNSET
    stop_sequences: list[str] | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET


class ServiceTier(Struct, frozen=True):
    type: str


class InputSchema(Struct, frozen=True):
    json: JSONObject | Raw


class ToolSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    description: str | UnsetType = UNSET
    input_schema: InputSchema
    name: str
    strict: bool | UnsetType = UNSET


class ToolSpecBlock(Struct, frozen=True, rename="camel"):
    tool_spec: ToolSpec


ToolBlock = ToolSpecBlock | CachePointBlock


class NamedTool(Struct, frozen=True):
    name: str


class NoMembers(Struct, frozen=True):
    """``{}``."""


class ToolChoice(Struct, frozen=True, kw_only=True):
    """One of the members."""

    any: NoMembers | UnsetType = UNSET
    auto: NoMembers | UnsetType = UNSET
    tool: NamedTool | UnsetType = UNSET


class ToolConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    tool_choice: ToolChoice | UnsetType = UNSET
    tools: list[ToolBlock]


class JSONSchema(Struct, frozen=True, kw_only=True):
    """``schema`` is the text of a JSON Schema."""

    schema: str
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


class FormatStructure(Struct, frozen=True, kw_only=True, rename="camel"):
    json_schema: JSONSchema


class TextFormat(Struct, frozen=True, kw_only=True):
    structure: FormatStructure
    type: str = "json_schema"


class OutputConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    text_format: TextFormat | UnsetType = UNSET
    effort: str | UnsetType = UNSET


class GuardrailConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    guardrail_identifier: str
    guardrail_version: str
    stream_processing_mode: str | UnsetType = UNSET
    trace: str | UnsetType = UNSET


class ConverseRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    additional_model_request_fields: JSONObject | UnsetType = UNSET
    inference_config: InferenceConfig
    messages: list[Message]
    system: list[Text | CachePointBlock] | UnsetType = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    tool_config: ToolConfig | UnsetType = UNSET
    guardrail_config: GuardrailConfig | UnsetType = UNSET
    output_config: OutputConfig | UnsetType = UNSET

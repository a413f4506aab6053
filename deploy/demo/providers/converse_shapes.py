"""Requests of Bedrock's Converse and ConverseStream. That a union has one member is for the rules to check.

NB: annotations are evaluated, the decoder is built from them.
"""

from typing import Any, Literal

from deploy.demo.providers.shapes import Shape


class Wire(Shape, frozen=True, kw_only=True, rename="camel"):
    """A shape whose members have camel-case names on the wire."""


class S3Location(Wire, frozen=True, kw_only=True):
    uri: str
    bucket_owner: str | None = None


class MediaSource(Wire, frozen=True, kw_only=True):
    """Union."""

    bytes: str | None = None
    s3_location: S3Location | None = None


class DocumentSource(Wire, frozen=True, kw_only=True):
    """Union."""

    bytes: str | None = None
    s3_location: S3Location | None = None
    text: str | None = None
    content: list[dict[str, str]] | None = None


class Image(Wire, frozen=True, kw_only=True):
    format: Literal["png", "jpeg", "gif", "webp"]
    source: MediaSource


class Video(Wire, frozen=True, kw_only=True):
    format: Literal["mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"]
    source: MediaSource


class Audio(Wire, frozen=True, kw_only=True):
    format: Literal[
        "mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg", "mpga", "pcm", "webm"
    ]
    source: MediaSource


class Document(Wire, frozen=True, kw_only=True):
    name: str
    source: DocumentSource
    format: Literal["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"] | None = None
    context: str | None = None
    citations: dict[str, bool] | None = None


class CachePoint(Wire, frozen=True, kw_only=True):
    type: Literal["default"]
    ttl: Literal["5m", "1h"] | None = None


class ReasoningText(Wire, frozen=True, kw_only=True):
    text: str
    signature: str | None = None


class Reasoning(Wire, frozen=True, kw_only=True):
    """Union."""

    reasoning_text: ReasoningText | None = None
    redacted_content: str | None = None


class ToolUse(Wire, frozen=True, kw_only=True):
    tool_use_id: str
    name: str
    input: dict[str, Any]


class ToolResultContent(Wire, frozen=True, kw_only=True):
    """Union."""

    json: dict[str, Any] | None = None
    text: str | None = None
    image: Image | None = None
    document: Document | None = None
    video: Video | None = None


class ToolResult(Wire, frozen=True, kw_only=True):
    tool_use_id: str
    content: list[ToolResultContent]
    status: Literal["success", "error"] | None = None


class Content(Wire, frozen=True, kw_only=True):
    """Union: a block of a message."""

    text: str | None = None
    image: Image | None = None
    document: Document | None = None
    video: Video | None = None
    audio: Audio | None = None
    tool_use: ToolUse | None = None
    tool_result: ToolResult | None = None
    guard_content: dict[str, Any] | None = None
    cache_point: CachePoint | None = None
    reasoning_content: Reasoning | None = None


class Message(Wire, frozen=True, kw_only=True):
    role: Literal["user", "assistant"]
    content: list[Content]


class SystemContent(Wire, frozen=True, kw_only=True):
    """Union."""

    text: str | None = None
    guard_content: dict[str, Any] | None = None
    cache_point: CachePoint | None = None


class InferenceConfig(Wire, frozen=True, kw_only=True):
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None


class InputSchema(Wire, frozen=True, kw_only=True):
    json: dict[str, Any]


class ToolSpec(Wire, frozen=True, kw_only=True):
    name: str
    input_schema: InputSchema
    description: str | None = None
    strict: bool | None = None


class Tool(Wire, frozen=True, kw_only=True):
    """Union."""

    tool_spec: ToolSpec | None = None
    cache_point: CachePoint | None = None
    system_tool: dict[str, str] | None = None


class Empty(Wire, frozen=True, kw_only=True):
    pass


class NamedTool(Wire, frozen=True, kw_only=True):
    name: str


class ToolChoice(Wire, frozen=True, kw_only=True):
    """Union."""

    auto: Empty | None = None
    any: Empty | None = None
    tool: NamedTool | None = None


class ToolConfig(Wire, frozen=True, kw_only=True):
    tools: list[Tool]
    tool_choice: ToolChoice | None = None


class GuardrailConfig(Wire, frozen=True, kw_only=True):
    guardrail_identifier: str
    guardrail_version: str
    trace: Literal["enabled", "disabled", "enabled_full"] | None = None
    stream_processing_mode: Literal["sync", "async"] | None = None


class ServiceTier(Wire, frozen=True, kw_only=True):
    type: Literal["priority", "default", "flex", "reserved"]


class Performance(Wire, frozen=True, kw_only=True):
    latency: Literal["standard", "optimized"]


class JSONSchema(Wire, frozen=True, kw_only=True):
    """``schema`` is the text of the schema."""

    schema: str
    name: str | None = None
    description: str | None = None


class FormatStructure(Wire, frozen=True, kw_only=True):
    json_schema: JSONSchema


class TextFormat(Wire, frozen=True, kw_only=True):
    type: Literal["json_schema"]
    structure: FormatStructure


class OutputConfig(Wire, frozen=True, kw_only=True):
    text_format: TextFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class ConverseRequest(Wire, frozen=True, kw_only=True):
    messages: list[Message] | None = None
    system: list[SystemContent] | None = None
    inference_config: InferenceConfig | None = None
    tool_config: ToolConfig | None = None
    guardrail_config: GuardrailConfig | None = None
    additional_model_request_fields: dict[str, Any] | None = None
    additional_model_response_field_paths: list[str] | None = None
    output_config: OutputConfig | None = None
    performance_config: Performance | None = None
    prompt_variables: dict[str, Any] | None = None
    request_metadata: dict[str, str] | None = None
    service_tier: ServiceTier | None = None

"""Requests of Gemini on Vertex AI, with the members that the API knows. A null stands for an absent member.

NB: annotations are evaluated, the decoder is built from them.
"""

from typing import Any, Literal

import msgspec

from deploy.demo.providers.converse_shapes import Wire


class Blob(Wire, frozen=True, kw_only=True):
    mime_type: str
    data: str
    display_name: str | None = None


class FileData(Wire, frozen=True, kw_only=True):
    mime_type: str
    file_uri: str
    display_name: str | None = None


class FunctionCall(Wire, frozen=True, kw_only=True):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


class FunctionResponse(Wire, frozen=True, kw_only=True):
    name: str
    response: dict[str, Any]
    id: str | None = None


class MediaResolution(Wire, frozen=True, kw_only=True):
    level: str


class Part(Wire, frozen=True, kw_only=True):
    """One of text, inlineData, fileData, functionCall and functionResponse, and what goes with it."""

    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    media_resolution: MediaResolution | None = None
    video_metadata: dict[str, Any] | None = None


class Content(Wire, frozen=True, kw_only=True):
    parts: list[Part] | None = None
    role: str | None = None


Kind = Literal[
    "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL",
    "string", "number", "integer", "boolean", "array", "object", "null",
]  # fmt: skip


class Schema(Wire, frozen=True, kw_only=True):
    """A part of OpenAPI 3.0: what is not named here is refused, as ``$ref`` and ``oneOf``."""

    type: Kind | None = None
    additional_properties: Any = None
    any_of: list["Schema"] | None = None
    default: Any = None
    defs: dict[str, "Schema"] | None = None
    description: str | None = None
    enum: list[str] | None = None
    example: Any = None
    format: str | None = None
    items: "Schema | None" = None
    max_items: int | str | None = None
    max_length: int | str | None = None
    max_properties: int | str | None = None
    maximum: float | None = None
    min_items: int | str | None = None
    min_length: int | str | None = None
    min_properties: int | str | None = None
    minimum: float | None = None
    nullable: bool | None = None
    pattern: str | None = None
    properties: dict[str, "Schema"] | None = None
    property_ordering: list[str] | None = None
    ref: str | None = None
    required: list[str] | None = None
    title: str | None = None


class FunctionDeclaration(Wire, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    parameters: Schema | None = None
    parameters_json_schema: Any = msgspec.UNSET
    response: Schema | None = None
    response_json_schema: Any = None


class Tool(Wire, frozen=True, kw_only=True):
    function_declarations: list[FunctionDeclaration] | None = None
    google_search: dict[str, Any] | None = None
    enterprise_web_search: dict[str, Any] | None = None
    code_execution: dict[str, Any] | None = None
    url_context: dict[str, Any] | None = None
    google_maps: dict[str, Any] | None = None
    retrieval: dict[str, Any] | None = None


class FunctionCalling(Wire, frozen=True, kw_only=True):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] | None = None
    allowed_function_names: list[str] | None = None


class ToolConfig(Wire, frozen=True, kw_only=True):
    function_calling_config: FunctionCalling | None = None
    retrieval_config: dict[str, Any] | None = None


class ThinkingConfig(Wire, frozen=True, kw_only=True):
    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: Literal["THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None


class GenerationConfig(Wire, frozen=True, kw_only=True):
    audio_timestamp: bool | None = None
    candidate_count: int | None = None
    frequency_penalty: float | None = None
    image_config: dict[str, Any] | None = None
    logprobs: int | None = None
    max_output_tokens: int | None = None
    media_resolution: str | None = None
    presence_penalty: float | None = None
    response_json_schema: Any = None
    response_logprobs: bool | None = None
    response_mime_type: str | None = None
    response_modalities: list[str] | None = None
    response_schema: Schema | None = None
    seed: int | None = None
    speech_config: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    thinking_config: ThinkingConfig | None = None
    top_k: float | None = None
    top_p: float | None = None


class SafetySetting(Wire, frozen=True, kw_only=True):
    category: str
    threshold: str
    method: str | None = None


class GenerateRequest(Wire, frozen=True, kw_only=True):
    contents: list[Content] | None = None
    cached_content: str | None = None
    generation_config: GenerationConfig | None = None
    labels: dict[str, str] | None = None
    safety_settings: list[SafetySetting] | None = None
    system_instruction: Content | None = None
    tool_config: ToolConfig | None = None
    tools: list[Tool] | None = None

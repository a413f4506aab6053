"""Requests of OpenAI's chat completions, with every member that the service knows.

NB: annotations are evaluated, the decoder is built from them.
"""

from typing import Any, Literal

from deploy.demo.providers.shapes import Shape

Tagged = dict[str, Any]


class TextPart(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


class RefusalPart(Shape, frozen=True, kw_only=True, tag_field="type", tag="refusal"):
    refusal: str


class ImageURL(Shape, frozen=True, kw_only=True):
    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(Shape, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    image_url: ImageURL


class AudioData(Shape, frozen=True, kw_only=True):
    data: str
    format: Literal["wav", "mp3"]


class AudioPart(Shape, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    input_audio: AudioData


class FileData(Shape, frozen=True, kw_only=True):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(Shape, frozen=True, kw_only=True, tag_field="type", tag="file"):
    file: FileData


UserPart = TextPart | ImagePart | AudioPart | FilePart


class FunctionCall(Shape, frozen=True, kw_only=True):
    name: str
    arguments: str


class ToolCall(Shape, frozen=True, kw_only=True, tag_field="type", tag="function"):
    id: str
    function: FunctionCall


class SystemMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="system"):
    content: str | list[TextPart]
    name: str | None = None


class DeveloperMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    content: str | list[TextPart]
    name: str | None = None


class UserMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="user"):
    content: str | list[UserPart]
    name: str | None = None


class AudioId(Shape, frozen=True, kw_only=True):
    id: str


class AssistantMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    content: str | list[TextPart | RefusalPart] | None = None
    name: str | None = None
    refusal: str | None = None
    # Part of every answer; clients give their answers back as they came.
    annotations: list[Tagged] | None = None
    audio: AudioId | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    content: str | list[TextPart]
    tool_call_id: str


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(Shape, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Shape, frozen=True, kw_only=True, tag_field="type", tag="function"):
    function: Function


class FunctionName(Shape, frozen=True, kw_only=True):
    name: str


class NamedTool(Shape, frozen=True, kw_only=True, tag_field="type", tag="function"):
    function: FunctionName


class StreamOptions(Shape, frozen=True, kw_only=True):
    include_usage: bool = False
    include_obfuscation: bool = True


class SchemaOfFormat(Shape, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    pass


class ObjectFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="json_object"):
    pass


class SchemaFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    json_schema: SchemaOfFormat


class ChatRequest(Shape, frozen=True, kw_only=True):
    model: str
    messages: list[Message]
    audio: Tagged | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    metadata: dict[str, str] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    n: int | None = None
    parallel_tool_calls: bool = True
    prediction: Tagged | None = None
    presence_penalty: float | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    response_format: TextFormat | ObjectFormat | SchemaFormat | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    tools: list[Tool] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    web_search_options: Tagged | None = None

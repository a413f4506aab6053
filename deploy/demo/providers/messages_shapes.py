"""Requests of Anthropic's Messages API, with every member that is generally available, on its three hosts.

NB: annotations are evaluated, the decoder is built from them.
"""

from typing import Any, Literal

from deploy.demo.providers.shapes import Shape


class CacheControl(Shape, frozen=True, kw_only=True, tag_field="type", tag="ephemeral"):
    ttl: Literal["5m", "1h"] | None = None


class Text(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str
    cache_control: CacheControl | None = None
    citations: list[dict[str, Any]] | None = None


class ImageData(Shape, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class DocumentData(Shape, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    media_type: Literal["application/pdf"]
    data: str


class PlainText(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    media_type: Literal["text/plain"]
    data: str


class ByURL(Shape, frozen=True, kw_only=True, tag_field="type", tag="url"):
    url: str


class Image(Shape, frozen=True, kw_only=True, tag_field="type", tag="image"):
    source: ImageData | ByURL
    cache_control: CacheControl | None = None


class Document(Shape, frozen=True, kw_only=True, tag_field="type", tag="document"):
    source: DocumentData | PlainText | ByURL
    cache_control: CacheControl | None = None
    citations: dict[str, bool] | None = None
    context: str | None = None
    title: str | None = None


class ToolUse(Shape, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResult(Shape, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[Text | Image | Document] = ""
    is_error: bool = False
    cache_control: CacheControl | None = None


class Thinking(Shape, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class RedactedThinking(Shape, frozen=True, kw_only=True, tag_field="type", tag="redacted_thinking"):
    data: str


UserBlock = Text | Image | Document | ToolResult
AssistantBlock = Text | ToolUse | Thinking | RedactedThinking


class UserMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="user"):
    content: str | list[UserBlock]


class AssistantMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    content: str | list[AssistantBlock]


Message = UserMessage | AssistantMessage


class ThinkingEnabled(Shape, frozen=True, kw_only=True, tag_field="type", tag="enabled"):
    budget_tokens: int
    display: Literal["summarized", "omitted"] | None = None


class ThinkingAdaptive(Shape, frozen=True, kw_only=True, tag_field="type", tag="adaptive"):
    display: Literal["summarized", "omitted"] | None = None


class ThinkingDisabled(Shape, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    pass


ThinkingConfig = ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled


class ChooseAuto(Shape, frozen=True, kw_only=True, tag_field="type", tag="auto"):
    disable_parallel_tool_use: bool = False


class ChooseAny(Shape, frozen=True, kw_only=True, tag_field="type", tag="any"):
    disable_parallel_tool_use: bool = False


class ChooseTool(Shape, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    name: str
    disable_parallel_tool_use: bool = False


class ChooseNone(Shape, frozen=True, kw_only=True, tag_field="type", tag="none"):
    pass


class Tool(Shape, frozen=True, kw_only=True):
    name: str
    input_schema: dict[str, Any]
    type: Literal["custom"] = "custom"
    description: str | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class JSONFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    schema: dict[str, Any]


class OutputConfig(Shape, frozen=True, kw_only=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JSONFormat | None = None


class Metadata(Shape, frozen=True, kw_only=True):
    user_id: str | None = None


class Prompt(Shape, frozen=True, kw_only=True):
    """What a model reads, whether it is to answer or its tokens are to be counted."""

    messages: list[Message]
    output_config: OutputConfig | None = None
    system: str | list[Text] | None = None
    thinking: ThinkingConfig | None = None
    tool_choice: ChooseAuto | ChooseAny | ChooseTool | ChooseNone | None = None
    tools: list[Tool] | None = None


class MessagesRequest(Prompt, frozen=True, kw_only=True):
    """What is the same on all hosts."""

    max_tokens: int
    metadata: Metadata | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None


VertexVersion = Literal["vertex-2023-10-16", "2026-10-21"]


class FirstPartyRequest(MessagesRequest, frozen=True, kw_only=True):
    """At Anthropic: the model is in the body, the version in a header."""

    model: str
    cache_control: CacheControl | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    stream: bool = False


class VertexRequest(MessagesRequest, frozen=True, kw_only=True):
    """At Google: the model is in the path."""

    anthropic_version: VertexVersion
    anthropic_beta: list[str] | None = None
    stream: bool = False


class BedrockRequest(MessagesRequest, frozen=True, kw_only=True):
    """At Amazon: model and streaming are in the path."""

    anthropic_version: Literal["bedrock-2023-05-31", "2026-10-21"]
    anthropic_beta: list[str] | None = None


class FirstPartyCount(Prompt, frozen=True, kw_only=True):
    """A count at Anthropic."""

    model: str
    cache_control: CacheControl | None = None


class VertexCount(Prompt, frozen=True, kw_only=True):
    """A count at Google: the path names the counter, so the model is in the body."""

    model: str
    anthropic_version: VertexVersion
    anthropic_beta: list[str] | None = None

"""The body of ``POST /v1/chat/completions`` as typed values, for backends that speak another API.

Backends of the client's own API never see this: their bytes are edited in place. Members that are not modelled are
skipped, as translators could not do anything with them; a modelled member of another type is the client's mistake.
Free-form JSON (tool parameters, schemas) stays text, so that no number changes on its way (contract, chat 2).

NB: annotations are evaluated here, the decoder is built from them.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import MalformedRequest

PATH = "/v1/chat/completions"


class CacheControl(Struct, frozen=True, kw_only=True):
    """Asks the provider to cache the prompt up to here; only type ``ephemeral`` does (contract, chat 2.4)."""

    type: str | None = None
    ttl: str | None = None


class _Cacheable(Struct, frozen=True, kw_only=True):
    cache_control: CacheControl | None = None

    @property
    def cached(self) -> bool:
        return self.cache_control is not None and self.cache_control.type == "ephemeral"


# --- content ---


class TextPart(_Cacheable, frozen=True, kw_only=True):
    """A part of a system, developer or tool message. Only text may stand there; ``type`` says what was sent."""

    text: str = ""
    type: str = "text"


class ImageURL(Struct, frozen=True, kw_only=True):
    url: str = ""
    detail: str | None = None


class MediaURL(Struct, frozen=True, kw_only=True):
    url: str = ""


class InputAudio(Struct, frozen=True, kw_only=True):
    data: str = ""
    format: str = ""


class File(Struct, frozen=True, kw_only=True):
    """A file: ``file_data`` is a data URI or base64, ``file_id`` one that was uploaded to OpenAI."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class UserText(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str = ""


class UserImage(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    image_url: ImageURL


class UserAudio(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    input_audio: InputAudio


class UserAudioURL(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="audio_url"):
    audio_url: MediaURL


class UserVideoURL(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="video_url"):
    video_url: MediaURL


class UserFile(_Cacheable, frozen=True, kw_only=True, tag_field="type", tag="file"):
    file: File


UserPart = UserText | UserImage | UserAudio | UserAudioURL | UserVideoURL | UserFile


class AssistantPart(_Cacheable, frozen=True, kw_only=True):
    """A part of an assistant message.

    Known types are ``text``, ``refusal``, ``thinking`` (the thought is in ``text``) and ``redacted_thinking``; what
    else there may be is judged by the translator.

    Attributes:
        redacted_content: opaque text of the provider, given back as it came.
    """

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    signature: str | None = None
    redacted_content: str | None = msgspec.field(default=None, name="redactedContent")


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """Reasoning as our own answers carry it, so that a client can send its history back (contract, chat 4.4).

    Attributes:
        type: ``thinking`` or ``redacted_thinking``.
        data: the opaque content of a redacted block.
    """

    type: str = ""
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class FunctionCall(Struct, frozen=True, kw_only=True):
    name: str = ""
    arguments: str | None = None


class ToolCall(_Cacheable, frozen=True, kw_only=True):
    id: str | None = None
    type: str | None = None
    function: FunctionCall = FunctionCall()


# --- messages ---


class SystemMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="system"):
    content: str | list[TextPart] | UnsetType = UNSET
    name: str | None = None


class DeveloperMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    content: str | list[TextPart] | UnsetType = UNSET
    name: str | None = None


class UserMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    content: str | list[UserPart] | UnsetType | None = UNSET
    name: str | None = None


class AssistantMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    content: str | list[AssistantPart] | AssistantPart | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    thinking_blocks: list[ThinkingBlock] | None = None
    reasoning_content: object = None


class ToolMessage(_Cacheable, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    content: str | list[TextPart] | UnsetType = UNSET
    tool_call_id: str = ""


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage

# --- tools ---


class Function(_Cacheable, frozen=True, kw_only=True):
    """A function that the model may call; ``parameters`` is its JSON Schema, as the client spelled it."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    parameters: Raw | UnsetType = UNSET


class TimeRangeFilter(Struct, frozen=True, kw_only=True):
    start_time: str | None = None
    end_time: str | None = None


class GoogleSearch(Struct, frozen=True, kw_only=True):
    exclude_domains: list[str] | None = None
    blocking_confidence: str | None = None
    time_range_filter: TimeRangeFilter | None = None


class Tool(Struct, frozen=True, kw_only=True):
    type: str = ""
    function: Function | None = None
    google_search: GoogleSearch | None = None


class FunctionName(Struct, frozen=True, kw_only=True):
    name: str = ""


class NamedToolChoice(Struct, frozen=True, kw_only=True):
    type: str = ""
    function: FunctionName = FunctionName()


# --- output ---


class JSONSchemaFormat(Struct, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    schema: Raw | UnsetType = UNSET
    strict: bool | None = None


class TextFormat(Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    pass


class JSONObjectFormat(Struct, frozen=True, kw_only=True, tag_field="type", tag="json_object"):
    pass


class SchemaFormat(Struct, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    json_schema: JSONSchemaFormat


class ThinkingEnabled(Struct, frozen=True, kw_only=True, tag_field="type", tag="enabled"):
    budget_tokens: int = 0
    include_thoughts: bool | None = msgspec.field(default=None, name="includeThoughts")
    display: str | None = None


class ThinkingDisabled(Struct, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    pass


class ThinkingAdaptive(Struct, frozen=True, kw_only=True, tag_field="type", tag="adaptive"):
    display: str | None = None


Thinking = ThinkingEnabled | ThinkingDisabled | ThinkingAdaptive


class GenerationConfig(Struct, frozen=True, kw_only=True):
    media_resolution: str | None = None


class SafetySetting(Struct, frozen=True, kw_only=True):
    category: str | None = None
    method: str | None = None
    threshold: str | None = None


class GuardrailConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """A guardrail of Amazon Bedrock, in the provider's own words.

    Attributes:
        trace: ``enabled``, ``disabled`` or ``enabled_full``.
        stream_processing_mode: ``sync`` or ``async``; of streams only.
    """

    guardrail_identifier: str = ""
    guardrail_version: str = ""
    trace: str | None = None
    stream_processing_mode: str | None = None


# --- the request ---


class ChatRequest(Struct, frozen=True, kw_only=True):
    """The request (contract, chat 2.2). A member that is absent or null is ``None``."""

    model: str | None = None
    messages: list[Message] | None = None
    audio: object = None
    frequency_penalty: float | None = None
    generation_config: GenerationConfig | None = msgspec.field(default=None, name="generationConfig")
    guardrail_config: GuardrailConfig | None = msgspec.field(default=None, name="guardrailConfig")
    guided_choice: list[str] | None = None
    guided_json: Raw | UnsetType = UNSET
    guided_regex: str | None = None
    logit_bias: dict[str, int] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    modalities: list[str] | None = None
    n: int | None = None
    parallel_tool_calls: bool | None = None
    prediction: object = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    response_format: TextFormat | JSONObjectFormat | SchemaFormat | None = None
    safety_settings: list[SafetySetting] | None = msgspec.field(default=None, name="safetySettings")
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str | int | float | bool] | None = None
    stream: bool | None = None
    temperature: float | None = None
    thinking: Thinking | None = None
    tool_choice: str | NamedToolChoice | None = None
    tools: list[Tool] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    verbosity: str | None = None
    web_search_options: object = None

    @property
    def max_output_tokens(self) -> int | None:
        """The limit that counts: the newer member, even if it is 0, else the older one (contract, chat 3.5)."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def stop_sequences(self) -> list[str] | None:
        """The stop sequences; ``None`` when there are none. An empty one would stop at once, so it is none."""
        if self.stop is None:
            return None
        given = [self.stop] if isinstance(self.stop, str) else self.stop
        return [_as_text(each) for each in given if each != ""] or None


# JSON members that are numbers in the client's document keep their spelling as sequences.
def _as_text(value: str | float) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_decoder = msgspec.json.Decoder(ChatRequest)


def decode_chat_request(body: bytes) -> ChatRequest:
    """Read a request that has to be rebuilt for another API.

    Raises:
        MalformedRequest: it is not JSON, or a member does not have the type that the API gives it.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error

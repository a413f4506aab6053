"""The body of a Messages request, made of a chat request (contract, chat 11.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.anthropic.messages import Text, Turn, convert_messages
from extproc.translate.chat.anthropic.tools import Tool, ToolChoice, convert_tool_choice, convert_tools
from extproc.translate.chat.support import FieldSupport, SupportTable, ignored, mapped, refused

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")

_EFFORT_MODELS: Final = (
    "opus-4-5",
    "opus-4-6",
    "opus-4-7",
    "opus-4-8",
    "sonnet-4-6",
    "sonnet-5",
    "fable-5",
    "mythos-5",
    "mythos-preview",
)
_DISPLAYS: Final = ("summarized", "omitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """What differs between the places that serve the Messages API.

    Attributes:
        version: goes into the body as ``anthropic_version``; empty where a header says it.
        model_in_body: the path does not name the model.
        stream_in_body: the path does not say whether to stream.
        schema_models: parts of the names of models that answer by a JSON Schema.
    """

    version: str
    model_in_body: bool
    stream_in_body: bool
    schema_models: tuple[str, ...]


class OutputFormat(Struct, frozen=True, kw_only=True):
    schema: Raw
    type: str = "json_schema"


class OutputConfig(Struct, frozen=True, kw_only=True):
    effort: str | UnsetType = UNSET
    format: OutputFormat | UnsetType = UNSET


class ThinkingConfig(Struct, frozen=True, kw_only=True):
    budget_tokens: int | UnsetType = UNSET
    display: str | UnsetType = UNSET
    type: str


class MessagesBody(Struct, frozen=True, kw_only=True):
    """The request, members in the contract's order."""

    max_tokens: int
    messages: list[Turn]
    model: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    output_config: OutputConfig | UnsetType = UNSET
    stop_sequences: list[str] | UnsetType = UNSET
    system: list[Text] | UnsetType = UNSET
    thinking: ThinkingConfig | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    tools: list[Tool] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    anthropic_version: str | UnsetType = UNSET


def messages_body(request: ChatRequest, flavor: Flavor, *, model: str, stream: bool, default_max_tokens: int) -> bytes:
    """Build the body.

    Args:
        request: the client's request.
        flavor: where it goes.
        model: the effective model.
        stream: whether a stream is asked for.
        default_max_tokens: the limit for a request without one.

    Raises:
        UnprocessableRequest: the request asks for what Claude, or this model, cannot do; the text names the member.
    """
    conversation = convert_messages(request.messages or [])
    tools = convert_tools(request.tools or [])
    choice = convert_tool_choice(request.tool_choice, tools, parallel=request.parallel_tool_calls) if tools else UNSET
    body = MessagesBody(
        max_tokens=_max_tokens(request, default_max_tokens),
        messages=conversation.messages,
        model=model if flavor.model_in_body else UNSET,
        temperature=_share("temperature", request.temperature),
        top_p=_share("top_p", request.top_p),
        output_config=_output_config(request, flavor, model.lower()),
        stop_sequences=_stop_sequences(request),
        system=conversation.system or UNSET,
        thinking=_thinking(request.thinking),
        tool_choice=choice,
        tools=tools or UNSET,
        stream=True if stream and flavor.stream_in_body else UNSET,
        anthropic_version=flavor.version or UNSET,
    )
    return jsonvalue.encode(body)


def _max_tokens(request: ChatRequest, default: int) -> int:
    """The limit, which must leave room for more than the thoughts; without one, room for an answer beside them.

    The API demands one. Zero would not be refused everywhere: it asks for a warm cache and an empty answer.
    """
    limit = request.max_output_tokens
    budget = 0
    if isinstance(request.thinking, chat.ThinkingEnabled):
        budget = request.thinking.budget_tokens
        if budget <= 0:
            raise UnprocessableRequest("thinking.budget_tokens is required and must be more than 0")
    if limit is None:
        return budget + default
    member = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    if limit < 0:
        raise UnprocessableRequest(f"{member} must not be negative")
    if budget and budget >= limit:
        raise UnprocessableRequest(f"thinking.budget_tokens ({budget}) must be less than {member} ({limit})")
    return limit


def _share(name: str, given: float | None) -> float | UnsetType:
    if given is not None and not 0 <= given <= 1:
        raise UnprocessableRequest(f"{name} {given:.2f} is not supported by Anthropic (must be between 0.0 and 1.0)")
    return _number(given)


def _number(given: float | None) -> float | UnsetType:
    """The number as a client would write it, without a fraction of zero."""
    if given is None:
        return UNSET
    return int(given) if given.is_integer() else given


def _stop_sequences(request: ChatRequest) -> list[str] | UnsetType:
    sequences = request.stop_sequences
    if any(not each.strip() for each in sequences or ()):
        raise UnprocessableRequest("stop: a sequence of nothing but white space is not supported by Anthropic")
    return sequences or UNSET


def _thinking(given: chat.Thinking | None) -> ThinkingConfig | UnsetType:
    match given:
        case None:
            return UNSET
        case chat.ThinkingDisabled():
            return ThinkingConfig(type="disabled")
        case chat.ThinkingAdaptive():
            return ThinkingConfig(display=_display(given.display), type="adaptive")
        case chat.ThinkingEnabled():
            return ThinkingConfig(budget_tokens=given.budget_tokens, display=_display(given.display), type="enabled")


def _display(given: str | None) -> str | UnsetType:
    if given and given not in _DISPLAYS:
        raise UnprocessableRequest(f"thinking.display: expected one of {', '.join(_DISPLAYS)}")
    return given or UNSET


def _output_config(request: ChatRequest, flavor: Flavor, model: str) -> OutputConfig | UnsetType:
    effort = _effort(request.reasoning_effort, model)
    output_format: OutputFormat | UnsetType = UNSET
    if isinstance(request.response_format, chat.SchemaFormat):
        if not any(each in model for each in flavor.schema_models):
            raise UnprocessableRequest(f"response_format: json_schema is not supported by model {model}")
        output_format = OutputFormat(schema=_schema(request.response_format.json_schema.schema))
    if effort is UNSET and output_format is UNSET:
        return UNSET
    return OutputConfig(effort=effort, format=output_format)


def _effort(given: str | None, model: str) -> str | UnsetType:
    """The effort, for models that can be told; the others answer as they always do."""
    if not given or not any(each in model for each in _EFFORT_MODELS):
        return UNSET
    if given not in EFFORTS:
        raise UnprocessableRequest(f'unsupported reasoning effort level: "{given}" (supported: {", ".join(EFFORTS)})')
    return given


def _schema(given: Raw | UnsetType) -> Raw:
    where = "response_format.json_schema.schema"
    if given is UNSET:
        raise UnprocessableRequest(f"{where} is required")
    try:
        return Raw(jsonvalue.encode(jsonvalue.decode_object(bytes(given))))
    except (jsonvalue.JSONValueError, RecursionError) as error:
        raise UnprocessableRequest(f"{where}: expected a JSON Schema: {error}") from error


# --- what becomes of each member ---

_FIELDS: Final[Mapping[str, FieldSupport]] = {
    "messages": mapped("`messages` and `system`; neighbours of one role become one turn"),
    "messages.user.image_url": mapped("`image`; `document` for a PDF; data URIs and http addresses"),
    "messages.user.input_audio": refused(),
    "messages.user.audio_url": refused(),
    "messages.user.video_url": refused(),
    "messages.user.file": mapped("`document` or `image`; `file_data` only"),
    "messages.system, developer, tool: parts that are not text": refused(),
    "messages.assistant.tool_calls": mapped("`tool_use`"),
    "messages.assistant.thinking": mapped("`thinking`, if it has a signature"),
    "messages.assistant.redacted_thinking": mapped("`redacted_thinking`"),
    "messages.assistant.thinking_blocks": mapped("as the parts of those types, which win over it"),
    "messages.assistant.refusal": mapped("as text"),
    "cache_control": mapped("`cache_control` with its `ttl`; the provider takes four of them and refuses more"),
    "audio": refused(),
    "frequency_penalty": ignored(),
    "generationConfig": ignored(),
    "guardrailConfig": refused(),
    "guided_choice": refused(),
    "guided_json": refused(),
    "guided_regex": refused(),
    "logit_bias": refused(),
    "logprobs": refused(),
    "max_completion_tokens": mapped("`max_tokens`"),
    "max_tokens": mapped(
        "`max_tokens`, unless `max_completion_tokens` is given; without both, `--default-max-tokens` "
        "beyond the budget for thinking"
    ),
    "modalities": refused(),
    "n": refused(),
    "parallel_tool_calls": mapped("`tool_choice.disable_parallel_tool_use`"),
    "prediction": ignored(),
    "presence_penalty": ignored(),
    "reasoning_effort": mapped("`output_config.effort`, on models that have it; ignored on others"),
    "response_format.json_object": refused(),
    "response_format.json_schema": mapped("`output_config.format`, on models that have it; refused on others"),
    "safetySettings": ignored(),
    "seed": ignored(),
    "service_tier": ignored("the tiers of the two APIs are not the same"),
    "stop": mapped("`stop_sequences`; one of white space alone is refused"),
    "temperature": mapped("0 to 1; beyond is refused"),
    "thinking.enabled": mapped("`thinking`; the budget must be below the limit of tokens"),
    "thinking.disabled": mapped("`thinking`"),
    "thinking.adaptive": mapped("`thinking`"),
    "tool_choice": mapped("`tool_choice`, if there are tools"),
    "tools.function": mapped("`tools`"),
    "tools.google_search": refused(),
    "tools.enterprise_search": refused(),
    "tools.image_generation": refused(),
    "tools of any other type": refused(),
    "tools.function.strict": mapped("`strict`"),
    "top_logprobs": refused(),
    "top_p": mapped("0 to 1; beyond is refused"),
    "user": ignored(),
    "verbosity": ignored(),
    "web_search_options": refused(),
}


def support_table(backend: str) -> SupportTable:
    """The table of one of the schemas; all that serve the Messages API take the same."""
    return SupportTable.of(backend, _FIELDS)

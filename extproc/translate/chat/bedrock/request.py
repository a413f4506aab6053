"""Builds Converse requests; ConverseStream takes the same body (contract, chat 8.2 and 8.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.cache import cache_point, limit_cache_points
from extproc.translate.chat.bedrock.messages import Conversation

MAX_INT32: Final = 2**31 - 1
"""The greatest number of tokens that the service can be told."""

NO_PARAMETERS: Final[jsonvalue.JSONObject] = {"type": "object", "properties": {}}


def build_request(request: ChatRequest, *, model: str, stream: bool) -> bytes:
    """The body for a chat completion.

    Args:
        request: what the client asks for.
        model: as the backend names it, for what only some models can.
        stream: for what only streams have.

    Raises:
        UnprocessableRequest: Converse cannot express it; the text names the member.
    """
    try:
        return jsonvalue.encode(_converse(request, model, stream=stream))
    except RecursionError as error:
        raise UnprocessableRequest("values are nested too deep") from error


def _converse(request: ChatRequest, model: str, *, stream: bool) -> wire.ConverseRequest:
    conversation = Conversation()
    conversation.add_all(request.messages or ())
    tools = convert_tools(request, conversation)
    choice = _tool_choice(request, model)
    limit_cache_points(tools, conversation.system, conversation.messages)
    return wire.ConverseRequest(
        additional_model_request_fields=_model_fields(request),
        inference_config=_inference_config(request),
        messages=conversation.messages,
        system=conversation.system or UNSET,
        service_tier=_service_tier(request.service_tier),
        tool_config=wire.ToolConfig(tool_choice=choice, tools=tools) if tools else UNSET,
        guardrail_config=_guardrail(request.guardrail_config, stream=stream),
        output_config=_output_config(request.response_format),
    )


# --- inference ---


def _inference_config(request: ChatRequest) -> wire.InferenceConfig:
    return wire.InferenceConfig(
        max_tokens=_max_tokens(request),
        stop_sequences=request.stop_sequences or UNSET,
        temperature=not_negative(request.temperature, "temperature"),
        top_p=not_negative(request.top_p, "top_p"),
    )


def _max_tokens(request: ChatRequest) -> int | UnsetType:
    name = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    return token_limit(request.max_output_tokens, name)


def token_limit(limit: float | None, name: str) -> int | UnsetType:
    """The limit of output tokens, without a fraction.

    Raises:
        UnprocessableRequest: it is less than one token, or no number of the service's.
    """
    if limit is None:
        return UNSET
    if not 1 <= limit <= MAX_INT32:
        raise UnprocessableRequest(f"{name} must be between 1 and {MAX_INT32} for AWSBedrock backends")
    return int(limit)


def not_negative(value: float | None, name: str) -> float | UnsetType:
    """The number, whole ones without a fraction. Its upper end is the model's affair, and the provider says so.

    Raises:
        UnprocessableRequest: it is negative.
    """
    if value is None:
        return UNSET
    if value < 0:
        raise UnprocessableRequest(f"{name} must not be negative")
    return int(value) if value == int(value) else value


def _service_tier(tier: str | None) -> wire.ServiceTier | UnsetType:
    # `auto` leaves the choice to the provider, which is what it means there to say nothing.
    return wire.ServiceTier(tier) if tier and tier != "auto" else UNSET


def _model_fields(request: ChatRequest) -> jsonvalue.JSONObject | UnsetType:
    """What is not Converse's own but the model's."""
    fields: jsonvalue.JSONObject = {}
    if request.thinking is not None:
        fields["thinking"] = _thinking(request.thinking)
    if request.reasoning_effort:
        fields["reasoning_config"] = request.reasoning_effort
    return fields or UNSET


def _thinking(thinking: chat.Thinking) -> jsonvalue.JSONObject:
    fields: jsonvalue.JSONObject
    match thinking:
        case chat.ThinkingEnabled():
            fields = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
        case chat.ThinkingDisabled():
            return {"type": "disabled"}
        case chat.ThinkingAdaptive():
            fields = {"type": "adaptive"}
    if thinking.display:
        fields["display"] = thinking.display
    return fields


def _guardrail(config: chat.GuardrailConfig | None, *, stream: bool) -> wire.GuardrailConfig | UnsetType:
    if config is None:
        return UNSET
    if not config.guardrail_identifier or not config.guardrail_version:
        raise UnprocessableRequest("guardrailConfig needs guardrailIdentifier and guardrailVersion")
    return wire.GuardrailConfig(
        guardrail_identifier=config.guardrail_identifier,
        guardrail_version=config.guardrail_version,
        stream_processing_mode=(config.stream_processing_mode or UNSET) if stream else UNSET,
        trace=config.trace or UNSET,
    )


def _output_config(response_format: object) -> wire.OutputConfig | UnsetType:
    """Structured output; JSON without a schema has been refused by the table."""
    if not isinstance(response_format, chat.SchemaFormat):
        return UNSET
    wanted = response_format.json_schema
    schema = _object(wanted.schema, "response_format.json_schema.schema")
    if schema is None:
        raise UnprocessableRequest("response_format.json_schema.schema is missing")
    structure = wire.JSONSchema(
        # The service takes the schema as text.
        schema=jsonvalue.encode(schema).decode(),
        name=wanted.name or UNSET,
        description=wanted.description or UNSET,
    )
    return wire.OutputConfig(text_format=wire.TextFormat(structure=wire.FormatStructure(json_schema=structure)))


# --- tools ---


def convert_tools(request: ChatRequest, conversation: Conversation) -> list[wire.ToolBlock]:
    """The tools, which Bedrock demands as soon as the history holds calls or results (contract, chat 8.4).

    With ``tool_choice`` ``none``, which Converse does not know, they are left out where they can be. Where the client
    sends none and the history needs them, they are made from the names in it.

    Raises:
        UnprocessableRequest: Converse does not have such a tool; the text names it.
    """
    tools: list[wire.ToolBlock] = []
    for number, tool in enumerate(request.tools or ()):
        tools += _tool(tool, f"tools[{number}]")
    if not conversation.has_tool_blocks:
        return [] if request.tool_choice == "none" else tools
    return tools or stand_ins(conversation.tool_names)


def _tool(tool: chat.Tool, where: str) -> Iterable[wire.ToolBlock]:
    function = tool.function
    if function is None:
        raise UnprocessableRequest(f"{where} of type {tool.type!r} without a function is not supported by AWSBedrock")
    if not function.name:
        raise UnprocessableRequest(f"{where}.function.name is missing")
    parameters = _object(function.parameters, f"{where}.function.parameters") or NO_PARAMETERS
    yield wire.ToolSpecBlock(
        wire.ToolSpec(
            description=function.description or UNSET,
            input_schema=wire.InputSchema(parameters),
            name=function.name,
        )
    )
    yield from cache_point(function, f"{where}.function")


def stand_ins(names: Iterable[str]) -> list[wire.ToolBlock]:
    """Tools for a history that speaks of tools, from a client that sends none: the service demands some."""
    return [
        wire.ToolSpecBlock(wire.ToolSpec(input_schema=wire.InputSchema(NO_PARAMETERS), name=name))
        for name in [*names] or ["unknown"]
    ]


def _tool_choice(request: ChatRequest, model: str) -> wire.ToolChoice | UnsetType:
    """The choice; ``none`` has no word in Converse, so tools that had to be sent may then still be called."""
    match request.tool_choice:
        case None | "" | "none":
            return UNSET
        case "auto":
            return wire.ToolChoice(auto=wire.NoMembers()) if request.tools else UNSET
        case "required":
            choice = wire.ToolChoice(any=wire.NoMembers())
        case str() as name:
            # A function's bare name is no value of the API; for Claude the peer takes it as one (contract, chat 8.4).
            if not ("anthropic" in model and "claude" in model):
                raise UnprocessableRequest(f"tool_choice {name!r} is not one of none, auto, required")
            choice = wire.ToolChoice(tool=wire.NamedTool(name))
        case named:
            if not named.function.name:
                raise UnprocessableRequest("tool_choice.function.name is missing")
            choice = wire.ToolChoice(tool=wire.NamedTool(named.function.name))
    if not request.tools:
        raise UnprocessableRequest("tool_choice asks for a call, and there are no tools")
    return choice


def _object(raw: msgspec.Raw | UnsetType, where: str) -> jsonvalue.JSONObject | None:
    """A free-form object of the client's; ``None`` when it is absent or null."""
    if raw is UNSET or bytes(raw) == b"null":
        return None
    try:
        return jsonvalue.decode_object(bytes(raw))
    except jsonvalue.JSONValueError as error:
        raise UnprocessableRequest(f"{where} must be a JSON object: {error}") from error

"""Builds Converse requests of messages requests; ConverseStream takes the same body (contract, messages 5.5).

NB: annotations are evaluated here, the decoder is built from them.
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from extproc.endpoints.messages_request import CacheControl, MessagesRequest, OutputFormat, Thinking, Tool
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.cache import cache_point, limit_cache_points
from extproc.translate.chat.bedrock.request import MAX_INT32, NO_PARAMETERS, not_negative, stand_ins, token_limit
from extproc.translate.messages.bedrock.conversation import Conversation, json_object


class ConvertibleRequest(MessagesRequest, frozen=True, kw_only=True):
    """The request with the members that matter here and nowhere else.

    Attributes:
        cache_control: asks for the whole prompt to be cached, up to its last block.
        container: where tools of the provider's run.
        mcp_servers: whose tools the provider is to call.
    """

    cache_control: CacheControl | None = None
    container: object = None
    mcp_servers: list[object] | None = None

    @property
    def cached(self) -> bool:
        return self.cache_control is not None and self.cache_control.type == "ephemeral"


_decode = msgspec.json.Decoder(ConvertibleRequest).decode


def read_request(body: bytes, path: str) -> ConvertibleRequest:
    """Read a request that has to be rebuilt.

    Args:
        body: the client's.
        path: of the client's API, for messages.

    Raises:
        MalformedRequest: it is not JSON, or a member does not have the type that the API gives it.
    """
    try:
        return _decode(body)
    # Also nested deeper than the interpreter's stack, or with a number of absurd length.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {path}: {error}") from error


def build_request(request: ConvertibleRequest, *, betas: list[str]) -> wire.ConverseRequest:
    """The request for Converse.

    Args:
        request: what the client asks for.
        betas: flags for Claude; empty for other models, which do not know the member.

    Raises:
        UnprocessableRequest: Converse cannot express it; the text names the member.
    """
    _refuse(request)
    conversation = Conversation()
    conversation.add_system(request.system, "system")
    conversation.add_all(request.messages or ())
    if not conversation.messages:
        raise UnprocessableRequest("messages says nothing that could be answered")
    _cache_all(request, conversation)
    tools = _tools(request, conversation)
    choice = _tool_choice(request)
    limit_cache_points(tools, conversation.system, conversation.messages)
    return wire.ConverseRequest(
        additional_model_request_fields=_model_fields(request, betas),
        inference_config=_inference_config(request),
        messages=conversation.messages,
        system=conversation.system or UNSET,
        tool_config=wire.ToolConfig(tool_choice=choice, tools=tools) if tools else UNSET,
        output_config=_output_config(request),
    )


def encode(value: object) -> bytes:
    """Write a request.

    Raises:
        UnprocessableRequest: something of the client's is nested too deep, or no text.
    """
    try:
        return jsonvalue.encode(value)
    except (RecursionError, UnicodeError) as error:
        raise UnprocessableRequest("values are nested too deep, or hold what is no text") from error


def _refuse(request: ConvertibleRequest) -> None:
    for name in ("container", "mcp_servers"):
        if getattr(request, name):
            raise UnprocessableRequest(f"{name} is not supported by AWSBedrock backends")


def _cache_all(request: ConvertibleRequest, conversation: Conversation) -> None:
    """A mark on the request as a whole caches all of it, so it is one behind the last block."""
    content = conversation.messages[-1].content
    if not isinstance(content[-1], wire.CachePointBlock):
        content += cache_point(request, "request")


# --- inference ---


def _inference_config(request: MessagesRequest) -> wire.InferenceConfig:
    return wire.InferenceConfig(
        max_tokens=token_limit(request.max_tokens, "max_tokens"),
        stop_sequences=_stop_sequences(request),
        temperature=not_negative(request.temperature, "temperature"),
        top_p=not_negative(request.top_p, "top_p"),
    )


def _stop_sequences(request: MessagesRequest) -> list[str] | UnsetType:
    if not all(request.stop_sequences or ()):
        raise UnprocessableRequest("stop_sequences holds an empty one")
    return request.stop_sequences or UNSET


def _model_fields(request: MessagesRequest, betas: list[str]) -> jsonvalue.JSONObject | UnsetType:
    """What is not Converse's own but the model's."""
    fields: jsonvalue.JSONObject = {}
    if betas:
        fields["anthropic_beta"] = betas
    if request.thinking is not None:
        fields["thinking"] = _thinking(request.thinking)
    if request.top_k is not None:
        fields["top_k"] = request.top_k
    return fields or UNSET


def _thinking(thinking: Thinking) -> jsonvalue.JSONObject:
    fields: jsonvalue.JSONObject = {"type": thinking.type}
    match thinking.type:
        case "enabled":
            if thinking.budget_tokens is None or not 1 <= thinking.budget_tokens <= MAX_INT32:
                raise UnprocessableRequest("thinking.budget_tokens must be a number of tokens")
            fields["budget_tokens"] = int(thinking.budget_tokens)
        case "adaptive":
            pass
        case "disabled":
            return fields
        case other:
            raise UnprocessableRequest(f"thinking.type {other} is not supported by AWSBedrock backends")
    if thinking.display:
        fields["display"] = thinking.display
    return fields


def _output_config(request: MessagesRequest) -> wire.OutputConfig | UnsetType:
    config = request.output_config
    effort = (config.effort if config else None) or UNSET
    wanted = (config.format if config else None) or request.output_format
    if wanted is None:
        return wire.OutputConfig(effort=effort) if effort else UNSET
    return wire.OutputConfig(text_format=_text_format(wanted), effort=effort)


def _text_format(wanted: OutputFormat) -> wire.TextFormat:
    if wanted.type != "json_schema":
        raise UnprocessableRequest(f"output_config.format.type {wanted.type} is not supported by AWSBedrock backends")
    schema = json_object(wanted.schema, "output_config.format.schema")
    if schema is None:
        raise UnprocessableRequest("output_config.format.schema is missing")
    # The service takes the schema as text.
    structure = wire.FormatStructure(json_schema=wire.JSONSchema(schema=bytes(schema).decode()))
    return wire.TextFormat(structure=structure)


# --- tools ---


def _tools(request: MessagesRequest, conversation: Conversation) -> list[wire.ToolBlock]:
    """The tools, which Bedrock demands as soon as the history holds calls or results (contract, chat 8.4).

    With ``tool_choice`` ``none``, which Converse does not know, they are left out where they can be. Where the client
    sends none and the history needs them, they are made from the names in it.
    """
    tools: list[wire.ToolBlock] = []
    for number, tool in enumerate(request.tools or ()):
        tools += _tool(tool, f"tools[{number}]")
    if not conversation.has_tool_blocks:
        return [] if request.tool_choice is not None and request.tool_choice.type == "none" else tools
    return tools or stand_ins(conversation.tool_names)


def _tool(tool: Tool, where: str) -> Iterable[wire.ToolBlock]:
    if not tool.custom:
        raise UnprocessableRequest(f"{where} of type {tool.type} is not supported by AWSBedrock backends")
    if not tool.name:
        raise UnprocessableRequest(f"{where}.name is missing")
    yield wire.ToolSpecBlock(
        wire.ToolSpec(
            description=tool.description or UNSET,
            input_schema=wire.InputSchema(json_object(tool.input_schema, f"{where}.input_schema") or NO_PARAMETERS),
            name=tool.name,
            strict=True if tool.strict else UNSET,
        )
    )
    yield from cache_point(tool, where)


def _tool_choice(request: MessagesRequest) -> wire.ToolChoice | UnsetType:
    """The choice; ``none`` has no word in Converse, so tools that had to be sent may then still be called."""
    choice = request.tool_choice
    if choice is None or choice.type == "none":
        return UNSET
    match choice.type:
        case "auto":
            return wire.ToolChoice(auto=wire.NoMembers()) if request.tools else UNSET
        case "any":
            converted = wire.ToolChoice(any=wire.NoMembers())
        case "tool":
            if not choice.name:
                raise UnprocessableRequest("tool_choice.name is missing")
            converted = wire.ToolChoice(tool=wire.NamedTool(choice.name))
        case other:
            raise UnprocessableRequest(f"tool_choice.type {other} is not one of auto, any, tool, none")
    if not request.tools:
        raise UnprocessableRequest("tool_choice asks for a call, and there are no tools")
    return converted

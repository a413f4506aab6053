"""A request of the responses API, said as a chat completion.

What would change the answer and cannot be said is refused: the state that only OpenAI keeps (earlier responses,
conversations, stored prompts and items), work in the background, and tools that run on its side. What is left out
changes how an answer is stored, cached or shown, not what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from extproc.endpoints.responses_request import Format, ResponsesRequest, Tool, ToolChoice
from extproc.errors import UnprocessableRequest
from extproc.translate.responses import chat
from extproc.translate.responses.conversation import Conversation, unsupported

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode

_REFUSED: Final[Mapping[str, Callable[[ResponsesRequest], bool]]] = {
    "previous_response_id": lambda request: bool(request.previous_response_id),
    "conversation": lambda request: request.conversation is not None,
    "prompt": lambda request: request.prompt is not None,
    "background": lambda request: request.background is True,
    "context_management": lambda request: bool(request.context_management),
    "moderation": lambda request: request.moderation is not None,
    "reasoning.mode": lambda request: (
        request.reasoning is not None and request.reasoning.mode not in {None, "", "standard"}
    ),
}
"""Members that cannot be said, and whether a request uses them."""


def chat_body(request: ResponsesRequest, *, model: str, stream: bool, family: str) -> bytes:
    """The chat completion request.

    Args:
        request: the client's request.
        model: the effective model.
        stream: ask for a stream, and for its usage.
        family: of the models whose thoughts are given back to them.

    Raises:
        MalformedRequest: an item is none of the API.
        UnprocessableRequest: chat completions cannot say it; the text names the member.
    """
    for name, is_used in _REFUSED.items():
        if is_used(request):
            raise unsupported(name)
    tools, choice = _tools(request)
    text = request.text
    body = chat.ChatBody(
        messages=_messages(request, family),
        model=model,
        max_completion_tokens=_given(request.max_output_tokens),
        stream=True if stream else UNSET,
        stream_options=chat.StreamOptions() if stream else UNSET,
        temperature=_given(request.temperature),
        top_p=_given(request.top_p),
        tools=tools or UNSET,
        tool_choice=choice,
        thinking=_filled(request.thinking),
        frequency_penalty=_given(request.frequency_penalty),
        logprobs=True if request.wants_logprobs else UNSET,
        # Servers refuse it where there is nothing to call.
        parallel_tool_calls=_given(request.parallel_tool_calls) if tools else UNSET,
        presence_penalty=_given(request.presence_penalty),
        reasoning_effort=UNSET if request.reasoning is None else request.reasoning.effort or UNSET,
        response_format=_response_format(None if text is None else text.format),
        safety_identifier=request.safety_identifier or UNSET,
        service_tier=request.service_tier or UNSET,
        top_logprobs=_given(request.top_logprobs),
        user=request.user or UNSET,
        verbosity=UNSET if text is None else text.verbosity or UNSET,
    )
    return _encode(body)


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def _filled(value: Raw | UnsetType) -> Raw | UnsetType:
    """Free-form JSON, without a null, which says as much as its absence."""
    return UNSET if value is UNSET or bytes(value) == b"null" else value


def _messages(request: ResponsesRequest, family: str) -> list[chat.ChatMessage]:
    conversation = Conversation(family=family)
    if request.instructions:
        conversation.instruct(request.instructions)
    match request.input:
        case None:
            raise UnprocessableRequest("input is required")
        case str(text):
            conversation.ask(text)
        case items:
            for index, item in enumerate(items):
                conversation.add(item, f"input[{index}]")
    messages = conversation.messages()
    if all(isinstance(each, chat.Message) and each.role == "system" for each in messages):
        raise UnprocessableRequest("input: there is nothing to answer")
    return messages


# --- tools ---


def _tools(request: ResponsesRequest) -> tuple[list[chat.Tool], str | chat.NamedTool | UnsetType]:
    """The tools that the model is offered, and how it is to choose among them."""
    tools: dict[str, chat.Tool] = {}
    for index, tool in enumerate(request.tools or ()):
        where = f"tools[{index}]"
        if tools.setdefault(tool.name, function := _function(tool, where)) is not function:
            raise UnprocessableRequest(f"{where}.name: there is another function {tool.name!r}")
    choice = request.tool_choice
    if choice is None:
        return list(tools.values()), UNSET
    if isinstance(choice, str):
        return list(tools.values()), _word(choice, "tool_choice", offered=bool(tools))
    allowed = _allowed(choice, tools)
    if choice.type == "function":
        return list(tools.values()), chat.NamedTool(function=chat.FunctionName(name=allowed[0]))
    # No more than these are offered, which all backends understand.
    offered = [tools[name] for name in dict.fromkeys(allowed)]
    return offered, _word(choice.mode, "tool_choice.mode", offered=bool(offered))


_WORDS: Final = ("none", "auto", "required")


def _word(word: str, where: str, *, offered: bool) -> str | UnsetType:
    if word not in _WORDS:
        raise UnprocessableRequest(f"{where}: expected one of {', '.join(_WORDS)}")
    if offered:
        return word
    if word == "required":
        raise UnprocessableRequest(f"{where}: there are no tools to be called")
    return UNSET


def _allowed(choice: ToolChoice, tools: Mapping[str, chat.Tool]) -> list[str]:
    """The names of the functions that the client allows."""
    match choice.type:
        case "function":
            named = [("tool_choice.name", choice.name)]
        case "allowed_tools":
            named = list(_references(choice))
        case "":
            raise UnprocessableRequest("tool_choice.type is required")
        case _:
            raise unsupported(f"tool_choice.type: {choice.type!r}")
    for where, name in named:
        if name not in tools:
            raise UnprocessableRequest(f"{where}: there is no function {name!r} in tools")
    return [name for _, name in named]


def _references(choice: ToolChoice) -> Iterator[tuple[str, str]]:
    for index, reference in enumerate(choice.tools):
        where = f"tool_choice.tools[{index}]"
        if reference.type != "function":
            raise unsupported(f"{where}.type: {reference.type!r}")
        yield f"{where}.name", reference.name


def _function(tool: Tool, where: str) -> chat.Tool:
    if tool.type != "function":
        raise unsupported(f"{where}.type: a tool of type {tool.type!r}")
    if not tool.name:
        raise UnprocessableRequest(f"{where}.name is required")
    if tool.defer_loading:
        raise unsupported(f"{where}.defer_loading")
    if tool.allowed_callers and "direct" not in tool.allowed_callers:
        raise unsupported(f"{where}.allowed_callers: a function that the model may not call itself")
    return chat.Tool(
        function=chat.Function(
            name=tool.name,
            description=tool.description or UNSET,
            parameters=_filled(tool.parameters),
            strict=_given(tool.strict),
        )
    )


# --- output ---


def _response_format(wanted: Format | None) -> chat.ResponseFormat | UnsetType:
    if wanted is None or wanted.type == "text":
        return UNSET
    if wanted.type == "json_object":
        return chat.ResponseFormat(type=wanted.type)
    if wanted.type != "json_schema":
        raise unsupported(f"text.format.type: {wanted.type!r}")
    if wanted.name is UNSET or not wanted.name:
        raise UnprocessableRequest("text.format.name is required")
    schema = chat.JSONSchema(
        name=wanted.name,
        description=wanted.description or UNSET,
        schema=_filled(wanted.schema),
        strict=UNSET if wanted.strict is None else wanted.strict,
    )
    return chat.ResponseFormat(type=wanted.type, json_schema=schema)

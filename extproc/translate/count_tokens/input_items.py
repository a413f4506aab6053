"""A chat request as the request that OpenAI counts: that of its responses API, whose items it becomes (contract, 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.translate.messages import chat_wire as chat
from extproc.translate.via_chat import wire as common

# --- content ---


class InputText(Struct, frozen=True, kw_only=True):
    type: Literal["input_text"] = "input_text"
    text: str


class InputImage(Struct, frozen=True, kw_only=True):
    type: Literal["input_image"] = "input_image"
    image_url: str
    detail: Literal["auto"] = "auto"


class InputFile(Struct, frozen=True, kw_only=True):
    type: Literal["input_file"] = "input_file"
    file_data: str
    filename: str


# --- items ---


class InputMessage(Struct, frozen=True, kw_only=True):
    role: str
    content: str | list[InputText | InputImage | InputFile]


class FunctionCall(Struct, frozen=True, kw_only=True):
    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str
    arguments: str


class FunctionCallOutput(Struct, frozen=True, kw_only=True):
    type: Literal["function_call_output"] = "function_call_output"
    call_id: str
    output: str


Item = InputMessage | FunctionCall | FunctionCallOutput

# --- the rest ---


class FunctionTool(Struct, frozen=True, kw_only=True):
    """A function; ``parameters`` and ``strict`` have to be there, and it is strict unless it says no."""

    type: Literal["function"] = "function"
    name: str
    description: str | UnsetType
    parameters: Raw | None
    strict: bool


class NamedToolChoice(Struct, frozen=True, kw_only=True):
    type: Literal["function"] = "function"
    name: str


class Reasoning(Struct, frozen=True):
    effort: str


class TextFormat(Struct, frozen=True, kw_only=True):
    type: Literal["json_schema"] = "json_schema"
    name: str
    schema: Raw
    strict: bool


class Text(Struct, frozen=True):
    format: TextFormat


class InputTokens(Struct, frozen=True, kw_only=True):
    model: str
    instructions: str | UnsetType
    input: list[Item]
    tools: list[FunctionTool] | UnsetType
    tool_choice: str | NamedToolChoice | UnsetType
    parallel_tool_calls: bool | UnsetType
    reasoning: Reasoning | UnsetType
    text: Text | UnsetType


def input_tokens(body: chat.ChatBody) -> InputTokens:
    """What is counted of a chat request: all that the model reads; limits of the answer are left out."""
    wanted = body.response_format
    return InputTokens(
        model=body.model,
        instructions=_instructions(body.messages),
        input=[item for message in body.messages for item in _items(message)],
        tools=UNSET if body.tools is UNSET else [_tool(tool.function) for tool in body.tools],
        tool_choice=_tool_choice(body.tool_choice),
        parallel_tool_calls=body.parallel_tool_calls,
        reasoning=UNSET if body.reasoning_effort is UNSET else Reasoning(body.reasoning_effort),
        text=UNSET if wanted is UNSET else Text(_format(wanted.json_schema)),
    )


def _instructions(messages: list[chat.ChatMessage]) -> str | UnsetType:
    """The system prompt, which is the first message where there is one."""
    first = messages[0] if messages else None
    return first.content if isinstance(first, chat.SystemMessage) else UNSET


def _items(message: chat.ChatMessage) -> Iterator[Item]:
    match message:
        case chat.UserMessage(content=str(text)):
            yield InputMessage(role="user", content=text)
        case chat.UserMessage(content=list(parts)):
            yield InputMessage(role="user", content=[_part(part) for part in parts])
        case chat.ToolMessage():
            yield FunctionCallOutput(call_id=message.tool_call_id, output=message.content)
        case chat.AssistantMessage():
            if message.content:
                yield InputMessage(role="assistant", content=message.content)
            for call in message.tool_calls or ():
                yield FunctionCall(call_id=call.id, name=call.function.name, arguments=call.function.arguments)


def _part(part: chat.Part) -> InputText | InputImage | InputFile:
    match part:
        case common.TextPart():
            return InputText(text=part.text)
        case common.ImagePart():
            return InputImage(image_url=part.image_url.url)
        case chat.FilePart():
            return InputFile(file_data=part.file.file_data, filename=part.file.filename)


def _tool(function: common.Function) -> FunctionTool:
    return FunctionTool(
        name=function.name,
        description=function.description,
        parameters=None if function.parameters is UNSET else function.parameters,
        strict=False if function.strict is UNSET else function.strict,
    )


def _tool_choice(choice: chat.ToolChoice | UnsetType) -> str | NamedToolChoice | UnsetType:
    return NamedToolChoice(name=choice.function.name) if isinstance(choice, common.NamedToolChoice) else choice


def _format(schema: chat.JSONSchema) -> TextFormat:
    return TextFormat(name=schema.name, schema=schema.schema, strict=schema.strict)

"""The body of ``generateContent`` (contract, chat 9.2, 9.5 and 9.6).

Members stand in the contract's order; ``contents`` and ``tools`` are written even when there are none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats.jsonvalue import JSONValueError, decode, decode_object
from extproc.translate.chat.gemini.generation import GenerationConfig, generation_config
from extproc.translate.chat.gemini.messages import Content, read_messages
from extproc.translate.chat.gemini.models import GeminiModel
from extproc.translate.chat.gemini.schema import Schema, SchemaConverter, SchemaError


class FunctionDeclaration(Struct, frozen=True, kw_only=True, rename="camel"):
    description: str | UnsetType = UNSET
    name: str
    parameters: Schema | UnsetType = UNSET
    parameters_json_schema: Raw | UnsetType = UNSET


class Interval(Struct, frozen=True, kw_only=True, rename="camel"):
    end_time: str | UnsetType = UNSET
    start_time: str | UnsetType = UNSET


class GoogleSearch(Struct, frozen=True, kw_only=True, rename="camel"):
    blocking_confidence: str | UnsetType = UNSET
    exclude_domains: list[str] | UnsetType = UNSET
    time_range_filter: Interval | UnsetType = UNSET


class EnterpriseWebSearch(Struct, frozen=True, kw_only=True):
    pass


class Tool(Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind of tool; all functions are in one."""

    enterprise_web_search: EnterpriseWebSearch | UnsetType = UNSET
    function_declarations: list[FunctionDeclaration] | UnsetType = UNSET
    google_search: GoogleSearch | UnsetType = UNSET


class FunctionCallingConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    allowed_function_names: list[str] | UnsetType = UNSET
    mode: str


class ToolConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    function_calling_config: FunctionCallingConfig


class SafetySetting(Struct, frozen=True, kw_only=True):
    category: str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    threshold: str | UnsetType = UNSET


class GenerateContentRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    contents: list[Content] | None
    tools: list[Tool] | None
    tool_config: ToolConfig | UnsetType = UNSET
    generation_config: GenerationConfig
    system_instruction: Content | UnsetType = UNSET
    safety_settings: list[SafetySetting] | UnsetType = UNSET


# Schemas are dicts, whose members are sorted; those of structs keep their order.
_encode = msgspec.json.Encoder(order="deterministic").encode


def build_body(request: ChatRequest, *, model: str) -> bytes:
    """The body for a model.

    Raises:
        UnprocessableRequest: the request says what Gemini cannot be told; the text names it.
    """
    gemini = GeminiModel.named(model)
    schemas = SchemaConverter()
    conversation = read_messages(request.messages or (), gemini)
    body = GenerateContentRequest(
        contents=conversation.contents or None,
        tools=convert_tools(request.tools or (), gemini, schemas) or None,
        tool_config=_tool_config(request.tool_choice),
        generation_config=generation_config(request, gemini, schemas),
        system_instruction=Content(parts=conversation.system) if conversation.system else UNSET,
        safety_settings=[_safety_setting(each) for each in request.safety_settings or ()] or UNSET,
    )
    try:
        return _encode(body)
    # What could just be read is now a few levels deeper.
    except RecursionError as error:
        raise UnprocessableRequest("JSON that is nested too deep") from error


def _safety_setting(given: chat.SafetySetting) -> SafetySetting:
    return SafetySetting(
        category=given.category or UNSET, method=given.method or UNSET, threshold=given.threshold or UNSET
    )


# --- tools ---


def convert_tools(tools: Sequence[chat.Tool], model: GeminiModel, schemas: SchemaConverter) -> list[Tool]:
    """Search tools in the client's order, then all functions.

    Raises:
        UnprocessableRequest: Gemini does not have such a tool; the text names it.
    """
    found: list[Tool] = []
    functions: list[FunctionDeclaration] = []
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        match tool.type:
            case "function":
                if tool.function is not None:
                    functions.append(_declaration(tool.function, model, schemas, where=f"{where}.function"))
            case "google_search":
                found.append(Tool(google_search=_google_search(tool.google_search, where=f"{where}.google_search")))
            case "enterprise_search":
                found.append(Tool(enterprise_web_search=EnterpriseWebSearch()))
            case _:
                raise UnprocessableRequest(f"{where}.type: unsupported tool type: {tool.type}")
    return [*found, Tool(function_declarations=functions)] if functions else found


def _declaration(
    function: chat.Function, model: GeminiModel, schemas: SchemaConverter, *, where: str
) -> FunctionDeclaration:
    description, given = function.description or UNSET, function.parameters
    if given is UNSET or bytes(given) == b"null":
        return FunctionDeclaration(description=description, name=function.name)
    try:
        if model.takes_json_schema:
            # As the client wrote it: the model answers in the order of the members.
            decode(bytes(given))
            return FunctionDeclaration(description=description, name=function.name, parameters_json_schema=given)
        schema = decode_object(bytes(given))
        converted = schemas.convert(schema) if schema else {}
    except JSONValueError as error:
        raise UnprocessableRequest(
            f"{where}.parameters: tool {function.name} parameters must be a JSON object: {error}"
        ) from error
    except SchemaError as error:
        raise UnprocessableRequest(f"{where}.parameters: invalid JSON schema: {error}") from error
    return FunctionDeclaration(description=description, name=function.name, parameters=converted or UNSET)


def _google_search(given: chat.GoogleSearch | None, *, where: str) -> GoogleSearch:
    if given is None:
        return GoogleSearch()
    interval: Interval | UnsetType = UNSET
    if (times := given.time_range_filter) is not None and (times.start_time or times.end_time):
        interval = Interval(
            end_time=_time(times.end_time, where=f"{where}.time_range_filter.end_time"),
            start_time=_time(times.start_time, where=f"{where}.time_range_filter.start_time"),
        )
    return GoogleSearch(
        blocking_confidence=given.blocking_confidence or UNSET,
        exclude_domains=given.exclude_domains or UNSET,
        time_range_filter=interval,
    )


_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def _time(given: str | None, *, where: str) -> str | UnsetType:
    if not given:
        return UNSET
    try:
        if _RFC_3339.fullmatch(given):
            datetime.fromisoformat(given)
            return given
    except ValueError:
        pass
    raise UnprocessableRequest(f"{where}: expected a time as 2025-01-31T12:00:00Z, not {given}")


_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def _tool_config(choice: str | chat.NamedToolChoice | None) -> ToolConfig | UnsetType:
    if choice is None:
        return UNSET
    if isinstance(choice, chat.NamedToolChoice):
        if not choice.function.name:
            raise UnprocessableRequest("tool_choice.function.name: expected the name of a function")
        return ToolConfig(
            function_calling_config=FunctionCallingConfig(allowed_function_names=[choice.function.name], mode="ANY")
        )
    if (mode := _MODES.get(choice)) is None:
        raise UnprocessableRequest(f"tool_choice: unsupported tool_choice value '{choice}'")
    return ToolConfig(function_calling_config=FunctionCallingConfig(mode=mode))

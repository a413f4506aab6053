"""Tools and the choice among them in the Messages API (contract, chat 11.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.chat.anthropic.media import CacheControl
from extproc.translate.chat.anthropic.messages import cache_breakpoint, check_tool_name


class Tool(Struct, frozen=True, kw_only=True):
    input_schema: Raw
    name: str
    description: str
    strict: bool | UnsetType = UNSET
    cache_control: CacheControl | UnsetType = UNSET


class ToolChoice(Struct, frozen=True, kw_only=True, gc=False):
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: bool | UnsetType = UNSET
    type: str


def convert_tools(tools: list[chat.Tool]) -> list[Tool]:
    """Convert the tools of a request, functions all.

    Raises:
        UnprocessableRequest: one is of another type, has no name of its own, or its parameters are no schema of an
            object.
    """
    converted = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    names: set[str] = set()
    for index, tool in enumerate(converted):
        if tool.name in names:
            raise UnprocessableRequest(f"tools[{index}].function.name: another tool has this name")
        names.add(tool.name)
    return converted


def _tool(tool: chat.Tool, where: str) -> Tool:
    if tool.type != "function":
        raise UnprocessableRequest(f"unsupported tool type: {tool.type} ({where}.type)")
    function = tool.function
    if function is None:
        raise UnprocessableRequest(f"tool of type 'function' is missing function definition ({where}.function)")
    check_tool_name(function.name, f"{where}.function.name")
    return Tool(
        input_schema=_input_schema(function.parameters, f"{where}.function.parameters"),
        name=function.name,
        description=function.description or "",
        strict=True if function.strict is True else UNSET,
        cache_control=cache_breakpoint(function, f"{where}.function"),
    )


_NO_PARAMETERS: Final = Raw(b'{"properties":{},"type":"object"}')


def _input_schema(parameters: Raw | UnsetType, where: str) -> Raw:
    """The schema of a tool's input; for a function without parameters, that of an empty object.

    The API knows the same JSON Schema as the client's, so references and whatever else there is stay as they are.
    """
    spelled = b"null" if parameters is UNSET else bytes(parameters)
    if spelled == b"null":
        return _NO_PARAMETERS
    try:
        return Raw(_ordered_schema(jsonvalue.decode_object(spelled), where))
    except (jsonvalue.JSONValueError, RecursionError) as error:
        raise UnprocessableRequest(f"{where}: expected a JSON Schema: {error}") from error


def _ordered_schema(schema: jsonvalue.JSONObject, where: str) -> bytes:
    """Properties, required and type first, as the provider's SDKs write them, then the rest by name."""
    head: jsonvalue.JSONObject = {}
    properties, required, kind = (schema.pop(name, None) for name in ("properties", "required", "type"))
    if isinstance(properties, dict):
        head["properties"] = properties
    if isinstance(required, list):
        head["required"] = [each for each in required if isinstance(each, str)]
    if isinstance(kind, str) and kind != "object":
        raise UnprocessableRequest(f'{where}.type: expected "object", which is all that a tool can be called with')
    head["type"] = "object"
    first = jsonvalue.encode(head)
    return first[:-1] + b"," + jsonvalue.encode(schema)[1:] if schema else first


# --- the choice ---

_KINDS: Final[Mapping[str, str]] = {"auto": "auto", "required": "any", "any": "any", "none": "none"}


def convert_tool_choice(
    choice: str | chat.NamedToolChoice | None, tools: list[Tool], *, parallel: bool | None
) -> ToolChoice | UnsetType:
    """Convert the choice of a request that has tools.

    Args:
        choice: ``tool_choice``.
        tools: to choose from.
        parallel: ``parallel_tool_calls``; false counts even where no choice is made.

    Raises:
        UnprocessableRequest: the choice is none of the API's, or names none of the tools.
    """
    serial = parallel is False
    if choice is None:
        return ToolChoice(disable_parallel_tool_use=True, type="auto") if serial else UNSET
    if isinstance(choice, chat.NamedToolChoice):
        if choice.type != "function" or not choice.function.name:
            raise UnprocessableRequest("tool_choice: expected the name of a function")
        if all(tool.name != choice.function.name for tool in tools):
            raise UnprocessableRequest(f"tool_choice.function.name: there is no tool {choice.function.name!r}")
        return ToolChoice(name=choice.function.name, disable_parallel_tool_use=serial, type="tool")
    kind = _KINDS.get(choice)
    if kind is None:
        raise UnprocessableRequest(f"unsupported tool_choice value: {choice}")
    return ToolChoice(disable_parallel_tool_use=UNSET if kind == "none" else serial, type=kind)

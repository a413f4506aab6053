"""The tools of a request as functions, which are all that chat completions have; and how calls of them read.

- A ``custom`` tool takes a text of its own form: it becomes a function with one text, ``input``. Nobody can be made to
  keep to its grammar, so the model is told it.
- ``local_shell`` is run by the client, and what it takes is known: a function of that name.
- The tools of a ``namespace`` become functions with its name before theirs.
- A tool whose loading is deferred is offered at once: the model has no need to search for it.

Agents declare some tools of OpenAI's in every request, whether one will be needed or not: search in the web, search
for tools, drawing. To refuse those would be to refuse the agents, so they are left out, and ``tools`` of the response
lists them no more; but not where a client asks for nothing else, as an answer without them would be made up. Tools
that are chosen for what they reach (files, MCP servers, containers) or that the client is to run in ways that only
OpenAI's models have been taught (``computer``, ``shell``, ``apply_patch``) are refused in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints.responses_request import (
    Format,
    LocalShellAction,
    ResponsesRequest,
    Tool,
    ToolChoice,
    read_item,
)
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.translate.responses import wire
from extproc.translate.responses.refusal import unsupported
from extproc.translate.via_chat import wire as common

LOCAL_SHELL: Final = "local_shell"

_LEFT_OUT: Final = frozenset(
    {
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "tool_search",
        "image_generation",
    }
)


class Kind(Enum):
    """What a function is to the client."""

    FUNCTION = auto()
    CUSTOM = auto()
    LOCAL_SHELL = auto()


class Offered(Struct, frozen=True, kw_only=True):
    """A tool that the model is offered.

    Attributes:
        name: by which the client knows it.
        namespace: in which it does; empty without one.
    """

    kind: Kind
    name: str
    namespace: str = ""
    function: common.Tool


class Tools(Struct, frozen=True, kw_only=True):
    """The tools of a request.

    Attributes:
        offered: by the names of the functions that they become.
        told: as the client is told of them.
        choice: how the model is to choose; it is offered no more than it may call.
    """

    offered: Mapping[str, Offered]
    told: list[wire.Tool]
    choice: str | common.NamedToolChoice | UnsetType

    @property
    def functions(self) -> list[common.Tool]:
        return [each.function for each in self.offered.values()]


def function_name(name: str, namespace: str | None) -> str:
    """The name of the function that a tool becomes."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def compact(schema: Raw, where: str) -> Raw:
    """Free-form JSON in one line, which is what clients expect of the data of an event.

    Raises:
        MalformedRequest: it is not JSON in UTF-8.
    """
    try:
        return Raw(msgspec.json.format(bytes(schema), indent=-1).decode().encode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedRequest(f"{where}: it is not JSON: {error}") from error


def filled(value: Raw | UnsetType) -> Raw | UnsetType:
    """Free-form JSON, without a null, which says as much as its absence."""
    return UNSET if value is UNSET or bytes(value) == b"null" else value


_decoder = msgspec.json.Decoder(Tool)


def read_tools(request: ResponsesRequest) -> Tools:
    """The tools that the model is offered, and how it is to choose among them.

    Raises:
        MalformedRequest: one is none of the API.
        UnprocessableRequest: chat completions cannot say it; the text names the member.
    """
    offered: dict[str, Offered] = {}
    told: list[wire.Tool] = []
    left_out: list[str] = []
    for index, item in enumerate(request.tools or ()):
        where = f"tools[{index}]"
        tool = read_item(_decoder, item, where)
        if tool.type in _LEFT_OUT:
            left_out.append(f"{where}.type: a tool of type {tool.type!r}, without any other,")
            continue
        _add(offered, _offers(tool, where))
        told.append(_told(tool, where) if tool.type == "function" else compact(item, where))
    if left_out and not offered and request.tool_choice != "none":
        raise unsupported(left_out[0])
    return _chosen(request.tool_choice, offered, told)


def _add(offered: dict[str, Offered], tools: Iterable[tuple[str, Offered]]) -> None:
    for where, tool in tools:
        name = tool.function.function.name
        if offered.setdefault(name, tool) is not tool:
            raise UnprocessableRequest(f"{where}.name: there is another function {name!r}")


def _told(tool: Tool, where: str) -> wire.FunctionTool:
    parameters = None if tool.parameters is UNSET else compact(tool.parameters, f"{where}.parameters")
    return wire.FunctionTool(description=tool.description, name=tool.name, parameters=parameters, strict=tool.strict)


# --- what tools become ---


def _offers(tool: Tool, where: str, namespace: str = "") -> Iterator[tuple[str, Offered]]:
    """What a tool becomes, and where each of it stands in the request."""
    if tool.type == "namespace" and not namespace:
        name = _named(tool, where)
        for index, inner in enumerate(tool.tools or ()):
            yield from _offers(inner, f"{where}.tools[{index}]", name)
        return
    make = _MAKERS.get(tool.type)
    if make is None:
        raise unsupported(f"{where}.type: a tool of type {tool.type!r}")
    if tool.allowed_callers and "direct" not in tool.allowed_callers:
        raise unsupported(f"{where}.allowed_callers: a function that the model may not call itself")
    yield where, make(tool, where, namespace)


def _named(tool: Tool, where: str) -> str:
    if not tool.name:
        raise UnprocessableRequest(f"{where}.name is required")
    return tool.name


def _function(tool: Tool, where: str, namespace: str) -> Offered:
    function = common.Function(
        name=function_name(_named(tool, where), namespace),
        description=tool.description or UNSET,
        parameters=filled(tool.parameters),
        strict=UNSET if tool.strict is None else tool.strict,
    )
    return Offered(kind=Kind.FUNCTION, name=tool.name, namespace=namespace, function=common.Tool(function=function))


_INPUT_SCHEMA: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'
)


def _custom(tool: Tool, where: str, namespace: str) -> Offered:
    function = common.Function(
        name=function_name(_named(tool, where), namespace),
        description=_described(tool) or UNSET,
        parameters=_INPUT_SCHEMA,
    )
    return Offered(kind=Kind.CUSTOM, name=tool.name, namespace=namespace, function=common.Tool(function=function))


def _described(tool: Tool) -> str:
    """The description of a custom tool, and what its input must be like."""
    grammar = tool.format
    texts = [tool.description or ""]
    if grammar is not None and grammar.definition:
        texts.append(f"The input must match this {grammar.syntax or ''} grammar:\n{grammar.definition}")
    return "\n\n".join(text for text in texts if text)


_SHELL_SCHEMA: Final = Raw(
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},'
    b'"description":"The program and its arguments."},"timeout_ms":{"type":"integer"},"working_directory":'
    b'{"type":"string"},"env":{"type":"object","additionalProperties":{"type":"string"}}},"required":["command"]}'
)


def _local_shell(_tool: Tool, _where: str, _namespace: str) -> Offered:
    function = common.Function(
        name=LOCAL_SHELL, description="Runs a command on the user's machine.", parameters=_SHELL_SCHEMA
    )
    return Offered(kind=Kind.LOCAL_SHELL, name=LOCAL_SHELL, function=common.Tool(function=function))


_MAKERS: Final[Mapping[str, Callable[[Tool, str, str], Offered]]] = {
    "function": _function,
    "custom": _custom,
    LOCAL_SHELL: _local_shell,
}

# --- how the model chooses ---

_WORDS: Final = ("none", "auto", "required")


def _chosen(choice: str | ToolChoice | None, offered: Mapping[str, Offered], told: list[wire.Tool]) -> Tools:
    if choice is None:
        return Tools(offered=offered, told=told, choice=UNSET)
    if isinstance(choice, str):
        return Tools(offered=offered, told=told, choice=_word(choice, "tool_choice", offered=bool(offered)))
    allowed = _allowed(choice, offered)
    if choice.type != "allowed_tools":
        return Tools(
            offered=offered, told=told, choice=common.NamedToolChoice(function=common.FunctionName(name=allowed[0]))
        )
    # No more than these are offered, which all backends understand.
    few = {name: offered[name] for name in allowed}
    return Tools(offered=few, told=told, choice=_word(choice.mode, "tool_choice.mode", offered=bool(few)))


def _word(word: str, where: str, *, offered: bool) -> str | UnsetType:
    if word not in _WORDS:
        raise UnprocessableRequest(f"{where}: expected one of {', '.join(_WORDS)}")
    if offered:
        return word
    if word == "required":
        raise UnprocessableRequest(f"{where}: there are no tools to be called")
    return UNSET


def _allowed(choice: ToolChoice, offered: Mapping[str, Offered]) -> list[str]:
    """The names of the functions that the client allows."""
    match choice.type:
        case "allowed_tools":
            references = [
                (f"tool_choice.tools[{index}]", each.type, each.name)
                for index, each in enumerate(choice.tools)
                if each.type not in _LEFT_OUT
            ]
        case "":
            raise UnprocessableRequest("tool_choice.type is required")
        case _:
            references = [("tool_choice", choice.type, choice.name)]
    return [_found(where, kind, name, offered) for where, kind, name in references]


_KINDS: Final = {"function": Kind.FUNCTION, "custom": Kind.CUSTOM, LOCAL_SHELL: Kind.LOCAL_SHELL}


def _found(where: str, kind: str, name: str, offered: Mapping[str, Offered]) -> str:
    if kind not in _KINDS:
        raise unsupported(f"{where}.type: {kind!r}")
    name = name or (LOCAL_SHELL if kind == LOCAL_SHELL else "")
    tool = offered.get(name)
    if tool is None or tool.kind is not _KINDS[kind]:
        raise UnprocessableRequest(f"{where}.name: there is no {kind} {name!r} in tools")
    return name


# --- what calls say ---


class _Input(Struct, frozen=True):
    input: str


_read_input = msgspec.json.Decoder(_Input).decode
_read_action = msgspec.json.Decoder(LocalShellAction).decode
_encode = msgspec.json.Encoder().encode

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


def custom_arguments(text: str) -> str:
    """The arguments of the function that a custom tool has become."""
    return _encode(_Input(text)).decode()


def custom_input(arguments: str) -> str:
    """The input of a custom tool; a model that gives it without the wrapping is understood as well."""
    try:
        return _read_input(arguments).input
    except _UNREADABLE:
        return arguments


def shell_arguments(action: LocalShellAction) -> str:
    return _encode(action).decode()


def shell_action(arguments: str) -> LocalShellAction:
    """The command that the client is to run: none, where the model's words are no command."""
    try:
        return _read_action(arguments)
    except _UNREADABLE:
        return LocalShellAction()


def called(tool: Offered | None, *, item_id: str, call_id: str, status: str, name: str, arguments: str) -> wire.Call:
    """A call as the client reads it.

    Args:
        tool: that the model calls; ``None`` when it has not been offered one of this name.
        item_id: of the item.
        call_id: of the call.
        status: of the item.
        name: of the function.
        arguments: that the model gives it.
    """
    if tool is not None and tool.kind is Kind.LOCAL_SHELL:
        action = shell_action(arguments)
        return wire.LocalShellCall(
            id=item_id,
            status=status,
            call_id=call_id,
            action=wire.ShellAction(
                command=action.command,
                env=action.env,
                timeout_ms=action.timeout_ms,
                user=action.user,
                working_directory=action.working_directory,
            ),
        )
    known, namespace = (name, "") if tool is None else (tool.name, tool.namespace)
    if tool is not None and tool.kind is Kind.CUSTOM:
        return wire.CustomToolCall(
            id=item_id,
            status=status,
            call_id=call_id,
            input=custom_input(arguments),
            name=known,
            namespace=namespace or UNSET,
        )
    return wire.FunctionCall(
        id=item_id, status=status, arguments=arguments, call_id=call_id, name=known, namespace=namespace or UNSET
    )


def told_format(given: Format | None) -> Format:
    """The form of the text, as the client is told of it."""
    if given is None or given.schema is UNSET:
        return given or Format()
    return msgspec.structs.replace(given, schema=compact(given.schema, "text.format.schema"))

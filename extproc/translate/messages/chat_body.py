"""A messages request as a chat completion request (contract, messages to chat completions 5.6).

How much to think is said in two ways. OpenAI and Azure take ``reasoning_effort``; our translator for Gemini takes the
``thinking`` object as well. For the effort, ``output_config.effort`` counts before the budget of tokens:

- ``enabled`` with a budget below 4096 tokens is ``low``, below 16384 ``medium``, else ``high``;
- ``adaptive`` is ``medium``: the model decides, but some think only when they are told to;
- ``disabled``, and nothing at all, say nothing: models that cannot think refuse the member, whatever its value.

Gemini is told ``disabled`` where a model can stop: agents say so to every model in their small requests.

Dropped, because the answer means the same without it: ``top_k``, ``service_tier``, ``cache_control``,
``context_management``, ``container``, ``thinking.display``. A tool whose loading is deferred is offered at once.

Of the tools that Anthropic runs, agents declare search and fetching in the web, and search for tools, whether they will
be needed or not. To refuse those would be to refuse the agents, so they are left out beside tools of the client's own;
but not where a client asks for nothing else, as an answer without them would be made up. Refused are the other tools
that Anthropic runs (they reach something that has been chosen), those that it defines and the client runs (Claude alone
has been taught their use, and the client's loop stands on them), and MCP servers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import messages_request as messages
from extproc.endpoints.messages_request import PATH, MessagesRequest, decode_messages_request
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.translate.chat.gemini.models import GeminiModel
from extproc.translate.messages import chat_wire as wire
from extproc.translate.messages.chat_messages import chat_messages
from extproc.translate.via_chat import wire as common


class Thought(Enum):
    """How a backend is asked to think, and told what it has thought."""

    EFFORT = auto()
    """By ``reasoning_effort``; thoughts of earlier answers are not taken back."""
    BUDGET = auto()
    """By ``thinking``, as our own translators know it; earlier thoughts are taken as ``thinking_blocks``."""


MAX_USER_LENGTH: Final = 64
"""Of OpenAI's ``user``, in characters. The ids of Claude Code are longer."""

_MEDIUM_BUDGET: Final = 4096
_HIGH_BUDGET: Final = 16384
_MAX_TOKENS: Final = 2**53


class _ToolServers(Struct, frozen=True):
    """The one member that the typed request does not have and that cannot be dropped."""

    mcp_servers: object = None


_servers_decoder = msgspec.json.Decoder(_ToolServers)


def read_messages_request(body: bytes) -> MessagesRequest:
    """Read a request that is carried over chat completions.

    Raises:
        MalformedRequest: it is not JSON in UTF-8, or a member does not have the type that the API gives it.
        UnprocessableRequest: it names MCP servers.
    """
    request = decode_messages_request(body)
    try:
        # Free-form JSON in it has not been looked at, and is to be sent on.
        body.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error
    if b"mcp_servers" in body and _servers_decoder.decode(body).mcp_servers:
        raise UnprocessableRequest("mcp_servers cannot be reached from this backend")
    return request


def chat_body(request: MessagesRequest, *, model: str, stream: bool, thought: Thought) -> wire.ChatBody:
    """The chat request.

    Args:
        request: the client's.
        model: as the backend calls it.
        stream: whether the answer is to be streamed; its usage is asked for.
        thought: see there.

    Raises:
        UnprocessableRequest: chat completions cannot say it; the text names the member.
    """
    tools = list(_tools(request))
    choice = _tool_choice(request.tool_choice)
    parallel = request.tool_choice is None or not request.tool_choice.disable_parallel_tool_use
    by_budget = thought is Thought.BUDGET
    return wire.ChatBody(
        messages=chat_messages(request, keep_thinking=by_budget),
        model=model,
        max_completion_tokens=_output_limit(request.max_tokens),
        stream=True if stream else UNSET,
        stream_options=common.StreamOptions() if stream else UNSET,
        temperature=_number(request.temperature),
        top_p=_number(request.top_p),
        tools=tools or UNSET,
        tool_choice=choice if tools else UNSET,
        thinking=_thinking(request.thinking, model) if by_budget else UNSET,
        reasoning_effort=_level(request) if by_budget else _effort(request),
        response_format=_response_format(request),
        # Both are about tools, and refused where there are none.
        parallel_tool_calls=False if tools and not parallel else UNSET,
        user=_user(request.metadata),
        stop=request.stop_sequences or UNSET,
    )


def _output_limit(given: float | None) -> int | UnsetType:
    if given is None:
        return UNSET
    if not -_MAX_TOKENS <= given <= _MAX_TOKENS:
        raise UnprocessableRequest(f"max_tokens: {given} is out of range")
    return int(given)


def _number(value: float | None) -> float | UnsetType:
    """A whole number is written without a fraction, as the peer does."""
    if value is None:
        return UNSET
    return int(value) if value.is_integer() and abs(value) <= _MAX_TOKENS else value


def _user(metadata: messages.Metadata | None) -> str | UnsetType:
    """The user's id; a longer one than OpenAI takes by its SHA-256, which is as long as one may be."""
    user = metadata.user_id if metadata is not None else None
    if not user:
        return UNSET
    return user if len(user) <= MAX_USER_LENGTH else hashlib.sha256(user.encode()).hexdigest()


# --- tools ---


_LEFT_OUT: Final = ("web_search_", "web_fetch_", "tool_search_tool_")
"""How the types of those tools begin; their versions follow."""


def _tools(request: messages.MessagesRequest) -> Iterator[common.Tool]:
    """The tools that the model is offered."""
    choice = request.tool_choice
    tools = [(f"tools[{number}]", tool) for number, tool in enumerate(request.tools or ())]
    needed = not any(tool.custom for _, tool in tools) and (choice is None or choice.type != "none")
    for where, tool in tools:
        if tool.custom:
            yield _tool(tool, where)
        elif needed or _is_chosen(tool, choice) or not (tool.type or "").startswith(_LEFT_OUT):
            raise UnprocessableRequest(f"{where}.type: {tool.type!r} is a tool that this backend does not have")


def _is_chosen(tool: messages.Tool, choice: messages.ToolChoice | None) -> bool:
    return choice is not None and choice.type == "tool" and choice.name == tool.name


def _tool(tool: messages.Tool, where: str) -> common.Tool:
    if not tool.name:
        raise UnprocessableRequest(f"{where}.name: a tool needs a name")
    schema = tool.input_schema
    if schema is not UNSET and bytes(schema) == b"null":
        schema = UNSET
    return common.Tool(
        function=common.Function(
            name=tool.name,
            description=tool.description or UNSET,
            parameters=schema,
            strict=UNSET if tool.strict is None else tool.strict,
        )
    )


_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


def _tool_choice(choice: messages.ToolChoice | None) -> wire.ToolChoice | UnsetType:
    if choice is None:
        return UNSET
    if choice.type == "tool":
        if not choice.name:
            raise UnprocessableRequest("tool_choice.name: expected the name of a tool")
        return common.NamedToolChoice(function=common.FunctionName(choice.name))
    if (known := _CHOICES.get(choice.type)) is None:
        raise UnprocessableRequest(f"tool_choice.type: unknown type: {choice.type}")
    return known


# --- thinking ---

_THINKING_TYPES: Final = frozenset({"enabled", "adaptive", "disabled"})
_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})


def _effort(request: MessagesRequest) -> str | UnsetType:
    """The ``reasoning_effort``, see above."""
    thinking, effort = _checked_thinking(request.thinking), _asked_effort(request)
    if thinking is not None and thinking.type == "disabled":
        return UNSET
    if effort is not UNSET or thinking is None:
        return effort
    if thinking.type == "adaptive":
        return "medium"
    budget = thinking.budget_tokens or 0
    if budget < _MEDIUM_BUDGET:
        return "low"
    return "medium" if budget < _HIGH_BUDGET else "high"


def _asked_effort(request: MessagesRequest) -> str | UnsetType:
    effort = request.output_config.effort if request.output_config is not None else None
    if effort is None:
        return UNSET
    if effort not in _EFFORTS:
        raise UnprocessableRequest(f"output_config.effort: unknown effort: {effort}")
    return effort


def _level(request: MessagesRequest) -> str | UnsetType:
    """The effort where a budget is said beside it; Gemini knows nothing above ``high``."""
    effort = _asked_effort(request)
    return "high" if effort in {"xhigh", "max"} else effort


def _checked_thinking(thinking: messages.Thinking | None) -> messages.Thinking | None:
    if thinking is not None and thinking.type not in _THINKING_TYPES:
        raise UnprocessableRequest(f"thinking.type: unknown type: {thinking.type}")
    return thinking


def _thinking(given: messages.Thinking | None, model: str) -> wire.Thinking | UnsetType:
    thinking = _checked_thinking(given)
    if thinking is None or (thinking.type == "disabled" and not _can_stop_thinking(GeminiModel.named(model))):
        return UNSET
    if thinking.type != "enabled":
        return wire.ThinkingOfType(thinking.type)
    budget = min(max(thinking.budget_tokens or 0, 0), _MAX_TOKENS)
    # Whoever thinks for this client shows its thoughts, unless it does not care to see them.
    shown = UNSET if thinking.display == "omitted" else True
    return wire.ThinkingEnabled(budget_tokens=int(budget), include_thoughts=shown)


def _can_stop_thinking(model: GeminiModel) -> bool:
    """Whether a model takes it to be told not to think: older ones do not think, Pro models always do."""
    return model.version == (0, 0) or (model.version >= (2, 5) and model.is_flash)


# --- output format ---

_FORMAT_NAME: Final = "answer"


def _response_format(request: MessagesRequest) -> wire.ResponseFormat | UnsetType:
    """The form of the answer. Anthropic promises that an answer fits the schema; OpenAI does if it is ``strict``."""
    where, wanted = "output_format", request.output_format
    if request.output_config is not None and request.output_config.format is not None:
        where, wanted = "output_config.format", request.output_config.format
    if wanted is None:
        return UNSET
    if wanted.type != "json_schema":
        raise UnprocessableRequest(f"{where}.type: unknown format: {wanted.type}")
    if not isinstance(wanted.schema, Raw) or not bytes(wanted.schema).startswith(b"{"):
        raise UnprocessableRequest(f"{where}.schema: expected a JSON Schema")
    return wire.ResponseFormat(json_schema=wire.JSONSchema(name=_FORMAT_NAME, schema=wanted.schema, strict=True))

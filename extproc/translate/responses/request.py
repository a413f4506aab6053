"""A request of the responses API, said as a chat completion.

What would change the answer and cannot be said is refused: the state that only OpenAI keeps (earlier responses,
conversations, stored prompts and items), work in the background, and most tools that run on its side. What is left out
changes how an answer is stored, cached or shown, not what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from extproc.endpoints.responses_request import Format, ResponsesRequest
from extproc.errors import UnprocessableRequest
from extproc.translate.responses import chat
from extproc.translate.responses.conversation import Conversation
from extproc.translate.responses.refusal import unsupported
from extproc.translate.responses.tools import Tools, filled
from extproc.translate.via_chat import wire as common

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


def chat_body(
    request: ResponsesRequest, tools: Tools, *, model: str, stream: bool, family: str, takes_effort: bool = True
) -> bytes:
    """The chat completion request.

    Args:
        request: the client's request.
        tools: of the request.
        model: the effective model.
        stream: ask for a stream, and for its usage.
        family: of the models whose thoughts are given back to them.
        takes_effort: whether the model can be told how much to think.

    Raises:
        MalformedRequest: an item is none of the API.
        UnprocessableRequest: chat completions cannot say it; the text names the member.
    """
    for name, is_used in _REFUSED.items():
        if is_used(request):
            raise unsupported(name)
    text = request.text
    body = chat.ChatBody(
        messages=_messages(request, family),
        model=model,
        max_completion_tokens=_given(request.max_output_tokens),
        stream=True if stream else UNSET,
        stream_options=common.StreamOptions() if stream else UNSET,
        temperature=_given(request.temperature),
        top_p=_given(request.top_p),
        tools=tools.functions or UNSET,
        tool_choice=tools.choice,
        thinking=filled(request.thinking),
        frequency_penalty=_given(request.frequency_penalty),
        logprobs=True if request.wants_logprobs else UNSET,
        # Servers refuse it where there is nothing to call.
        parallel_tool_calls=_given(request.parallel_tool_calls) if tools.offered else UNSET,
        presence_penalty=_given(request.presence_penalty),
        reasoning_effort=_effort(request, family) if takes_effort else UNSET,
        response_format=_response_format(None if text is None else text.format),
        safety_identifier=request.safety_identifier or UNSET,
        service_tier=request.service_tier or UNSET,
        top_logprobs=_given(request.top_logprobs),
        user=request.user or UNSET,
        verbosity=UNSET if text is None else text.verbosity or UNSET,
    )
    return _encode(body)


_LEVELS: Final[Mapping[str, Mapping[str, str | UnsetType]]] = {
    # Without being asked to, Claude does not think.
    "claude": {"none": UNSET, "minimal": "low"},
    "gemini": {"minimal": "low", "xhigh": "high", "max": "high"},
}
"""Family → efforts that it does not know → the nearest that it does. SDKs send them without being told to."""


def _effort(request: ResponsesRequest, family: str) -> str | UnsetType:
    effort = request.reasoning.effort if request.reasoning is not None else None
    return _LEVELS.get(family, {}).get(effort, effort) if effort else UNSET


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


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
    if wanted.schema is UNSET or not bytes(wanted.schema).startswith(b"{"):
        raise UnprocessableRequest("text.format.schema: expected a JSON Schema")
    schema = chat.JSONSchema(
        name=wanted.name,
        description=wanted.description or UNSET,
        schema=wanted.schema,
        strict=UNSET if wanted.strict is None else wanted.strict,
    )
    return chat.ResponseFormat(type=wanted.type, json_schema=schema)

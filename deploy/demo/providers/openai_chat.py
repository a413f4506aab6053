"""Chat completions: the rules that OpenAI and Azure have for requests, and the answers of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from deploy.demo.providers import openai_shapes as shapes
from deploy.demo.providers.schemas import check_parameters, check_schema
from deploy.demo.providers.script import ANY, AUTO, NONE, Conversation, Said, Stop, Tokens, Tool, halves
from deploy.demo.providers.service import CREATED, Refused, event
from deploy.demo.providers.shapes import check_range, decode

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FINISH: Final = {Stop.END: "stop", Stop.TOOLS: "tool_calls", Stop.LENGTH: "length"}
_CHOICES: Final = {None: AUTO, "auto": AUTO, "none": NONE, "required": ANY}

Extras = dict[str, Any]


def read(body: bytes) -> tuple[shapes.ChatRequest, Conversation]:
    """The request, and what it asks.

    Raises:
        Refused: it breaks a rule of the API.
    """
    request = decode(body, shapes.ChatRequest)
    if not request.messages:
        raise Refused("messages: at least one message is needed")
    _check_numbers(request)
    _check_tools(request)
    _check_results(request.messages)
    return request, _conversation(request)


def _check_numbers(request: shapes.ChatRequest) -> None:
    check_range("temperature", request.temperature, 0, 2)
    check_range("top_p", request.top_p, 0, 1)
    check_range("presence_penalty", request.presence_penalty, -2, 2)
    check_range("frequency_penalty", request.frequency_penalty, -2, 2)
    check_range("n", request.n, 1, 128)
    check_range("top_logprobs", request.top_logprobs, 0, 20)
    for name, value in (("max_tokens", request.max_tokens), ("max_completion_tokens", request.max_completion_tokens)):
        if value is not None and value < 1:
            raise Refused(f"{name}: has to be at least 1, found {value}", code="integer_below_min_value")
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise Refused("max_tokens and max_completion_tokens cannot both be set")
    if request.stream_options is not None and not request.stream:
        raise Refused("stream_options: allowed only where stream is true")
    if request.top_logprobs is not None and not request.logprobs:
        raise Refused("top_logprobs: logprobs has to be true")
    if isinstance(request.stop, list) and len(request.stop) > 4:
        raise Refused("stop: four sequences at most")


def _check_tools(request: shapes.ChatRequest) -> None:
    if request.tools is not None and not request.tools:
        raise Refused("tools: an empty list; leave it out")
    if request.tools is None and request.tool_choice is not None:
        raise Refused("tool_choice: allowed only with tools")
    for index, tool in enumerate(request.tools or ()):
        if not _TOOL_NAME.fullmatch(tool.function.name):
            raise Refused(f"tools.{index}.function.name: does not match {_TOOL_NAME.pattern}")
        if tool.function.parameters is not None:
            check_parameters(tool.function.parameters, f"tools.{index}.function.parameters")
    if isinstance(request.response_format, shapes.SchemaFormat):
        check_schema(request.response_format.json_schema.schema or {}, "response_format.json_schema.schema")


def _check_results(messages: list[shapes.Message]) -> None:
    """Every call of an assistant is followed by its result, and no result comes without a call."""
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, shapes.ToolMessage):
            if message.tool_call_id not in open_calls:
                raise Refused(f"messages.{index}: no call before it has the id {message.tool_call_id!r}")
            open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            raise Refused(f"messages.{index}: calls have no results: {', '.join(sorted(open_calls))}")
        if isinstance(message, shapes.AssistantMessage):
            if message.content is None and not message.tool_calls and message.refusal is None:
                raise Refused(f"messages.{index}.content: needed where there are no tool_calls")
            open_calls = {call.id for call in message.tool_calls or ()}
    if open_calls:
        raise Refused(f"messages: calls have no results: {', '.join(sorted(open_calls))}")


def _conversation(request: shapes.ChatRequest) -> Conversation:
    choice = request.tool_choice
    asked = Conversation(
        tools=tuple(
            Tool(name=tool.function.name, parameters=tool.function.parameters or {}) for tool in request.tools or ()
        ),
        choice=choice.function.name if isinstance(choice, shapes.NamedTool) else _CHOICES[choice],
        parallel=request.parallel_tool_calls,
        thinking=request.reasoning_effort not in (None, "none"),
        limit=request.max_completion_tokens or request.max_tokens,
        schema=_schema(request.response_format),
    )
    for message in request.messages:
        _tell(asked, message)
    return asked


def _schema(wanted: shapes.TextFormat | shapes.ObjectFormat | shapes.SchemaFormat | None) -> Extras | None:
    match wanted:
        case shapes.SchemaFormat(json_schema=described):
            return described.schema or {}
        case shapes.ObjectFormat():
            return {"type": "object"}
        case _:
            return None


def _tell(asked: Conversation, message: shapes.Message) -> None:
    match message:
        case shapes.SystemMessage() | shapes.DeveloperMessage():
            for text in _texts(message.content):
                asked.system(text)
        case shapes.UserMessage(content=str(text)):
            asked.user(text)
        case shapes.UserMessage(content=list(parts)):
            _tell_parts(asked, parts)
        case shapes.AssistantMessage():
            for text in _texts(message.content):
                asked.assistant(text)
            for call in message.tool_calls or ():
                asked.call(call.function.name)
        case shapes.ToolMessage():
            asked.result("\n".join(_texts(message.content)))


def _tell_parts(asked: Conversation, parts: Iterable[shapes.UserPart]) -> None:
    for part in parts:
        if isinstance(part, shapes.TextPart):
            asked.user(part.text)
        else:
            asked.image()


def _texts(content: str | Iterable[shapes.TextPart | shapes.RefusalPart] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [part.text if isinstance(part, shapes.TextPart) else part.refusal for part in content]


def completion(said: Said, *, model: str, choice_extras: Extras, extras: Extras) -> Extras:
    """The ``chat.completion``. ``extras`` are members that only Azure has."""
    message: Extras = {"role": "assistant", "content": said.text, "refusal": None, "annotations": []}
    if said.calls:
        message["tool_calls"] = [
            {"id": f"call_{call.id}", "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[said.stop], **choice_extras}
    return {**_head(said, model, "chat.completion"), "choices": [choice], "usage": usage(said.tokens), **extras}


def chunks(said: Said, *, model: str, include_usage: bool, choice_extras: Extras) -> Iterator[bytes]:
    """The same as events: role, text a word at a time, calls, the reason, the usage if it is wanted, and the end."""
    head = _head(said, model, "chat.completion.chunk")
    tail: Extras = {"usage": None} if include_usage else {}

    def chunk(delta: Extras, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **choice_extras}
        return event({**head, "choices": [choice], **tail})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for word in said.words():
        yield chunk({"content": word})
    for index, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": f"call_{call.id}", "type": "function", "function": function}]}
        )
        for half in halves(call.json):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    yield chunk({}, _FINISH[said.stop])
    if include_usage:
        yield event({**head, "choices": [], "usage": usage(said.tokens)})
    yield event("[DONE]")


def usage(tokens: Tokens) -> Extras:
    """Cached tokens are part of the prompt, reasoning is part of the completion."""
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.thinking,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _head(said: Said, model: str, kind: str) -> Extras:
    return {
        "id": f"chatcmpl-{said.id}",
        "object": kind,
        "created": CREATED,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_standin",
    }

"""The conversation as JSON, in the shapes of the GenAI conventions: messages of parts, instructions, tools.

The schemas are ``gen-ai-input-messages.json``, ``gen-ai-output-messages.json``, ``gen-ai-system-instructions.json``
and ``gen-ai-tool-definitions.json`` of OpenTelemetry's semantic conventions. A part that they have no shape for, or
that a view has no content of, becomes one of their generic parts, which have a type and whatever else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.attributes import Pairs
from extproc.telemetry.tracing.views import TEXT, AnswerView, Message, Part, RequestView, ToolCall

Shape = dict[str, Any]

_UNKNOWN: Final = "unknown"
_MODALITIES: Final = {"image": "image", "audio": "audio", "video": "video", "file": "document"}
# Not JSON, nested too deep, or a number of absurd length.
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, ValueError)


def told(request: RequestView) -> Pairs:
    """Attributes with what the model is told."""
    yield "gen_ai.input.messages", _json([_message(message) for message in _asked(request)])
    yield "gen_ai.system_instructions", _json(list(map(_part, request.system)))
    yield "gen_ai.tool.definitions", _json(list(map(_tool, request.tools)))


def said(answer: AnswerView) -> Pairs:
    """Attributes with what it answered."""
    messages = _answered(answer)
    yield "gen_ai.output.messages", _json([_output(message, at, answer) for at, message in enumerate(messages)])


def _json(shapes: list[Shape]) -> str | None:
    return msgspec.json.encode(shapes).decode() if shapes else None


def _asked(request: RequestView) -> Sequence[Message]:
    """The request's messages; where its API knows of none, its texts are what the user says."""
    if request.messages:
        return request.messages
    if request.operation == Operation.RERANK:
        documents = [Part(type="document", text=document) for document in request.documents]
        return (Message(role="user", parts=(Part(type="text", text=request.query), *documents)),)
    return [Message(role="user", text=text) for text in (*request.prompts, *request.texts)]


def _answered(answer: AnswerView) -> Sequence[Message]:
    if answer.messages:
        return answer.messages
    if answer.choices:
        return [Message(role="assistant", text=text) for text in answer.choices]
    if answer.mime == TEXT and answer.text:
        return [Message(role="assistant", text=answer.text)]
    return ()


def _output(message: Message, at: int, answer: AnswerView) -> Shape:
    """A message and why it ended, which the schema asks for; one that was cut off has no reason."""
    reason = message.finish or "".join(answer.finish_reasons[at : at + 1])
    return {**_message(message), "finish_reason": reason or _UNKNOWN}


def _message(message: Message) -> Shape:
    parts = [_result(message)] if message.answers else _content(message)
    return {"role": message.role, "parts": [*parts, *map(_call, message.tool_calls)]}


def _result(message: Message) -> Shape:
    response = _content(message) if message.text is None else message.text
    return {"type": "tool_call_response", "id": message.answers, "response": response}


def _content(message: Message) -> list[Shape]:
    texts = [Part(type="text", text=message.text)] if message.text else []
    # Beside a text there is the reasoning that led to it.
    return list(map(_part, [*message.parts, *texts]))


def _part(part: Part) -> Shape:
    if part.type in ("text", "reasoning"):
        return {"type": part.type, "content": part.text}
    if part.url and part.type in _MODALITIES:
        return _media(part.url, _MODALITIES[part.type])
    return {"type": part.type, "content": part.text} if part.text else {"type": part.type}


def _media(url: str, modality: str) -> Shape:
    head, base64, content = url.partition(";base64,")
    if base64 and head.startswith("data:"):
        mime = head.removeprefix("data:").partition(";")[0]
        return {"type": "blob", "mime_type": mime, "modality": modality, "content": content}
    return {"type": "uri", "modality": modality, "uri": url}


def _call(call: ToolCall) -> Shape:
    shape: Shape = {"type": "tool_call", "id": call.id} if call.id else {"type": "tool_call"}
    shape["name"] = call.name
    if call.arguments:
        shape["arguments"] = _value(call.arguments)
    return shape


def _value(text: str) -> msgspec.Raw | str:
    """JSON as it is written, with numbers of any length; a text that is none, as when it was cut off, as a text."""
    try:
        msgspec.json.decode(text)
    except _UNREADABLE:
        return text
    return msgspec.Raw(text.encode())


def _tool(text: str) -> Shape:
    """A definition the way OpenTelemetry has it: typed, named, and the members of a function at the top."""
    tool = _definition(text)
    kind = tool.get("type", _UNKNOWN)
    match tool:
        case {"type": "function", "function": {"name": _}}:
            return {"type": kind, **tool["function"]}
        case {"name": _, "input_schema": schema}:
            return {"type": "function", **_without(tool, "type", "input_schema"), "parameters": schema}
    # What a provider brings itself often has nothing but its type.
    return {"type": kind, "name": kind, **tool}


def _without(members: Shape, *names: str) -> Shape:
    return {name: value for name, value in members.items() if name not in names}


def _definition(text: str) -> Shape:
    try:
        return msgspec.json.decode(text, type=Shape)
    except _UNREADABLE:
        return {}

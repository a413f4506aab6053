"""Reads responses, and requests to count the tokens of their input (contract, responses 7 and 8)."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from extproc.telemetry.tracing.readers.answers import Budget
from extproc.telemetry.tracing.readers.chat import audio_tokens
from extproc.telemetry.tracing.readers.credentials import read_sealed
from extproc.telemetry.tracing.readers.lenient import (
    JSONObject,
    Members,
    as_integer,
    as_text,
    decoded,
    encoded,
    members_of,
    object_of,
    objects_of,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import answer_message, parts_of, reasoning_part, text_part
from extproc.telemetry.tracing.readers.requests import APIReader, tools_of
from extproc.telemetry.tracing.readers.response_events import ResponseEvents
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, Tokenization, ToolCall

# A template's variables are content, too.
_CONTENT: Final = frozenset({"input", "instructions", "tools", "prompt"})


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(
        view,
        system=_instructions(members.get("instructions")),
        messages=_input(members.get("input")),
        tools=tools_of(members, "tools"),
    )


def _instructions(given: Raw | None) -> tuple[Part, ...]:
    """A text; in answers also items."""
    value = value_of(given)
    if isinstance(value, str):
        return (text_part(value),)
    return tuple(part for item in objects_of(given) for part in parts_of(item.get("content")))


def _input(given: Raw | None) -> tuple[Message, ...]:
    """What the user says, or items, each as a message."""
    value = value_of(given)
    if isinstance(value, str):
        return (Message(role="user", text=value),)
    return tuple(message for item in objects_of(given) if (message := _item(item)) is not None)


def _item(item: JSONObject) -> Message | None:
    """An item of an input; a reference to one says nothing here."""
    kind = as_text(item.get("type"))
    content = item.get("content")
    if kind in {"", "message"} and content is not None:
        role = as_text(item.get("role")) or "user"
        if isinstance(content, str):
            return Message(role=role, text=content)
        return Message(role=role, parts=parts_of(content))
    if kind.endswith("_output"):
        output, call = item.get("output"), as_text(item.get("call_id")) or as_text(item.get("id"))
        if isinstance(output, str):
            return Message(role="tool", text=output, answers=call)
        return Message(role="tool", parts=parts_of(output), answers=call)
    return None if kind in {"", "item_reference"} else _said(item, kind, "")


def _said(item: JSONObject, kind: str, finish: str) -> Message:
    """An item of the model, in an answer or given back in an input."""
    if kind in {"", "message"}:
        role = as_text(item.get("role")) or "assistant"
        return answer_message(role, parts_of(item.get("content")), finish=finish)
    if kind == "reasoning":
        return Message(role="assistant", parts=_reasoning(item), finish=finish)
    if kind.endswith("_call"):
        return Message(role="assistant", tool_calls=(_call(item, kind),), finish=finish)
    return Message(role="assistant", parts=(Part(type=kind),), finish=finish)


def _reasoning(item: JSONObject) -> tuple[Part, ...]:
    """The reasoning itself, else its summary."""
    texts = [*parts_of(item.get("content"))] or [*parts_of(item.get("summary"))]
    return tuple(reasoning_part(each.text) for each in texts if each.text)


# What a call gives to its tool, by the kinds of tools.
_GIVEN: Final = ("arguments", "input", "action", "code", "queries", "operation")


def _call(item: JSONObject, kind: str) -> ToolCall:
    """A call; tools of the provider have no name but their kind."""
    given = next((value for name in _GIVEN if (value := item.get(name)) is not None), "")
    return ToolCall(
        id=as_text(item.get("call_id")) or as_text(item.get("id")),
        name=as_text(item.get("name")) or kind,
        arguments=encoded(given),
    )


# --- the answer ---


def read_response(document: bytes) -> AnswerView:
    # Servers repeat the tools of the request.
    members, text = read_sealed(document)
    reason = _finish_reason(members)
    prompt, completion = audio_tokens(members.get("usage"))
    return AnswerView(
        text=text,
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        finish_reasons=(reason,) if reason else (),
        messages=tuple(_said(item, as_text(item.get("type")), reason) for item in objects_of(members.get("output"))),
        prompt_audio_tokens=prompt,
        completion_audio_tokens=completion,
    )


_UNFINISHED: Final = frozenset({"in_progress", "queued"})


def _finish_reason(members: Members) -> str:
    """Why it is incomplete, else its status, unless it goes on."""
    reason = as_text(object_of(members.get("incomplete_details")).get("reason"))
    status = as_text(value_of(members.get("status")))
    return reason or ("" if status in _UNFINISHED else status)


def _read_count(document: bytes) -> AnswerView:
    members = members_of(document)
    return AnswerView(text=decoded(document), token_count=as_integer(value_of(members.get("input_tokens"))))


def _understand_count(view: RequestView, members: Members) -> RequestView:
    understood = _understand(view, members)
    return replace(understood, tokenization=Tokenization(kind="chat", message_count=len(understood.messages)))


def _gather(budget: Budget) -> ResponseEvents:
    return ResponseEvents(budget, read_response)


RESPONSES: Final = APIReader(content=_CONTENT, understand=_understand, read=read_response, gather=_gather)

RESPONSES_INPUT_TOKENS: Final = APIReader(content=_CONTENT, understand=_understand_count, read=_read_count)

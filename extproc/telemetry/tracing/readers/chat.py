"""Reads chat completions (contract, chat 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from extproc.telemetry.tracing.readers.chunks import Chunks
from extproc.telemetry.tracing.readers.lenient import (
    JSONObject,
    Members,
    as_integer,
    as_object,
    as_objects,
    as_text,
    decoded,
    encoded,
    members_of,
    object_of,
    objects_of,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import answer_message, parts_of, reasoning_part
from extproc.telemetry.tracing.readers.requests import APIReader, tools_of
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, ToolCall

_CONTENT: Final = frozenset({"messages", "tools", "functions", "prediction"})


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(view, messages=chat_messages(members.get("messages")), tools=tools_of(members, "tools", "functions"))


def chat_messages(messages: Raw | None) -> tuple[Message, ...]:
    """The messages of a conversation, as chat completions have them."""
    return tuple(_message(each) for each in objects_of(messages))


def _message(message: JSONObject) -> Message:
    content = message.get("content")
    beside = tuple(_beside(message))
    return Message(
        role=as_text(message.get("role")),
        text=content if isinstance(content, str) else None,
        parts=beside if isinstance(content, str) else (*beside, *parts_of(content)),
        tool_calls=tuple(_calls(message)),
        answers=as_text(message.get("tool_call_id")),
    )


def _beside(message: JSONObject) -> Iterator[Part]:
    """What a message of the model has beside its content."""
    if reasoning := _reasoning(message):
        yield reasoning_part(reasoning)
    if refusal := as_text(message.get("refusal")):
        yield Part(type="refusal", text=refusal)
    if audio := as_object(message.get("audio")):
        yield Part(type="audio", text=as_text(audio.get("transcript")))


def _reasoning(message: JSONObject) -> str:
    """The reasoning, under one of the names that backends have for it."""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if text := as_text(value) or as_text(as_object(value).get("text")):
            return text
    blocks = as_objects(message.get("thinking_blocks"))
    return "".join(as_text(block.get("thinking")) for block in blocks)


def _calls(message: JSONObject) -> Iterator[ToolCall]:
    for call in as_objects(message.get("tool_calls")):
        yield _call(call, as_text(call.get("id")))
    if legacy := as_object(message.get("function_call")):
        yield _call({"function": legacy}, "")


def _call(call: JSONObject, identifier: str) -> ToolCall:
    """A call of a function, with JSON, or of a custom tool, with a text."""
    called = as_object(call.get("function")) or as_object(call.get("custom"))
    given = called.get("arguments", called.get("input"))
    return ToolCall(id=identifier, name=as_text(called.get("name")), arguments="" if given is None else encoded(given))


# --- the answer ---


def read_chat(document: bytes) -> AnswerView:
    members = members_of(document)
    choices = list(objects_of(members.get("choices")))
    prompt, completion = audio_tokens(members.get("usage"))
    return AnswerView(
        text=decoded(document),
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        finish_reasons=finish_reasons(choices),
        messages=tuple(_answer(choice) for choice in choices),
        prompt_audio_tokens=prompt,
        completion_audio_tokens=completion,
    )


def finish_reasons(choices: list[JSONObject]) -> tuple[str, ...]:
    return tuple(reason for choice in choices if (reason := as_text(choice.get("finish_reason"))))


def _answer(choice: JSONObject) -> Message:
    message = as_object(choice.get("message"))
    return answer_message(
        as_text(message.get("role")) or "assistant",
        (*_beside(message), *parts_of(message.get("content"))),
        tool_calls=tuple(_calls(message)),
        finish=as_text(choice.get("finish_reason")),
    )


# Details have one name in the usage of chat completions, and two in that of other APIs.
_PROMPT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_COMPLETION_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "output_token_details")


def audio_tokens(usage: Raw | None) -> tuple[int | None, int | None]:
    """The audio tokens that a usage reports, of the prompt and of the completion."""
    told = object_of(usage)
    prompt, completion = (
        next((count for name in names if (count := _audio(told.get(name))) is not None), None)
        for names in (_PROMPT_DETAILS, _COMPLETION_DETAILS)
    )
    return prompt, completion


def _audio(details: object) -> int | None:
    return as_integer(as_object(details).get("audio_tokens"))


CHAT: Final = APIReader(
    content=_CONTENT,
    understand=_understand,
    read=read_chat,
    gather=partial(Chunks, kind="chat.completion", read=read_chat),
)

"""Reads tokenize requests and their answers (contract, tokenize 15)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from extproc.telemetry.tracing.readers.chat import chat_messages
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_flag,
    as_integer,
    decoded,
    elements_of,
    length_of,
    members_of,
    value_of,
)
from extproc.telemetry.tracing.readers.requests import APIReader, texts_of, tools_of
from extproc.telemetry.tracing.views import AnswerView, RequestView, Tokenization

_CONTENT: Final = frozenset({"prompt", "messages", "tools"})


def _understand(view: RequestView, members: Members) -> RequestView:
    def flag(name: str) -> bool | None:
        return as_flag(value_of(members.get(name)))

    chat = members.get("messages") is not None
    return replace(
        view,
        prompts=texts_of(members, "prompt"),
        messages=chat_messages(members.get("messages")),
        tools=tools_of(members, "tools"),
        tokenization=Tokenization(
            kind="chat" if chat else "completion",
            add_special_tokens=flag("add_special_tokens"),
            return_token_strs=flag("return_token_strs"),
            add_generation_prompt=flag("add_generation_prompt"),
            continue_final_message=flag("continue_final_message"),
            message_count=len(elements_of(members.get("messages"))) if chat else None,
        ),
    )


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    return AnswerView(
        text=decoded(document),
        token_count=as_integer(value_of(members.get("count"))),
        max_model_len=as_integer(value_of(members.get("max_model_len"))),
        tokens=length_of(value_of(members.get("tokens"))),
        token_strings=length_of(value_of(members.get("token_strs"))),
    )


TOKENIZE: Final = APIReader(content=_CONTENT, understand=_understand, read=_read)

"""Reads completions, the older text API (contract, completions 9)."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.structs import replace

from extproc.telemetry.tracing.readers.chat import audio_tokens, finish_reasons
from extproc.telemetry.tracing.readers.chunks import Chunks
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_text,
    decoded,
    members_of,
    objects_of,
    value_of,
)
from extproc.telemetry.tracing.readers.requests import APIReader, texts_of
from extproc.telemetry.tracing.views import AnswerView, RequestView

_CONTENT: Final = frozenset({"prompt", "suffix"})


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(view, prompts=texts_of(members, "prompt"))


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    choices = list(objects_of(members.get("choices")))
    prompt, completion = audio_tokens(members.get("usage"))
    return AnswerView(
        text=decoded(document),
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        finish_reasons=finish_reasons(choices),
        choices=tuple(as_text(choice.get("text")) for choice in choices),
        prompt_audio_tokens=prompt,
        completion_audio_tokens=completion,
    )


COMPLETIONS: Final = APIReader(
    content=_CONTENT,
    understand=_understand,
    read=_read,
    gather=partial(Chunks, kind="text_completion", read=_read),
)

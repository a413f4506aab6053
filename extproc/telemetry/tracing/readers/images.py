"""Reads images that are drawn or edited (contract, images 11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from extproc.formats.sse import SSEEvent
from extproc.telemetry.tracing.readers.answers import ENTRY, Budget
from extproc.telemetry.tracing.readers.chat import audio_tokens
from extproc.telemetry.tracing.readers.lenient import (
    JSONObject,
    Members,
    as_text,
    decoded,
    encode,
    members_of,
    objects_of,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import text_part
from extproc.telemetry.tracing.readers.requests import APIReader, texts_of
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView

_CONTENT: Final = frozenset({"prompt", "image", "images", "mask"})

_ENDS: Final = frozenset({"image_generation.completed", "image_edit.completed"})


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(view, texts=texts_of(members, "prompt"))


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    kind = as_text(value_of(members.get("output_format"))) or "png"
    parts = tuple(part for image in objects_of(members.get("data")) for part in _image(image, kind))
    prompt, completion = audio_tokens(members.get("usage"))
    return AnswerView(
        text=decoded(document),
        messages=(Message(role="assistant", parts=parts),) if parts else (),
        prompt_audio_tokens=prompt,
        completion_audio_tokens=completion,
    )


def _image(image: JSONObject, kind: str) -> Iterator[Part]:
    if revised := as_text(image.get("revised_prompt")):
        yield text_part(revised)
    if url := as_text(image.get("url")):
        yield Part(type="image", url=url)
    elif data := as_text(image.get("b64_json")):
        yield Part(type="image", url=f"data:image/{kind};base64,{data}")


class _ImageEvents:
    """A stream, which has each image in an event of its own once it is whole. Sketches of it are not kept."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._images: list[JSONObject] = []
        self._members: dict[str, Raw] = {}

    def event(self, event: SSEEvent) -> bool:
        members = dict(members_of(event.data))
        kind = as_text(value_of(members.pop("type", None))) or (event.event or b"").decode(errors="replace")
        if kind in _ENDS and self._budget.take(ENTRY + len(event.data)):
            self._images.append({"b64_json": members.pop("b64_json", None)})
            self._members = members
        return bool(members) or bool(kind)

    def view(self) -> AnswerView:
        return _read(encode({**self._members, "data": self._images})) if self._images else AnswerView()


IMAGES: Final = APIReader(content=_CONTENT, understand=_understand, read=_read, gather=_ImageEvents)
"""Of generations and edits."""

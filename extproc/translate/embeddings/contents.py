"""What is embedded by ``embedContent``: one text, or what the user's messages hold (contract, embeddings 10.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.endpoints.embeddings_request import EmbeddingsRequest
from extproc.endpoints.text_or_tokens import Kind
from extproc.errors import UnprocessableRequest
from extproc.translate.chat.gemini import media
from extproc.translate.chat.gemini.models import GeminiModel
from extproc.translate.embeddings.translator import input_of

_REFUSED: Final = {
    chat.UserAudio: "audio",
    chat.UserAudioURL: "audio",
    chat.UserVideoURL: "video",
    chat.UserFile: "file",
}


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    text: str | UnsetType = UNSET
    inline_data: media.Blob | UnsetType = UNSET
    file_data: media.FileData | UnsetType = UNSET
    media_resolution: media.MediaResolution | UnsetType = UNSET


class Content(Struct, frozen=True, kw_only=True):
    parts: list[Part]


def read_contents(request: EmbeddingsRequest, *, model: str) -> Content:
    """The one content of a request.

    Raises:
        UnprocessableRequest: there is none, more than one, or one that the model cannot be given.
    """
    if request.messages is UNSET:
        return Content(parts=[Part(text=_text(request, model))])
    parts = list(_user_parts(request.messages or [], GeminiModel.named(model)))
    if not parts:
        raise UnprocessableRequest("no user messages found in embedding request")
    return Content(parts=parts)


def _text(request: EmbeddingsRequest, model: str) -> str:
    given = input_of(request)
    if given.kind in (Kind.ITEM, Kind.ITEMS):
        raise UnprocessableRequest(
            "object input with per-item task_type/title is not supported for this model; "
            "use plain string input and set task_type at the request level"
        )
    if not given.items:
        raise UnprocessableRequest(f"unsupported input type for embedding: {given.kind}")
    if len(given.items) > 1:
        raise UnprocessableRequest(f"model {model} does not support batch embeddings; send one input per request")
    return given.items[0].text


def _user_parts(messages: list[chat.Message], model: GeminiModel) -> Iterator[Part]:
    for number, message in enumerate(messages):
        if not isinstance(message, chat.UserMessage):
            continue
        content, where = message.content, f"messages[{number}]"
        if content is UNSET:
            raise UnprocessableRequest(f"{where}: message 'content' must be a string or an array")
        if isinstance(content, str):
            content = [chat.UserText(text=content)]
        for position, part in enumerate(content or ()):
            yield from _part(part, model, where=f"{where}.content[{position}]")


def _part(part: chat.UserPart, model: GeminiModel, *, where: str) -> Iterator[Part]:
    match part:
        case chat.UserText():
            if part.text:
                yield Part(text=part.text)
        case chat.UserImage():
            if part.image_url.url:
                yield _image(part.image_url, model, where=where)
        case _:
            raise UnprocessableRequest(f"{where}: {_REFUSED[type(part)]} content not supported yet")


def _image(given: chat.ImageURL, model: GeminiModel, *, where: str) -> Part:
    resolution = media.resolution(given, where=where) if model.takes_media_resolution else UNSET
    found = media.image(given, where=where)
    if isinstance(found, media.Blob):
        return Part(inline_data=found, media_resolution=resolution)
    return Part(file_data=found, media_resolution=resolution)

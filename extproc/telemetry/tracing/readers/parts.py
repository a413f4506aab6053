"""Parts of messages in the words of every client API. No type means different things in two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from extproc.telemetry.tracing.readers.lenient import JSONObject, as_object, as_objects, as_text
from extproc.telemetry.tracing.views import Message, Part, ToolCall

REASONING: Final = "reasoning"


def part(content: JSONObject) -> Part:
    """One part, or block, of a content."""
    kind = as_text(content.get("type"))
    make = _PARTS.get(kind, _other)
    return make(content)


def parts_of(content: object) -> tuple[Part, ...]:
    """A content: a text, a part, or an array of both."""
    match content:
        case str():
            return (text_part(content),)
        case dict():
            return (part(content),)
        case list():
            return tuple(found for each in content if isinstance(each, str | dict) for found in parts_of(each))
    return ()


def text_part(text: str) -> Part:
    return Part(type="text", text=text)


def reasoning_part(text: str) -> Part:
    return Part(type=REASONING, text=text)


def joined_texts(content: object) -> str:
    """A text, or those of a content's parts in one."""
    return content if isinstance(content, str) else "".join(each.text for each in parts_of(content))


def answer_message(
    role: str, parts: Sequence[Part], *, tool_calls: Sequence[ToolCall] = (), finish: str = ""
) -> Message:
    """A message of an answer. Its content is one text also where reasoning stands beside that."""
    texts = [each.text for each in parts if each.type == "text"]
    if len(texts) == 1 and all(each.type in {"text", REASONING} for each in parts):
        beside = tuple(each for each in parts if each.type == REASONING)
        return Message(role=role, text=texts[0], parts=beside, tool_calls=tuple(tool_calls), finish=finish)
    return Message(role=role, parts=tuple(parts), tool_calls=tuple(tool_calls), finish=finish)


# --- by type ---


def _text(content: JSONObject) -> Part:
    return text_part(as_text(content.get("text")))


def _refusal(content: JSONObject) -> Part:
    return Part(type="refusal", text=as_text(content.get("refusal")))


def _reasoning(content: JSONObject) -> Part:
    return reasoning_part(as_text(content.get("thinking")) or as_text(content.get("text")))


def _address(content: JSONObject, name: str) -> str:
    """An address: alone, or in an object."""
    given = content.get(name)
    return as_text(given) or as_text(as_object(given).get("url"))


def _image(content: JSONObject) -> Part:
    return Part(type="image", url=_address(content, "image_url"))


def _source_image(content: JSONObject) -> Part:
    source = as_object(content.get("source"))
    data, media_type = as_text(source.get("data")), as_text(source.get("media_type"))
    return Part(type="image", url=f"data:{media_type};base64,{data}" if data else as_text(source.get("url")))


def _document(content: JSONObject) -> Part:
    source = as_object(content.get("source"))
    text = as_text(source.get("data")) if source.get("type") == "text" else joined_texts(source.get("content"))
    return Part(type="file", text=text, url=as_text(source.get("url")))


def _file(content: JSONObject) -> Part:
    return Part(type="file", url=as_text(content.get("file_url")))


def _audio(content: JSONObject) -> Part:
    return Part(type="audio", url=_address(content, "audio_url"))


def _video(content: JSONObject) -> Part:
    return Part(type="video", url=_address(content, "video_url"))


def _search_result(content: JSONObject) -> Part:
    return Part(type="search_result", text=joined_texts(as_objects(content.get("content"))))


def _other(content: JSONObject) -> Part:
    return Part(type=as_text(content.get("type")) or "text", text=as_text(content.get("text")))


_PARTS: Final[Mapping[str, Callable[[JSONObject], Part]]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "thinking": _reasoning,
    "reasoning_text": _reasoning,
    "summary_text": _reasoning,
    "image_url": _image,
    "input_image": _image,
    "image": _source_image,
    "input_audio": _audio,
    "audio_url": _audio,
    "video_url": _video,
    "file": _file,
    "input_file": _file,
    "document": _document,
    "search_result": _search_result,
}

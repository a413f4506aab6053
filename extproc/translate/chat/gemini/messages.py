"""The messages of a chat request as Gemini's contents (contract, chat 9.4).

User and tool messages between two answers of the model are one content: results of its calls first, in the order of
the calls, since Gemini tells calls of the same function apart by nothing else. An answer of the model is always a
content of its own: thoughts, text, then function calls, as it produced them.

A thought signature goes where the model had it: on the first function call, else on its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.errors import UnprocessableRequest
from extproc.formats.datauri import DataURIError, checked_base64
from extproc.formats.jsonvalue import JSONObject, JSONValueError, decode_object
from extproc.translate.chat.gemini import media
from extproc.translate.chat.gemini.models import GeminiModel

SKIP_VALIDATION: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""``skip_thought_signature_validator``: Google's signature for calls whose own is lost, or that another model made."""


class FunctionCall(Struct, frozen=True, kw_only=True):
    args: JSONObject | UnsetType = UNSET
    name: str | UnsetType = UNSET


class FunctionResponse(Struct, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    response: JSONObject


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a content; exactly one of the members that hold data is set."""

    media_resolution: media.MediaResolution | UnsetType = UNSET
    file_data: media.FileData | UnsetType = UNSET
    function_call: FunctionCall | UnsetType = UNSET
    function_response: FunctionResponse | UnsetType = UNSET
    inline_data: media.Blob | UnsetType = UNSET
    text: str | UnsetType = UNSET
    thought: bool | UnsetType = UNSET
    thought_signature: str | UnsetType = UNSET


class Content(Struct, frozen=True, kw_only=True):
    parts: list[Part]
    role: str | UnsetType = UNSET


@dataclass(slots=True)
class Conversation:
    """What the messages become.

    Attributes:
        contents: never with an empty one.
        system: parts of the system instruction.
    """

    contents: list[Content] = field(default_factory=list)
    system: list[Part] = field(default_factory=list)
    _results: list[tuple[int, Part]] = field(default_factory=list)
    _user: list[Part] = field(default_factory=list)
    # Names of all functions called so far by the id of the call, and the order of the last answer's calls.
    _names: dict[str, str] = field(default_factory=dict)
    _order: dict[str, int] = field(default_factory=dict)

    def flush(self) -> None:
        """What the user has said so far is a content."""
        if not self._results and not self._user:
            return
        results = [part for _, part in sorted(self._results, key=_position)]
        self.contents.append(Content(parts=[*results, *self._user], role="user"))
        self._results, self._user = [], []

    def add(self, message: chat.Message, model: GeminiModel, *, where: str) -> None:
        match message:
            case chat.UserMessage():
                self._user += _user_parts(message.content, model, where=where)
            case chat.AssistantMessage():
                self.flush()
                self._answer(message, where=where)
            case chat.ToolMessage():
                self._result(message, where=where)
            case _:
                self.system += [Part(text=text) for text in _texts(message.content, where=where) if text]

    def _answer(self, message: chat.AssistantMessage, *, where: str) -> None:
        calls = message.tool_calls or []
        if parts := _answer_parts(message, calls, where=where):
            self.contents.append(Content(parts=parts, role="model"))
        if calls:
            self._order = {call.id or "": position for position, call in enumerate(calls)}
            self._names.update((call.id or "", call.function.name) for call in calls)

    def _result(self, message: chat.ToolMessage, *, where: str) -> None:
        name = self._names.get(message.tool_call_id)
        if name is None:
            raise UnprocessableRequest(
                f"{where}.tool_call_id: no assistant message before it has a tool call {message.tool_call_id!r}"
            )
        response: JSONObject = {"output": "".join(_texts(message.content, where=where))}
        part = Part(function_response=FunctionResponse(name=name or UNSET, response=response))
        self._results.append((self._order.get(message.tool_call_id, -1), part))


def _position(result: tuple[int, Part]) -> int:
    return result[0]


def read_messages(messages: Sequence[chat.Message], model: GeminiModel) -> Conversation:
    """Read all messages.

    Raises:
        UnprocessableRequest: one holds what Gemini cannot be told; the text names it.
    """
    conversation = Conversation()
    for number, message in enumerate(messages):
        conversation.add(message, model, where=f"messages[{number}]")
    conversation.flush()
    return conversation


def _texts(content: str | list[chat.TextPart] | UnsetType, *, where: str) -> list[str]:
    if content is UNSET:
        raise UnprocessableRequest(f"{where}: message 'content' must be a string or an array")
    return [content] if isinstance(content, str) else [part.text for part in content]


# --- what the user says ---


def _user_parts(
    content: str | list[chat.UserPart] | UnsetType | None, model: GeminiModel, *, where: str
) -> Iterator[Part]:
    if content is UNSET:
        raise UnprocessableRequest(f"{where}: message 'content' must be a string or an array")
    if isinstance(content, str):
        if content:
            yield Part(text=content)
        return
    for number, part in enumerate(content or ()):
        if isinstance(part, chat.UserText):
            if part.text:
                yield Part(text=part.text)
        elif (found := _media_part(part, model, where=f"{where}.content[{number}]")) is not None:
            yield found


def _media_part(part: chat.UserPart, model: GeminiModel, *, where: str) -> Part | None:
    match part:
        case chat.UserImage():
            # Ahead of the empty address, which the peer skips before it looks at anything else.
            if not part.image_url.url:
                return None
            resolution = media.resolution(part.image_url, where=where) if model.takes_media_resolution else UNSET
            return _of_media(media.image(part.image_url, where=where), resolution)
        case chat.UserAudio():
            return Part(inline_data=media.sound(part.input_audio, where=where))
        case chat.UserAudioURL():
            return _of_media(media.sound_at(part.audio_url.url, where=where)) if part.audio_url.url else None
        case chat.UserVideoURL():
            return _of_media(media.video_at(part.video_url.url, where=where)) if part.video_url.url else None
        case chat.UserFile():
            return Part(inline_data=media.file(part.file, where=where))
    return None


def _of_media(found: media.Media, resolution: media.MediaResolution | UnsetType = UNSET) -> Part:
    if isinstance(found, media.Blob):
        return Part(media_resolution=resolution, inline_data=found)
    return Part(media_resolution=resolution, file_data=found)


# --- what the model has said ---


def _answer_parts(message: chat.AssistantMessage, calls: Sequence[chat.ToolCall], *, where: str) -> list[Part]:
    parts, signature = _content_parts(message.content, bool(calls), where=where)
    if not any(part.thought is True for part in parts):
        blocks = [block for block in message.thinking_blocks or () if block.type == "thinking"]
        thoughts = [Part(text=block.thinking, thought=True) for block in blocks if block.thinking]
        found = next((block.signature for block in blocks if block.signature), None)
        if found and not thoughts and message.reasoning_content and isinstance(message.reasoning_content, str):
            # A stream gives the thought in pieces, and its signature alone.
            thoughts = [Part(text=message.reasoning_content, thought=True)]
        if found and not signature:
            signature = _checked_signature(found, where=f"{where}.thinking_blocks")
            if not calls:
                parts, thoughts = _signed(parts, thoughts, signature)
        parts = [*thoughts, *parts]
    return [*parts, *_calls(calls, signature or SKIP_VALIDATION, where=where)]


def _signed(parts: list[Part], thoughts: list[Part], signature: str) -> tuple[list[Part], list[Part]]:
    """Put the signature of an answer without calls on its last text; if it has none, on its last thought."""
    if parts:
        return [*parts[:-1], Part(text=parts[-1].text, thought_signature=signature)], thoughts
    if thoughts:
        return parts, [*thoughts[:-1], Part(text=thoughts[-1].text, thought=True, thought_signature=signature)]
    return parts, thoughts


def _content_parts(
    content: str | list[chat.AssistantPart] | chat.AssistantPart | None,
    has_calls: bool,  # noqa: FBT001 - private, and a word at its only call
    *,
    where: str,
) -> tuple[list[Part], str]:
    """The parts of the content, and the first signature of its thoughts."""
    if content is None or isinstance(content, str):
        return ([Part(text=content)] if content else []), ""
    given = [content] if isinstance(content, chat.AssistantPart) else content
    parts: list[Part] = []
    signature = ""
    for number, part in enumerate(given):
        inside = f"{where}.content[{number}]"
        match part.type:
            case "text":
                if part.text:
                    parts.append(Part(text=part.text))
            case "thinking":
                own = _checked_signature(part.signature, where=f"{inside}.signature") if part.signature else ""
                signature = signature or own
                if part.text:
                    signed = own if own and not has_calls else UNSET
                    parts.append(Part(text=part.text, thought=True, thought_signature=signed))
            case "refusal":
                # It told the client that there is no answer; the model has nothing to learn from it.
                pass
            case _:
                raise UnprocessableRequest(f"{inside}: unsupported content type in assistant message: {part.type}")
    return parts, signature


def _checked_signature(signature: str, *, where: str) -> str:
    try:
        return checked_base64(signature)
    except DataURIError as error:
        raise UnprocessableRequest(f"{where}: failed to decode thought signature: {error}") from error


def _calls(calls: Sequence[chat.ToolCall], signature: str, *, where: str) -> Iterator[Part]:
    for number, call in enumerate(calls):
        if call.id is None:
            raise UnprocessableRequest(f"{where}: tool_call at index {number} is missing required field 'id'")
        args = _arguments(call.function.arguments, where=f"{where}.tool_calls[{number}].function.arguments")
        yield Part(
            function_call=FunctionCall(args=args or UNSET, name=call.function.name or UNSET),
            thought_signature=UNSET if number else signature,
        )


def _arguments(text: str | None, *, where: str) -> JSONObject:
    """A call's arguments; the models of other providers write nothing, or null, when there are none."""
    if text is None or text.strip() in {"", "null"}:
        return {}
    try:
        return decode_object(text)
    except JSONValueError as error:
        raise UnprocessableRequest(
            f"{where}: function arguments must be valid JSON, the text of an object: {error}"
        ) from error

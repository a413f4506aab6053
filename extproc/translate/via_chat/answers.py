"""Answers of the chat completions API as typed values, whichever backend they come from.

Backends that call themselves compatible differ, so readers are lenient: a member of a wrong type counts as absent, and
only what is no answer at all is refused.

NB: annotations are evaluated here, the decoders are built from them.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.translate.openai_errors import MAX_MESSAGE_BYTES


class FunctionCall(Struct, frozen=True, kw_only=True):
    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call, or in a stream a piece of one: its id and its name come once, its arguments in pieces.

    Attributes:
        index: which call of the answer it is; only in streams.
    """

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: FunctionCall = FunctionCall()


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """Reasoning as this gateway and some others write it: ``thinking``, or ``redacted_thinking`` with its ``data``."""

    type: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class Message(Struct, frozen=True, kw_only=True):
    """What the model says, or in a stream a piece of it.

    Attributes:
        reasoning_content: text, or an object as the peer writes it.
        reasoning: the same under the name that some backends give it.
    """

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: object = None
    reasoning: object = None
    thinking_blocks: list[ThinkingBlock] | None = None
    tool_calls: list[ToolCall] | None = None
    annotations: Raw | UnsetType = UNSET


FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""Those of the API; backends that are only like it may have others."""


class Choice(Struct, frozen=True, kw_only=True):
    """One of the answers.

    Attributes:
        message: in documents.
        delta: in chunks of a stream.
        logprobs: as the backend has them.
    """

    index: int = 0
    message: Message | None = None
    delta: Message | None = None
    finish_reason: str | None = None
    logprobs: object = None


class Answer(Struct, frozen=True, kw_only=True):
    """A document, or one chunk of a stream.

    Attributes:
        usage: as the backend reports it; ``openai_usage.chat_usage`` reads it.
        error: an error object in the place of an answer.
    """

    id: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: object = None
    error: object = None
    service_tier: str | None = None
    system_fingerprint: str | None = None

    @property
    def first(self) -> Choice | None:
        """The first choice; clients of other APIs are given only one."""
        return next((each for each in self.choices or () if each.index == 0), None)


class ErrorObject(Struct, frozen=True):
    """What an error says, in whichever way it is put; an absent member is empty."""

    type: str
    message: str
    code: str = ""


_decoder = msgspec.json.Decoder(Answer)
_lenient = msgspec.json.Decoder()

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


def read_answer(data: bytes) -> Answer | None:
    """Read a document or a chunk; ``None`` when it is not a JSON object. Never raises."""
    try:
        return _decoder.decode(data)
    except _UNREADABLE:
        pass
    try:
        value = _lenient.decode(data)
    except _UNREADABLE:
        return None
    return _as_far_as_possible(value, Answer) if isinstance(value, dict) else None


_NESTED: Final[Mapping[tuple[type[Struct], str], type[Struct]]] = {
    (Answer, "choices"): Choice,
    (Choice, "message"): Message,
    (Choice, "delta"): Message,
    (Message, "thinking_blocks"): ThinkingBlock,
    (Message, "tool_calls"): ToolCall,
    (ToolCall, "function"): FunctionCall,
}
"""Members that are structs, or lists of them."""
_LISTS: Final = frozenset({"choices", "thinking_blocks", "tool_calls"})

_S = TypeVar("_S", bound=Struct)


def _as_far_as_possible(value: dict[str, object], kind: type[_S]) -> _S:
    """The struct, with those of its members that have the right type."""
    known: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        if (given := value.get(field.name)) is None:
            continue
        nested = _NESTED.get((kind, field.name))
        if nested is None:
            with suppress(msgspec.ValidationError):
                known[field.name] = msgspec.convert(_respelled(field.name, given), field.type)
        elif isinstance(given, list) and field.name in _LISTS:
            known[field.name] = [_as_far_as_possible(each, nested) for each in given if isinstance(each, dict)]
        elif isinstance(given, dict) and field.name not in _LISTS:
            known[field.name] = _as_far_as_possible(given, nested)
    return kind(**known)


def _respelled(name: str, given: object) -> object:
    """A value that some backends put otherwise: content in parts, arguments that are not in a text."""
    if name == "content" and isinstance(given, list):
        texts = [each.get("text") for each in given if isinstance(each, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return msgspec.json.encode(given).decode() if name == "arguments" and isinstance(given, dict) else given


def read_error(data: bytes, answer: Answer) -> ErrorObject | None:
    """The error that stands in the place of an answer; ``None`` when there is none.

    Args:
        data: what ``answer`` was read from. Some servers give an error no object of its own.
        answer: the document, or a chunk.
    """
    if answer.error:
        return read_error_object(answer.error)
    if answer.choices or b'"error"' not in data:
        return None
    try:
        flat = _lenient.decode(data)
    except _UNREADABLE:
        return None
    return read_error_object(flat) if flat.get("object") == "error" or flat.get("type") == "error" else None


def read_error_answer(status: str, data: bytes, *, raw: bytes) -> ErrorObject:
    """What an error answer says, whatever it is; the client always learns something.

    Args:
        status: of the answer.
        data: its body, as one of chat completions.
        raw: the body as it came, which tells more where ``data`` has no message.
    """
    answer = read_answer(data)
    error = (None if answer is None else read_error(data, answer)) or ErrorObject("", "")
    if error.message.strip():
        return error
    text = raw[:MAX_MESSAGE_BYTES].decode(errors="replace").strip()
    return ErrorObject(error.type, text or f"the backend answered with status {status}", error.code)


def read_error_object(error: object) -> ErrorObject:
    """The parts of an ``error`` member: an object, or just a text."""
    if isinstance(error, str):
        return ErrorObject("", error)
    if not isinstance(error, dict):
        return ErrorObject("", "")
    code = error.get("code")
    return ErrorObject(
        type=name if isinstance(name := error.get("type"), str) else "",
        message=text if isinstance(text := error.get("message"), str) else "",
        code=str(code) if isinstance(code, str | int) and not isinstance(code, bool) else "",
    )


def reasoning_text(message: Message) -> str:
    """The reasoning that a message has as plain text, under either name; empty without any."""
    for value in (message.reasoning_content, message.reasoning):
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict) and isinstance(text := value.get("text"), str):
            return text
    return ""

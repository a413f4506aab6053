"""What Gemini answers, decoded as far as it is read (contract, chat 9.7 to 9.9).

Members that only matter beside the answer are lenient: one of another type counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.formats.jsonvalue import decode_object, encode
from extproc.translate.chat.completion import FunctionDelta, ToolCall
from extproc.translate.chat.gemini.generation import OutputMode
from extproc.usage import NO_USAGE, TokenUsage, as_count


class FunctionCall(Struct, frozen=True, kw_only=True):
    name: str | None = None
    args: Raw | UnsetType = UNSET


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class Content(Struct, frozen=True, kw_only=True):
    parts: list[Part | None] | None = None


class TokenLogprob(Struct, frozen=True, kw_only=True, rename="camel"):
    token: str = ""
    log_probability: float | None = None


class TopCandidates(Struct, frozen=True, kw_only=True):
    candidates: list[TokenLogprob] | None = None


class LogprobsResult(Struct, frozen=True, kw_only=True, rename="camel"):
    chosen_candidates: list[TokenLogprob] | None = None
    top_candidates: list[TopCandidates | None] | None = None


class Candidate(Struct, frozen=True, kw_only=True, rename="camel"):
    content: Content | None = None
    finish_reason: str | None = None
    index: object = None
    safety_ratings: object = None
    grounding_metadata: object = None
    logprobs_result: Raw | UnsetType = UNSET

    def read_index(self, position: int) -> int:
        """The index; of a candidate without one, its position."""
        return self.index if type(self.index) is int else position


class GenerateContentResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    candidates: list[Candidate | None] | None = None
    create_time: object = None
    error: object = None
    model_version: object = None
    prompt_feedback: object = None
    response_id: object = None
    usage_metadata: object = None

    def read_id(self) -> str | UnsetType:
        return self.response_id if isinstance(self.response_id, str) and self.response_id else UNSET

    def read_model(self) -> str:
        return self.model_version if isinstance(self.model_version, str) else ""

    def block_reason(self) -> str:
        """Why the prompt was not answered; empty when it was."""
        reason = self._feedback("blockReason")
        return reason if isinstance(reason, str) and not self.candidates else ""

    def prompt_ratings(self) -> object:
        """The safety ratings of the prompt."""
        return extension(self._feedback("safetyRatings"))

    def _feedback(self, member: str) -> object:
        return self.prompt_feedback.get(member) if isinstance(self.prompt_feedback, dict) else None


decode_response = msgspec.json.Decoder(GenerateContentResponse).decode

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)
"""What decoding bytes of a stranger may raise."""


def read_time(given: object) -> int | UnsetType:
    """Unix seconds of an RFC 3339 time."""
    try:
        return int(datetime.fromisoformat(given).timestamp()) if isinstance(given, str) else UNSET
    except (ValueError, OverflowError):
        return UNSET


class Said(Struct, kw_only=True):
    """What a content says.

    Attributes:
        calls: their names and the arguments as JSON.
        call_signature: the signature of the first call that has one.
        signature: the last signature of another part; it may stand on an empty one.
    """

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = []
    call_signature: str = ""
    signature: str = ""


def read_content(content: Content) -> Said:
    """Gather the parts; those that the client's API has no place for are left out.

    Raises:
        JSONValueError: the arguments of a call are no object.
    """
    said = Said()
    for part in content.parts or ():
        if part is None:
            continue
        if part.function_call is not None:
            said.calls.append((part.function_call.name or "", _arguments(part.function_call.args)))
            said.call_signature = said.call_signature or part.thought_signature or ""
            continue
        if part.thought_signature:
            said.signature = part.thought_signature
        if part.text:
            if part.thought:
                said.thought += part.text
            else:
                said.text += part.text
    return said


def _arguments(args: Raw | UnsetType) -> str:
    if args is UNSET or (text := bytes(args)) == b"null":
        return "{}"
    return encode(decode_object(text)).decode()


def tool_calls(said: Said, new_id: Callable[[], str]) -> list[ToolCall] | UnsetType:
    calls = [
        ToolCall(id=new_id(), function=FunctionDelta(arguments=arguments, name=name)) for name, arguments in said.calls
    ]
    return calls or UNSET


_FINISH_REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}

NATIVE_STOPS: Final = frozenset(
    {
        *("FINISH_REASON_UNSPECIFIED", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT"),
        *("SPII", "MODEL_ARMOR", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
        *("MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
        *("IMAGE_RECITATION", "IMAGE_OTHER", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "JAILBREAK"),
    }
)
"""Reasons of answers that were withheld or broken off, and of prompts that were refused, as Google lists them."""


def finish_reason(reason: str, *, has_calls: bool) -> tuple[str, str | UnsetType]:
    """The client's reason, and Gemini's own where the client's API has no word for it.

    An answer that was withheld or broken off, for whatever reason there may come to be, must not look whole: it counts
    as filtered.
    """
    if (known := _FINISH_REASONS.get(reason)) is None:
        return "content_filter", reason
    return ("tool_calls" if has_calls and known == "stop" else known), UNSET


def extension(value: object) -> object:
    """A member that clients read as Gemini wrote it; empty ones are left out."""
    return value or UNSET


class _Logprob(Struct, frozen=True, kw_only=True):
    token: str
    logprob: float


class _ChosenLogprob(_Logprob, frozen=True, kw_only=True):
    top_logprobs: list[_Logprob] | None


class _Logprobs(Struct, frozen=True, kw_only=True):
    content: list[_ChosenLogprob]


_decode_logprobs = msgspec.json.Decoder(LogprobsResult | None).decode


def logprobs(given: Raw | UnsetType) -> object:
    """The ``logprobs`` of a choice."""
    if given is UNSET:
        return UNSET
    try:
        result = _decode_logprobs(given)
    except msgspec.ValidationError:
        return UNSET
    if result is None or not result.chosen_candidates:
        return UNSET
    tops = result.top_candidates or []
    content = []
    for position, chosen in enumerate(result.chosen_candidates):
        top = tops[position] if position < len(tops) else None
        others = top.candidates or () if top is not None else ()
        content.append(
            _ChosenLogprob(
                token=chosen.token,
                logprob=chosen.log_probability or 0,
                top_logprobs=[_Logprob(token=each.token, logprob=each.log_probability or 0) for each in others] or None,
            )
        )
    return _Logprobs(content=content)


class UsageCounter:
    """Counts of one answer; a stream repeats them, and the last one of each counts."""

    __slots__ = ("_cached", "_candidates", "_last", "_prompt", "_thoughts", "_tool_use", "usage")

    def __init__(self) -> None:
        self.usage = NO_USAGE
        self._last: object = None
        self._prompt: int | None = None
        self._tool_use: int | None = None
        self._candidates: int | None = None
        self._thoughts: int | None = None
        self._cached: int | None = None

    def report(self, metadata: object) -> None:
        """Take in the ``usageMetadata`` of a response, if there is any.

        What Gemini's own tools put into the prompt is input; thoughts are billed as output, beside the candidates.
        """
        if not isinstance(metadata, dict) or metadata == self._last:
            return
        self._last = metadata
        self._prompt = _newest(self._prompt, metadata.get("promptTokenCount"))
        self._tool_use = _newest(self._tool_use, metadata.get("toolUsePromptTokenCount"))
        self._candidates = _newest(self._candidates, metadata.get("candidatesTokenCount"))
        self._thoughts = _newest(self._thoughts, metadata.get("thoughtsTokenCount"))
        self._cached = _newest(self._cached, metadata.get("cachedContentTokenCount"))
        taken, given = _sum(self._prompt, self._tool_use), _sum(self._candidates, self._thoughts)
        if taken is None and given is None:
            return
        self.usage = TokenUsage(
            input=taken,
            output=given,
            total=(taken or 0) + (given or 0),
            cached_input=self._cached or 0,
            reasoning=self._thoughts or 0,
        )


def _newest(old: int | None, reported: object) -> int | None:
    count = as_count(reported)
    return old if count is None else count


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


# --- output modes ---


def unwrap(text: str, mode: OutputMode) -> str:
    """A whole text without what its mode wraps it in."""
    match mode:
        case OutputMode.REGEX:
            return text.removeprefix('"').removesuffix('"')
        case OutputMode.ENUM:
            return text.strip()
    return text


class Unwrapper:
    """The same piece by piece: what may be the end of the wrapping is held back until more text follows it."""

    __slots__ = ("_begun", "_held", "_mode")

    def __init__(self, mode: OutputMode) -> None:
        self._mode = mode
        self._begun = False
        self._held = ""

    def feed(self, text: str) -> str:
        if self._mode is OutputMode.PLAIN or not text:
            return text
        is_enum = self._mode is OutputMode.ENUM
        if not self._begun:
            text = text.lstrip() if is_enum else text.removeprefix('"')
            # White space goes on being stripped until there is something else; there is but one quote.
            self._begun = bool(text) or not is_enum
        text = self._held + text
        out = text.rstrip() if is_enum else text.removesuffix('"')
        self._held = text[len(out) :]
        return out

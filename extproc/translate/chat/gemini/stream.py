"""Reads ``streamGenerateContent?alt=sse`` (contract, chat 9.8).

Every event is a response of its own. Function calls come whole. What clients gather into lists without indexes, the
thinking block and the extensions, is told once in each choice: with its first signed call, or with its end.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from extproc.formats.jsonvalue import JSONValueError
from extproc.formats.sse import SSEEvent, SSEReader
from extproc.translate.base import Target
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.completion import (
    ChunkChoice,
    Delta,
    FunctionDelta,
    ThinkingBlock,
    ToolCallDelta,
    usage_object,
)
from extproc.translate.chat.gemini import wire
from extproc.translate.chat.gemini.generation import OutputMode
from extproc.translate.gcp import read_google_error
from extproc.usage import TokenUsage

_BAD_GATEWAY: Final = "502"
# White space, and a byte order mark.
_BEFORE: Final = b"\xef\xbb\xbf \t\r\n"


class _ChoiceState:
    """What has been said of a choice; the extensions are those that are still to be told."""

    __slots__ = ("calls", "finish", "grounding", "ratings", "signature", "signed", "text")

    def __init__(self, mode: OutputMode) -> None:
        self.calls = 0
        self.text = wire.Unwrapper(mode)
        self.signature = ""
        self.signed = False
        self.ratings: object = UNSET
        self.grounding: object = UNSET
        self.finish = ""

    @property
    def finished(self) -> bool:
        return self.finish != ""


class GeminiStreamReader:
    """See ``StreamReader``."""

    __slots__ = (
        "_begun",
        "_choices",
        "_create_time",
        "_error_type",
        "_events",
        "_mode",
        "_new_id",
        "_usage",
        "_writer",
        "model",
    )

    def __init__(self, writer: ChunkWriter, *, model: str, mode: OutputMode, target: Target, error_type: str) -> None:
        self.model = model
        self._writer = writer
        self._mode = mode
        self._new_id = target.new_id
        self._error_type = error_type
        self._events = SSEReader()
        self._usage = wire.UsageCounter()
        self._choices: dict[int, _ChoiceState] = {}
        self._create_time: object = None
        self._begun = False

    @property
    def usage(self) -> TokenUsage:
        return self._usage.usage

    def feed(self, data: bytes) -> None:
        if not self._begun and (start := data.lstrip(_BEFORE)):
            self._begun = True
            if start.startswith(b"["):
                self._fail("the backend has answered with a JSON array where it was asked for server-sent events")
        for event in self._events.feed(data):
            self._event(event)
        if self._events.overflow:
            self._fail("an event is too long")

    def end(self) -> None:
        for event in self._events.flush():
            self._event(event, is_cut=True)
        if self._choices and all(choice.finished for choice in self._choices.values()):
            # A prompt is never empty, so a report without one is of something else.
            self._writer.finish(usage_object(self.usage, details=True) if self.usage.input else None)
        else:
            self._writer.fail("stream_truncated", "the stream ended before the answer was complete", code=_BAD_GATEWAY)

    def _fail(self, message: str) -> None:
        self._writer.fail("stream_unreadable", message, code=_BAD_GATEWAY)

    def _event(self, event: SSEEvent, *, is_cut: bool = False) -> None:
        """Read an event; ``is_cut``: the stream has ended without the end of it."""
        if self._writer.ended:
            return
        data = event.data
        if not data:
            # Objects without the name of the field are taken as well; all else is a comment or says nothing.
            data = event.raw.strip()
            if not data.startswith(b"{"):
                return
        try:
            response = wire.decode_response(data)
            self._usage.report(response.usage_metadata)
            if response.error is not None:
                self._report(data)
            else:
                self._response(response)
        except (*wire.UNREADABLE, JSONValueError) as error:
            # What was cut is reported at the end. Another API's mark of the end may be put in by what is in between.
            if not is_cut and data.strip() != b"[DONE]":
                self._fail(f"an event cannot be read: {error}")

    def _report(self, data: bytes) -> None:
        error = read_google_error(data)
        if error is None:
            self._writer.fail(self._error_type, data.decode(errors="replace"), code=_BAD_GATEWAY)
            return
        self._writer.fail(
            error.status or self._error_type, error.message, code=str(error.code) if error.code else _BAD_GATEWAY
        )

    def _response(self, response: wire.GenerateContentResponse) -> None:
        writer = self._writer
        if (identity := response.read_id()) is not UNSET:
            writer.id = identity
        if (model := response.read_model()) and model != self.model:
            self.model = writer.model = model
        if response.create_time is not None and response.create_time != self._create_time:
            self._create_time = response.create_time
            writer.created = wire.read_time(response.create_time)
        if reason := response.block_reason():
            self._blocked(reason, response.prompt_ratings())
        choices = [
            self._choice(candidate, candidate.read_index(position))
            for position, candidate in enumerate(response.candidates or ())
            if candidate is not None
        ]
        if choices:
            writer.choices(choices)

    def _blocked(self, reason: str, ratings: object) -> None:
        """Nothing will be said, because of the prompt."""
        choice = self._choices.setdefault(0, _ChoiceState(self._mode))
        if choice.finished:
            return
        choice.finish = "content_filter"
        delta = Delta(role="assistant", safety_ratings=ratings)
        self._writer.choices([ChunkChoice(delta=delta, finish_reason="content_filter", native_finish_reason=reason)])

    def _choice(self, candidate: wire.Candidate, index: int) -> ChunkChoice:
        if (choice := self._choices.get(index)) is None:
            choice = self._choices[index] = _ChoiceState(self._mode)
        if (ratings := wire.extension(candidate.safety_ratings)) is not UNSET:
            choice.ratings = ratings
        if (grounding := wire.extension(candidate.grounding_metadata)) is not UNSET:
            choice.grounding = grounding
        finish: str | UnsetType = UNSET
        native: str | UnsetType = UNSET
        said = wire.read_content(candidate.content) if candidate.content is not None else None
        if candidate.finish_reason:
            calls = choice.calls + (len(said.calls) if said is not None else 0)
            reason, own = wire.finish_reason(candidate.finish_reason, has_calls=calls > 0)
            # The first one counts; but that of a plain stop may be said before the last call, or with every event.
            if reason != choice.finish and choice.finish in {"", "stop"}:
                choice.finish, finish, native = reason, reason, own
        return ChunkChoice(
            index=index,
            delta=self._delta(choice, said),
            logprobs=wire.logprobs(candidate.logprobs_result),
            finish_reason=finish,
            native_finish_reason=native,
        )

    def _delta(self, choice: _ChoiceState, said: wire.Said | None) -> Delta:
        role = UNSET if said is None else "assistant"
        said = said or wire.Said()
        ratings: object = UNSET
        grounding: object = UNSET
        if choice.finished:
            ratings, grounding = choice.ratings, choice.grounding
            choice.ratings = choice.grounding = UNSET
        return Delta(
            content=choice.text.feed(said.text) or UNSET,
            role=role,
            tool_calls=self._tool_calls(choice, said) if said.calls else UNSET,
            reasoning_content=said.thought or UNSET,
            thinking_blocks=self._thinking_blocks(choice, said),
            safety_ratings=ratings,
            grounding_metadata=grounding,
        )

    def _tool_calls(self, choice: _ChoiceState, said: wire.Said) -> list[ToolCallDelta]:
        calls = []
        for name, arguments in said.calls:
            function = FunctionDelta(arguments=arguments, name=name)
            calls.append(ToolCallDelta(index=choice.calls, id=self._new_id(), function=function, type="function"))
            choice.calls += 1
        return calls

    def _thinking_blocks(self, choice: _ChoiceState, said: wire.Said) -> list[ThinkingBlock] | UnsetType:
        """The signature that the client sends back, once: the first call's, or when there is none the last one."""
        choice.signature = said.signature or choice.signature
        signature = said.call_signature or (choice.signature if choice.finished else "")
        if not signature or choice.signed:
            return UNSET
        choice.signed = True
        return [ThinkingBlock(thinking=said.thought or UNSET, signature=signature)]

"""Reads a whole answer of ``generateContent`` (contract, chat 9.7)."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from extproc.errors import UnreadableAnswer
from extproc.formats.jsonvalue import JSONValueError
from extproc.translate.base import Target
from extproc.translate.chat.completion import Choice, Completion, Message, ThinkingBlock, encode, usage_object
from extproc.translate.chat.gemini import wire
from extproc.translate.chat.gemini.generation import OutputMode
from extproc.translate.chat.translator import Answer
from extproc.translate.gcp import read_google_error
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from extproc.usage import TokenUsage


def read_answer(data: bytes, *, model: str, mode: OutputMode, target: Target) -> Answer:
    """Read it.

    Args:
        data: the document.
        model: what was asked for.
        mode: of the text that was asked for.
        target: gives tool calls their ids.

    Raises:
        UnreadableAnswer: it is no answer; the text says why.
    """
    try:
        response = wire.decode_response(data)
        if response.error is not None:
            error = read_google_error(data)
            raise UnreadableAnswer((error.message[:MAX_MESSAGE_BYTES] if error is not None else "") or "it is an error")
        choices = _choices(response, mode, target)
        if not choices:
            raise UnreadableAnswer("it has no candidates")
    except (*wire.UNREADABLE, JSONValueError) as error:
        raise UnreadableAnswer(str(error)) from error
    counter = wire.UsageCounter()
    counter.report(response.usage_metadata)
    usage = TokenUsage(input=0, output=0, total=0).merge(counter.usage)
    name = response.read_model() or model
    completion = Completion(
        id=response.read_id(),
        choices=choices,
        created=wire.read_time(response.create_time),
        model=name,
        usage=UNSET if not isinstance(response.usage_metadata, dict) else usage_object(usage, details=True),
    )
    native = next((choice.native_finish_reason for choice in completion.choices if choice.native_finish_reason), UNSET)
    return Answer(body=encode(completion), usage=usage, model=name, native_stop=native)


def _choices(response: wire.GenerateContentResponse, mode: OutputMode, target: Target) -> list[Choice]:
    if reason := response.block_reason():
        message = Message(safety_ratings=response.prompt_ratings())
        return [Choice(finish_reason="content_filter", message=message, native_finish_reason=reason)]
    return [
        _choice(candidate, position, mode, target)
        for position, candidate in enumerate(response.candidates or ())
        if candidate is not None
    ]


def _choice(candidate: wire.Candidate, position: int, mode: OutputMode, target: Target) -> Choice:
    said = wire.read_content(candidate.content) if candidate.content is not None else wire.Said()
    # The default of the member is what Google leaves out; an answer without one and without content is none.
    default = "STOP" if said.text or said.calls else "FINISH_REASON_UNSPECIFIED"
    reason, native = wire.finish_reason(candidate.finish_reason or default, has_calls=bool(said.calls))
    return Choice(
        finish_reason=reason,
        index=candidate.read_index(position),
        logprobs=wire.logprobs(candidate.logprobs_result),
        message=Message(
            content=wire.unwrap(said.text, mode) or None,
            tool_calls=wire.tool_calls(said, target.new_id),
            reasoning_content=said.thought or UNSET,
            thinking_blocks=_thinking_blocks(said),
            safety_ratings=wire.extension(candidate.safety_ratings),
            grounding_metadata=wire.extension(candidate.grounding_metadata),
        ),
        native_finish_reason=native,
    )


def _thinking_blocks(said: wire.Said) -> list[ThinkingBlock] | UnsetType:
    """One block, since the client sends one signature back: the first call's, which Gemini insists on, or the last."""
    signature = said.call_signature or said.signature
    return [ThinkingBlock(thinking=said.thought or UNSET, signature=signature)] if signature else UNSET

"""The answers that clients of chat completions get from us: documents, chunks and errors (contract, chat 4).

Members stand in the contract's order. Where the peer leaves out a member that the API promises (``content``,
``choices``, a counter of zero), it is written here, because typed clients read it.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from extproc.usage import TokenUsage

DONE = b"data: [DONE]\n\n"

encode = Encoder().encode


class FunctionDelta(Struct, frozen=True, kw_only=True):
    arguments: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call of a whole message; ``arguments`` is the text of a JSON object."""

    id: str
    function: FunctionDelta
    type: str = "function"


class ToolCallDelta(Struct, frozen=True, kw_only=True):
    """A piece of a tool call. The first has id, name and type; those after it only add to the arguments."""

    index: int
    id: str | UnsetType = UNSET
    function: FunctionDelta
    type: str | UnsetType = UNSET


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """Reasoning as the provider wants it back: text and signature, or opaque data in base64 (contract, chat 4.4)."""

    type: str = "thinking"
    thinking: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    data: str | UnsetType = UNSET


class Message(Struct, frozen=True, kw_only=True):
    """The message of a choice. ``safety_ratings`` and ``grounding_metadata`` are Gemini's, as JSON."""

    content: str | None = None
    role: str = "assistant"
    tool_calls: list[ToolCall] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    thinking_blocks: list[ThinkingBlock] | UnsetType = UNSET
    safety_ratings: object = UNSET
    grounding_metadata: object = UNSET


class Choice(Struct, frozen=True, kw_only=True):
    """A choice. ``native_finish_reason`` is the provider's name of a reason that the API has no word for."""

    finish_reason: str
    index: int = 0
    logprobs: object = UNSET
    message: Message
    native_finish_reason: str | UnsetType = UNSET


class CompletionTokensDetails(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int | UnsetType = UNSET


class PromptTokensDetails(Struct, frozen=True, kw_only=True):
    cached_tokens: int | UnsetType = UNSET
    cache_creation_input_tokens: int | UnsetType = UNSET


class Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET
    prompt_tokens_details: PromptTokensDetails | UnsetType = UNSET


class Completion(Struct, frozen=True, kw_only=True):
    """A ``chat.completion``."""

    id: str | UnsetType = UNSET
    choices: list[Choice]
    created: int | UnsetType = UNSET
    model: str
    service_tier: str | UnsetType = UNSET
    object: str = "chat.completion"
    usage: Usage | UnsetType = UNSET


class Delta(Struct, frozen=True, kw_only=True):
    content: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    thinking_blocks: list[ThinkingBlock] | UnsetType = UNSET
    safety_ratings: object = UNSET
    grounding_metadata: object = UNSET


EMPTY_DELTA = Delta()


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """A choice of a chunk; ``native_finish_reason`` as in a ``Choice``."""

    index: int = 0
    delta: Delta = EMPTY_DELTA
    logprobs: object = UNSET
    finish_reason: str | UnsetType = UNSET
    native_finish_reason: str | UnsetType = UNSET


class Chunk(Struct, frozen=True, kw_only=True):
    """A ``chat.completion.chunk``; only the one with the usage has no choices."""

    id: str | UnsetType = UNSET
    choices: list[ChunkChoice]
    created: int | UnsetType = UNSET
    model: str
    service_tier: str | UnsetType = UNSET
    object: str = "chat.completion.chunk"
    usage: Usage | UnsetType = UNSET


def usage_object(usage: TokenUsage, *, details: bool) -> Usage:
    """A usage record as clients read it (contract, chat 4.3).

    Args:
        usage: where input holds cached and cache-creating tokens, and output the reasoning.
        details: write the objects of details even where no count in them is known, as two of the schemas do.
    """
    cached, creation, reasoning = usage.cached_input, usage.cache_creation_input, usage.reasoning
    prompt: PromptTokensDetails | UnsetType = UNSET
    completion: CompletionTokensDetails | UnsetType = UNSET
    if details or cached is not None or creation is not None:
        prompt = PromptTokensDetails(cached_tokens=cached or UNSET, cache_creation_input_tokens=creation or UNSET)
    if details or reasoning is not None:
        completion = CompletionTokensDetails(reasoning_tokens=reasoning or UNSET)
    return Usage(
        prompt_tokens=usage.input or 0,
        completion_tokens=usage.output or 0,
        total_tokens=(usage.input or 0) + (usage.output or 0),
        completion_tokens_details=completion,
        prompt_tokens_details=prompt,
    )

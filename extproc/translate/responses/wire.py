"""What clients of the responses API read: the ``response`` object, its items, and the events of a stream.

The types follow the API's reference; members that only OpenAI can fill (conversations, moderation, …) are left out.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Encoder

from extproc.endpoints.responses_request import Format, ToolChoice
from extproc.formats.sse import encode_event

encode = Encoder().encode

IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"
FAILED: Final = "failed"


class _Tagged(Struct, frozen=True, kw_only=True, tag_field="type"):
    """A value with its ``type``."""


# --- content ---


class TopLogprob(Struct, frozen=True, kw_only=True):
    token: str
    bytes: list[int] | None = None
    logprob: float


class Logprob(Struct, frozen=True, kw_only=True):
    token: str
    bytes: list[int] | None = None
    logprob: float
    top_logprobs: list[TopLogprob] = []


class URLCitation(_Tagged, frozen=True, kw_only=True, tag="url_citation"):
    end_index: int
    start_index: int
    title: str
    url: str


class OutputText(_Tagged, frozen=True, kw_only=True, tag="output_text"):
    annotations: list[URLCitation]
    logprobs: list[Logprob]
    text: str


class Refusal(_Tagged, frozen=True, kw_only=True, tag="refusal"):
    refusal: str


class ReasoningText(_Tagged, frozen=True, kw_only=True, tag="reasoning_text"):
    text: str


class SummaryText(_Tagged, frozen=True, kw_only=True, tag="summary_text"):
    text: str


Part = OutputText | Refusal | ReasoningText | SummaryText

# --- items ---


class Message(_Tagged, frozen=True, kw_only=True, tag="message"):
    id: str
    status: str
    content: list[Part]
    role: str = "assistant"


class Reasoning(_Tagged, frozen=True, kw_only=True, tag="reasoning"):
    """Attributes: ``content``: the model's own words; ``summary``: the same for a client that asked for a summary."""

    id: str
    summary: list[Part]
    content: list[Part] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET
    status: str


class FunctionCall(_Tagged, frozen=True, kw_only=True, tag="function_call"):
    id: str
    status: str
    arguments: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET


class CustomToolCall(_Tagged, frozen=True, kw_only=True, tag="custom_tool_call"):
    id: str
    status: str
    call_id: str
    input: str
    name: str
    namespace: str | UnsetType = UNSET


class ShellAction(_Tagged, frozen=True, kw_only=True, tag="exec"):
    command: list[str]
    env: dict[str, str]
    timeout_ms: int | None
    user: str | None
    working_directory: str | None


class LocalShellCall(_Tagged, frozen=True, kw_only=True, tag="local_shell_call"):
    id: str
    status: str
    action: ShellAction
    call_id: str


Call = FunctionCall | CustomToolCall | LocalShellCall
Item = Message | Reasoning | Call

# --- the response ---


class FunctionTool(_Tagged, frozen=True, kw_only=True, tag="function"):
    description: str | None
    name: str
    parameters: Raw | None
    strict: bool | None


Tool = FunctionTool | Raw
"""As the client has spelled it, unless it is a function."""


class TextConfig(Struct, frozen=True, kw_only=True):
    format: Format
    verbosity: str | UnsetType = UNSET


class ReasoningConfig(Struct, frozen=True, kw_only=True):
    effort: str | None = None
    summary: str | None = None


class InputTokensDetails(Struct, frozen=True, kw_only=True):
    cache_write_tokens: int
    cached_tokens: int


class OutputTokensDetails(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int


class Usage(Struct, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class Error(Struct, frozen=True, kw_only=True):
    """Attributes: ``code``: one of those of the API; ``type``: what the backend called it."""

    code: str
    message: str
    type: str | None = None


class IncompleteDetails(Struct, frozen=True, kw_only=True):
    reason: str


class Response(Struct, frozen=True, kw_only=True):
    """The answer, as far as it has come. What the client asked for is told back to it."""

    id: str
    object: str = "response"
    created_at: int
    status: str
    background: bool = False
    completed_at: int | None = None
    error: Error | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[Item]
    parallel_tool_calls: bool
    previous_response_id: None = None
    prompt_cache_key: str | None
    reasoning: ReasoningConfig
    safety_identifier: str | None
    service_tier: str | None
    store: bool = False
    temperature: float | None
    text: TextConfig
    tool_choice: str | ToolChoice
    tools: list[Tool]
    top_logprobs: int | None
    top_p: float | None
    truncation: str = "disabled"
    usage: Usage | None = None
    user: str | None
    metadata: dict[str, str]


# --- events ---


class Event(_Tagged, frozen=True, kw_only=True):
    sequence_number: int


class _Lifecycle(Event, frozen=True, kw_only=True):
    response: Response


class Created(_Lifecycle, frozen=True, kw_only=True, tag="response.created"): ...


class InProgress(_Lifecycle, frozen=True, kw_only=True, tag="response.in_progress"): ...


class Completed(_Lifecycle, frozen=True, kw_only=True, tag="response.completed"): ...


class Incomplete(_Lifecycle, frozen=True, kw_only=True, tag="response.incomplete"): ...


class Failed(_Lifecycle, frozen=True, kw_only=True, tag="response.failed"): ...


class _OfOutput(Event, frozen=True, kw_only=True):
    output_index: int


class ItemAdded(_OfOutput, frozen=True, kw_only=True, tag="response.output_item.added"):
    item: Item


class ItemDone(_OfOutput, frozen=True, kw_only=True, tag="response.output_item.done"):
    item: Item


class _OfItem(_OfOutput, frozen=True, kw_only=True):
    item_id: str


class ArgumentsDelta(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class InputDelta(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    delta: str


class InputDone(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    input: str


class _OfContent(_OfItem, frozen=True, kw_only=True):
    content_index: int


class PartAdded(_OfContent, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: Part


class PartDone(_OfContent, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: Part


class TextDelta(_OfContent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: list[Logprob]


class TextDone(_OfContent, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: list[Logprob]


class AnnotationAdded(_OfContent, frozen=True, kw_only=True, tag="response.output_text.annotation.added"):
    annotation_index: int
    annotation: URLCitation


class RefusalDelta(_OfContent, frozen=True, kw_only=True, tag="response.refusal.delta"):
    delta: str


class RefusalDone(_OfContent, frozen=True, kw_only=True, tag="response.refusal.done"):
    refusal: str


class ReasoningDelta(_OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    delta: str


class ReasoningDone(_OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


class _OfSummary(_OfItem, frozen=True, kw_only=True):
    summary_index: int


class SummaryPartAdded(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    part: Part


class SummaryPartDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    part: Part


class SummaryDelta(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    delta: str


class SummaryDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    text: str


def event_bytes(event: Event) -> bytes:
    """The event as a stream has it: its name in a line of its own as well, since some clients read only that."""
    return encode_event(encode(event), str(event.__struct_config__.tag).encode())

"""The convention of OpenTelemetry for generative AI: spans of kind client, one attribute for a thing (contract 7.9).

What clients and models say is told only where operators ask for it; without that, no attribute and no description of
an error holds a word of theirs.
"""

from __future__ import annotations

from typing import Final, Literal

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing import gen_ai_content
from extproc.telemetry.tracing.attributes import Pairs, collect, error_text, input_tokens
from extproc.telemetry.tracing.base import Attributes, Event, Failure
from extproc.telemetry.tracing.views import AnswerView, Parameters, RequestView
from extproc.usage import TokenUsage

OPERATIONS: Final[dict[str, str]] = {
    Operation.CHAT: "chat",
    Operation.RESPONSES: "chat",
    Operation.MESSAGES: "chat",
    Operation.COMPLETION: "text_completion",
    Operation.EMBEDDINGS: "embeddings",
    Operation.IMAGE_GENERATION: "image_generation",
    Operation.IMAGE_EDIT: "image_generation",
    Operation.SPEECH: "speech",
    Operation.TRANSCRIPTION: "transcription",
    Operation.TRANSLATION: "translation",
    Operation.RERANK: "rerank",
    Operation.TOKENIZE: "tokenize",
    Operation.RESPONSES_INPUT_TOKENS: "tokenize",
    Operation.COUNT_TOKENS: "tokenize",
}

_SERVER_FAULT: Final = {502: "500", 503: "500"}
_ERRORS: Final = range(400, 600)


class GenAI:
    """See ``base.Convention``.

    Args:
        content: whether spans say what was asked and answered.
    """

    def __init__(self, *, content: bool) -> None:
        self._content = content

    @property
    def kind(self) -> Literal["internal", "client"]:
        return "client"

    @property
    def unlimited(self) -> bool:
        return False

    def name(self, request: RequestView) -> str:
        return f"{OPERATIONS[request.operation]} {request.model}".rstrip()

    def request(self, request: RequestView) -> Attributes:
        return collect(
            [("gen_ai.operation.name", OPERATIONS[request.operation]), ("gen_ai.request.model", request.model)],
            _parameters(request.parameters),
            gen_ai_content.told(request) if self._content else (),
        )

    def bound(self, provider: str) -> Attributes:
        return collect([("gen_ai.provider.name", provider)])

    def first_piece(self, request: RequestView) -> Event | None:  # noqa: ARG002 - this convention has no events
        return None

    def answer(self, request: RequestView, answer: AnswerView, usage: TokenUsage, model: str) -> Attributes:
        return collect(
            [
                ("gen_ai.response.id", answer.id),
                ("gen_ai.response.model", model or answer.model),
                ("gen_ai.response.finish_reasons", answer.finish_reasons),
            ],
            _usage(request, answer, usage),
            gen_ai_content.said(answer) if self._content else (),
        )

    def events(self, request: RequestView, answer: AnswerView) -> list[Event]:  # noqa: ARG002 - as above
        return []

    def failure(self, status: int, body: str) -> Failure:
        kind = _SERVER_FAULT.get(status, str(status)) if status in _ERRORS else "_OTHER"
        return Failure(error_text(status, body if self._content else ""), {"error.type": kind}, None)


def _parameters(asked: Parameters) -> Pairs:
    yield "gen_ai.conversation.id", asked.conversation
    yield "gen_ai.request.max_tokens", asked.max_tokens
    yield "gen_ai.request.temperature", asked.temperature
    yield "gen_ai.request.top_p", asked.top_p
    yield "gen_ai.request.top_k", asked.top_k
    yield "gen_ai.request.frequency_penalty", asked.frequency_penalty
    yield "gen_ai.request.presence_penalty", asked.presence_penalty
    yield "gen_ai.request.stop_sequences", asked.stop
    yield "gen_ai.request.seed", asked.seed
    yield "gen_ai.request.choice.count", asked.choices
    yield "gen_ai.request.encoding_formats", asked.encoding_formats
    yield "gen_ai.embeddings.dimension.count", asked.dimensions


def _usage(request: RequestView, answer: AnswerView, usage: TokenUsage) -> Pairs:
    yield "gen_ai.usage.input_tokens", input_tokens(request, answer, usage)
    yield "gen_ai.usage.output_tokens", usage.output
    yield "gen_ai.usage.cache_read.input_tokens", usage.cached_input
    yield "gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_input
    yield "gen_ai.usage.reasoning.output_tokens", usage.reasoning

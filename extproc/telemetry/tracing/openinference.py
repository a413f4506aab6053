"""The OpenInference convention: spans of kind internal that hold a conversation leaf by leaf (contract 7.8).

Lists are spelled out in keys, ``llm.input_messages.0.message.role``. Where our keys go beyond the contract, they are
the specification's: the prompt for the system is the first message, and results of tools name the call they answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.attributes import Pairs, collect, error_text, input_tokens
from extproc.telemetry.tracing.base import Attributes, Event, Failure
from extproc.telemetry.tracing.openinference_hiding import REDACTED, Mask, TraceConfig
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, Tokenization
from extproc.usage import TokenUsage


class Kind(NamedTuple):
    """A kind of span, and under which keys it has what every kind has."""

    name: str
    model: str
    invocation: str


LLM = Kind("LLM", "llm.model_name", "llm.invocation_parameters")
TOKEN_COUNTER = Kind("TOKEN_COUNTER", "llm.model_name", "llm.invocation_parameters")
EMBEDDING = Kind("EMBEDDING", "embedding.model_name", "embedding.invocation_parameters")
# The two parameters of a rerank request have keys of their own.
RERANKER = Kind("RERANKER", "reranker.model_name", "")


class Row(NamedTuple):
    """How the spans of an operation are named, and whose API it is."""

    name: str
    kind: Kind
    system: str


ROWS: Final[dict[str, Row]] = {
    Operation.CHAT: Row("ChatCompletion", LLM, "openai"),
    Operation.COMPLETION: Row("Completion", LLM, "openai"),
    Operation.EMBEDDINGS: Row("CreateEmbeddings", EMBEDDING, ""),
    Operation.IMAGE_GENERATION: Row("ImagesResponse", LLM, "openai"),
    Operation.IMAGE_EDIT: Row("ImagesResponse", LLM, "openai"),
    Operation.RESPONSES: Row("Responses", LLM, "openai"),
    Operation.SPEECH: Row("AudioSpeech", LLM, "openai"),
    Operation.TRANSCRIPTION: Row("Transcription", LLM, "openai"),
    Operation.TRANSLATION: Row("Translation", LLM, "openai"),
    Operation.RERANK: Row("Rerank", RERANKER, "cohere"),
    Operation.MESSAGES: Row("Message", LLM, "anthropic"),
    Operation.TOKENIZE: Row("Tokenize", TOKEN_COUNTER, "openai"),
    Operation.RESPONSES_INPUT_TOKENS: Row("ResponsesInputTokens", TOKEN_COUNTER, "openai"),
    Operation.COUNT_TOKENS: Row("CountTokens", TOKEN_COUNTER, "anthropic"),
}

_STREAMS_OF_TOKENS: Final = frozenset({Operation.CHAT, Operation.COMPLETION, Operation.MESSAGES, Operation.RESPONSES})

_EXCEPTIONS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    502: "InternalServerError",
    503: "InternalServerError",
}


# A string of JSON that is an image. Nothing of what has matched is tried again, so it takes one pass.
_EMBEDDED: Final = re.compile(r'"(data:image\\?/(?:[^"\\]++|\\/)*+)"')
_QUOTED: Final = f'"{REDACTED}"'


class OpenInference:
    """See ``base.Convention``."""

    def __init__(self, config: TraceConfig) -> None:
        self._config = config

    @property
    def kind(self) -> Literal["internal", "client"]:
        return "internal"

    @property
    def unlimited(self) -> bool:
        return not (self._config.hide_inputs and self._config.hide_outputs)

    def name(self, request: RequestView) -> str:
        return ROWS[request.operation].name

    def request(self, request: RequestView) -> Attributes:
        return collect(
            self._general(request),
            self._input(request),
            self._conversation(request),
            self._texts(request),
            self._rerank(request),
            _tokenization(request.tokenization),
        )

    def bound(self, provider: str) -> Attributes:  # noqa: ARG002 - this convention does not say who answers
        return {}

    def first_piece(self, request: RequestView) -> Event | None:
        if request.stream and request.operation in _STREAMS_OF_TOKENS:
            return Event("First Token Stream Event", {})
        return None

    def answer(self, request: RequestView, answer: AnswerView, usage: TokenUsage, model: str) -> Attributes:
        return collect(
            [(ROWS[request.operation].kind.model, model or answer.model)],
            self._output(answer),
            self._answers(answer),
            _counts(request, answer, usage),
            _tokenized(request, answer),
        )

    def events(self, request: RequestView, answer: AnswerView) -> list[Event]:
        if request.operation == Operation.RESPONSES and answer.completed:
            return [Event("Response Completed Event", {})]
        return []

    def failure(self, status: int, body: str) -> Failure:
        # The body of an error is an answer, and providers quote in it what they were sent.
        hidden = self._config.hide_inputs or self._config.hide_outputs
        message = error_text(status, REDACTED if hidden and body else body)
        exception = {"exception.type": _EXCEPTIONS.get(status, "Error"), "exception.message": message}
        return Failure(message, {}, Event("exception", {**exception}))

    # --- the request ---

    def _general(self, request: RequestView) -> Pairs:
        row = ROWS[request.operation]
        yield "openinference.span.kind", row.kind.name
        yield "llm.system", row.system
        yield row.kind.model, request.model
        if row.kind.invocation and not self._config.hide_llm_invocation_parameters:
            yield row.kind.invocation, request.invocation if request.invocation != "{}" else None

    def _input(self, request: RequestView) -> Pairs:
        if not request.text:
            return
        if self._config.hide_inputs:
            yield "input.value", REDACTED
            return
        yield "input.value", _without_images(request.text, _told(request), self._config.inputs)
        yield "input.mime_type", request.mime

    def _conversation(self, request: RequestView) -> Pairs:
        if not self._config.no_input_messages:
            yield from _messages("llm.input_messages", _told(request), self._config.inputs)
        if not self._config.no_tools:
            yield from ((f"llm.tools.{at}.tool.json_schema", tool) for at, tool in enumerate(request.tools))
        yield from _listed("llm.prompts.{}.prompt.text", request.prompts, hidden=self._config.masks_prompts)

    def _texts(self, request: RequestView) -> Pairs:
        if request.operation == Operation.EMBEDDINGS:
            key = "embedding.embeddings.{}.embedding.text"
            yield from _listed(key, request.texts, hidden=self._config.masks_texts)

    def _rerank(self, request: RequestView) -> Pairs:
        yield "reranker.top_k", request.top_n
        if self._config.hide_inputs:
            yield "reranker.query", REDACTED if request.query else None
            return
        yield "reranker.query", request.query
        yield from _listed("reranker.input_documents.{}.document.content", request.documents, hidden=False)

    # --- the answer ---

    def _output(self, answer: AnswerView) -> Pairs:
        if self._config.hide_outputs:
            yield "output.value", REDACTED if answer.text else None
            return
        yield "output.value", _without_images(answer.text, answer.messages, self._config.outputs)
        if answer.text or answer.audio_bytes is not None:
            yield "output.mime_type", answer.mime
        yield "output.audio_bytes", answer.audio_bytes
        yield "output.audio_duration", answer.audio_duration
        yield "output.language", answer.language

    def _answers(self, answer: AnswerView) -> Pairs:
        config = self._config
        if not config.no_output_messages:
            yield from _messages("llm.output_messages", answer.messages, config.outputs)
        yield from _listed("llm.choices.{}.completion.text", answer.choices, hidden=config.masks_choices)
        for at, vector in enumerate(answer.vectors):
            yield f"embedding.embeddings.{at}.embedding.vector", REDACTED if config.masks_vectors else vector
        if not config.hide_outputs:
            for at, score in enumerate(answer.scores):
                yield f"reranker.output_documents.{at}.document.score", score


def _told(request: RequestView) -> Sequence[Message]:
    """All that the model is told, the prompt for the system first; what it shall speak or draw, the user says."""
    texts = request.texts if ROWS[request.operation].kind is LLM else ()
    return [*_system(request.system), *request.messages, *(Message(role="user", text=text) for text in texts)]


def _system(parts: tuple[Part, ...]) -> Iterator[Message]:
    match parts:
        case (Part(type="text", text=text),):
            yield Message(role="system", text=text)
        case (_, *_):
            yield Message(role="system", parts=parts)


def _listed(key: str, texts: Sequence[str], *, hidden: bool) -> Pairs:
    return ((key.format(at), REDACTED if hidden and text else text) for at, text in enumerate(texts))


def _messages(prefix: str, messages: Sequence[Message], mask: Mask) -> Pairs:
    for at, message in enumerate(messages):
        key = f"{prefix}.{at}.message"
        yield f"{key}.role", message.role
        yield f"{key}.content", mask.text(message.text or "")
        yield f"{key}.tool_call_id", message.answers
        for nth, part in enumerate(message.parts):
            content = f"{key}.contents.{nth}.message_content"
            yield f"{content}.type", part.type
            yield f"{content}.text", mask.text(part.text)
            yield f"{content}.image.image.url", mask.image(_image(part))
        for nth, call in enumerate(message.tool_calls):
            tool_call = f"{key}.tool_calls.{nth}.tool_call"
            yield f"{tool_call}.id", call.id
            yield f"{tool_call}.function.name", call.name
            yield f"{tool_call}.function.arguments", call.arguments


def _image(part: Part) -> str:
    return part.url if part.type == "image" else ""


def _without_images(text: str, messages: Sequence[Message], mask: Mask) -> str:
    """A body without the images that must not be shown, those of its messages and others, where they are strings."""

    def masked(embedded: re.Match[str]) -> str:
        url = embedded[1].replace("\\/", "/")
        return embedded[0] if mask.image(url) == url else _QUOTED

    text = _EMBEDDED.sub(masked, text)
    urls = {_image(part) for message in messages for part in message.parts}
    hidden = {written for url in urls if mask.image(url) != url for written in _spellings(url)}
    for written in sorted(hidden, key=len, reverse=True):
        text = text.replace(written, _QUOTED)
    return text


def _spellings(url: str) -> Iterator[str]:
    """How JSON may have an image: as its URL or, if it is in base64, as the data alone; some escape the slash."""
    value = url.partition(";base64,")[2] or url
    quoted = msgspec.json.encode(value).decode()
    yield quoted
    yield quoted.replace("/", "\\/")


def _tokenization(asked: Tokenization | None) -> Pairs:
    if asked is None:
        return
    yield "tokenize.request_type", asked.kind
    yield "tokenize.add_special_tokens", asked.add_special_tokens
    yield "tokenize.return_token_strs", asked.return_token_strs
    yield "tokenize.add_generation_prompt", asked.add_generation_prompt
    yield "tokenize.continue_final_message", asked.continue_final_message
    yield "tokenize.message_count", asked.message_count


def _tokenized(request: RequestView, answer: AnswerView) -> Pairs:
    if request.operation != Operation.TOKENIZE:
        return
    yield "tokenize.token_count", answer.token_count
    yield "tokenize.max_model_len", answer.max_model_len
    yield "tokenize.tokens_returned", answer.tokens
    yield "tokenize.token_strings_returned", answer.token_strings


def _counts(request: RequestView, answer: AnswerView, usage: TokenUsage) -> Pairs:
    yield "llm.token_count.prompt", input_tokens(request, answer, usage)
    yield "llm.token_count.completion", usage.output
    yield "llm.token_count.total", usage.total
    yield "llm.token_count.prompt_details.cache_read", usage.cached_input
    yield "llm.token_count.prompt_details.cache_creation", usage.cache_creation_input
    yield "llm.token_count.prompt_details.audio", answer.prompt_audio_tokens
    yield "llm.token_count.completion_details.reasoning", usage.reasoning
    yield "llm.token_count.completion_details.audio", answer.completion_audio_tokens

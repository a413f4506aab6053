"""Chat completions for Gemini on Vertex AI, schema ``GCPVertexAI`` (contract, chat 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.chat_request import ChatRequest
from extproc.translate.base import Headers, Target, Translator
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.gemini.answer import read_answer
from extproc.translate.chat.gemini.generation import OutputMode, output_mode
from extproc.translate.chat.gemini.request import build_body
from extproc.translate.chat.gemini.stream import GeminiStreamReader
from extproc.translate.chat.gemini.wire import NATIVE_STOPS
from extproc.translate.chat.support import SupportTable, ignored, mapped, refused
from extproc.translate.chat.translator import Answer, BackendError, ChatTranslator, StreamReader
from extproc.translate.gcp import model_path, read_google_error

_ERROR_TYPE: Final = "GCPVertexAIBackendError"
_PUBLISHER: Final = "google"

SUPPORT: Final = SupportTable.of(
    "GCPVertexAI",
    {
        "messages": mapped(),
        "messages.user.image_url": mapped("data URIs inline, others by address; `detail` on Gemini 3 and later"),
        "messages.user.input_audio": mapped("inline"),
        "messages.user.audio_url": mapped("data URIs inline, others by address"),
        "messages.user.video_url": mapped("data URIs inline, others by address"),
        "messages.user.file": mapped("`file_data` inline; `file_id` is refused"),
        "messages.system, developer, tool: parts that are not text": refused(),
        "messages.assistant.tool_calls": mapped("the first one with its thought signature"),
        "messages.assistant.thinking": mapped("as a thought"),
        "messages.assistant.redacted_thinking": refused("other providers' secret"),
        "messages.assistant.thinking_blocks": mapped("as thoughts; those of type `redacted_thinking` are left out"),
        "messages.assistant.refusal": ignored(),
        "cache_control": ignored("Gemini caches by itself"),
        "audio": refused(),
        "frequency_penalty": mapped(),
        "generationConfig": mapped("`media_resolution`, on Gemini 3 and later"),
        "guardrailConfig": refused(),
        "guided_choice": mapped("an enum"),
        "guided_json": mapped("`responseJsonSchema`"),
        "guided_regex": mapped("a pattern"),
        "logit_bias": refused(),
        "logprobs": mapped("`responseLogprobs`"),
        "max_completion_tokens": mapped("`maxOutputTokens`"),
        "max_tokens": mapped("`maxOutputTokens`, unless `max_completion_tokens` is given"),
        "modalities": refused("only text"),
        "n": mapped("`candidateCount`"),
        "parallel_tool_calls": ignored("the model decides"),
        "prediction": ignored(),
        "presence_penalty": mapped(),
        "reasoning_effort": mapped("`thinkingLevel`, on Gemini 3 and later; `none` only on Flash models"),
        "response_format.json_object": mapped(),
        "response_format.json_schema": mapped("as it is on Gemini 2.5 and later, else converted"),
        "safetySettings": mapped(),
        "seed": mapped("folded to 32 bits"),
        "service_tier": ignored(),
        "stop": mapped(),
        "temperature": mapped(),
        "thinking.enabled": mapped("`thinkingBudget`, in place of an effort"),
        "thinking.disabled": mapped("a `thinkingBudget` of 0"),
        "thinking.adaptive": mapped("leaves the budget to the model"),
        "tool_choice": mapped(),
        "tools.function": mapped("parameters as they are on Gemini 2.5 and later, else converted"),
        "tools.google_search": mapped(),
        "tools.enterprise_search": mapped(),
        "tools.image_generation": refused(),
        "tools of any other type": refused(),
        "tools.function.strict": ignored(),
        "top_logprobs": mapped("`logprobs`"),
        "top_p": mapped(),
        "user": ignored(),
        "verbosity": ignored(),
        "web_search_options": refused("use the tool `google_search`"),
    },
)


class GeminiDialect:
    """See ``Dialect``."""

    support = SUPPORT
    native_stops = NATIVE_STOPS

    def __init__(self, target: Target) -> None:
        self._target = target
        self._model = ""
        self._mode = OutputMode.PLAIN

    def path(self, model: str, *, stream: bool) -> str:
        self._model = model
        return model_path(_PUBLISHER, model, "streamGenerateContent?alt=sse" if stream else "generateContent")

    def request_headers(self) -> Headers:
        return []

    def body(self, request: ChatRequest, *, model: str, stream: bool) -> bytes:  # noqa: ARG002 - the path says it
        self._model = model
        self._mode = output_mode(request)
        return build_body(request, model=model)

    def response_headers(self, headers: Mapping[str, str], *, stream: bool) -> Headers:  # noqa: ARG002 - none is read
        return [("content-type", "text/event-stream")] if stream else []

    def answer(self, data: bytes) -> Answer:
        return read_answer(data, model=self._model, mode=self._mode, target=self._target)

    def reader(self, writer: ChunkWriter) -> StreamReader:
        return GeminiStreamReader(
            writer, model=writer.model, mode=self._mode, target=self._target, error_type=_ERROR_TYPE
        )

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002 - the body tells
        error = read_google_error(body)
        if error is None or not (error.status or error.message):
            return BackendError(type=_ERROR_TYPE, message=body.decode(errors="replace"))
        return BackendError(type=error.status or _ERROR_TYPE, message=error.message)


def gcp_vertex_ai_chat(target: Target) -> Translator:
    return ChatTranslator(GeminiDialect(target), model_override=target.model_override)

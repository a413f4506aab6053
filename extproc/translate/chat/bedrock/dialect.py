"""Chat completions for AWSBedrock backends, by the Converse API and ConverseStream (contract, chat 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.chat_request import ChatRequest
from extproc.translate.aws import model_path, read_aws_error
from extproc.translate.base import Headers, Target, Translator
from extproc.translate.chat.bedrock.answer import NATIVE_STOPS, read_answer
from extproc.translate.chat.bedrock.request import build_request
from extproc.translate.chat.bedrock.stream import ConverseStreamReader
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.support import SupportTable, ignored, mapped, refused
from extproc.translate.chat.translator import Answer, BackendError, ChatTranslator

SUPPORT: Final = SupportTable.of(
    "AWSBedrock",
    {
        "messages": mapped("turns of one role in a row become one; blank texts are left out"),
        "messages.user.image_url": mapped("data URIs of PNG, JPEG, GIF and WebP"),
        "messages.user.input_audio": refused(),
        "messages.user.audio_url": refused(),
        "messages.user.video_url": mapped("data URIs"),
        "messages.user.file": mapped("`file_data` only: PDF, CSV, Word, Excel, HTML, text, Markdown, and images"),
        "messages.system, developer, tool: parts that are not text": refused(),
        "messages.assistant.tool_calls": mapped(),
        "messages.assistant.thinking": mapped(),
        "messages.assistant.redacted_thinking": mapped("`redactedContent` in base64"),
        "messages.assistant.thinking_blocks": mapped("unless the content has thinking parts"),
        "messages.assistant.refusal": mapped("as text"),
        "cache_control": mapped("`cachePoint`; of more than 4, those that cache least are left out"),
        "audio": refused(),
        "frequency_penalty": ignored(),
        "generationConfig": ignored(),
        "guardrailConfig": mapped("as it is; `streamProcessingMode` in streams"),
        "guided_choice": refused(),
        "guided_json": refused(),
        "guided_regex": refused(),
        "logit_bias": refused(),
        "logprobs": refused(),
        "max_completion_tokens": mapped("`inferenceConfig.maxTokens`"),
        "max_tokens": mapped("`inferenceConfig.maxTokens`, without `max_completion_tokens`"),
        "modalities": refused("anything but text"),
        "n": refused("more than 1"),
        "parallel_tool_calls": ignored(),
        "prediction": ignored(),
        "presence_penalty": ignored(),
        "reasoning_effort": mapped("`additionalModelRequestFields.reasoning_config`"),
        "response_format.json_object": refused(),
        "response_format.json_schema": mapped("`outputConfig.textFormat`, on models that have it"),
        "safetySettings": ignored(),
        "seed": ignored(),
        "service_tier": mapped("`serviceTier`; `auto` is left to the provider"),
        "stop": mapped("`inferenceConfig.stopSequences`"),
        "temperature": mapped("`inferenceConfig.temperature`"),
        "thinking.enabled": mapped("`additionalModelRequestFields.thinking`"),
        "thinking.disabled": mapped("`additionalModelRequestFields.thinking`"),
        "thinking.adaptive": mapped("`additionalModelRequestFields.thinking`"),
        "tool_choice": mapped("`none` leaves the tools out, but where the history has tool calls it can only ask"),
        "tools.function": mapped(),
        "tools.google_search": refused(),
        "tools.enterprise_search": refused(),
        "tools.image_generation": refused(),
        "tools of any other type": mapped("if they have a `function`; else refused"),
        "tools.function.strict": ignored(),
        "top_logprobs": refused(),
        "top_p": mapped("`inferenceConfig.topP`"),
        "user": ignored(),
        "verbosity": ignored(),
        "web_search_options": refused(),
    },
)


class BedrockDialect:
    """See ``Dialect``."""

    support = SUPPORT
    native_stops = NATIVE_STOPS

    def __init__(self, target: Target) -> None:
        self._target = target
        self._model = ""
        self._request_id = ""

    def path(self, model: str, *, stream: bool) -> str:
        return model_path(model, "converse-stream" if stream else "converse")

    def request_headers(self) -> Headers:
        return []

    def body(self, request: ChatRequest, *, model: str, stream: bool) -> bytes:
        self._model = model
        return build_request(request, model=model, stream=stream)

    def response_headers(self, headers: Mapping[str, str], *, stream: bool) -> Headers:
        self._request_id = headers.get("x-amzn-requestid", "")
        return [("content-type", "text/event-stream")] if stream else []

    def answer(self, data: bytes) -> Answer:
        return read_answer(data, model=self._model, request_id=self._request_id, target=self._target)

    def reader(self, writer: ChunkWriter) -> ConverseStreamReader:
        return ConverseStreamReader(writer, request_id=lambda: self._request_id, target=self._target)

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        return read_aws_error(status, headers, body)


def bedrock_chat(target: Target) -> Translator:
    """A translator for one attempt at an AWSBedrock backend."""
    return ChatTranslator(BedrockDialect(target), model_override=target.model_override)

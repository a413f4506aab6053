"""Chat completions by Claude, in the three places that serve the Messages API: Anthropic, Vertex AI and Bedrock.

Requests and answers are the same everywhere; paths, versions, the framing of streams and the shape of errors are not
(contract, chat 11 to 13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.chat_request import ChatRequest
from extproc.paths import join_path
from extproc.translate import aws, gcp
from extproc.translate.anthropic import (
    BEDROCK_VERSION,
    NATIVE_STOPS,
    VERSION,
    VERTEX_VERSION,
    error_type,
    read_messages_error,
)
from extproc.translate.base import Headers, Target, Translator
from extproc.translate.chat.anthropic.answer import read_message
from extproc.translate.chat.anthropic.events import MessageEvents
from extproc.translate.chat.anthropic.request import Flavor, messages_body, support_table
from extproc.translate.chat.anthropic.stream import AWSStream, SSEStream
from extproc.translate.chat.chunks import ChunkWriter
from extproc.translate.chat.support import SupportTable
from extproc.translate.chat.translator import Answer, BackendError, ChatTranslator, StreamReader

# Bedrock answers by a schema on fewer models than the other two (contract, chat 11.1).
_BEDROCK_SCHEMA_MODELS: Final = ("opus-4-5", "sonnet-4-5", "haiku-4-5", "opus-4-6", "sonnet-4-6")
_SCHEMA_MODELS: Final = (
    *_BEDROCK_SCHEMA_MODELS,
    "opus-4-7",
    "opus-4-8",
    "sonnet-5",
    "fable-5",
    "mythos-5",
    "mythos-preview",
)

ANTHROPIC: Final = support_table("Anthropic")
GCP_ANTHROPIC: Final = support_table("GCPAnthropic")
AWS_ANTHROPIC: Final = support_table("AWSAnthropic")


class _Claude:
    """What is the same in all three places."""

    native_stops = NATIVE_STOPS

    def __init__(self, target: Target, support: SupportTable, flavor: Flavor) -> None:
        self.support = support
        self._target = target
        self._flavor = flavor
        self._model = ""

    def request_headers(self) -> Headers:
        return []

    def body(self, request: ChatRequest, *, model: str, stream: bool) -> bytes:
        self._model = model
        return messages_body(
            request,
            self._flavor,
            model=model,
            stream=stream,
            default_max_tokens=self._target.default_max_tokens,
        )

    def response_headers(self, headers: Mapping[str, str], *, stream: bool) -> Headers:  # noqa: ARG002
        return [("content-type", "text/event-stream")] if stream else []

    def answer(self, data: bytes) -> Answer:
        target = self._target
        return read_message(data, model=self._model, created=int(target.now()), new_id=target.new_id)

    def reader(self, writer: ChunkWriter) -> StreamReader:
        return SSEStream(self._events(writer), read_error=lambda body: self.error("502", {}, body))

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        raise NotImplementedError

    def _events(self, writer: ChunkWriter) -> MessageEvents:
        return MessageEvents(writer, now=self._target.now, new_id=self._target.new_id)


class AnthropicDialect(_Claude):
    """The first-party API: the body names the model, a header the version."""

    def __init__(self, target: Target) -> None:
        flavor = Flavor(version="", model_in_body=True, stream_in_body=True, schema_models=_SCHEMA_MODELS)
        super().__init__(target, ANTHROPIC, flavor)

    def path(self, model: str, *, stream: bool) -> str:  # noqa: ARG002
        return join_path(self._target.schema.anthropic_prefix, "messages")

    def request_headers(self) -> Headers:
        return [("anthropic-version", self._target.schema.version or VERSION)]

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002
        error = read_messages_error(body)
        if error is None or not (error.type or error.message):
            return BackendError(type="AnthropicBackendError", message=body.decode(errors="replace"))
        return BackendError(type=error.type or error_type(status), message=error.message)


class GCPAnthropicDialect(_Claude):
    """Vertex AI: the path names the model; errors may be Google's."""

    def __init__(self, target: Target) -> None:
        flavor = Flavor(
            version=target.schema.version or VERTEX_VERSION,
            model_in_body=False,
            stream_in_body=True,
            schema_models=_SCHEMA_MODELS,
        )
        super().__init__(target, GCP_ANTHROPIC, flavor)

    def path(self, model: str, *, stream: bool) -> str:
        return gcp.model_path("anthropic", model, "streamRawPredict" if stream else "rawPredict")

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002
        error = read_messages_error(body)
        if error is not None and error.type:
            return BackendError(type=error.type, message=error.message)
        google = gcp.read_google_error(body)
        if google is None or not (google.status or google.message):
            return BackendError(type="GCPBackendError", message=body.decode(errors="replace"))
        return BackendError(type=google.status or error_type(status), message=google.message)


class AWSAnthropicDialect(_Claude):
    """Bedrock's InvokeModel: the path names the model and says whether to stream; streams and errors are AWS's."""

    def __init__(self, target: Target) -> None:
        flavor = Flavor(
            version=target.schema.version or BEDROCK_VERSION,
            model_in_body=False,
            stream_in_body=False,
            schema_models=_BEDROCK_SCHEMA_MODELS,
        )
        super().__init__(target, AWS_ANTHROPIC, flavor)

    def path(self, model: str, *, stream: bool) -> str:
        return aws.model_path(model, "invoke-with-response-stream" if stream else "invoke")

    def reader(self, writer: ChunkWriter) -> StreamReader:
        return AWSStream(self._events(writer))

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        return aws.read_aws_error(status, headers, body)


def anthropic_chat(target: Target) -> Translator:
    return ChatTranslator(AnthropicDialect(target), model_override=target.model_override)


def gcp_anthropic_chat(target: Target) -> Translator:
    return ChatTranslator(GCPAnthropicDialect(target), model_override=target.model_override)


def aws_anthropic_chat(target: Target) -> Translator:
    return ChatTranslator(AWSAnthropicDialect(target), model_override=target.model_override)

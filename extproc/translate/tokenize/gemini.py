"""Counting by Vertex AI's ``countTokens``, for Gemini (contract, 15.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.base import Headers
from extproc.translate.chat.gemini.dialect import SUPPORT
from extproc.translate.chat.gemini.messages import Content, read_messages
from extproc.translate.chat.gemini.models import GeminiModel
from extproc.translate.chat.gemini.request import Tool, convert_tools
from extproc.translate.chat.gemini.schema import SchemaConverter
from extproc.translate.chat.translator import BackendError
from extproc.translate.gcp import model_path, read_google_error

_PUBLISHER: Final = "google"
_ERROR_TYPE: Final = "GCPVertexAIBackendError"


class _GenerationConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    media_resolution: str


class _CountTokens(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request, members in the contract's order; ``contents`` are written even when there are none."""

    contents: list[Content]
    system_instruction: Content | UnsetType
    tools: list[Tool] | UnsetType
    generation_config: _GenerationConfig | UnsetType


class GeminiCounter:
    """See ``Counter``."""

    support = SUPPORT
    count_member = "totalTokens"

    def model_name(self, model: str) -> str:
        return model

    def path(self, model: str) -> str:
        return model_path(_PUBLISHER, model, "countTokens")

    def request_headers(self) -> Headers:
        return []

    def body(self, chat: ChatRequest, *, model: str) -> bytes:
        try:
            return jsonvalue.encode(_count_tokens(chat, GeminiModel.named(model)))
        # What could just be read is now a few levels deeper.
        except RecursionError as error:
            raise UnprocessableRequest("JSON that is nested too deep") from error

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002 - the body tells
        error = read_google_error(body)
        if error is None or not (error.status or error.message):
            return BackendError(type=_ERROR_TYPE, message=body.decode(errors="replace"))
        return BackendError(type=error.status or _ERROR_TYPE, message=error.message)


def _count_tokens(chat: ChatRequest, model: GeminiModel) -> _CountTokens:
    conversation = read_messages(chat.messages or (), model)
    if not (conversation.contents or conversation.system):
        raise UnprocessableRequest(
            "error converting to Gemini request: messages must produce at least one content entry"
        )
    return _CountTokens(
        contents=conversation.contents,
        system_instruction=Content(parts=conversation.system) if conversation.system else UNSET,
        tools=convert_tools(chat.tools or (), model, SchemaConverter()) or UNSET,
        generation_config=_generation_config(chat),
    )


def _generation_config(chat: ChatRequest) -> _GenerationConfig | UnsetType:
    """How closely images are looked at, in Google's words: it has a share in the count, and Google judges it."""
    config = chat.generation_config
    if config is None or not config.media_resolution:
        return UNSET
    return _GenerationConfig(media_resolution=config.media_resolution)

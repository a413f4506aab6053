"""The messages API on backends that are reached through chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.translate.base import Factory, Target, Translator
from extproc.translate.chat.factory import azure_chat, openai_chat
from extproc.translate.chat.gemini.dialect import gcp_vertex_ai_chat
from extproc.translate.messages.chat_answer import document
from extproc.translate.messages.chat_body import Thought, chat_body, read_messages_request
from extproc.translate.messages.chat_errors import errored, status_type
from extproc.translate.messages.chat_messages import SIGNED_BY_GEMINI
from extproc.translate.messages.chat_stream import MessageStream
from extproc.translate.messages.chat_wire import encode
from extproc.translate.via_chat.answers import Answer, ErrorObject
from extproc.translate.via_chat.translator import StreamWriter, ViaChat
from extproc.usage import TokenUsage


class MessagesCarrier:
    """See ``Carrier``."""

    def __init__(self, target: Target, thought: Thought) -> None:
        self._target = target
        self._thought = thought
        self._maker = SIGNED_BY_GEMINI if thought is Thought.BUDGET else ""
        self._model = ""

    def chat_body(self, request: ParsedRequest, *, model: str) -> bytes:
        self._model = model
        asked = read_messages_request(request.body)
        return encode(chat_body(asked, model=model, stream=request.stream, thought=self._thought))

    def document(self, answer: Answer, usage: TokenUsage) -> bytes:
        return document(answer, usage, model=self._model, new_id=self._target.new_id, maker=self._maker)

    def stream(self) -> StreamWriter:
        return MessageStream(model=self._model, new_id=self._target.new_id, maker=self._maker)

    def error(self, status: str, error: ErrorObject) -> bytes:
        return errored(status_type(status), error)


def _carried(chat: Factory, thought: Thought) -> Factory:
    def messages(target: Target) -> Translator:
        # The chat request names the backend's model already; to override it again would only cost time.
        inner = msgspec.structs.replace(target, model_override="")
        return ViaChat(MessagesCarrier(target, thought), chat(inner), model_override=target.model_override)

    return messages


CARRIED: Final[Mapping[str, Factory]] = {
    "OpenAI": _carried(openai_chat, Thought.EFFORT),
    "AzureOpenAI": _carried(azure_chat, Thought.EFFORT),
    "GCPVertexAI": _carried(gcp_vertex_ai_chat, Thought.BUDGET),
}
"""Backend schema → translator."""

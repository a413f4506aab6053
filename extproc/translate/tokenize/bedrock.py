"""Counting by Bedrock's CountTokens of what Converse would be sent (contract, 15.7)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonvalue
from extproc.translate.aws import read_aws_error
from extproc.translate.base import Headers
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.cache import limit_cache_points
from extproc.translate.chat.bedrock.dialect import SUPPORT
from extproc.translate.chat.bedrock.messages import Conversation
from extproc.translate.chat.bedrock.request import convert_tools
from extproc.translate.chat.translator import BackendError
from extproc.translate.count_tokens.aws import count_tokens_path


class _Converse(Struct, frozen=True, kw_only=True, rename="camel"):
    messages: list[wire.Message] | UnsetType
    system: list[wire.Text | wire.CachePointBlock] | UnsetType
    tool_config: wire.ToolConfig | UnsetType


class _Input(Struct, frozen=True):
    converse: _Converse


class _CountTokens(Struct, frozen=True):
    input: _Input


class BedrockCounter:
    """See ``Counter``."""

    support = SUPPORT
    count_member = "inputTokens"

    def model_name(self, model: str) -> str:
        return model

    def path(self, model: str) -> str:
        return count_tokens_path(model)

    def request_headers(self) -> Headers:
        return []

    def body(self, chat: ChatRequest, *, model: str) -> bytes:  # noqa: ARG002 - the path says it
        try:
            return jsonvalue.encode(_CountTokens(_Input(_converse(chat))))
        except RecursionError as error:
            raise UnprocessableRequest("values are nested too deep") from error

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        return read_aws_error(status, headers, body)


def _converse(chat: ChatRequest) -> _Converse:
    conversation = Conversation()
    conversation.add_all(chat.messages or ())
    if not (conversation.messages or conversation.system):
        raise UnprocessableRequest("there is nothing to count: neither prompt nor messages have content")
    tools = convert_tools(chat, conversation)
    limit_cache_points(tools, conversation.system, conversation.messages)
    return _Converse(
        messages=conversation.messages or UNSET,
        system=conversation.system or UNSET,
        tool_config=wire.ToolConfig(tools=tools) if tools else UNSET,
    )

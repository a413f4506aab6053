"""Counting by Anthropic's ``count_tokens``, in the three places that serve it (contract, 15.5 and 15.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.chat_request import ChatRequest
from extproc.formats import jsonvalue
from extproc.paths import join_path
from extproc.translate import gcp
from extproc.translate.anthropic import VERSION, VERTEX_VERSION, error_type, read_messages_error
from extproc.translate.aws import read_aws_error
from extproc.translate.base import Headers, Target
from extproc.translate.chat.anthropic.dialects import ANTHROPIC, AWS_ANTHROPIC, GCP_ANTHROPIC
from extproc.translate.chat.anthropic.messages import Text, Turn, convert_messages
from extproc.translate.chat.anthropic.tools import Tool, convert_tools
from extproc.translate.chat.translator import BackendError
from extproc.translate.count_tokens.aws import count_tokens_path, invoke_model_request
from extproc.translate.count_tokens.native import counted_model

# On Vertex AI the path names this in place of a model, which is in the body.
_VERTEX_MODEL: Final = "count-tokens"


class _CountTokens(Struct, frozen=True, kw_only=True):
    """The request, members in the contract's order."""

    messages: list[Turn]
    model: str | UnsetType
    system: str | list[Text] | UnsetType
    tools: list[Tool] | UnsetType
    anthropic_version: str | UnsetType


def _body(chat: ChatRequest, *, model: str | UnsetType, version: str | UnsetType) -> bytes:
    conversation = convert_messages(chat.messages or [])
    # One without a function says nothing of a tool, to no model (contract, 15.5).
    tools = convert_tools([tool for tool in chat.tools or () if tool.function is not None])
    return jsonvalue.encode(
        _CountTokens(
            messages=conversation.messages,
            model=model,
            system=_system(conversation.system),
            tools=tools or UNSET,
            anthropic_version=version,
        )
    )


def _system(texts: list[Text]) -> str | list[Text] | UnsetType:
    """A single text stands for itself; where a cache would end has no share in a count."""
    if not texts:
        return UNSET
    return texts[0].text if len(texts) == 1 else [Text(text=each.text) for each in texts]


class AnthropicCounter:
    """See ``Counter``: the first-party API."""

    support = ANTHROPIC
    count_member = "input_tokens"

    def __init__(self, target: Target) -> None:
        self._target = target

    def model_name(self, model: str) -> str:
        return model

    def path(self, model: str) -> str:  # noqa: ARG002 - the body says it
        return join_path(self._target.schema.anthropic_prefix, "messages/count_tokens")

    def request_headers(self) -> Headers:
        return [("anthropic-version", self._target.schema.version or VERSION)]

    def body(self, chat: ChatRequest, *, model: str) -> bytes:
        return _body(chat, model=model, version=UNSET)

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002 - the body tells
        error = read_messages_error(body)
        if error is None or not (error.type or error.message):
            return BackendError(type="AnthropicBackendError", message=body.decode(errors="replace"))
        return BackendError(type=error.type or error_type(status), message=error.message)


class GCPAnthropicCounter:
    """See ``Counter``: Vertex AI, where errors may be Google's."""

    support = GCP_ANTHROPIC
    count_member = "input_tokens"

    def __init__(self, target: Target) -> None:
        self._target = target

    def model_name(self, model: str) -> str:
        return counted_model(model)

    def path(self, model: str) -> str:  # noqa: ARG002 - the body says it
        return gcp.model_path("anthropic", _VERTEX_MODEL, "rawPredict")

    def request_headers(self) -> Headers:
        return []

    def body(self, chat: ChatRequest, *, model: str) -> bytes:
        return _body(chat, model=model, version=self._target.schema.version or VERTEX_VERSION)

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG002 - the body tells
        error = read_messages_error(body)
        if error is not None and error.type:
            return BackendError(type=error.type, message=error.message)
        google = gcp.read_google_error(body)
        if google is None or not (google.status or google.message):
            return BackendError(type="GCPAnthropicBackendError", message=body.decode(errors="replace"))
        return BackendError(type=google.status or error_type(status), message=google.message)


class AWSAnthropicCounter:
    """See ``Counter``: Bedrock, which counts what InvokeModel would be sent."""

    support = AWS_ANTHROPIC
    count_member = "inputTokens"

    def __init__(self, target: Target) -> None:
        self._target = target

    def model_name(self, model: str) -> str:
        return model

    def path(self, model: str) -> str:
        return count_tokens_path(model)

    def request_headers(self) -> Headers:
        return []

    def body(self, chat: ChatRequest, *, model: str) -> bytes:
        messages = _body(chat, model=UNSET, version=UNSET)
        return invoke_model_request(ParsedRequest(model=model, stream=False, body=messages), model, self._target)

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        return read_aws_error(status, headers, body)

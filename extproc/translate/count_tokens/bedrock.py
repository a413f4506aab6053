"""Counting tokens on backends of Amazon Bedrock's Converse API (contract, count_tokens 6.2).

Claude counts the client's own request; other models are given what Converse would be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.count_tokens import PATH
from extproc.formats.jsonvalue import JSONObject
from extproc.translate.base import Factory, Target, Translator
from extproc.translate.chat.bedrock import wire
from extproc.translate.count_tokens.aws import AWSCountTokens, invoke_model_request, is_claude
from extproc.translate.messages.bedrock.request import build_request, encode, read_request


class _Converse(Struct, frozen=True, kw_only=True, rename="camel"):
    """What of a Converse request costs tokens."""

    messages: list[wire.Message]
    system: list[wire.Text | wire.CachePointBlock] | UnsetType = UNSET
    tool_config: wire.ToolConfig | UnsetType = UNSET
    additional_model_request_fields: JSONObject | UnsetType = UNSET


class _Input(Struct, frozen=True):
    converse: _Converse


class _Request(Struct, frozen=True):
    input: _Input


def converse_request(request: ParsedRequest, model: str, target: Target) -> bytes:
    """The operation's body for a model of whatever provider.

    Raises:
        MalformedRequest: the body is not what the client's API takes.
        UnprocessableRequest: Converse cannot express it; the text names the member.
    """
    if is_claude(model):
        return invoke_model_request(request, model, target)
    converse = build_request(read_request(request.body, PATH), betas=[])
    counted = _Converse(
        messages=converse.messages,
        system=converse.system,
        tool_config=converse.tool_config,
        additional_model_request_fields=converse.additional_model_request_fields,
    )
    return encode(_Request(_Input(counted)))


def bedrock_count_tokens(target: Target) -> Translator:
    """A translator for one attempt at an AWSBedrock backend."""
    return AWSCountTokens(target, converse_request)


BEDROCK: Final[Mapping[str, Factory]] = {"AWSBedrock": bedrock_count_tokens}
"""Backend schema → translator."""

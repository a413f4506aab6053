"""Tokenize on every kind of backend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from extproc.formats.sse import SSEEvent
from extproc.translate.base import Factory, Target, Translator
from extproc.translate.observe import UNREMARKABLE, Observation
from extproc.translate.passthrough import PassThrough, openai_path
from extproc.translate.tokenize.anthropic import AnthropicCounter, AWSAnthropicCounter, GCPAnthropicCounter
from extproc.translate.tokenize.bedrock import BedrockCounter
from extproc.translate.tokenize.gemini import GeminiCounter
from extproc.translate.tokenize.translator import CountingTranslator

# The version of OpenAI's API at the end of a prefix.
_VERSION: Final = re.compile(r"(?:\A|/)v\d+/*\Z")


class _NothingToReport:
    """Observes answers that report neither usage nor a model, so that none has to be kept."""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - whatever it is
        return False

    def document(self, data: bytes) -> Observation | None:  # noqa: ARG002 - whatever it says
        return None

    def event(self, event: SSEEvent) -> Observation:  # noqa: ARG002 - none is known
        return UNREMARKABLE


def openai_tokenize(target: Target) -> Translator:
    """Servers have this beside OpenAI's API, not in it: where the prefix ends in a version, at what is before that.

    So ``v1`` gives ``/tokenize``, and ``gateway/v1``, which the peer cannot reach (contract, 15.3),
    ``/gateway/tokenize``.
    """
    return PassThrough(
        path=openai_path(_VERSION.sub("", target.schema.prefix), "tokenize"),
        observer=_NothingToReport(),
        model_override=target.model_override,
    )


def aws_bedrock_tokenize(target: Target) -> Translator:
    return CountingTranslator(BedrockCounter(), model_override=target.model_override)


def gcp_vertex_ai_tokenize(target: Target) -> Translator:
    return CountingTranslator(GeminiCounter(), model_override=target.model_override)


def anthropic_tokenize(target: Target) -> Translator:
    return CountingTranslator(AnthropicCounter(target), model_override=target.model_override)


def gcp_anthropic_tokenize(target: Target) -> Translator:
    return CountingTranslator(GCPAnthropicCounter(target), model_override=target.model_override)


def aws_anthropic_tokenize(target: Target) -> Translator:
    return CountingTranslator(AWSAnthropicCounter(target), model_override=target.model_override)


TOKENIZE: Final[Mapping[str, Factory]] = {
    "OpenAI": openai_tokenize,
    "AWSBedrock": aws_bedrock_tokenize,
    "GCPVertexAI": gcp_vertex_ai_tokenize,
    "Anthropic": anthropic_tokenize,
    "GCPAnthropic": gcp_anthropic_tokenize,
    "AWSAnthropic": aws_anthropic_tokenize,
}
"""Backend schema → translator."""

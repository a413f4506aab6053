"""Chat completions on every kind of backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory, Target, Translator
from extproc.translate.chat.anthropic.dialects import anthropic_chat, aws_anthropic_chat, gcp_anthropic_chat
from extproc.translate.chat.bedrock.dialect import bedrock_chat
from extproc.translate.chat.gemini.dialect import gcp_vertex_ai_chat
from extproc.translate.observe import UsageObserver
from extproc.translate.openai_usage import read_chat_report
from extproc.translate.passthrough import PassThrough, azure_path, leave_body, openai_path
from extproc.usage import TokenUsage

# An answer without usage counts as zero tokens, not as unknown (contract 3.17).
_NO_TOKENS = TokenUsage(input=0, output=0, total=0)


def openai_chat(target: Target) -> Translator:
    return PassThrough(
        openai_path(target.schema.prefix, "chat/completions"),
        UsageObserver(read_chat_report, _NO_TOKENS),
        target.model_override,
    )


def azure_chat(target: Target) -> Translator:
    return PassThrough(
        azure_path(target.schema.version, "chat/completions"),
        UsageObserver(read_chat_report, _NO_TOKENS),
        target.model_override,
        edit=leave_body,
    )


CHAT: Final[Mapping[str, Factory]] = {
    "OpenAI": openai_chat,
    "AzureOpenAI": azure_chat,
    "AWSBedrock": bedrock_chat,
    "GCPVertexAI": gcp_vertex_ai_chat,
    "Anthropic": anthropic_chat,
    "AWSAnthropic": aws_anthropic_chat,
    "GCPAnthropic": gcp_anthropic_chat,
}
"""Backend schema → translator."""

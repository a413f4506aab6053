"""Which translations exist: (operation, backend schema) → translator."""

from __future__ import annotations

from collections.abc import Callable

from extproc.endpoints.base import Operation
from extproc.errors import UnsupportedBackend
from extproc.translate.base import Target, Translator
from extproc.translate.chat.anthropic.dialects import anthropic_chat, aws_anthropic_chat, gcp_anthropic_chat
from extproc.translate.chat.bedrock.dialect import bedrock_chat
from extproc.translate.chat.gemini.dialect import gcp_vertex_ai_chat
from extproc.translate.openai_passthrough import OpenAIPassThrough, azure_path, openai_path
from extproc.translate.openai_usage import chat_usage, embeddings_usage
from extproc.usage import TokenUsage

Factory = Callable[[Target], Translator]

# An answer without usage counts as zero tokens, not as unknown (contract 3.17).
_NO_TOKENS = TokenUsage(input=0, output=0, total=0)


def _chat(target: Target) -> Translator:
    return OpenAIPassThrough(
        path=openai_path(target.schema.prefix, "chat/completions"),
        model_override=target.model_override,
        read_usage=chat_usage,
        unreported=_NO_TOKENS,
    )


def _azure_chat(target: Target) -> Translator:
    return OpenAIPassThrough(
        path=azure_path(target.schema.version, "chat/completions"),
        names_model_in_body=False,
        model_override=target.model_override,
        read_usage=chat_usage,
        unreported=_NO_TOKENS,
    )


def _completions(target: Target) -> Translator:
    return OpenAIPassThrough(
        path=openai_path(target.schema.prefix, "completions"),
        model_override=target.model_override,
        read_usage=chat_usage,
    )


def _embeddings(target: Target) -> Translator:
    return OpenAIPassThrough(
        path=openai_path(target.schema.prefix, "embeddings"),
        model_override=target.model_override,
        read_usage=embeddings_usage,
        unreported=TokenUsage(input=0, total=0),
    )


TRANSLATORS: dict[tuple[Operation, str], Factory] = {
    (Operation.CHAT, "OpenAI"): _chat,
    (Operation.CHAT, "AzureOpenAI"): _azure_chat,
    (Operation.CHAT, "AWSBedrock"): bedrock_chat,
    (Operation.CHAT, "GCPVertexAI"): gcp_vertex_ai_chat,
    (Operation.CHAT, "Anthropic"): anthropic_chat,
    (Operation.CHAT, "AWSAnthropic"): aws_anthropic_chat,
    (Operation.CHAT, "GCPAnthropic"): gcp_anthropic_chat,
    (Operation.COMPLETION, "OpenAI"): _completions,
    (Operation.EMBEDDINGS, "OpenAI"): _embeddings,
}


SERVED_SCHEMAS = frozenset(schema for _, schema in TRANSLATORS)
"""Backend schemas that at least one endpoint can be translated to."""


def translator_for(operation: Operation, target: Target, *, backend: str) -> Translator:
    """A fresh translator for one attempt.

    Args:
        operation: what the client asks for.
        target: the backend as far as translation depends on it.
        backend: its name, for messages.

    Raises:
        UnsupportedBackend: no translation exists; the message names endpoint, schema and backend.
    """
    factory = TRANSLATORS.get((operation, target.schema.name))
    if factory is None:
        speaks = target.schema.name or "no known API schema"
        raise UnsupportedBackend(f"backend {backend} speaks {speaks}; {operation} requests cannot be sent to it")
    return factory(target)

"""Embeddings on every kind of backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory, Target, Translator
from extproc.translate.embeddings.bedrock import bedrock_embeddings
from extproc.translate.embeddings.vertex import vertex_embeddings
from extproc.translate.observe import UsageObserver
from extproc.translate.openai_usage import read_embeddings_report
from extproc.translate.passthrough import PassThrough, azure_path, openai_path
from extproc.usage import TokenUsage

# An answer without usage counts as zero tokens, not as unknown (contract, embeddings 10.2).
_NO_TOKENS = TokenUsage(input=0, total=0)


def openai_embeddings(target: Target) -> Translator:
    return PassThrough(
        path=openai_path(target.schema.prefix, "embeddings"),
        observer=UsageObserver(read_embeddings_report, unreported=_NO_TOKENS),
        model_override=target.model_override,
    )


def azure_embeddings(target: Target) -> Translator:
    """Azure takes the deployment from the path; the name in the body follows it (contract, embeddings 10.3)."""
    return PassThrough(
        path=azure_path(target.schema.version, "embeddings"),
        observer=UsageObserver(read_embeddings_report, unreported=_NO_TOKENS),
        model_override=target.model_override,
    )


EMBEDDINGS: Final[Mapping[str, Factory]] = {
    "OpenAI": openai_embeddings,
    "AzureOpenAI": azure_embeddings,
    "AWSBedrock": bedrock_embeddings,
    "GCPVertexAI": vertex_embeddings,
}
"""Backend schema → translator."""

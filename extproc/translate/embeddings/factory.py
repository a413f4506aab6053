"""Embeddings on every kind of backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory, Target, Translator
from extproc.translate.observe import UsageObserver
from extproc.translate.openai_usage import embeddings_usage
from extproc.translate.passthrough import PassThrough, openai_path
from extproc.usage import TokenUsage


def openai_embeddings(target: Target) -> Translator:
    return PassThrough(
        path=openai_path(target.schema.prefix, "embeddings"),
        observer=UsageObserver(embeddings_usage, unreported=TokenUsage(input=0, total=0)),
        model_override=target.model_override,
    )


EMBEDDINGS: Final[Mapping[str, Factory]] = {"OpenAI": openai_embeddings}
"""Backend schema → translator."""

"""The older text completions API on backends that have it (contract, completions 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory, Target, Translator
from extproc.translate.observe import UsageObserver
from extproc.translate.openai_usage import read_chat_report
from extproc.translate.passthrough import PassThrough, azure_path, openai_path


def openai_completions(target: Target) -> Translator:
    return PassThrough(
        openai_path(target.schema.prefix, "completions"),
        UsageObserver(read_chat_report),
        target.model_override,
    )


def azure_completions(target: Target) -> Translator:
    """Azure has this API for deployments of instruct models; the name in the body follows the one in the path."""
    return PassThrough(
        azure_path(target.schema.version, "completions"),
        UsageObserver(read_chat_report),
        target.model_override,
    )


COMPLETIONS: Final[Mapping[str, Factory]] = {"OpenAI": openai_completions, "AzureOpenAI": azure_completions}
"""Backend schema → translator."""

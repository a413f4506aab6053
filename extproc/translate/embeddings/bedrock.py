"""Embeddings on Amazon Bedrock, schema ``AWSBedrock`` (contract, embeddings 10.4): which family a model is of.

InvokeModel takes another body for each family, so the model's name decides. The ARN of an application inference
profile, or of provisioned throughput, does not say what it stands for: then the client's name for the model does, and
where that does not either, it is taken for a Titan, which every model was to the peer.
"""

from __future__ import annotations

import re
from typing import Final

from extproc.errors import UnprocessableRequest
from extproc.translate.base import Target, Translator
from extproc.translate.embeddings.cohere import COHERE, COHERE_3
from extproc.translate.embeddings.titan import TITAN, TITAN_WITH_IMAGES
from extproc.translate.embeddings.translator import Dialect, EmbeddingsTranslator

# A name may have a region before it, or be the end of an ARN; the first match counts.
_FAMILIES: Final[tuple[tuple[re.Pattern[str], Dialect], ...]] = (
    (re.compile(r"\bamazon\.titan-embed-image"), TITAN_WITH_IMAGES),
    (re.compile(r"\bamazon\.titan-embed"), TITAN),
    (re.compile(r"\bcohere\.embed(-[a-z]+)*-v3"), COHERE_3),
    (re.compile(r"\bcohere\.embed"), COHERE),
)
_OPAQUE: Final = re.compile(r"arn:[^/]*:(application-inference-profile|provisioned-model)/")


def dialect_for(model: str, asked_as: str) -> Dialect:
    """How a model is asked.

    Raises:
        UnprocessableRequest: it is of no family that is known to embed texts.
    """
    if (dialect := _named(model)) is not None:
        return dialect
    if not _OPAQUE.match(model):
        raise UnprocessableRequest(
            f"model {model} has no embeddings on AWSBedrock backends; those of Titan and of Cohere's Embed have"
        )
    return _named(asked_as) or TITAN


def _named(model: str) -> Dialect | None:
    return next((dialect for pattern, dialect in _FAMILIES if pattern.search(model)), None)


def bedrock_embeddings(target: Target) -> Translator:
    return EmbeddingsTranslator(dialect_for, model_override=target.model_override)

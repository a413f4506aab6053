"""Amazon Titan Text Embeddings on Bedrock: one text in, one vector out (contract, embeddings 10.4).

``task_type``, ``title``, ``auto_truncate`` and ``user`` are left out: Titan knows no purposes, and refuses what is too
long by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints.embeddings_request import EmbeddingsRequest, read_input
from extproc.endpoints.text_or_tokens import Kind
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.translate.chat.translator import BackendError
from extproc.translate.embeddings.answer import Vector, Vectors
from extproc.translate.embeddings.invoke import counted_tokens, invoke_error, invoke_path
from extproc.translate.embeddings.translator import Asked
from extproc.translate.openai_usage import UNREADABLE
from extproc.usage import as_count


class _EmbeddingConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    output_embedding_length: int


class _Request(Struct, frozen=True, kw_only=True, rename="camel"):
    input_text: str
    dimensions: int | UnsetType = UNSET
    embedding_config: _EmbeddingConfig | UnsetType = UNSET


class _Answer(Struct, frozen=True, kw_only=True, rename="camel"):
    """``embeddingsByType`` only repeats the embedding, as nothing else is asked for."""

    embedding: Raw
    input_text_token_count: object = None


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(_Answer)


class Titan:
    """See ``Dialect``.

    Args:
        embeds_images: it is the model that embeds images as well, which calls dimensions otherwise.
    """

    def __init__(self, *, embeds_images: bool = False) -> None:
        self._embeds_images = embeds_images

    def path(self, model: str) -> str:
        return invoke_path(model)

    def ask(self, request: EmbeddingsRequest, *, model: str) -> Asked:  # noqa: ARG002 - the path says it
        text, dimensions = _text(request), request.dimensions
        if dimensions is None:
            return Asked(body=_encode(_Request(input_text=text)))
        if self._embeds_images:
            config = _EmbeddingConfig(output_embedding_length=dimensions)
            return Asked(body=_encode(_Request(input_text=text, embedding_config=config)))
        return Asked(body=_encode(_Request(input_text=text, dimensions=dimensions)))

    def answer(self, data: bytes, headers: Mapping[str, str]) -> Vectors:
        try:
            answer = _decoder.decode(data)
        except UNREADABLE as error:
            raise UnreadableAnswer(str(error)) from error
        tokens = as_count(answer.input_text_token_count)
        if tokens is None:
            tokens = counted_tokens(headers) or 0
        return Vectors(vectors=[Vector(values=answer.embedding)], tokens=tokens)

    def error(self, headers: Mapping[str, str], body: bytes) -> BackendError | None:
        return invoke_error(headers, body)


def _text(request: EmbeddingsRequest) -> str:
    if request.messages is not UNSET:
        raise UnprocessableRequest(
            "AWS Bedrock Titan requires an input-based embedding request (messages not supported)"
        )
    if request.input is UNSET:
        raise UnprocessableRequest("unsupported input type: there is no input")
    given = read_input(request.input)
    if given.kind not in (Kind.TEXT, Kind.TEXTS):
        raise UnprocessableRequest(f"unsupported input type: {given.kind}")
    if len(given.texts) != 1:
        raise UnprocessableRequest(
            f"AWS Bedrock Titan does not support batch embeddings (got {len(given.texts)} inputs)"
        )
    return given.texts[0]


TITAN: Final = Titan()
TITAN_WITH_IMAGES: Final = Titan(embeds_images=True)

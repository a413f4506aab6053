"""Embeddings on Vertex AI, schema ``GCPVertexAI``, in both of Google's forms (contract, embeddings 10.5).

``predict`` takes texts, each with a purpose of its own; ``embedContent`` takes one content, which may have images. The
model's name decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints.embeddings_request import EmbeddingsRequest, Item
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.translate.base import Target, Translator
from extproc.translate.chat.translator import BackendError
from extproc.translate.embeddings.answer import Vector, Vectors
from extproc.translate.embeddings.contents import Content, read_contents
from extproc.translate.embeddings.translator import Asked, Dialect, EmbeddingsTranslator, dimensions_of, input_of
from extproc.translate.gcp import model_name, model_path, read_google_error
from extproc.translate.openai_usage import UNREADABLE
from extproc.usage import as_count

_PUBLISHER: Final = "google"
_ERROR_TYPE: Final = "GCPVertexAIBackendError"
_DOCUMENT: Final = "RETRIEVAL_DOCUMENT"
"""The only purpose that has titles."""

_encode = msgspec.json.Encoder().encode


def _error(_headers: Mapping[str, str], body: bytes) -> BackendError:
    error = read_google_error(body)
    if error is None or not (error.status or error.message):
        return BackendError(type=_ERROR_TYPE, message=body.decode(errors="replace"))
    return BackendError(type=error.status or _ERROR_TYPE, message=error.message)


# --- predict ---


class _Instance(Struct, frozen=True, kw_only=True):
    content: str
    task_type: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class _Parameters(Struct, frozen=True, kw_only=True, rename="camel"):
    auto_truncate: bool | UnsetType = UNSET
    output_dimensionality: int | UnsetType = UNSET


class _PredictRequest(Struct, frozen=True, kw_only=True):
    instances: list[_Instance]
    parameters: _Parameters


class _Statistics(Struct, frozen=True):
    token_count: object = None
    truncated: object = None


class _Embeddings(Struct, frozen=True):
    values: Raw
    statistics: _Statistics | None = None


class _Prediction(Struct, frozen=True):
    embeddings: _Embeddings

    @property
    def tokens(self) -> int:
        statistics = self.embeddings.statistics
        return (as_count(statistics.token_count) if statistics else None) or 0

    @property
    def vector(self) -> Vector:
        statistics = self.embeddings.statistics
        return Vector(values=self.embeddings.values, truncated=bool(statistics and statistics.truncated is True))


class _PredictAnswer(Struct, frozen=True):
    predictions: list[_Prediction] | None = None


_predict_decoder = msgspec.json.Decoder(_PredictAnswer)


class Predict:
    """See ``Dialect``. A prediction that is missing makes the answer unreadable: the others would take its place."""

    def path(self, model: str) -> str:
        return model_path(_PUBLISHER, model, "predict")

    def ask(self, request: EmbeddingsRequest, *, model: str) -> Asked:
        if request.messages is not UNSET:
            raise UnprocessableRequest(f"model {model} does not support multimodal embedding via messages")
        given = input_of(request)
        if not given.items:
            raise UnprocessableRequest(
                f"unsupported input type for embedding: {given.kind} "
                "(supported: string, array of strings, object, array of objects)"
            )
        parameters = _Parameters(
            auto_truncate=UNSET if request.auto_truncate is None else request.auto_truncate,
            output_dimensionality=dimensions_of(request) or UNSET,
        )
        instances = [_instance(item, request) for item in given.items]
        body = _encode(_PredictRequest(instances=instances, parameters=parameters))
        return Asked(body=body, inputs=len(instances))

    def answer(self, data: bytes, headers: Mapping[str, str]) -> Vectors:  # noqa: ARG002 - the body tells
        try:
            predictions = _predict_decoder.decode(data).predictions or []
        except UNREADABLE as error:
            raise UnreadableAnswer(str(error)) from error
        return Vectors(
            vectors=[prediction.vector for prediction in predictions],
            tokens=sum(prediction.tokens for prediction in predictions),
        )

    def error(self, headers: Mapping[str, str], body: bytes) -> BackendError | None:
        return _error(headers, body)


def _instance(item: Item, request: EmbeddingsRequest) -> _Instance:
    """What is said of the whole request counts before what is said of a text."""
    task_type = request.task_type or item.task_type
    title = (request.title or item.title) if task_type == _DOCUMENT else None
    return _Instance(content=item.text, task_type=task_type or UNSET, title=title or UNSET)


# --- embedContent ---


class _Config(Struct, frozen=True, kw_only=True, rename="camel"):
    task_type: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    output_dimensionality: int | UnsetType = UNSET
    auto_truncate: bool | UnsetType = UNSET


class _EmbedContentRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    content: Content
    embed_content_config: _Config | UnsetType = UNSET


class _UsageMetadata(Struct, frozen=True, rename="camel"):
    prompt_token_count: object = None


class _Embedding(Struct, frozen=True):
    values: Raw


class _EmbedContentAnswer(Struct, frozen=True, rename="camel"):
    embedding: _Embedding | None = None
    usage_metadata: _UsageMetadata | None = None
    truncated: object = None


_embed_content_decoder = msgspec.json.Decoder(_EmbedContentAnswer)


class EmbedContent:
    """See ``Dialect``."""

    def path(self, model: str) -> str:
        return model_path(_PUBLISHER, model, "embedContent")

    def ask(self, request: EmbeddingsRequest, *, model: str) -> Asked:
        content = read_contents(request, model=model)
        config = _Config(
            task_type=request.task_type or UNSET,
            title=request.title if request.title and request.task_type == _DOCUMENT else UNSET,
            output_dimensionality=dimensions_of(request) or UNSET,
            auto_truncate=UNSET if request.auto_truncate is None else request.auto_truncate,
        )
        given = UNSET if config == _Config() else config
        return Asked(body=_encode(_EmbedContentRequest(content=content, embed_content_config=given)))

    def answer(self, data: bytes, headers: Mapping[str, str]) -> Vectors:  # noqa: ARG002 - the body tells
        try:
            answer = _embed_content_decoder.decode(data)
        except UNREADABLE as error:
            raise UnreadableAnswer(str(error)) from error
        usage, found = answer.usage_metadata, answer.embedding
        vectors = [] if found is None else [Vector(values=found.values, truncated=answer.truncated is True)]
        return Vectors(vectors=vectors, tokens=(as_count(usage.prompt_token_count) if usage else None) or 0)

    def error(self, headers: Mapping[str, str], body: bytes) -> BackendError | None:
        return _error(headers, body)


_PREDICT: Final = Predict()
_EMBED_CONTENT: Final = EmbedContent()


def dialect_for(model: str, _asked_as: str) -> Dialect:
    """Gemini's models take contents, but for the first one of them."""
    name = model_name(_PUBLISHER, model)
    return _EMBED_CONTENT if "gemini" in name and name != "gemini-embedding-001" else _PREDICT


def vertex_embeddings(target: Target) -> Translator:
    return EmbeddingsTranslator(dialect_for, model_override=target.model_override)
